"""The models, by name and by class."""

from polybasis.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "arma": ["ARMA"],
        "chebnet": ["ChebNet"],
        "decoupled": ["APPNP", "GPRGNN", "BernNet", "ChebNetII"],
        "favardgnn": ["FavardGNN"],
        "gcn": ["GCN"],
        "gcnii": ["GCNII"],
        "jacobiconv": ["JacobiConv"],
        "link": ["LINK", "LINKX"],
        "mixhop": ["MixHop"],
        "mlp": ["MLP"],
        "model": ["Model", "model_class"],
        "names": ["MODELS"],
        "optbasisgnn": ["OptBasisGNN"],
        "precomputed": ["PrecomputedGNN"],
        "precomputed_features": ["GBP", "NDLS", "SIGN"],
    },
)
