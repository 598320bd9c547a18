"""The candidates of ``auto``, chosen on many graphs by ``polybasis reproduce portfolio``."""

from __future__ import annotations

from typing import Any

import torch

from polybasis.data.dataset import NodeDataset
from polybasis.train.config import Config

BINS = 16  # residual networks encode dense features in this many bins ..
MAX_ENCODED = 63  # .. if there are at most this many; wider features may be sparse, see `as_features`
MAX_ENTRIES = 2**27  # .. and the encoded features have at most this many entries

LENGTH: dict[str, Any] = {"epochs": 500, "patience": 100}  # of all candidates
# One block on features and rows of the adjacency matrix.
ADJACENCY: dict[str, Any] = {
    "blocks": 1,
    "K": 2,
    "dropout": 0.5,
    "feature_dropout": 0.5,
    "adjacency": True,
    "lr": 0.01,
    "weight_decay": 1e-3,
}
# The model of each candidate and its hyperparameters. Two of favardgnn's follow what its authors found best
# on pubmed (without dropout) and on actor (with strong dropout).
CANDIDATES: dict[str, tuple[str, dict[str, Any]]] = {
    "residual-gcn, adjacency": (
        "residual",
        {"filter": "gcn", **ADJACENCY},
    ),
    "favardgnn, features without dropout": (
        "favardgnn",
        {
            "dropout": 0.0,
            "lr": {"linear": 0.05, "coefficients": 0.005, "recurrence": 0.005},
            "weight_decay": {"linear": 0.001, "coefficients": 0.0, "recurrence": 0.0},
        },
    ),
    "favardgnn, strong dropout": (
        "favardgnn",
        {
            "dropout": 0.7,
            "dropout2": 0.7,
            "lr": 0.05,
            "weight_decay": {"linear": 1e-05, "coefficients": 0.001, "recurrence": 0.0},
        },
    ),
    "chebnetii, default": ("chebnetii", {}),
    "residual-favard, jumping": (
        "residual",
        {"filter": "favard", "blocks": 2, "dropout": 0.5, "jumping": True, "lr": 0.01},
    ),
    "residual-favard, adjacency": (
        "residual",
        {"filter": "favard", **ADJACENCY},
    ),
    "chebnetii, label reuse": ("chebnetii", {"label_reuse": 0.5}),
    "favardgnn, high rate": ("favardgnn", {"lr": 0.05}),
    "favardgnn, default": ("favardgnn", {}),
    "optbasisgnn, high rate": ("optbasisgnn", {"lr": 0.05}),
    "favardgnn, no decay": ("favardgnn", {"dropout": 0.2, "weight_decay": 0.0}),
    "optbasisgnn, no decay": ("optbasisgnn", {"dropout": 0.2, "weight_decay": 0.0}),
    "linkx, more decay": ("linkx", {"weight_decay": 0.001}),
    "residual-gcn, plain": ("residual", {"filter": "gcn", "blocks": 2, "dropout": 0.2, "lr": 0.01}),
    "gpr-gnn, high rate": ("gpr-gnn", {"lr": 0.05}),
    "residual-favard, plain": ("residual", {"filter": "favard", "blocks": 2, "dropout": 0.2, "lr": 0.01}),
    "gpr-gnn, no decay": ("gpr-gnn", {"dropout": 0.2, "weight_decay": 0.0}),
    "residual-favard, three blocks": ("residual", {"filter": "favard", "blocks": 3, "dropout": 0.3, "lr": 0.02}),
    "mlp, default": ("mlp", {}),
}
# Names of candidates in the order of `polybasis.experiments.portfolio`: those that serve most graphs come first.
PORTFOLIO: tuple[str, ...] = (
    "residual-gcn, adjacency",
    "favardgnn, features without dropout",
    "favardgnn, strong dropout",
    "chebnetii, default",
    "residual-favard, jumping",
    "residual-favard, adjacency",
    "chebnetii, label reuse",
    "favardgnn, high rate",
    "favardgnn, default",
    "optbasisgnn, high rate",
    "favardgnn, no decay",
    "optbasisgnn, no decay",
    "linkx, more decay",
    "residual-gcn, plain",
    "gpr-gnn, high rate",
    "residual-favard, plain",
    "gpr-gnn, no decay",
    "residual-favard, three blocks",
    "mlp, default",
)
# Without models that can predict only for the nodes they were trained on.
INDUCTIVE_PORTFOLIO: tuple[str, ...] = (
    "chebnetii, default",
    "favardgnn, no decay",
    "favardgnn, strong dropout",
    "residual-gcn, plain",
    "optbasisgnn, no decay",
    "residual-favard, jumping",
    "favardgnn, default",
    "favardgnn, high rate",
    "optbasisgnn, high rate",
    "favardgnn, features without dropout",
    "gpr-gnn, high rate",
    "residual-favard, plain",
    "gpr-gnn, no decay",
    "residual-favard, three blocks",
    "mlp, default",
)


def candidates(data: NodeDataset, transductive: bool = False) -> dict[str, Config]:
    """The configurations that compete.

    Args:
        data: the data to train on.
        transductive: admit models that can predict only for the nodes they were trained on: those with label reuse or
            with rows of the adjacency matrix as features.
    """
    configs = {}
    for name in PORTFOLIO if transductive else INDUCTIVE_PORTFOLIO:
        model, arguments = CANDIDATES[name]
        config = Config.of(model, **LENGTH | arguments, preset="auto")
        configs[name] = with_encoding(config, data).for_own_data()
    return configs


def with_encoding(config: Config, data: NodeDataset) -> Config:
    """The configuration, in which a residual network encodes the features if there are only a few dense ones.

    A value of ``bins`` that is set does not change.
    """
    few = isinstance(data.x, torch.Tensor) and data.x.shape[1] <= MAX_ENCODED and data.x.numel() * BINS <= MAX_ENTRIES
    if config.model.name == "residual" and few and "bins" not in config.model.arguments:
        return config.replace(bins=BINS)
    return config
