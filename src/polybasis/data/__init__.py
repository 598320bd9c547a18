"""Named data sets, splits, synthetic graphs, images, and the user's own files."""

from polybasis.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "catalogue": ["CATALOGUE", "data_root", "load"],
        "block_model": ["csbm"],
        "dataset": ["PROTOCOLS", "NodeDataset", "Split", "edge_homophily"],
        "images": ["ImageSignals", "image_signals", "read_image"],
        "tables": ["read_tables"],
    },
)
