"""The graphs of edge lists that layers are called with, kept as long as the tensors they were built from."""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from polybasis import conversions, edge_checks
from polybasis.graph import Graph, as_graph
from polybasis.tensor_graph import TensorGraph, needs_tensors, ptr_of_traced_batch

Adjacency = Graph | Tensor | Any  # anything that as_graph accepts


class _Entry(NamedTuple):
    """A graph and the tensors it was built from, by identity and version."""

    graph: Graph
    num_nodes: int
    version: int
    others: tuple[tuple[weakref.ref[Tensor], int] | None, ...]

    def is_for(self, edge_index: Tensor, num_nodes: int, others: tuple[Tensor | None, ...]) -> bool:
        if (self.num_nodes, self.version) != (num_nodes, edge_index._version):
            return False
        for known, tensor in zip(self.others, others, strict=True):
            if (known is None) != (tensor is None):
                return False
            if known is not None and tensor is not None and (known[0]() is not tensor or known[1] != tensor._version):
                return False
        return True


_GRAPHS: MutableMapping[Tensor, _Entry] = WeakIdKeyDictionary()  # the latest entry of each edge_index


def graph_of(
    edge_index: Adjacency, num_nodes: int, edge_weight: Tensor | None = None, batch: Tensor | None = None
) -> Graph:
    """Returns the graph of a layer's arguments, from a cache if they have not changed.

    Args:
        edge_index: A Graph, node pairs of shape (2, E), or a sparse adjacency matrix.
        num_nodes: The number of nodes.
        edge_weight: The weights of node pairs, (E,).
        batch: The number of the graph of each node, (N,).

    Raises:
        ValueError: If an argument is invalid, or does not go with a Graph or matrix.
    """
    if isinstance(edge_index, Graph) or conversions.is_matrix(edge_index):
        if batch is not None:
            raise ValueError("batch was given with a Graph or a matrix; use Graph.from_pyg or Graph.from_edge_index")
        return as_graph(edge_index, num_nodes, edge_weight)
    if needs_tensors(edge_weight) and isinstance(edge_index, Tensor):
        return _tensor_graph(edge_index, num_nodes, edge_weight, batch)
    others = (edge_weight, batch)
    kept = all(isinstance(t, Tensor) and not t.is_inference() for t in (edge_index, *others) if t is not None)
    if not kept:
        return Graph.from_edge_index(edge_index, num_nodes, edge_weight, batch=batch)
    entry = _GRAPHS.get(edge_index)
    if entry is None or not entry.is_for(edge_index, num_nodes, others):
        graph = Graph.from_edge_index(edge_index, num_nodes, edge_weight, batch=batch)
        versions = tuple(None if t is None else (weakref.ref(t), t._version) for t in others)
        entry = _GRAPHS[edge_index] = _Entry(graph, num_nodes, edge_index._version, versions)
    return entry.graph


def _tensor_graph(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None, batch: Tensor | None) -> TensorGraph:
    if hasattr(edge_index, "as_tensor"):  # PyG's EdgeIndex
        edge_index = edge_index.as_tensor()
    ptr = None
    if batch is not None:
        ptr = ptr_of_traced_batch(batch) if torch.compiler.is_compiling() else edge_checks.ptr_of_batch(batch)
    return TensorGraph(edge_index, num_nodes, edge_weight, ptr)
