"""The names and locations of the model classes, for code that must not import torch."""

from __future__ import annotations

from typing import Any

from polybasis.registry import Registry

MODEL_CLASSES = {
    "mlp": "mlp:MLP",
    "gcn": "gcn:GCN",
    "chebnet": "chebnet:ChebNet",
    "arma": "arma:ARMA",
    "appnp": "decoupled:APPNP",
    "gpr-gnn": "decoupled:GPRGNN",
    "bernnet": "decoupled:BernNet",
    "chebnetii": "decoupled:ChebNetII",
    "jacobiconv": "jacobiconv:JacobiConv",
    "favardgnn": "linear_filter_linear:FavardGNN",
    "optbasisgnn": "linear_filter_linear:OptBasisGNN",
    "residual": "residual:ResidualFilterNet",
    "gcnii": "gcnii:GCNII",
    "mixhop": "mixhop:MixHop",
    "link": "link:LINK",
    "linkx": "link:LINKX",
    "sign": "precomputed_features:SIGN",
    "gbp": "precomputed_features:GBP",
    "ndls": "precomputed_features:NDLS",
}
PRECOMPUTED = ("optbasisgnn", "favardgnn", "gpr-gnn", "bernnet", "chebnetii", "jacobiconv", "sign")
SHORT_NAMES = {"optbasis": "optbasisgnn", "favard": "favardgnn"}
OWN_MODELS: Registry[Any] = Registry("model", "polybasis.models", (*MODEL_CLASSES, *SHORT_NAMES, "auto"))


def model_names() -> list[str]:
    """The names of all models: those of this package, registered ones, and those of installed packages."""
    return [*MODEL_CLASSES, *OWN_MODELS.names()]
