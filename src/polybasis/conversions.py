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

from polybasis.adjacency import IntArray

FORMATS = "a torch sparse tensor, a PyG EdgeIndex, a SparseTensor, or a SciPy sparse matrix"


class EdgeList(NamedTuple):
    """The edges of a graph.

    Attributes:
        pairs: The node pairs, (2, E).
        num_nodes: The number of nodes, or None for the largest node index plus one.
        weight: The weights, (E,), or None if all are 1.
        directed: Whether the source is a directed graph; None if unspecified.
    """

    pairs: Tensor | ArrayLike
    num_nodes: int | None
    weight: Tensor | ArrayLike | None = None
    directed: bool | None = None


def edges_of_pairs(
    edge_index: Tensor | ArrayLike, num_nodes: int | None, edge_weight: Tensor | ArrayLike | None
) -> EdgeList:
    """Returns node pairs as they are, with the number of nodes and the direction that a PyG ``EdgeIndex`` stores."""
    if not _is_edge_index(edge_index):
        return EdgeList(edge_index, num_nodes, edge_weight)
    known = edges_of_edge_index(edge_index)
    return known._replace(num_nodes=known.num_nodes if num_nodes is None else num_nodes, weight=edge_weight)


# ---- matrices ------------------------------------------------------------------------------------------------------


def is_matrix(value: Any) -> bool:
    """Returns whether ``value`` is a sparse matrix, whose values are edge weights."""
    return sp.issparse(value) or _is_torch_sparse(value) or _is_sparse_tensor(value)


def edges_of(adjacency: Any) -> EdgeList:
    """Converts a sparse adjacency matrix or PyG's ``EdgeIndex``.

    Args:
        adjacency: A sparse torch tensor, a PyG ``EdgeIndex``, a ``SparseTensor``, or a sparse SciPy matrix.

    Raises:
        ValueError: If the matrix is not square.
        TypeError: If the format is not supported.

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
    """Converts PyG's ``EdgeIndex``, whose number of nodes and directedness are optional."""
    sizes = [size for size in edge_index.sparse_size() if size is not None]
    if len(sizes) == 2:
        _check_square(tuple(sizes))
    directed = False if edge_index.is_undirected else None
    return EdgeList(edge_index.as_tensor().cpu().numpy(), max(sizes, default=None), None, directed)


def edges_of_sparse_tensor(matrix: Any) -> EdgeList:
    """Converts the ``SparseTensor`` of torch_sparse."""
    row, column, value = matrix.coo()
    _check_square(tuple(matrix.sparse_sizes()))
    pairs = torch.stack([row, column]).cpu().numpy()
    return EdgeList(pairs, int(matrix.sparse_sizes()[0]), None if value is None else _unless_ones(as_numpy(value)))


def as_numpy(value: Tensor | ArrayLike) -> NDArray[Any]:
    """Returns a tensor on any device, or anything array-like, as an array."""
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


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
