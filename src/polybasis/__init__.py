"""Polynomial graph filters with learnable and optimal bases.

>>> import torch, polybasis as pb
>>> g = pb.Graph.from_edge_index(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
>>> b = pb.optimal_basis(g, torch.tensor([[1.0], [2.0], [0.0], [0.0]]), K=2)
>>> b.vectors.shape
torch.Size([3, 4, 1])
"""

from polybasis import bases, data, krylov, nn, train
from polybasis.classifier import NodeClassifier
from polybasis.graph import Graph
from polybasis.graph_filter import GraphFilter
from polybasis.krylov import OptimalBasis, optimal_basis
from polybasis.responses import apply_response
from polybasis.store import open_store

__version__ = "0.1.0"
__all__ = [
    "Graph",
    "GraphFilter",
    "NodeClassifier",
    "OptimalBasis",
    "apply_response",
    "bases",
    "data",
    "krylov",
    "nn",
    "open_store",
    "optimal_basis",
    "train",
]
