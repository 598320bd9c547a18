"""Graphs and bases on disk, for graphs larger than memory."""

from polybasis.store.basis_store import BasisStore, open_store
from polybasis.store.graph_folder import GraphFolder, build_graph_folder, synthetic_edges, write_graph_folder
from polybasis.store.precompute import Plan, plan_precompute, precompute

__all__ = [
    "BasisStore",
    "GraphFolder",
    "Plan",
    "build_graph_folder",
    "open_store",
    "plan_precompute",
    "precompute",
    "synthetic_edges",
    "write_graph_folder",
]
