"""Graphs made of tensors only, for edge weights that take part in autograd and for ``torch.compile``.

:class:`polybasis.Graph` coalesces edges with NumPy, which neither records gradients nor can be traced. Here the
pattern of P comes from one operator, and everything that depends on the weights is computed by torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from polybasis import edge_checks
from polybasis.adjacency import FloatArray
from polybasis.custom_op import LIBRARY, has_values
from polybasis.graph import Graph
from polybasis.matrix import Matrix, SparseOperator, operator_for, rows_of

_MAX_EDGES = 2**30 - 1  # int32 indices in both directions


class TensorGraph(Graph):
    r"""An undirected graph whose edge weights may require gradients. Given self-loops are dropped.

    The weight of a node pair is the mean of the weights it is listed with, in either direction. Pairs of weight 0 stay
    in the pattern, because the gradient with respect to their weight is not 0 in general.

    Args:
        edge_index: The node pairs, (2, E).
        num_nodes: The number of nodes N.
        edge_weight: The weights, (E,), finite and non-negative; by default 1.
        ptr: The first node of each graph of a batch and, last, the number of nodes, (G+1,); None for a single graph.
        add_loops: Give every node a self-loop of weight 1.

    >>> import torch
    >>> weight = torch.tensor([1.0, 4.0], requires_grad=True)
    >>> graph = TensorGraph(torch.tensor([[0, 1], [1, 2]]), 3, weight)
    >>> (graph @ torch.ones(3, 1)).sum().backward()
    >>> weight.grad
    tensor([ 0.1789, -0.0447])
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        edge_weight: Tensor | None = None,
        ptr: Tensor | None = None,
        add_loops: bool = False,
    ) -> None:
        self.num_nodes, self.ptr = num_nodes, ptr
        self._edges = edge_index, edge_weight
        self._derived = {}
        self.indptr, self.indices, places = torch.ops.polybasis.symmetric_pattern(
            edge_index, edge_weight, num_nodes, add_loops
        )
        given = edge_index.shape[1]
        weight = (
            edge_index.new_ones(given, dtype=torch.float64) if edge_weight is None else edge_weight.double().reshape(-1)
        )
        if add_loops:
            weight = torch.cat([weight, weight.new_ones(num_nodes)])
        entries = self.indices.shape[0]
        # One more entry collects the self-loops that are dropped.
        count = weight.new_zeros(entries + 1).index_add(0, places, weight.new_ones(entries))
        share = torch.cat([weight, weight]) / count[places]
        self.weight = weight.new_zeros(entries + 1).index_add(0, places, share)[:-1]
        self._add_loops = add_loops
        # Relative to a power of four near the largest weight, no degree overflows, and no value depends on the batch.
        largest = torch.cat([weight.detach(), weight.new_zeros(1)]).amax()
        unit = torch.where(largest > 0, torch.exp2(2 * (torch.where(largest > 0, largest, 1).log2() / 2).floor()), 1)
        relative = self.weight / unit
        rows, columns = rows_of(self.indptr, self.indices), self.indices.long()
        degree = weight.new_zeros(num_nodes).index_add(0, rows, relative)
        scale = torch.where(degree > 0, torch.where(degree > 0, degree, 1).rsqrt(), 0)
        self._values = scale[rows] * relative * scale[columns]

    def values(self, dtype: torch.dtype = torch.float64) -> Tensor:
        return self._values[: self._nonzeros].to(dtype)

    def propagation(self, dtype: torch.dtype, device: torch.device) -> Matrix:
        return Matrix(self.indptr, self.indices, self._values.to(dtype), self.ptr)

    def degree(self) -> FloatArray:
        return np.asarray(self.adjacency().sum(axis=1))

    def adjacency(self) -> sp.csr_array:
        assert self.weight is not None
        weight, indices = self.weight.detach()[: self._nonzeros], self.indices[: self._nonzeros]
        parts = (weight.cpu().numpy(), indices.cpu().numpy(), self.indptr.cpu().numpy())
        return sp.csr_array(parts, shape=(self.num_nodes, self.num_nodes))

    def edge_index(self) -> Tensor:
        used = self.indices[: self._nonzeros]
        return torch.stack([used.long(), rows_of(self.indptr, used)])

    @property
    def _nonzeros(self) -> int:
        return int(self.indptr[-1])

    def operator(self, dtype: torch.dtype, device: torch.device) -> SparseOperator:
        return operator_for(self.propagation(dtype, device))

    def with_self_loops(self) -> TensorGraph:
        edge_index, edge_weight = self._edges
        return TensorGraph(edge_index, self.num_nodes, edge_weight, self.ptr, add_loops=True)

    @property
    def num_edges(self) -> int:  # type: ignore[override]
        """The number of edges, including those of weight 0; a self-loop counts once."""
        loops = self.num_nodes if self._add_loops else 0
        return (self._nonzeros + loops) // 2


