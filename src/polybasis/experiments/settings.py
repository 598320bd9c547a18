"""The settings that were tried for each row of the table of strong baselines: the same number for every row."""

from __future__ import annotations

from typing import Any

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


def settings_of(model: str) -> Settings:
    """The settings to try for a model, by name."""
    chosen = RESIDUAL if model == "residual" else LINKX if model == "linkx" else SHALLOW
    return {name: {**LENGTH, **values} for name, values in chosen.items()}
