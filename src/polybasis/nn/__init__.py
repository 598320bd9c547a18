"""Layers and models by PyTorch Geometric's conventions."""

from polybasis.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "favard_conv": ["FavardConv"],
        "models.linear_filter_linear": ["FavardGNN", "OptBasisGNN"],
        "models.model": ["MODELS", "model_class"],
        "models.precomputed": ["PrecomputedGNN"],
        "optbasis_conv": ["OptBasisConv"],
        "poly_conv": ["PolyConv"],
    },
)
