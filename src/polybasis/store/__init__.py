"""Graphs and bases on disk, for graphs larger than memory."""

from polybasis.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "basis_store": ["BasisStore", "open_store"],
        "graph_folder": ["GraphFolder", "build_graph_folder", "write_graph_folder"],
        "named": ["graph_folder_of"],
        "precompute": ["Plan", "plan_precompute"],
        "synthetic": ["make_synthetic", "synthetic_edges"],
    },
)
