"""Checks of node pairs, edge weights and the boundaries of graphs in a batch, with one-line errors."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from polybasis.adjacency import FloatArray, IntArray
from polybasis.conversions import as_numpy, is_matrix


def checked_pairs(edge_index: Tensor | ArrayLike) -> IntArray:
    """Returns node pairs as an integer array of shape (2, E), or raises a ValueError or TypeError."""
    if is_matrix(edge_index):
        raise TypeError(f"edge_index is a sparse {type(edge_index).__name__}; use Graph.from_adjacency for a matrix")
    if hasattr(edge_index, "edge_index"):
        raise TypeError(f"edge_index is a {type(edge_index).__name__}; pass Graph.from_pyg(data) or data.edge_index")
    if hasattr(edge_index, "graph"):
        raise TypeError(f"edge_index is a {type(edge_index).__name__}; pass its graph")
    pairs = as_numpy(edge_index)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        listed = pairs.ndim == 2 and pairs.shape[1] == 2
        hint = "; the pairs are in its rows, so pass edge_index.T" if listed else ""
        if pairs.ndim == 2 and pairs.shape[0] == pairs.shape[1] and np.issubdtype(pairs.dtype, np.floating):
            hint = "; pass a dense adjacency matrix as a sparse one"
        raise ValueError(f"edge_index has shape {pairs.shape}; expected (2, E){hint}")
    if pairs.size and not np.issubdtype(pairs.dtype, np.integer):
        raise TypeError(f"edge_index has dtype {pairs.dtype}; expected integers")
    return pairs.astype(np.int64, copy=False)


def checked_num_nodes(pairs: IntArray, num_nodes: int | None) -> int:
    """Returns the number of nodes, or raises a ValueError if a pair has a node out of range."""
    smallest, largest = int(pairs.min(initial=0)), int(pairs.max(initial=-1))
    if smallest < 0:
        raise ValueError(f"edge_index has node {smallest}; expected non-negative indices")
    if num_nodes is None:
        return largest + 1
    if isinstance(num_nodes, bool) or not isinstance(num_nodes, int | np.integer) or num_nodes < 0:
        raise ValueError(f"num_nodes is {num_nodes!r}; expected a non-negative integer")
    if largest >= num_nodes:
        raise ValueError(
            f"edge_index has node {largest} but num_nodes is {num_nodes}; pass num_nodes={largest + 1} or drop the edge"
        )
    return int(num_nodes)


def checked_weight(edge_weight: Tensor | ArrayLike, edges: int) -> FloatArray:
    """Returns one float64 weight per edge, or raises a ValueError or TypeError."""
    weight = as_numpy(edge_weight)
    if weight.ndim == 2 and weight.shape[1] == 1:
        weight = weight[:, 0]
    if weight.shape != (edges,):
        raise ValueError(f"edge_weight has shape {weight.shape}; expected ({edges},), one number per edge")
    if not (np.issubdtype(weight.dtype, np.number) or weight.dtype == np.bool_) or np.iscomplexobj(weight):
        raise TypeError(f"edge_weight has dtype {weight.dtype}; expected real numbers")
    weight = weight.astype(np.float64, copy=False)
    for what, bad in (("not finite", ~np.isfinite(weight)), ("negative", weight < 0)):
        if bad.any():
            place = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"edge_weight[{place}] is {weight[place]:g}, which is {what}; expected finite, non-negative numbers"
            )
    return weight


def ptr_of_batch(batch: Tensor | ArrayLike) -> Tensor:
    """Converts PyG's vector of graph numbers to the boundaries of the graphs.

    Args:
        batch: The graph number of each node, (N,), ascending. Graphs may be empty.

    Returns:
        The first node of each graph and, last, the number of nodes, (G+1,), int64.

    Raises:
        ValueError: If ``batch`` has the wrong shape or order.
        TypeError: If ``batch`` is not an integer vector.

    >>> ptr_of_batch([0, 0, 2])
    tensor([0, 2, 2, 3])
    """
    numbers = torch.as_tensor(batch).detach().cpu()
    if numbers.dim() != 1:
        raise ValueError(f"batch has shape {tuple(numbers.shape)}; expected (N,), the graph number of each node")
    if numbers.numel() == 0:
        return torch.zeros(1, dtype=torch.int64)
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise TypeError(f"batch has dtype {numbers.dtype}; expected integers")
    numbers = numbers.long()
    if int(numbers[0]) < 0:
        raise ValueError(f"batch starts with {int(numbers[0])}; expected non-negative graph numbers")
    falls = torch.diff(numbers) < 0
    if falls.any():
        node = int(falls.nonzero()[0]) + 1
        before, here = int(numbers[node - 1]), int(numbers[node])
        raise ValueError(f"batch[{node}] is {here} after {before}; sort the nodes by graph, with numbers ascending")
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(numbers).cumsum(0)])


def check_ptr(ptr: Tensor, num_nodes: int) -> None:
    """Raises a ValueError unless ``ptr`` divides the nodes into graphs."""
    if ptr.dim() != 1 or len(ptr) == 0 or int(ptr[0]) != 0 or (torch.diff(ptr) < 0).any():
        raise ValueError("ptr is not ascending from 0; expected the first node of each graph and the number of nodes")
    if int(ptr[-1]) != num_nodes:
        raise ValueError(f"the graphs of the batch have {int(ptr[-1])} nodes, but num_nodes is {num_nodes}")


def check_within_graphs(pairs: IntArray, ptr: Tensor) -> None:
    """Raises a ValueError if an edge joins two graphs of a batch."""
    graph = np.arange(len(ptr) - 1).repeat(np.diff(ptr.numpy()))
    crossing = np.flatnonzero(graph[pairs[0]] != graph[pairs[1]])
    if len(crossing):
        source, target = pairs[:, crossing[0]].tolist()
        raise ValueError(
            f"edge_index joins node {source} of graph {graph[source]} and node {target} of graph {graph[target]} "
            f"({len(crossing)} such edges); expected edges within the graphs of the batch"
        )
