"""The graphs of edge lists that layers are called with, kept as long as the tensors they were built from."""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from polybasis import conversions, edge_checks
from polybasis.adjacency import ConflictingWeightsError
from polybasis.custom_op import ordinary_tensors
from polybasis.graph import Graph, as_graph
from polybasis.tensor_graph import TensorGraph, needs_tensors, ptr_of_traced_batch

Adjacency = Graph | Tensor | Any  # anything that as_graph accepts


class _Version(NamedTuple):
    """The version of a tensor, which changes with in-place writes, but not with writes through ``.data`` or NumPy."""

    tensor: weakref.ref[Tensor]
    version: int
    address: int

    @classmethod
    def of(cls, tensor: Tensor) -> _Version:
        return cls(weakref.ref(tensor), tensor._version, tensor.data_ptr())

    def is_of(self, tensor: Tensor | None) -> bool:
        return tensor is not None and self.tensor() is tensor and self[1:] == (tensor._version, tensor.data_ptr())


class _Entry(NamedTuple):
    """A graph and what it was built from."""

    graph: Graph
    num_nodes: int
    versions: tuple[_Version | None, ...]

    def is_for(self, num_nodes: int, tensors: tuple[Tensor | None, ...]) -> bool:
        return self.num_nodes == num_nodes and all(
            tensor is None if version is None else version.is_of(tensor)
            for version, tensor in zip(self.versions, tensors, strict=True)
        )


_MAX_ENTRIES = 4  # layers may use one edge_index with different weights
_GRAPHS: MutableMapping[Tensor, list[_Entry]] = WeakIdKeyDictionary()  # the latest entries of each edge_index


def graph_of(
    edge_index: Adjacency, num_nodes: int, edge_weight: Tensor | None = None, batch: Tensor | None = None
) -> Graph:
    """Returns the graph of a layer's arguments, from a cache if they have not changed.

    Args:
        edge_index: A Graph, node pairs of shape (2, E), or a sparse adjacency matrix.
        num_nodes: The number of nodes.
        edge_weight: The weights of node pairs, (E,). A pair with different weights gets their mean, as it does when the
            weights require gradients.
        batch: The number of the graph of each node, (N,).

    Raises:
        ValueError: If an argument is invalid, or does not go with a Graph or matrix.
    """
    if isinstance(edge_index, Graph) or conversions.is_matrix(edge_index):
        if batch is not None:
            raise ValueError("batch was given with a Graph or a matrix; use Graph.from_pyg or Graph.from_edge_index")
        if isinstance(edge_index, Graph):
            return as_graph(edge_index, num_nodes, edge_weight)
        with ordinary_tensors():
            return as_graph(edge_index, num_nodes, edge_weight)
    if needs_tensors(edge_weight) and isinstance(edge_index, Tensor):
        return _tensor_graph(edge_index, num_nodes, edge_weight, batch)
    tensors = (edge_index, edge_weight, batch)
    if not all(isinstance(t, Tensor) and not t.is_inference() for t in tensors if t is not None):
        return _create(edge_index, num_nodes, edge_weight, batch)
    entries = _GRAPHS.setdefault(edge_index, [])
    for entry in entries:
        if entry.is_for(num_nodes, tensors):
            return entry.graph
    graph = _create(edge_index, num_nodes, edge_weight, batch)
    entries.insert(0, _Entry(graph, num_nodes, tuple(None if t is None else _Version.of(t) for t in tensors)))
    del entries[_MAX_ENTRIES:]
    return graph


def _create(edge_index: Any, num_nodes: int, edge_weight: Tensor | None, batch: Tensor | None) -> Graph:
    try:
        with ordinary_tensors():
            return Graph.from_edge_index(edge_index, num_nodes, edge_weight, batch=batch)
    except ConflictingWeightsError:
        return _tensor_graph(torch.as_tensor(edge_index), num_nodes, torch.as_tensor(edge_weight), batch)


def _tensor_graph(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None, batch: Tensor | None) -> TensorGraph:
    if hasattr(edge_index, "as_tensor"):  # PyG's EdgeIndex
        edge_index = edge_index.as_tensor()
    ptr = None
    if batch is not None:
        ptr = ptr_of_traced_batch(batch) if torch.compiler.is_compiling() else edge_checks.ptr_of_batch(batch)
    return TensorGraph(edge_index, num_nodes, edge_weight, ptr)
