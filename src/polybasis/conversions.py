"""Adjacency matrices and graphs of other packages, converted to node pairs.

Optional packages are recognised by the methods of their objects and never imported.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polybasis.adjacency import FloatArray, IntArray

FORMATS = "a torch sparse tensor, a PyG EdgeIndex, a SparseTensor, or a SciPy sparse matrix"


class EdgeList(NamedTuple):
    """The edges of a graph.

    Attributes:
        pairs: The node pairs, (2, E).
        num_nodes: The number of nodes, or None for the largest node index plus one.
        weight: The weights, (E,), or None if all are 1.
        directed: Whether the source is a directed graph; None if it does not say.
    """

    pairs: Tensor | ArrayLike
    num_nodes: int | None
    weight: Tensor | ArrayLike | None = None
    directed: bool | None = None


def edges_of_pairs(
    edge_index: Tensor | ArrayLike, num_nodes: int | None, edge_weight: Tensor | ArrayLike | None
) -> EdgeList:
    """Returns node pairs as they are, with what a PyG ``EdgeIndex`` knows about them."""
    if not _is_edge_index(edge_index):
        return EdgeList(edge_index, num_nodes, edge_weight)
    known = edges_of_edge_index(edge_index)
    return known._replace(num_nodes=known.num_nodes if num_nodes is None else num_nodes, weight=edge_weight)


# ---- matrices ------------------------------------------------------------------------------------------------------


def is_matrix(value: Any) -> bool:
    """Returns whether ``value`` is a sparse matrix, whose values are edge weights."""
    return sp.issparse(value) or _is_torch_sparse(value) or _is_sparse_tensor(value)


def is_adjacency(value: Any) -> bool:
    """Returns whether ``value`` has a format of :func:`edges_of`."""
    return is_matrix(value) or _is_edge_index(value)


def edges_of(adjacency: Any) -> EdgeList:
    """Converts a sparse adjacency matrix or PyG's ``EdgeIndex``.

    Args:
        adjacency: A sparse torch tensor, a PyG ``EdgeIndex``, a ``SparseTensor``, or a sparse SciPy matrix.

    Raises:
        ValueError: If the matrix is not square.
        TypeError: If the format is another one.

    >>> import torch
    >>> edges_of(torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse())
    EdgeList(pairs=array([[0], [1]]), num_nodes=2, weight=array([2.], dtype=float32), directed=None)
    """
    for recognised, convert in (
        (sp.issparse, edges_of_scipy),
        (_is_torch_sparse, edges_of_torch_sparse),
        (_is_edge_index, edges_of_edge_index),
        (_is_sparse_tensor, edges_of_sparse_tensor),
    ):
        if recognised(adjacency):
            return convert(adjacency)
    raise TypeError(_unknown_adjacency(adjacency))


def edges_of_scipy(matrix: Any) -> EdgeList:
    """Converts a sparse SciPy matrix or array, whose duplicates are summed."""
    _check_square(matrix.shape)
    # Only the conversion of other formats copies; duplicates are summed in place.
    rows = sp.csr_array(matrix, copy=matrix.format == "csr" and not matrix.has_canonical_format)
    rows.sum_duplicates()
    entries = rows.tocoo()
    return EdgeList(np.stack(entries.coords), int(matrix.shape[0]), _unless_ones(entries.data))


def edges_of_torch_sparse(matrix: Tensor) -> EdgeList:
    """Converts a torch tensor in COO, CSR or CSC layout, whose duplicates are summed."""
    _check_square(tuple(matrix.shape))
    entries = matrix.detach().cpu().to_sparse(layout=torch.sparse_coo).coalesce()
    values = entries.values()
    if values.dim() != 1:
        raise ValueError(f"adjacency has values of shape {tuple(values.shape)}; expected one number per edge")
    return EdgeList(entries.indices().numpy(), int(matrix.shape[0]), _unless_ones(values.numpy()))


def edges_of_edge_index(edge_index: Any) -> EdgeList:
    """Converts PyG's ``EdgeIndex``, which may know its number of nodes and that it is undirected."""
    sizes = [size for size in edge_index.sparse_size() if size is not None]
    directed = False if edge_index.is_undirected else None
    return EdgeList(edge_index.as_tensor().cpu().numpy(), max(sizes, default=None), None, directed)


def edges_of_sparse_tensor(matrix: Any) -> EdgeList:
    """Converts the ``SparseTensor`` of torch_sparse."""
    row, column, value = matrix.coo()
    _check_square(tuple(matrix.sparse_sizes()))
    pairs = torch.stack([row, column]).cpu().numpy()
    return EdgeList(pairs, int(matrix.sparse_sizes()[0]), None if value is None else _unless_ones(_as_numpy(value)))


