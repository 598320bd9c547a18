r"""The propagation operator :math:`P = D^{-1/2} A D^{-1/2}` of an undirected graph: build it, check it, apply it.

>>> import torch, polybasis as pb
>>> g = pb.Graph.from_edge_index(torch.tensor([[0, 1, 1], [1, 0, 2]]))
>>> g
Graph(num_nodes=3, num_edges=2)
>>> g @ torch.ones(3)
tensor([0.7071, 1.4142, 0.7071])
"""

from __future__ import annotations

from typing import Any, cast, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from polybasis import native
from polybasis.adjacency import Adjacency, FloatArray, IntArray, SelfLoops, symmetric_adjacency

_INT32_NONZEROS = 2**31 - 1


class Graph:
    r"""An undirected graph as its symmetrically normalised adjacency matrix :math:`P`.

    Make one with :meth:`from_edge_index`, :meth:`from_scipy` or :meth:`from_pyg`; ``graph @ x`` is :math:`P x`.
    A node without edges has a row of zeros. The spectrum of :math:`P` lies in :math:`[-1, 1]`.

    Attributes:
        num_nodes: number of nodes.
        num_edges: number of undirected edges; a self-loop counts once.
        indptr, indices: the pattern of :math:`P` in compressed rows, columns in ascending order.
        weight: the weight of each nonzero, or None where all are 1.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        """Takes a checked adjacency matrix; use the ``from_`` constructors."""
        self.indptr, self.indices, self.weight, self.num_edges = adjacency
        self.num_nodes = len(self.indptr) - 1
        # P does not change with the unit of the weights; at the largest the sums stay in range.
        self._unit = 1.0 if self.weight is None else float(self.weight.numpy().max(initial=0.0)) or 1.0
        self._degree = _degree_in_units(adjacency, self._unit)
        with np.errstate(divide="ignore"):
            self._inv_sqrt_degree = np.where(self._degree > 0, 1 / np.sqrt(self._degree), 0.0)
        self._matrices: dict[tuple[torch.dtype, torch.device], Tensor] = {}
        self._operators: dict[torch.dtype, Any] = {}
        self._with_loops: Graph | None = None
        self.kernels: dict[tuple[torch.dtype, torch.device], Any] = {}  # what filters have made for this graph

    # ---- construction ----------------------------------------------------------------------------------------------

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor | ArrayLike,
        num_nodes: int | None = None,
        edge_weight: Tensor | ArrayLike | None = None,
        self_loops: SelfLoops = "drop",
    ) -> Graph:
        """A graph from pairs of nodes. An edge in either direction is an edge; one given more than once counts once.

        Args:
            edge_index: integers of shape (2, E), nodes counted from 0.
            num_nodes: number of nodes; the largest node in ``edge_index`` plus one unless given.
            edge_weight: finite, non-negative numbers of shape (E,); 1 each unless given. A weight of 0 is no edge.
            self_loops: ``"drop"`` them, ``"keep"`` those given, or ``"add"`` one of weight 1 where a node has none.

        Raises:
            ValueError, TypeError: with the argument, what came and what was expected.
        """
        if self_loops not in get_args(SelfLoops):
            raise ValueError(f"self_loops is {self_loops!r}; expected one of {', '.join(get_args(SelfLoops))}")
        pairs = _as_pairs(edge_index)
        nodes = _checked_num_nodes(pairs, num_nodes)
        weight = None if edge_weight is None else _checked_weight(edge_weight, pairs.shape[1])

        return cls(symmetric_adjacency(pairs, weight, nodes, self_loops, _INT32_NONZEROS))

    @classmethod
    def from_scipy(cls, adjacency: Any, self_loops: SelfLoops = "drop") -> Graph:
        """A graph from a square SciPy sparse matrix or array; its entries are the weights.

        An entry on either side of the diagonal is an edge; where both are there they must agree.
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
        """A graph from a PyTorch Geometric ``Data`` with ``edge_index`` and, if it has one, ``edge_weight``."""
        if getattr(data, "edge_index", None) is None:
            raise ValueError("data has no edge_index; expected a torch_geometric Data with one")
        return cls.from_edge_index(data.edge_index, data.num_nodes, getattr(data, "edge_weight", None), self_loops)

    # ---- use -------------------------------------------------------------------------------------------------------

    def values(self, dtype: torch.dtype = torch.float64) -> Tensor:
        r"""The nonzeros of :math:`P`, in the order of ``indices``."""
        scale = torch.from_numpy(self._inv_sqrt_degree)
        column = scale[self.indices.long()]
        row = scale.repeat_interleave(torch.diff(self.indptr.long()))
        if self.weight is None:
            return (column * row).to(dtype)
        # The weight goes between: of two small degrees the product alone may overflow. With the larger factor first, P
        # is symmetric to the last digit.
        return (torch.maximum(column, row) * (self.weight / self._unit) * torch.minimum(column, row)).to(dtype)

    def matrix(self, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
        r""":math:`P` as a torch sparse CSR tensor, made once for each data type and device."""
        key = (dtype, torch.device(device))
        if key not in self._matrices:
            csr = torch.sparse_csr_tensor(
                self.indptr, self.indices, self.values(dtype), (self.num_nodes, self.num_nodes), check_invariants=False
            )
            self._matrices[key] = csr.to(device)
        return self._matrices[key]

    def operator(self, dtype: torch.dtype, device: torch.device) -> Any | None:
        """The native operator for this data type, made once, or None where torch has to serve."""
        if device.type != "cpu":
            return None
        if dtype not in self._operators:
            self._operators[dtype] = native.operator(self.indptr, self.indices, self.values(dtype))
        return self._operators[dtype]

    def product(self, x: Tensor) -> Tensor:
        """:math:`P x` for a contiguous signal of shape (N, d), outside autograd."""
        if x.numel() == 0:
            return x.clone()
        operator = self.operator(x.dtype, x.device)
        if operator is None:
            return self.matrix(x.dtype, x.device) @ x
        y = torch.empty_like(x)
        operator.product(x, y, torch.get_num_threads())
        return y

    def __matmul__(self, x: Tensor) -> Tensor:
        """:math:`P x` for a signal of shape (N, ...), float32 or float64; gradients flow to ``x``."""
        if not isinstance(x, Tensor):
            raise TypeError(f"the right side of graph @ x is a {type(x).__name__}; expected a torch tensor")
        if not x.is_floating_point():
            raise TypeError(f"x has dtype {x.dtype}; expected a floating type, as float32")
        if x.dim() == 0 or x.shape[0] != self.num_nodes:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected {self.num_nodes} rows, one for each node")
        if x.dtype not in (torch.float32, torch.float64):
            return (self @ x.float()).to(x.dtype)
        flat = x.reshape(self.num_nodes, -1) if x.numel() else x.reshape(self.num_nodes, 0)
        return cast(Tensor, _Product.apply(flat, self)).reshape(x.shape)  # type: ignore[no-untyped-call]

    def degree(self) -> FloatArray:
        """The sum of the weights at each node, (N,)."""
        return self._degree * self._unit

    def stationary(self, x: Tensor) -> Tensor:
        r"""The limit of :math:`P^k x` on a graph that is not bipartite: in each connected component the projection on
        the eigenvector :math:`\sqrt{\mathrm{degree}}`."""
        count, label = sp.csgraph.connected_components(self.adjacency(), directed=False)
        component = torch.from_numpy(label).long()
        top = torch.from_numpy(np.sqrt(self._degree)).to(x).unsqueeze(1)
        mass = x.new_zeros(count, 1).index_add_(0, component, top * top)
        inner = x.new_zeros(count, x.shape[1]).index_add_(0, component, top * x)
        return top * (inner / mass.clamp(min=torch.finfo(x.dtype).tiny))[component]

    def adjacency(self) -> sp.csr_array:
        """The adjacency matrix with its weights, before normalisation."""
        weight = np.ones(len(self.indices)) if self.weight is None else self.weight.numpy()
        return sp.csr_array((weight, self.indices.numpy(), self.indptr.numpy()), shape=(self.num_nodes, self.num_nodes))

    def edge_index(self) -> Tensor:
        """Both directions of every edge, (2, number of nonzeros), as PyTorch Geometric has it."""
        rows = torch.arange(self.num_nodes).repeat_interleave(torch.diff(self.indptr.long()))
        return torch.stack([self.indices.long(), rows])

    def with_self_loops(self) -> Graph:
        """The same graph with a self-loop of weight 1 on every node that has none; made once."""
        if self._with_loops is None:
            self._with_loops = Graph.from_edge_index(self.edge_index(), self.num_nodes, self.weight, "add")
        return self._with_loops

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made of: the graph, and not what was computed from it on the way."""
        return self.__dict__ | {"_matrices": {}, "_operators": {}, "_with_loops": None, "kernels": {}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


class _Product(torch.autograd.Function):
    """P x; P is symmetric, so the gradient is a product with P too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        return graph.product(x.detach().contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, y_bar: Tensor) -> tuple[Tensor, None]:
        return ctx.graph.product(y_bar.contiguous()), None


def _degree_in_units(adjacency: Adjacency, unit: float) -> FloatArray:
    """The sum of the weights at each node, divided by ``unit``."""
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
        raise ValueError(f"edge_index has shape {pairs.shape}; expected (2, number of edges)")
    if pairs.size and not np.issubdtype(pairs.dtype, np.integer):
        raise TypeError(f"edge_index has dtype {pairs.dtype}; expected integers")
    return pairs.astype(np.int64, copy=False)


def _checked_num_nodes(pairs: IntArray, num_nodes: int | None) -> int:
    smallest, largest = int(pairs.min(initial=0)), int(pairs.max(initial=-1))
    if smallest < 0:
        raise ValueError(f"edge_index has node {smallest}; expected nodes from 0 on")
    if num_nodes is None:
        return largest + 1
    if isinstance(num_nodes, bool) or not isinstance(num_nodes, int | np.integer) or num_nodes < 0:
        raise ValueError(f"num_nodes is {num_nodes!r}; expected a whole number, 0 or more")
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
        raise ValueError(f"edge_weight has shape {weight.shape}; expected ({edges},), one number for each edge")
    if not (np.issubdtype(weight.dtype, np.number) or weight.dtype == np.bool_) or np.iscomplexobj(weight):
        raise TypeError(f"edge_weight has dtype {weight.dtype}; expected real numbers")
    weight = weight.astype(np.float64, copy=False)
    for what, bad in (("not finite", ~np.isfinite(weight)), ("negative", weight < 0)):
        if bad.any():
            place = int(np.flatnonzero(bad)[0])
            raise ValueError(f"edge_weight[{place}] is {weight[place]:g}, which is {what}; drop or mend that edge")
    return weight
