"""Layers and models by PyTorch Geometric's conventions."""

from polybasis.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "favard_conv": ["FavardConv"],
        "models.favardgnn": ["FavardGNN"],
        "models.model": ["model_class"],
        "models.names": ["MODELS"],
        "models.optbasisgnn": ["OptBasisGNN"],
        "models.precomputed": ["PrecomputedGNN"],
        "optbasis_conv": ["OptBasisConv"],
        "poly_conv": ["PolyConv"],
    },
)
