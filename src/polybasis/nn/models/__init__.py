"""The models of the paper's tables, by one name everywhere."""

from polybasis.nn.models.arma import ARMA
from polybasis.nn.models.chebnet import ChebNet
from polybasis.nn.models.decoupled import APPNP, GPRGNN, BernNet, ChebNetII
from polybasis.nn.models.gcn import GCN
from polybasis.nn.models.gcnii import GCNII
from polybasis.nn.models.jacobiconv import JacobiConv
from polybasis.nn.models.linear_filter_linear import FavardGNN, OptBasisGNN
from polybasis.nn.models.link import LINK, LINKX
from polybasis.nn.models.mixhop import MixHop
from polybasis.nn.models.mlp import MLP
from polybasis.nn.models.model import Model
from polybasis.nn.models.precomputed_features import GBP, NDLS, SIGN

MODELS: dict[str, type[Model]] = {
    "mlp": MLP,
    "gcn": GCN,
    "chebnet": ChebNet,
    "arma": ARMA,
    "appnp": APPNP,
    "gpr-gnn": GPRGNN,
    "bernnet": BernNet,
    "chebnetii": ChebNetII,
    "jacobiconv": JacobiConv,
    "favardgnn": FavardGNN,
    "optbasisgnn": OptBasisGNN,
    "gcnii": GCNII,
    "mixhop": MixHop,
    "link": LINK,
    "linkx": LINKX,
    "sign": SIGN,
    "gbp": GBP,
    "ndls": NDLS,
}


def model_class(name: str) -> type[Model]:
    """The class with this name, or an error that lists them."""
    if name not in MODELS:
        raise ValueError(f"there is no model {name!r}; expected one of {', '.join(MODELS)}")
    return MODELS[name]


__all__ = [
    "APPNP",
    "ARMA",
    "GBP",
    "GCN",
    "GCNII",
    "GPRGNN",
    "LINK",
    "LINKX",
    "MLP",
    "MODELS",
    "NDLS",
    "SIGN",
    "BernNet",
    "ChebNet",
    "ChebNetII",
    "FavardGNN",
    "JacobiConv",
    "MixHop",
    "Model",
    "OptBasisGNN",
    "model_class",
]