def needs_tensors(edge_weight: Any) -> bool:
    """Whether a graph with these weights has to be a :class:`TensorGraph`: gradients are required or code is traced."""
    return not has_values() or (isinstance(edge_weight, Tensor) and edge_weight.requires_grad)


def ptr_of_traced_batch(batch: Tensor) -> Tensor:
    """Returns boundaries of graphs whose number is not known while tracing: N graphs, the last of which are empty.

    Args:
        batch: The number of the graph of each node, (N,), ascending.
    """
    graph_of = torch.cat([batch[:1] * 0, (batch.diff() != 0).long()]).cumsum(0)  # numbers without gaps
    return torch.searchsorted(graph_of, torch.arange(batch.shape[0] + 1, device=batch.device))


def _symmetric_pattern(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, add_loops: bool
) -> tuple[Tensor, ...]:
    pairs = edge_checks.checked_pairs(edge_index.detach())
    edge_checks.checked_num_nodes(pairs, num_nodes)
    if edge_weight is not None:
        edge_checks.checked_weight(edge_weight.detach(), pairs.shape[1])
    kept = pairs[0] != pairs[1]
    if add_loops:
        pairs = np.concatenate([pairs, np.tile(np.arange(num_nodes), (2, 1))], axis=1)
        kept = np.concatenate([kept, np.ones(num_nodes, dtype=bool)])
    if pairs.shape[1] > _MAX_EDGES:
        raise ValueError(f"edge_index has {pairs.shape[1]} edges; weights can be learned for at most {_MAX_EDGES}")
    indptr, indices, places = _empty_pattern(edge_index, edge_weight, num_nodes, add_loops)
    key = np.concatenate([pairs[0] * num_nodes + pairs[1], pairs[1] * num_nodes + pairs[0]])
    both = np.concatenate([kept, kept])
    entries, inverse = np.unique(key[both], return_inverse=True)
    places.fill_(len(key))
    places[torch.from_numpy(both)] = torch.from_numpy(inverse).to(places.device)
    indptr.copy_(torch.from_numpy(np.searchsorted(entries, np.arange(num_nodes + 1) * num_nodes)))
    indices.zero_()[: len(entries)] = torch.from_numpy(entries % max(num_nodes, 1)).to(indices.device)
    return indptr, indices, places


def _empty_pattern(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, add_loops: bool
) -> tuple[Tensor, ...]:
    entries = 2 * (edge_index.shape[1] + num_nodes if add_loops else edge_index.shape[1])
    return (
        edge_index.new_empty(num_nodes + 1, dtype=torch.int32),
        edge_index.new_empty(entries, dtype=torch.int32),
        edge_index.new_empty(entries, dtype=torch.int64),
    )


def _pattern_vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
    edge_index, edge_weight, *others = arguments
    if in_dims[0] is not None:
        raise ValueError("vmap over edge_index is not supported; filter a batch of graphs instead")
    for weight in edge_weight.movedim(in_dims[1] or 0, 0):
        edge_checks.checked_weight(weight.detach(), edge_index.shape[1])
    return torch.ops.polybasis.symmetric_pattern(edge_index, None, *others), (None, None, None)


# The CSR pattern of E node pairs in both directions, padded to 2E entries, and the entry of each pair: first those of
# the pairs as they are given, then those of the opposite direction; 2E for self-loops, which are dropped. With
# add_loops, N self-loops are appended to the pairs and kept.
LIBRARY.define(  # type: ignore[no-untyped-call]
    "symmetric_pattern(Tensor edge_index, Tensor? edge_weight, SymInt num_nodes, bool add_loops) "
    "-> (Tensor, Tensor, Tensor)"
)
LIBRARY.impl("symmetric_pattern", _symmetric_pattern, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("polybasis::symmetric_pattern", _empty_pattern, lib=LIBRARY)
torch.library.register_vmap("polybasis::symmetric_pattern", _pattern_vmap, lib=LIBRARY)
