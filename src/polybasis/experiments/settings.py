"""The rows of the table of strong baselines and the settings that were tried: the same number for every row."""

from __future__ import annotations

from typing import Any

from polybasis.train.auto_portfolio import ADJACENCY, CANDIDATES, LENGTH
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

# Networks of residual blocks, with any filter.
RESIDUAL: Settings = {
    "plain": {"blocks": 2, "dropout": 0.2, "lr": 0.01},
    "high rate": {"blocks": 2, "dropout": 0.2, "lr": 0.02},
    "jumping": {"blocks": 2, "dropout": 0.5, "jumping": True, "lr": 0.01},
    "label reuse": {"blocks": 1, "hidden": 128, "dropout": 0.5, "jumping": True, "label_reuse": 0.5},
    "feature dropout": {"blocks": 2, "dropout": 0.5, "feature_dropout": 0.5, "lr": 0.01},
    "adjacency": ADJACENCY,
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


def settings_of(row: str) -> Settings:
    """The settings to try for a row, by name."""
    model = ROWS[row][0]
    chosen = RESIDUAL if model == "residual" else LINKX if model == "linkx" else SHALLOW
    return {name: {**LENGTH, **values} for name, values in chosen.items()}


def config_with(row: str, setting: str, preset: str) -> Config:
    """The configuration of a row with one of its settings, or with one that is a candidate of ``auto`` only."""
    model, arguments = ROWS[row]
    known = settings_of(row)
    if setting in known:
        return Config.of(model, **arguments, **known[setting], preset=preset)
    if f"{row}, {setting}" not in CANDIDATES:
        raise ValueError(f"{row} has no setting {setting!r}; expected {', '.join(known)}")
    _, arguments = CANDIDATES[f"{row}, {setting}"]
    return Config.of(model, **LENGTH, **arguments, preset=preset)