def _is_torch_sparse(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout != torch.strided


def _is_edge_index(value: Any) -> bool:
    return isinstance(value, Tensor) and hasattr(value, "sparse_size") and hasattr(value, "is_undirected")


def _is_sparse_tensor(value: Any) -> bool:
    return hasattr(value, "coo") and hasattr(value, "sparse_sizes")


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"adjacency has shape {tuple(shape)}; expected a square matrix")


def _unless_ones(weight: NDArray[Any]) -> NDArray[Any] | None:
    return None if np.all(weight == 1) else weight


def _unknown_adjacency(value: Any) -> str:
    shape = tuple(getattr(value, "shape", ()))
    if len(shape) == 2 and shape[0] == shape[1] and isinstance(value, Tensor | np.ndarray):
        sparse = "adjacency.to_sparse()" if isinstance(value, Tensor) else "scipy.sparse.csr_array(adjacency)"
        return f"adjacency is a dense {type(value).__name__} of shape {shape}; pass a sparse matrix, {sparse}"
    if len(shape) == 2 and shape[0] == 2:
        return f"adjacency has shape {shape}; use Graph.from_edge_index for node pairs"
    return f"adjacency is a {type(value).__name__}; expected {FORMATS}"


# ---- graphs --------------------------------------------------------------------------------------------------------


def edges_of_networkx(graph: Any, weight: str | None = "weight") -> EdgeList:
    """Converts a NetworkX graph; node i is the i-th of ``graph.nodes``.

    Args:
        graph: A ``Graph``, ``DiGraph``, ``MultiGraph`` or ``MultiDiGraph``.
        weight: The edge attribute with the weights, 1 where it is missing; None for an unweighted graph.

    Raises:
        TypeError: If ``graph`` is not a NetworkX graph.
    """
    if not (hasattr(graph, "nodes") and hasattr(graph, "edges") and hasattr(graph, "is_directed")):
        raise TypeError(f"graph is a {type(graph).__name__}; expected a NetworkX graph")
    place = {node: i for i, node in enumerate(graph.nodes)}
    listed = graph.edges(data=weight, default=1) if weight is not None else ((*pair, 1) for pair in graph.edges())
    ends, weights = [], []
    for source, target, value in listed:
        ends.append((place[source], place[target]))
        weights.append(value)
    return EdgeList(_pairs_of(ends), len(place), _unless_ones(np.array(weights)), bool(graph.is_directed()))


def edges_of_igraph(graph: Any, weight: str | None = "weight") -> EdgeList:
    """Converts an igraph graph.

    Args:
        graph: An ``igraph.Graph``.
        weight: The edge attribute with the weights, 1 where it is missing; None for an unweighted graph.

    Raises:
        TypeError: If ``graph`` is not an igraph graph.
    """
    if not (hasattr(graph, "vcount") and hasattr(graph, "get_edgelist")):
        raise TypeError(f"graph is a {type(graph).__name__}; expected an igraph graph")
    weights = None
    if weight in graph.es.attributes():
        weights = _unless_ones(np.array([1 if value is None else value for value in graph.es[weight]]))
    return EdgeList(_pairs_of(graph.get_edgelist()), graph.vcount(), weights, bool(graph.is_directed()))


def edges_of_pygsp(graph: Any) -> EdgeList:
    """Converts a PyGSP graph, whose weight matrix is ``graph.W``.

    Raises:
        TypeError: If ``graph`` has no sparse weight matrix ``W``.
    """
    if not sp.issparse(getattr(graph, "W", None)):
        raise TypeError(f"graph is a {type(graph).__name__} without a sparse weight matrix W; expected a PyGSP graph")
    return edges_of_scipy(graph.W)


def _pairs_of(ends: list[tuple[int, int]]) -> IntArray:
    return np.array(ends, dtype=np.int64).reshape(-1, 2).T


# ---- checks --------------------------------------------------------------------------------------------------------


def _as_numpy(value: Tensor | ArrayLike) -> NDArray[Any]:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def checked_pairs(edge_index: Tensor | ArrayLike) -> IntArray:
    """Returns node pairs as an integer array of shape (2, E), or raises a ValueError or TypeError."""
    if is_matrix(edge_index):
        raise TypeError(f"edge_index is a sparse {type(edge_index).__name__}; use Graph.from_adjacency for a matrix")
    pairs = _as_numpy(edge_index)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        listed = pairs.ndim == 2 and pairs.shape[1] == 2
        hint = "; the pairs are in its rows, so pass edge_index.T" if listed else ""
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
    weight = _as_numpy(edge_weight)
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
        batch: The graph number of each node, (N,), ascending from 0. Graphs may be empty.

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
    if int(numbers[0]) != 0:
        raise ValueError(f"batch starts with {int(numbers[0])}; expected graph numbers that start at 0")
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
