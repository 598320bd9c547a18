r"""The propagation operator :math:`P = D^{-1/2} A D^{-1/2}` of an undirected graph.

>>> import torch, polybasis as pb
>>> g = pb.Graph.from_edge_index(torch.tensor([[0, 1, 1], [1, 0, 2]]))
>>> g
Graph(num_nodes=3, num_edges=2)
>>> g @ torch.ones(3)
tensor([0.7071, 1.4142, 0.7071])
"""

from __future__ import annotations

import threading
from typing import Any, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polybasis.adjacency import Adjacency, FloatArray, IntArray, SelfLoops, symmetric_adjacency
from polybasis.custom_op import ordinary_tensors
from polybasis.matrix import Matrix, SparseOperator, owned_operator

_INT32_NONZEROS = 2**31 - 1
_LOCK = threading.Lock()  # for the caches of all graphs


class Graph:
    r"""An undirected graph, represented by its symmetrically normalised adjacency matrix.

    .. math:: P = D^{-1/2} A D^{-1/2}

    Create a graph with :meth:`from_edge_index`, :meth:`from_scipy` or :meth:`from_pyg`; ``graph @ x`` computes
    :math:`P x`. The spectrum of :math:`P` lies in :math:`[-1, 1]`, and the row of an isolated node is zero.

    Args:
        adjacency: A checked adjacency matrix; see :func:`polybasis.adjacency.symmetric_adjacency`.
        ptr: The first node of each graph of a batch, followed by N, (G+1,), int64; None for a single graph.

    Attributes:
        num_nodes: The number of nodes N.
        num_edges: The number of undirected edges; a self-loop counts once.
        indptr, indices: The pattern of :math:`P` in CSR format, with sorted columns.
        weight: The edge weight of each nonzero, float64, or None if all weights are 1.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1], [1, 2]])
    >>> g.matrix().to_dense()
    tensor([[0.0000, 0.7071, 0.0000],
            [0.7071, 0.0000, 0.7071],
            [0.0000, 0.7071, 0.0000]], dtype=torch.float64)
    """

    def __init__(self, adjacency: Adjacency, ptr: Tensor | None = None) -> None:
        self.indptr, self.indices, self.weight, self.num_edges = adjacency
        self.num_nodes = len(self.indptr) - 1
        self.ptr = ptr
        # Scaling all weights does not change P. Relative to the largest weight, no degree overflows.
        self._unit = 1.0 if self.weight is None else float(self.weight.numpy().max(initial=0.0)) or 1.0
        self._degree = _degree_in_units(adjacency, self._unit)
        with np.errstate(divide="ignore"):
            self._inv_sqrt_degree = np.where(self._degree > 0, 1 / np.sqrt(self._degree), 0.0)
        self._matrices: dict[tuple[torch.dtype, torch.device], Matrix] = {}
        self._operators: dict[tuple[torch.dtype, torch.device], SparseOperator] = {}
        self._with_loops: Graph | None = None

    # ---- construction ----------------------------------------------------------------------------------------------

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor | ArrayLike,
        num_nodes: int | None = None,
        edge_weight: Tensor | ArrayLike | None = None,
        self_loops: SelfLoops = "drop",
    ) -> Graph:
        """Creates a graph from an edge list, which is made undirected and coalesced.

        Args:
            edge_index: The node pairs, integers of shape (2, E).
            num_nodes: The number of nodes; by default the largest node index plus one.
            edge_weight: The weights, (E,), finite and non-negative; by default 1. Edges of weight 0 are removed.
            self_loops: ``"drop"`` removes self-loops, ``"keep"`` keeps them, and ``"add"`` also adds one of weight 1 to
                every node without one.

        Raises:
            ValueError: If a shape, node index or weight is invalid, or if a pair has two different weights.
            TypeError: If the data type of an argument is wrong.

        >>> import polybasis as pb
        >>> pb.Graph.from_edge_index([[0, 1, 1], [1, 0, 2]], num_nodes=4)
        Graph(num_nodes=4, num_edges=2)
        """
        if self_loops not in get_args(SelfLoops):
            raise ValueError(f"self_loops is {self_loops!r}; expected one of {', '.join(get_args(SelfLoops))}")
        pairs = _as_pairs(edge_index)
        nodes = _checked_num_nodes(pairs, num_nodes)
        weight = None if edge_weight is None else _checked_weight(edge_weight, pairs.shape[1])

        return cls(symmetric_adjacency(pairs, weight, nodes, self_loops, _INT32_NONZEROS))

    @classmethod
    def from_scipy(cls, adjacency: Any, self_loops: SelfLoops = "drop") -> Graph:
        """Creates a graph from a sparse SciPy adjacency matrix.

        Args:
            adjacency: A square sparse matrix or array of edge weights. The matrix need not be symmetric, but entries
                (i, j) and (j, i) that are both present must agree.
            self_loops: See :meth:`from_edge_index`.

        Raises:
            ValueError: If the matrix is not square or has an invalid weight.
            TypeError: If ``adjacency`` is not sparse.

        >>> import polybasis as pb, scipy.sparse as sp
        >>> pb.Graph.from_scipy(sp.csr_array([[0, 1, 0], [0, 0, 2], [0, 0, 0]]))
        Graph(num_nodes=3, num_edges=2)
        """
        if not sp.issparse(adjacency):
            raise TypeError(f"adjacency is a {type(adjacency).__name__}; expected a SciPy sparse matrix or array")
        if adjacency.shape[0] != adjacency.shape[1]:
            raise ValueError(f"adjacency has shape {adjacency.shape}; expected a square matrix")
        entries = sp.coo_array(adjacency, copy=True)
        entries.sum_duplicates()
        weight = None if np.all(entries.data == 1) else entries.data
        return cls.from_edge_index(np.stack(entries.coords), int(adjacency.shape[0]), weight, self_loops)

    @classmethod
    def from_pyg(cls, data: Any, self_loops: SelfLoops = "drop") -> Graph:
        """Creates a graph from the ``edge_index`` and optional ``edge_weight`` of a PyTorch Geometric ``Data`` object.

        Args:
            data: A ``torch_geometric.data.Data`` object.
            self_loops: See :meth:`from_edge_index`.

        Raises:
            ValueError: If ``data`` has no ``edge_index``.
        """
        if getattr(data, "edge_index", None) is None:
            raise ValueError("data has no edge_index; expected a torch_geometric Data object with one")
        return cls.from_edge_index(data.edge_index, data.num_nodes, getattr(data, "edge_weight", None), self_loops)

    # ---- operations ------------------------------------------------------------------------------------------------

    def values(self, dtype: torch.dtype = torch.float64) -> Tensor:
        r"""Returns the nonzeros of :math:`P` in the order of ``indices``."""
        scale = torch.from_numpy(self._inv_sqrt_degree)
        column = scale[self.indices.long()]
        row = scale.repeat_interleave(torch.diff(self.indptr.long()))
        if self.weight is None:
            return (column * row).to(dtype)
        # The weight is multiplied second, because the product of both scales can overflow. Starting with the larger
        # scale makes P exactly symmetric.
        return (torch.maximum(column, row) * (self.weight / self._unit) * torch.minimum(column, row)).to(dtype)

    def matrix(self, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
        r"""Returns :math:`P` as a torch sparse CSR tensor.

        Args:
            dtype: The data type of the values.
            device: The device of the tensor.
        """
        return self.propagation(dtype, torch.device(device)).to_sparse()

    def propagation(self, dtype: torch.dtype, device: torch.device) -> Matrix:
        r"""Returns :math:`P` as the operators of the library take it, created once per data type and device.

        Args:
            dtype: The data type of the signals, float32 or float64.
            device: The device of the signals.
        """
        if not torch.compiler.is_compiling():
            return self.operator(dtype, device).matrix
        key = (dtype, device)
        if key not in self._matrices:
            self._matrices[key] = self._create_matrix(dtype, device)
        return self._matrices[key]

    def operator(self, dtype: torch.dtype, device: torch.device) -> SparseOperator:
        """Returns the matrix of :meth:`propagation` with its native operator.

        Args:
            dtype: The data type of the signals, float32 or float64.
            device: The device of the signals.
        """
        key = (dtype, device)
        if key not in self._operators:
            with _LOCK, ordinary_tensors():
                if key not in self._operators:
                    operator = owned_operator(self._matrices.get(key) or self._create_matrix(dtype, device))
                    self._operators[key], self._matrices[key] = operator, operator.matrix
        return self._operators[key]

    def _create_matrix(self, dtype: torch.dtype, device: torch.device) -> Matrix:
        ptr = None if self.ptr is None else self.ptr.to(device)
        return Matrix(self.indptr.to(device), self.indices.to(device), self.values(dtype).to(device), ptr)

    def __matmul__(self, x: Tensor) -> Tensor:
        r"""Returns :math:`P x`; gradients flow to ``x``.

        Args:
            x: The signal, (N, ...). Types narrower than float32 are computed in float32.

        Returns:
            A tensor with the shape and data type of ``x``.

        Raises:
            ValueError: If ``x`` does not have N rows.
            TypeError: If ``x`` is not a floating-point tensor.
        """
        if not isinstance(x, Tensor):
            raise TypeError(f"x is a {type(x).__name__}; expected a torch tensor")
        if not x.is_floating_point():
            raise TypeError(f"x has dtype {x.dtype}; expected a floating-point type such as float32")
        if x.dim() == 0 or x.shape[0] != self.num_nodes:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected {self.num_nodes} rows, one per node")
        if x.dtype not in (torch.float32, torch.float64):
            return (self @ x.float()).to(x.dtype)
        flat = x.reshape(self.num_nodes, -1) if x.numel() else x.reshape(self.num_nodes, 0)
        return (self.propagation(x.dtype, x.device) @ flat).reshape(x.shape)

    def degree(self) -> FloatArray:
        """Returns the weighted degree of each node, (N,)."""
        return self._degree * self._unit

    def stationary(self, x: Tensor) -> Tensor:
        r"""Returns the limit of :math:`P^k x` for :math:`k \to \infty` on a graph without bipartite components.

        In every connected component the limit is the projection of ``x`` onto the eigenvector
        :math:`\sqrt{\mathrm{degree}}`.

        Args:
            x: The signal, (N, d).

        Returns:
            (N, d).
        """
        from scipy.sparse.csgraph import connected_components

        count, label = connected_components(self.adjacency(), directed=False)
        component = torch.from_numpy(label).long()
        top = torch.from_numpy(np.sqrt(self._degree)).to(x).unsqueeze(1)
        mass = x.new_zeros(count, 1).index_add_(0, component, top * top)
        inner = x.new_zeros(count, x.shape[1]).index_add_(0, component, top * x)
        return top * (inner / mass.clamp(min=torch.finfo(x.dtype).tiny))[component]

    def adjacency(self) -> sp.csr_array:
        """Returns the weighted adjacency matrix A, before normalisation."""
        weight = np.ones(len(self.indices)) if self.weight is None else self.weight.numpy()
        return sp.csr_array((weight, self.indices.numpy(), self.indptr.numpy()), shape=(self.num_nodes, self.num_nodes))

    def edge_index(self) -> Tensor:
        """Returns both directions of every edge, (2, nonzeros), in the format of PyTorch Geometric."""
        rows = torch.arange(self.num_nodes).repeat_interleave(torch.diff(self.indptr.long()))
        return torch.stack([self.indices.long(), rows])

    def with_self_loops(self) -> Graph:
        """Returns the graph with a self-loop of weight 1 added to every node without one; created once."""
        if self._with_loops is None:
            self._with_loops = Graph.from_edge_index(self.edge_index(), self.num_nodes, self.weight, "add")
        return self._with_loops

    @property
    def num_graphs(self) -> int:
        """The number of graphs of a batch, or 1."""
        return 1 if self.ptr is None else len(self.ptr) - 1

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles the graph without its caches."""
        return self.__dict__ | {"_matrices": {}, "_operators": {}, "_with_loops": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


def _degree_in_units(adjacency: Adjacency, unit: float) -> FloatArray:
    """Returns the weighted degree of each node, divided by ``unit``."""
    indptr = adjacency.indptr.numpy()
    neighbours = np.diff(indptr)
    if adjacency.weight is None:
        return neighbours.astype(np.float64)
    degree = np.zeros(len(neighbours))
    nonempty = np.flatnonzero(neighbours)
    degree[nonempty] = np.add.reduceat(adjacency.weight.numpy() / unit, indptr[nonempty])
    return degree


# ---- checks --------------------------------------------------------------------------------------------------------


def _as_numpy(value: Tensor | ArrayLike) -> NDArray[Any]:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _as_pairs(edge_index: Tensor | ArrayLike) -> IntArray:
    pairs = _as_numpy(edge_index)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise ValueError(f"edge_index has shape {pairs.shape}; expected (2, E)")
    if pairs.size and not np.issubdtype(pairs.dtype, np.integer):
        raise TypeError(f"edge_index has dtype {pairs.dtype}; expected integers")
    return pairs.astype(np.int64, copy=False)


def _checked_num_nodes(pairs: IntArray, num_nodes: int | None) -> int:
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


def _checked_weight(edge_weight: Tensor | ArrayLike, edges: int) -> FloatArray:
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
