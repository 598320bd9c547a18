"""Layers and models that follow the conventions of PyTorch Geometric."""

from typing import TYPE_CHECKING

from polybasis.lazy import lazy_exports

if TYPE_CHECKING:
    from polybasis.nn.explainable import Explainable as Explainable
    from polybasis.nn.favard_conv import FavardConv as FavardConv
    from polybasis.nn.linear import FeatureLinear as FeatureLinear
    from polybasis.nn.linear import dropout as dropout
    from polybasis.nn.models.linear_filter_linear import FavardGNN as FavardGNN
    from polybasis.nn.models.linear_filter_linear import OptBasisGNN as OptBasisGNN
    from polybasis.nn.models.model import MODELS as MODELS
    from polybasis.nn.models.model import Model as Model
    from polybasis.nn.models.model import model_class as model_class
    from polybasis.nn.models.precomputed import PrecomputedGNN as PrecomputedGNN
    from polybasis.nn.models.residual import ResidualFilterNet as ResidualFilterNet
    from polybasis.nn.optbasis_conv import OptBasisConv as OptBasisConv
    from polybasis.nn.piecewise_linear import PiecewiseLinearEncoding as PiecewiseLinearEncoding
    from polybasis.nn.poly_conv import PolyConv as PolyConv

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "explainable": ["Explainable"],
        "favard_conv": ["FavardConv"],
        "linear": ["FeatureLinear", "dropout"],
        "models.linear_filter_linear": ["FavardGNN", "OptBasisGNN"],
        "models.model": ["MODELS", "Model", "model_class"],
        "models.precomputed": ["PrecomputedGNN"],
        "models.residual": ["ResidualFilterNet"],
        "optbasis_conv": ["OptBasisConv"],
        "piecewise_linear": ["PiecewiseLinearEncoding"],
        "poly_conv": ["PolyConv"],
    },
)
