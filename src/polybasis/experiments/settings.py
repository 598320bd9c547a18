"""The rows of the table of strong baselines and the settings that were tried: the same number for every row."""

from __future__ import annotations

from typing import Any

from polybasis.train.config import Config

AUTO = "auto"
# The model of each row and the arguments that define the row.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("mlp", {}),
    "gcn": ("gcn", {}),
    "residual-gcn": ("residual", {"filter": "gcn"}),
    "residual-sage": ("residual", {"filter": "sage"}),
    "residual-gat": ("residual", {"filter": "gat"}),
    "linkx": ("linkx", {}),
    "gpr-gnn": ("gpr-gnn", {}),
    "chebnetii": ("chebnetii", {}),
    "favardgnn": ("favardgnn", {}),
    "optbasisgnn": ("optbasisgnn", {}),
    "residual-favard": ("residual", {"filter": "favard"}),
    "residual-optbasis": ("residual", {"filter": "optbasis"}),
    AUTO: (AUTO, {}),
}
# Ensembles, with which `auto` is compared because it may train one: the row of the single model, whose hyperparameters
# they share, and the number of models.
ENSEMBLES = {"linkx-5": ("linkx", 5)}
Settings = dict[str, dict[str, Any]]
LENGTH: dict[str, Any] = {"epochs": 500, "patience": 100}

# Networks of residual blocks, with any filter.
RESIDUAL: Settings = {
    "plain": {"blocks": 2, "dropout": 0.2, "lr": 0.01},
    "high rate": {"blocks": 2, "dropout": 0.2, "lr": 0.02},
    "jumping": {"blocks": 2, "dropout": 0.5, "jumping": True, "lr": 0.01},
    "label reuse": {"blocks": 1, "hidden": 128, "dropout": 0.5, "jumping": True, "label_reuse": 0.5},
    "feature dropout": {"blocks": 2, "dropout": 0.5, "feature_dropout": 0.5, "lr": 0.01},
    "adjacency": {
        "blocks": 1,
        "K": 2,
        "dropout": 0.5,
        "feature_dropout": 0.5,
        "adjacency": True,
        "lr": 0.01,
        "weight_decay": 1e-3,
    },
}
# A filter between linear layers, or none.
SHALLOW: Settings = {
    "default": {},
    "no decay": {"dropout": 0.2, "weight_decay": 0.0},
    "high rate": {"lr": 0.05},
    "low rate": {"lr": 0.002, "weight_decay": 0.0},
    "label reuse": {"label_reuse": 0.5},
    "wide": {"hidden": 256, "lr": 0.005, "weight_decay": 1e-3},
}
LINKX: Settings = {
    "default": {},
    "more decay": {"weight_decay": 1e-3},
    "strong decay": {"weight_decay": 1e-2},
    "low rate": {"lr": 0.002, "weight_decay": 1e-3},
    "label reuse": {"label_reuse": 0.5},
    "narrow": {"hidden": 32, "weight_decay": 1e-3},
}
# Further settings by row, which compete for a place in the portfolio of `auto` only. Those of favardgnn follow what its
# authors found best on pubmed and on actor.
FOR_AUTO: dict[str, Settings] = {
    "favardgnn": {
        "features without dropout": {
            "dropout": 0.0,
            "lr": {"linear": 0.05, "coefficients": 0.005, "recurrence": 0.005},
            "weight_decay": {"linear": 1e-3, "coefficients": 0.0, "recurrence": 0.0},
        },
        "strong dropout": {
            "dropout": 0.7,
            "dropout2": 0.7,
            "lr": 0.05,
            "weight_decay": {"linear": 1e-5, "coefficients": 1e-3, "recurrence": 0.0},
        },
    },
    "residual-favard": {"three blocks": {"blocks": 3, "dropout": 0.3, "lr": 0.02}},
}


def settings_of(row: str) -> Settings:
    """The settings to try for a row, by name."""
    model = ROWS[row][0]
    chosen = RESIDUAL if model == "residual" else LINKX if model == "linkx" else SHALLOW
    return {name: {**LENGTH, **values} for name, values in chosen.items()}


def config_with(row: str, setting: str, preset: str) -> Config:
    """The configuration of a row with one of its settings."""
    model, arguments = ROWS[row]
    further = {name: {**LENGTH, **values} for name, values in FOR_AUTO.get(row, {}).items()}
    known = {**settings_of(row), **further}
    if setting not in known:
        raise ValueError(f"{row} has no setting {setting!r}; expected {', '.join(known)}")
    return Config.of(model, **arguments, **known[setting], preset=preset)
