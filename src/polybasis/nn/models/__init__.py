"""The models, by name and by class."""

from polybasis.lazy import lazy_exports

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
    },
)
