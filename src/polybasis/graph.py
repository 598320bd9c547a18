r"""The propagation operator :math:`P = D^{-1/2} A D^{-1/2}` of an undirected graph.

>>> import torch, polybasis as pb
>>> g = pb.Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]]))
>>> g
Graph(num_nodes=3, num_edges=2)
>>> g @ torch.ones(3)
tensor([0.7071, 1.4142, 0.7071])
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from polybasis import conversions, edge_checks
from polybasis.adjacency import Adjacency, FloatArray, SelfLoops, symmetric_adjacency
from polybasis.conversions import EdgeList
from polybasis.custom_op import ordinary_tensors
from polybasis.matrix import Matrix, SparseOperator, owned_operator, product
from polybasis.signals import AnySignal, as_channels

T = TypeVar("T")
_INT32_NONZEROS = 2**31 - 1
_LOCK = threading.Lock()  # for the caches of all graphs


class Graph:
    r"""An undirected graph, represented by its symmetrically normalised adjacency matrix.

    .. math:: P = D^{-1/2} A D^{-1/2}

    Create a graph from node pairs with :meth:`from_edge_index`, from a sparse matrix with :meth:`from_adjacency`, or
    with :meth:`from_pyg`, :meth:`from_networkx`, :meth:`from_igraph` or :meth:`from_pygsp`; ``graph @ x`` computes
    :math:`P x`. The spectrum of :math:`P` lies in :math:`[-1, 1]`, and the row of an isolated node is zero.

    Args:
        adjacency: A checked adjacency matrix; see :func:`polybasis.adjacency.symmetric_adjacency`.
        ptr: The first node of each graph of a batch and, last, the number of nodes, (G+1,); None for a single graph.

    Attributes:
        num_nodes: The number of nodes N.
        num_edges: The number of undirected edges; a self-loop counts once.
        indptr, indices: The pattern of :math:`P` in CSR format, with sorted columns.
        weight: The edge weight of each nonzero, float64, or None if all weights are 1.
        ptr: The boundaries of the graphs of a batch, int64, (G+1,), or None for a single graph.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1], [1, 2]])
    >>> g.matrix().to_dense()
    tensor([[0.0000, 0.7071, 0.0000],
            [0.7071, 0.0000, 0.7071],
            [0.0000, 0.7071, 0.0000]], dtype=torch.float64)
    """

    def __init__(self, adjacency: Adjacency, ptr: Tensor | None = None) -> None:
        self.indptr, self.indices, self.weight, self.num_edges = adjacency[:4]
        self.num_nodes = len(self.indptr) - 1
        self.ptr = None if ptr is None else ptr.detach().cpu().long()
        if self.ptr is not None:
            edge_checks.check_ptr(self.ptr, self.num_nodes)
        # Scaling all weights does not change P. Relative to the largest weight, no degree overflows.
        self._unit = 1.0 if self.weight is None else float(self.weight.numpy().max(initial=0.0)) or 1.0
        self._degree = _degree_in_units(adjacency, self._unit)
        with np.errstate(divide="ignore"):
            self._inv_sqrt_degree = np.where(self._degree > 0, 1 / np.sqrt(self._degree), 0.0)
        self._matrices: dict[tuple[torch.dtype, torch.device], Matrix] = {}
        self._operators: dict[tuple[torch.dtype, torch.device], SparseOperator] = {}
        self._with_loops: Graph | None = None
        self._derived: dict[tuple[Any, ...], Any] = {}

    # ---- construction ----------------------------------------------------------------------------------------------

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor | ArrayLike,
        num_nodes: int | None = None,
        edge_weight: Tensor | ArrayLike | None = None,
        self_loops: SelfLoops = "drop",
        *,
        directed: bool | None = None,
        batch: Tensor | ArrayLike | None = None,
    ) -> Graph:
        """Creates a graph from an edge list, which is made undirected and coalesced.

        Args:
            edge_index: The node pairs, integers of shape (2, E), or a PyG ``EdgeIndex``.
            num_nodes: The number of nodes; by default the largest node index plus one, or the length of ``batch``.
            edge_weight: The weights, (E,), finite and non-negative; by default 1. Edges of weight 0 are removed. If the
                weights require gradients, gradients flow to them through the normalisation; pairs may then be listed
                with different weights, of which the mean is used, and edges of weight 0 stay.
            self_loops: ``"drop"`` removes self-loops, ``"keep"`` keeps them, and ``"add"`` also adds one of weight 1 to
                every node without one.
            directed: ``False`` uses every pair in both directions. ``None`` does so too, but warns if the list is
                evidently directed: it has some pairs in both directions and some in only one.
            batch: The number of the graph to which each node belongs, (N,), ascending, as in PyG.

        Raises:
            ValueError: If a shape, node index or weight is invalid, if a pair has two different weights, or if an edge
                joins two graphs of the batch. Weights that agree up to float32 rounding, 1e-6, are not different; the
                first is used.
            TypeError: If the data type of an argument is wrong.
            NotImplementedError: If ``directed`` is True.

        >>> import polybasis as pb
        >>> pb.Graph.from_edge_index([[0, 1, 1], [1, 0, 2]], num_nodes=4, directed=False)
        Graph(num_nodes=4, num_edges=2)
        >>> pb.Graph.from_edge_index([[0, 2], [1, 3]], batch=[0, 0, 1, 1])
        Graph(num_nodes=4, num_edges=2, num_graphs=2)
        """
        edges = conversions.edges_of_pairs(edge_index, num_nodes, edge_weight)
        if isinstance(edge_weight, Tensor) and edge_weight.requires_grad:
            return _differentiable(edges, self_loops, batch)
        if batch is None:
            return cls._from_edges(edges, self_loops, directed)
        ptr = edge_checks.ptr_of_batch(batch)
        if edges.num_nodes is None:
            edges = edges._replace(num_nodes=int(ptr[-1]))
        return cls._from_edges(edges, self_loops, directed, ptr)

    @classmethod
    def from_adjacency(cls, adjacency: Any, self_loops: SelfLoops = "drop", *, directed: bool | None = None) -> Graph:
        """Creates a graph from a sparse adjacency matrix of any package.

        Args:
            adjacency: A square matrix of edge weights: a torch tensor in COO, CSR or CSC layout, a ``SparseTensor`` of
                torch_sparse, a sparse SciPy matrix or array, or a PyG ``EdgeIndex``. The matrix need not be symmetric,
                but entries (i, j) and (j, i) that are both present must agree.
            self_loops, directed: See :meth:`from_edge_index`.

        Raises:
            ValueError: If the matrix is not square or has an invalid weight.
            TypeError: If ``adjacency`` has another format, such as a dense matrix.

        >>> import polybasis as pb, torch
        >>> pb.Graph.from_adjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to_sparse_csr())
        Graph(num_nodes=2, num_edges=1)
        """
        return cls._from_edges(conversions.edges_of(adjacency), self_loops, directed)

    @classmethod
    def from_scipy(cls, adjacency: Any, self_loops: SelfLoops = "drop", *, directed: bool | None = None) -> Graph:
        """Creates a graph from a sparse SciPy adjacency matrix.

        Args:
            adjacency: A square sparse matrix or array of edge weights; see :meth:`from_adjacency`.
            self_loops, directed: See :meth:`from_edge_index`.

        Raises:
            ValueError: If the matrix is not square or has an invalid weight.
            TypeError: If ``adjacency`` is not sparse.

        >>> import polybasis as pb, scipy.sparse as sp
        >>> pb.Graph.from_scipy(sp.csr_array([[0, 1, 0], [0, 0, 2], [0, 0, 0]]))
        Graph(num_nodes=3, num_edges=2)
        """
        if not sp.issparse(adjacency):
            raise TypeError(f"adjacency is a {type(adjacency).__name__}; expected a SciPy sparse matrix or array")
        return cls._from_edges(conversions.edges_of_scipy(adjacency), self_loops, directed)

    @classmethod
    def from_pyg(
        cls,
        data: Any,
        self_loops: SelfLoops = "drop",
        *,
        edge_weight: Tensor | ArrayLike | None = None,
        directed: bool | None = None,
    ) -> Graph:
        """Creates a graph from a PyTorch Geometric ``Data`` object, or from a ``Batch`` of several graphs.

        Args:
            data: A ``torch_geometric.data.Data`` or ``Batch`` object with ``edge_index`` or ``adj_t``.
            self_loops, directed: See :meth:`from_edge_index`.
            edge_weight: The weights, (E,); by default ``data.edge_weight`` or, without it, 1. ``data.edge_attr`` is
                never used as weights unless it is passed here; a warning says so.

        Raises:
            ValueError: If ``data`` has no edges, or has invalid ones.

        >>> import polybasis as pb, torch
        >>> from torch_geometric.data import Batch, Data
        >>> pair = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
        >>> pb.Graph.from_pyg(Batch.from_data_list([pair, pair]))
        Graph(num_nodes=4, num_edges=2, num_graphs=2)
        """
        edge_index, adj_t = getattr(data, "edge_index", None), getattr(data, "adj_t", None)
        if edge_index is None and adj_t is None:
            raise ValueError("data has no edge_index or adj_t; expected a torch_geometric Data object with one")
        if edge_weight is None:
            edge_weight = getattr(data, "edge_weight", None)
        if edge_index is None:
            edges = conversions.edges_of(adj_t)
            edges = edges if edge_weight is None else edges._replace(weight=edge_weight)
        else:
            attributes = getattr(data, "edge_attr", None)
            if edge_weight is None and attributes is not None:
                column = "" if attributes.dim() == 1 or attributes.shape[1] == 1 else "[:, column]"
                warnings.warn(
                    f"data.edge_attr is not used; pass edge_weight=data.edge_attr{column} to use it as edge weights",
                    stacklevel=2,
                )
            edges = conversions.edges_of_pairs(edge_index, data.num_nodes, edge_weight)
        ptr, batch = getattr(data, "ptr", None), getattr(data, "batch", None)
        if ptr is None and batch is not None:
            ptr = edge_checks.ptr_of_batch(batch)
        return cls._from_edges(edges, self_loops, directed, ptr)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        weight: str | None = "weight",
        self_loops: SelfLoops = "drop",
        *,
        directed: bool | None = None,
    ) -> Graph:
        """Creates a graph from a NetworkX graph; node i is the i-th of ``graph.nodes``.

        Args:
            graph: A NetworkX graph. Parallel edges must have equal weights. A directed graph that is not symmetric is
                made undirected, with a warning unless ``directed`` is False.
            weight: The edge attribute with the weights, 1 where it is missing; None for an unweighted graph.
            self_loops, directed: See :meth:`from_edge_index`.

        Raises:
            ValueError: If a weight is invalid, or two weights of one pair of nodes differ.
            TypeError: If ``graph`` is not a NetworkX graph.

        >>> import networkx as nx, polybasis as pb
        >>> pb.Graph.from_networkx(nx.path_graph(["a", "b", "c"]))
        Graph(num_nodes=3, num_edges=2)
        """
        return cls._from_edges(conversions.edges_of_networkx(graph, weight), self_loops, directed)

    @classmethod
    def from_igraph(
        cls,
        graph: Any,
        weight: str | None = "weight",
        self_loops: SelfLoops = "drop",
        *,
        directed: bool | None = None,
    ) -> Graph:
        """Creates a graph from an igraph graph.

        Args:
            graph: An ``igraph.Graph``; parallel and directed edges are treated as in :meth:`from_networkx`.
            weight: The edge attribute with the weights, 1 where it is missing; None for an unweighted graph.
            self_loops, directed: See :meth:`from_edge_index`.

        Raises:
            ValueError: If a weight is invalid, or two weights of one pair of nodes differ.
            TypeError: If ``graph`` is not an igraph graph.
        """
        return cls._from_edges(conversions.edges_of_igraph(graph, weight), self_loops, directed)

    @classmethod
    def from_pygsp(cls, graph: Any, self_loops: SelfLoops = "drop", *, directed: bool | None = None) -> Graph:
        """Creates a graph from the weight matrix ``graph.W`` of a PyGSP graph.

        Args:
            graph: A ``pygsp.graphs.Graph``.
            self_loops, directed: See :meth:`from_edge_index`.

        Raises:
            ValueError: If a weight is invalid, or two weights of one pair of nodes differ.
            TypeError: If ``graph`` has no sparse weight matrix.
        """
        return cls._from_edges(conversions.edges_of_pygsp(graph), self_loops, directed)

    @classmethod
    def _from_edges(
        cls, edges: EdgeList, self_loops: SelfLoops, directed: bool | None, ptr: Tensor | None = None
    ) -> Graph:
        """Checks and coalesces edges. Warnings point to the caller of the public constructor."""
        if self_loops not in get_args(SelfLoops):
            raise ValueError(f"self_loops is {self_loops!r}; expected one of {', '.join(get_args(SelfLoops))}")
        if directed:
            raise NotImplementedError("directed graphs are not supported; pass directed=False to use both directions")
        pairs = edge_checks.checked_pairs(edges.pairs)
        nodes = edge_checks.checked_num_nodes(pairs, edges.num_nodes)
        weight = None if edges.weight is None else edge_checks.checked_weight(edges.weight, pairs.shape[1])
        if ptr is not None:
            edge_checks.check_ptr(ptr, nodes)
            edge_checks.check_within_graphs(pairs, ptr)
        adjacency = symmetric_adjacency(pairs, weight, nodes, self_loops, _INT32_NONZEROS)
        between_nodes = len(adjacency.indices) - adjacency.num_edges  # the edges that are not self-loops
        one_way = adjacency.num_one_way
        evidently = edges.directed or 0 < one_way < between_nodes
        if directed is None and edges.directed is not False and evidently and one_way:
            warnings.warn(
                f"{one_way} of {between_nodes} node pairs are listed in one direction only; all are used in both "
                "directions; pass directed=False to accept this without a warning",
                stacklevel=3,
            )
        return cls(adjacency, ptr)

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
        self._prepare("operator", dtype, device)
        return self._matrices[dtype, device]

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _prepare(self, method: str, *arguments: Any) -> bool:
        """Fills the cache of a method before a compiler traces the code that reads it.

        The compiler runs this method instead of tracing it. What the traced code reads from the cache is guarded as
        usual, so that a compiled function called with another graph is compiled again.
        """
        with ordinary_tensors():
            getattr(self, method)(*arguments)
        return True

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

    def __matmul__(self, x: AnySignal) -> AnySignal:
        """Returns :meth:`propagate`."""
        return self.propagate(x)

    def propagate(self, x: AnySignal) -> AnySignal:
        r"""Returns :math:`P x`, like ``graph @ x``, which ``torch.compile`` does not support.

        Gradients flow to ``x`` and to edge weights that require them.

        Args:
            x: The signal, (N,), (N, d) or (B, N, d): a torch tensor or a NumPy array. Types narrower than float32 are
                computed in float32, integers in float64.

        Returns:
            A tensor or array with the shape and floating-point type of ``x``.

        Raises:
            ValueError: If ``x`` does not have N rows.
            TypeError: If ``x`` is neither a tensor nor an array of numbers.

        >>> import numpy as np, polybasis as pb
        >>> pb.Graph.from_edge_index([[0], [1]]) @ np.array([3.0, 5.0])
        array([5., 3.])
        """
        signal, restore = as_channels(x, self.num_nodes)
        wide = signal if signal.dtype in (torch.float32, torch.float64) else signal.float()
        return restore(product(*self.propagation(wide.dtype, wide.device), wide).to(signal.dtype))

    @property
    def num_graphs(self) -> int:
        """The number of graphs in the batch; 1 for a single graph."""
        return 1 if self.ptr is None else len(self.ptr) - 1

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
        count, component, root = self.derived(_components)
        top = root.to(x).unsqueeze(1)
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
        if torch.compiler.is_compiling():
            self._prepare("_add_self_loops")
        elif self._with_loops is None:
            with ordinary_tensors():
                self._add_self_loops()
        return cast(Graph, self._with_loops)

    def _add_self_loops(self) -> None:
        if self._with_loops is None:
            weight = None if self.weight is None else self.weight.numpy()
            pairs = self.edge_index().numpy()
            adjacency = symmetric_adjacency(pairs, weight, self.num_nodes, "add", _INT32_NONZEROS)
            self._with_loops = Graph(adjacency, self.ptr)

    def derived(self, create: Callable[..., T], *arguments: Any) -> T:
        """Returns something that depends on the graph only, created once; it must not be changed.

        Models get their constants from here: compilers cannot trace how they are created.

        Args:
            create: A function of the graph and the arguments, defined at the top level of a module.
            arguments: Constants such as data types.
        """
        if torch.compiler.is_compiling():
            self._prepare("_derive", create, *arguments)
        elif (create, *arguments) not in self._derived:
            with ordinary_tensors():
                self._derive(create, *arguments)
        return cast(T, self._derived[create, *arguments])

    def _derive(self, create: Callable[..., Any], *arguments: Any) -> None:
        if (create, *arguments) not in self._derived:
            self._derived[create, *arguments] = create(self, *arguments)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles the graph without its caches."""
        return self.__dict__ | {"_matrices": {}, "_operators": {}, "_with_loops": None, "_derived": {}}

    def __repr__(self) -> str:
        graphs = "" if self.ptr is None else f", num_graphs={self.num_graphs}"
        return f"{type(self).__name__}(num_nodes={self.num_nodes}, num_edges={self.num_edges}{graphs})"


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


