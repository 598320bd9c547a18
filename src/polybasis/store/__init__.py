"""Graphs and bases on disk, for graphs larger than memory."""

from typing import TYPE_CHECKING

from polybasis.lazy import lazy_exports

if TYPE_CHECKING:
    from polybasis.store.basis_store import BasisStore as BasisStore
    from polybasis.store.basis_store import open_store as open_store
    from polybasis.store.graph_folder import GraphFolder as GraphFolder
    from polybasis.store.graph_writing import build_graph_folder as build_graph_folder
    from polybasis.store.graph_writing import write_graph_folder as write_graph_folder
    from polybasis.store.named import graph_folder_of as graph_folder_of
    from polybasis.store.precomputation import Plan as Plan
    from polybasis.store.precomputation import plan_precompute as plan_precompute
    from polybasis.store.precomputation import precompute as precompute
    from polybasis.store.synthetic import make_synthetic as make_synthetic
    from polybasis.store.synthetic import synthetic_edges as synthetic_edges

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "basis_store": ["BasisStore", "open_store"],
        "graph_folder": ["GraphFolder"],
        "graph_writing": ["build_graph_folder", "write_graph_folder"],
        "named": ["graph_folder_of"],
        "precomputation": ["Plan", "plan_precompute", "precompute"],
        "synthetic": ["make_synthetic", "synthetic_edges"],
    },
)
