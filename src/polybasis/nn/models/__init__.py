"""The models, by name and by class."""

from typing import TYPE_CHECKING

from polybasis.lazy import lazy_exports

if TYPE_CHECKING:
    from polybasis.nn.models.arma import ARMA as ARMA
    from polybasis.nn.models.chebnet import ChebNet as ChebNet
    from polybasis.nn.models.decoupled import APPNP as APPNP
    from polybasis.nn.models.decoupled import GPRGNN as GPRGNN
    from polybasis.nn.models.decoupled import BernNet as BernNet
    from polybasis.nn.models.decoupled import ChebNetII as ChebNetII
    from polybasis.nn.models.gcn import GCN as GCN
    from polybasis.nn.models.gcnii import GCNII as GCNII
    from polybasis.nn.models.jacobiconv import JacobiConv as JacobiConv
    from polybasis.nn.models.linear_filter_linear import FavardGNN as FavardGNN
    from polybasis.nn.models.linear_filter_linear import OptBasisGNN as OptBasisGNN
    from polybasis.nn.models.link import LINK as LINK
    from polybasis.nn.models.link import LINKX as LINKX
    from polybasis.nn.models.mixhop import MixHop as MixHop
    from polybasis.nn.models.mlp import MLP as MLP
    from polybasis.nn.models.model import MODELS as MODELS
    from polybasis.nn.models.model import Model as Model
    from polybasis.nn.models.model import model_class as model_class
    from polybasis.nn.models.precomputed import PrecomputedGNN as PrecomputedGNN
    from polybasis.nn.models.precomputed_features import GBP as GBP
    from polybasis.nn.models.precomputed_features import NDLS as NDLS
    from polybasis.nn.models.precomputed_features import SIGN as SIGN
    from polybasis.nn.models.residual import ResidualFilterNet as ResidualFilterNet

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "arma": ["ARMA"],
        "chebnet": ["ChebNet"],
        "decoupled": ["APPNP", "GPRGNN", "BernNet", "ChebNetII"],
        "gcn": ["GCN"],
        "gcnii": ["GCNII"],
        "jacobiconv": ["JacobiConv"],
        "linear_filter_linear": ["FavardGNN", "OptBasisGNN"],
        "link": ["LINK", "LINKX"],
        "mixhop": ["MixHop"],
        "mlp": ["MLP"],
        "model": ["MODELS", "Model", "model_class"],
        "precomputed": ["PrecomputedGNN"],
        "precomputed_features": ["GBP", "NDLS", "SIGN"],
        "residual": ["ResidualFilterNet"],
    },
)