def _components(graph: Graph) -> tuple[int, Tensor, Tensor]:
    """Returns the number of connected components, that of each node, and the square roots of the degrees."""
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(graph.adjacency(), directed=False)
    return int(count), torch.from_numpy(label).long(), torch.from_numpy(np.sqrt(graph._degree))


def _differentiable(edges: EdgeList, self_loops: SelfLoops, batch: Tensor | ArrayLike | None) -> Graph:
    """Returns the graph of weights that require gradients."""
    from polybasis.tensor_graph import TensorGraph

    if self_loops != "drop":
        raise ValueError(f'self_loops is {self_loops!r}; weights that require gradients are supported with "drop" only')
    pairs = torch.as_tensor(edges.pairs)
    ptr = None if batch is None else edge_checks.ptr_of_batch(batch)
    nodes = edges.num_nodes if ptr is None else int(ptr[-1])
    checked = edge_checks.checked_num_nodes(edge_checks.checked_pairs(pairs), nodes)
    return TensorGraph(pairs, checked, cast(Tensor, edges.weight), ptr)


def as_graph(value: Any, num_nodes: int | None = None, edge_weight: Tensor | ArrayLike | None = None) -> Graph:
    """Returns the graph of any adjacency that layers accept.

    Args:
        value: A :class:`Graph`, node pairs of shape (2, E), a PyG ``EdgeIndex``, or a sparse matrix in a format of
            :meth:`Graph.from_adjacency`.
        num_nodes: The number of nodes, which a Graph or matrix must have.
        edge_weight: The weights of node pairs, (E,); must be omitted with a Graph or a matrix.

    Raises:
        ValueError: If ``edge_weight`` is given with a Graph or matrix, or if the number of nodes is another one.

    >>> import torch
    >>> as_graph(torch.eye(3).to_sparse(), num_nodes=3)
    Graph(num_nodes=3, num_edges=0)
    """
    if not isinstance(value, Graph) and not conversions.is_matrix(value):
        return Graph.from_edge_index(value, num_nodes, edge_weight)
    kind = "Graph" if isinstance(value, Graph) else "sparse matrix"
    if edge_weight is not None:
        raise ValueError(f"edge_weight was given with a {kind}, which has its own weights; omit edge_weight")
    graph = value if isinstance(value, Graph) else Graph.from_adjacency(value)
    if num_nodes is not None and graph.num_nodes != num_nodes:
        raise ValueError(f"the {kind} has {graph.num_nodes} nodes; expected {num_nodes}")
    return graph
