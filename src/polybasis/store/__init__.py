"""Graphs and bases on disk, for graphs larger than memory."""

from polybasis.store.basis_store import BasisStore, open_store
from polybasis.store.graph_folder import (
    GraphFolder,
    NodeData,
    build_graph_folder,
    write_dataset,
    write_graph_folder,
)
from polybasis.store.precompute import Plan, plan_precompute, precompute
from polybasis.store.synthetic import make_synthetic, synthetic_edges

__all__ = [
    "BasisStore",
    "GraphFolder",
    "NodeData",
    "Plan",
    "build_graph_folder",
    "make_synthetic",
    "open_store",
    "plan_precompute",
    "precompute",
    "synthetic_edges",
    "write_dataset",
    "write_graph_folder",
]
