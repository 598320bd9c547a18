r"""Graphs and their propagation operators, by default :math:`P = D^{-1/2} A D^{-1/2}`.

>>> import torch, polybasis as pb
>>> g = pb.Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]]))
>>> g
Graph(num_nodes=3, num_edges=2)
>>> g @ torch.ones(3)
tensor([0.7071, 1.4142, 0.7071])
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, Unpack, cast, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from polybasis import conversions, edge_checks
from polybasis.adjacency import Adjacency, FloatArray, IntArray, SelfLoops, symmetric_adjacency
from polybasis.conversions import EdgeList
from polybasis.custom_op import ordinary_tensors
from polybasis.directed import directed_adjacency
from polybasis.matrix import Matrix, SparseOperator, owned_operator, product
from polybasis.propagation import (
    Normalization,
    OperatorArguments,
    SymmetricForm,
    check_operator,
    complex_matrix,
    symmetric_form,
)
from polybasis.signals import AnySignal, as_channels

T = TypeVar("T")
_INT32_NONZEROS = 2**31 - 1
_LOCK = threading.Lock()  # for the caches of all graphs


class Graph:
    r"""A graph, represented by a propagation operator P: by default its symmetrically normalised adjacency matrix.

    .. math:: P = D^{-1/2} A D^{-1/2}

    Create a graph from node pairs with :meth:`from_edge_index`, from a sparse matrix with :meth:`from_adjacency`, or
    with :meth:`from_pyg`, :meth:`from_networkx`, :meth:`from_igraph` or :meth:`from_pygsp`; ``graph @ x`` computes
    :math:`P x`. The spectrum of :math:`P` lies in :math:`[-1, 1]`, and the row of an isolated node is zero. Filters,
    bases and responses are functions of the eigenvalues :math:`\mu` of P; :meth:`eigenvalue` converts them to those of
    the Laplacian.

    Args:
        adjacency: A checked adjacency matrix; see :func:`polybasis.adjacency.symmetric_adjacency`.
        ptr: The first node of each graph in a batch, followed by the number of nodes, (G+1,); None for a single graph.
        flow: The direction of each nonzero of a directed graph; see :func:`polybasis.directed.directed_adjacency`.
        normalization: The operator; see :meth:`from_edge_index`.
        lambda_max: The scale of the operator; see :meth:`from_edge_index`.
        q: The phase of a directed edge; see :meth:`from_edge_index`.

    Attributes:
        num_nodes: The number of nodes N.
        num_edges: The number of undirected edges, or of directed edges of a directed graph; a self-loop counts once.
        indptr: The boundaries of the rows of :math:`A`, or of :math:`A + A^\top` for a directed graph, in CSR format.
        indices: The column of each nonzero of that matrix, sorted within each row.
        weight: The edge weight of each nonzero, float64, or None if all weights are 1; :math:`(A + A^\top) / 2` for a
            directed graph.
        ptr: The boundaries of the graphs in a batch, int64, (G+1,), or None for a single graph.
        directed: Whether the graph is directed, so that signals are complex.
        normalization: The argument of the constructor.
        q: The argument of the constructor.
        lambda_max: The scale of the normalisations ``"laplacian"`` and ``None``, or one per graph in a batch, (G,);
            None for other normalisations.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1], [1, 2]])
    >>> g.matrix().to_dense()
    tensor([[0.0000, 0.7071, 0.0000],
            [0.7071, 0.0000, 0.7071],
            [0.0000, 0.7071, 0.0000]], dtype=torch.float64)
    """

    normalization: Normalization | None = "sym"
    lambda_max: float | FloatArray | None = None
    directed: bool = False
    q: float = 0.25
    _form: SymmetricForm | None = None  # P itself
    _flow: FloatArray | None = None

    def __init__(
        self,
        adjacency: Adjacency,
        ptr: Tensor | None = None,
        flow: FloatArray | None = None,
        *,
        normalization: Normalization | None = "sym",
        lambda_max: float | ArrayLike | None = None,
        q: float = 0.25,
    ) -> None:
        if not isinstance(adjacency, Adjacency):
            kind = type(adjacency).__name__
            raise TypeError(
                f"adjacency is a {kind}; use Graph.from_edge_index for node pairs, from_adjacency for a matrix"
            )
        self.indptr, self.indices, self.weight, self.num_edges = adjacency[:4]
        self.num_nodes = len(self.indptr) - 1
        self.ptr = None if ptr is None else ptr.detach().cpu().long()
        if self.ptr is not None:
            edge_checks.check_ptr(self.ptr, self.num_nodes)
        # Scaling all weights does not change P. Relative to the largest weight, no degree overflows; powers of four
        # are exact, so the values of a graph do not depend on the other graphs of its batch.
        self._unit = 1.0 if self.weight is None else _power_of_four(float(self.weight.numpy().max(initial=0.0)))
        self._degree = _degree_in_units(adjacency, self._unit)
        with np.errstate(divide="ignore"):
            self._inv_sqrt_degree = np.where(self._degree > 0, 1 / np.sqrt(self._degree), 0.0)
        self._matrices: dict[tuple[torch.dtype, torch.device], Matrix] = {}
        self._operators: dict[tuple[torch.dtype, torch.device], SparseOperator] = {}
        self._with_loops: Graph | None = None
        self._derived: dict[tuple[Any, ...], Any] = {}
        check_operator(normalization, lambda_max, q)
        self.normalization, self.q, self.directed = normalization, float(q), flow is not None
        self._flow, self._given_lambda_max = flow, lambda_max
        if normalization != "sym" or flow is not None:
            with ordinary_tensors():
                self._form = self._create_form()

    def _create_form(self) -> SymmetricForm:
        normalized = self._normalized_values().numpy() if self.normalization in ("sym", "rw") else None
        form, eigenvalue = symmetric_form(
            self.normalization,
            self._on_pattern(normalized),
            self.degree(),
            None if self._flow is None else self.q * self._flow,
            self._given_lambda_max,
            None if self.ptr is None else self.ptr.numpy(),
        )
        if eigenvalue is not None:
            self.lambda_max = float(eigenvalue[0]) if self.ptr is None else eigenvalue
        return form

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
        normalization: Normalization | None = "sym",
        lambda_max: float | ArrayLike | None = None,
        q: float = 0.25,
    ) -> Graph:
        r"""Creates a graph from an edge list, which is coalesced and, unless ``directed``, made undirected.

        With ``directed``, A is replaced by the Hermitian matrix of the magnetic Laplacian (`"MagNet"
        <https://arxiv.org/abs/2102.11391>`_, Zhang et al., 2021), and signals are complex:

        .. math:: H = \frac{A + A^\top}{2} \odot e^{2 \pi i q F}, \qquad F = \frac{A - A^\top}{A + A^\top}

        If all weights are 1, the flow F is :math:`A - A^\top`, as in the paper. For other weights, the quotient makes
        the phases independent of the unit of the weights.

        Args:
            edge_index: The node pairs, integers of shape (2, E), or a PyG ``EdgeIndex``. Edges lead from the first to
                the second node.
            num_nodes: The number of nodes; by default the largest node index plus one, or the length of ``batch``.
            edge_weight: The weights, (E,), finite and non-negative; by default 1. Edges of weight 0 are removed. If the
                weights require gradients, gradients flow to them through the normalisation. In this case, a pair that
                is listed with different weights gets their mean, and edges of weight 0 are kept.
            self_loops: ``"drop"`` removes self-loops, ``"keep"`` keeps them, and ``"add"`` also adds one of weight 1 to
                every node without one.
            directed: ``False`` uses every pair in both directions. ``None`` does the same, but warns if the list looks
                directed, that is, if it contains some pairs in both directions and others in only one. ``True`` keeps
                edge directions.
            batch: The index of the graph that each node belongs to, (N,), ascending, as in PyG.
            normalization: The operator P, with the degrees D of A, or of :math:`(A + A^\top) / 2`:

                - ``"sym"``: :math:`D^{-1/2} A D^{-1/2}`.
                - ``"rw"``: :math:`D^{-1} A`, the random walk.
                - ``"laplacian"``: :math:`I - 2 L / \lambda_{\max}` with the Laplacian :math:`L = D - A`.
                - ``None``: :math:`A / \lambda_{\max}`.
            lambda_max: An upper bound on the absolute eigenvalues of L or A, so that those of P lie in [-1, 1]; by
                default a tight bound, computed by the Lanczos process. In a batch, one number for all graphs or one per
                graph.
            q: The phase of a directed edge in turns; 0 ignores directions, and 0.25 multiplies by the imaginary unit.

        Raises:
            ValueError: If a shape, node index or weight is invalid, if a pair has two different weights, or if an edge
                joins two graphs of the batch. Weights that agree up to float32 rounding (1e-6) count as equal; the
                first is used.
            TypeError: If the data type of an argument is wrong.

        >>> import polybasis as pb
        >>> pb.Graph.from_edge_index([[0, 1, 1], [1, 0, 2]], num_nodes=4, directed=False)
        Graph(num_nodes=4, num_edges=2)
        >>> pb.Graph.from_edge_index([[0, 2], [1, 3]], batch=[0, 0, 1, 1])
        Graph(num_nodes=4, num_edges=2, num_graphs=2)
        >>> pb.Graph.from_edge_index([[0, 0, 0], [1, 2, 3]], normalization="laplacian").lambda_max  # a star
        4.0
        >>> pb.Graph.from_edge_index([[0, 1], [1, 2]], directed=True).matrix().to_dense().imag
        tensor([[ 0.0000,  0.7071,  0.0000],
                [-0.7071,  0.0000,  0.7071],
                [ 0.0000, -0.7071,  0.0000]], dtype=torch.float64)
        """
        edges = conversions.edges_of_pairs(edge_index, num_nodes, edge_weight)
        ptr = None if batch is None else edge_checks.ptr_of_batch(batch)
        if ptr is not None and edges.num_nodes is None:
            edges = edges._replace(num_nodes=int(ptr[-1]))
        operator: OperatorArguments = {"normalization": normalization, "lambda_max": lambda_max, "q": q}
        return cls._from_edges(edges, self_loops, directed, ptr, **operator)

    @classmethod
    def from_adjacency(
        cls,
        adjacency: Any,
        self_loops: SelfLoops = "drop",
        *,
        directed: bool | None = None,
        **operator: Unpack[OperatorArguments],
    ) -> Graph:
        """Creates a graph from a sparse adjacency matrix of any package.

        Args:
            adjacency: A square matrix of edge weights: a torch tensor in COO, CSR or CSC layout, a ``SparseTensor`` of
                torch_sparse, a sparse SciPy matrix or array, or a PyG ``EdgeIndex``. The matrix need not be symmetric,
                but entries (i, j) and (j, i) that are both present must agree.
            self_loops: As for :meth:`from_edge_index`.
            directed: As for :meth:`from_edge_index`.
            operator: ``normalization``, ``lambda_max`` and ``q``, as for :meth:`from_edge_index`.

        Raises:
            ValueError: If the matrix is not square or has an invalid weight.
            TypeError: If ``adjacency`` has another format, such as a dense matrix.

        >>> import polybasis as pb, torch
        >>> pb.Graph.from_adjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to_sparse_csr())
        Graph(num_nodes=2, num_edges=1)
        """
        if isinstance(adjacency, Tensor) and adjacency.requires_grad:
            raise ValueError(
                "adjacency requires gradients, which do not flow through sparse matrices; pass edge_index and "
                "edge_weight"
            )
        return cls._from_edges(conversions.edges_of(adjacency), self_loops, directed, **operator)

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        self_loops: SelfLoops = "drop",
        *,
        directed: bool | None = None,
        **operator: Unpack[OperatorArguments],
    ) -> Graph:
        """Creates a graph from a sparse SciPy adjacency matrix.

        Args:
            adjacency: A square sparse matrix or array of edge weights; see :meth:`from_adjacency`.
            self_loops: As for :meth:`from_edge_index`.
            directed: As for :meth:`from_edge_index`.
            operator: ``normalization``, ``lambda_max`` and ``q``, as for :meth:`from_edge_index`.

        Raises:
            ValueError: If the matrix is not square or has an invalid weight.
            TypeError: If ``adjacency`` is not sparse.

        >>> import polybasis as pb, scipy.sparse as sp
        >>> pb.Graph.from_scipy(sp.csr_array([[0, 1, 0], [0, 0, 2], [0, 0, 0]]))
        Graph(num_nodes=3, num_edges=2)
        """
        if not sp.issparse(adjacency):
            raise TypeError(f"adjacency is a {type(adjacency).__name__}; expected a SciPy sparse matrix or array")
        return cls._from_edges(conversions.edges_of_scipy(adjacency), self_loops, directed, **operator)

    @classmethod
    def from_pyg(
        cls,
        data: Any,
        self_loops: SelfLoops = "drop",
        *,
        edge_weight: Tensor | ArrayLike | None = None,
        directed: bool | None = None,
        **operator: Unpack[OperatorArguments],
    ) -> Graph:
        """Creates a graph from a PyTorch Geometric ``Data`` object, or from a ``Batch`` of several graphs.

        Args:
            data: A ``torch_geometric.data.Data`` or ``Batch`` object with ``edge_index`` or ``adj_t``.
            self_loops: As for :meth:`from_edge_index`.
            directed: As for :meth:`from_edge_index`.
            operator: ``normalization``, ``lambda_max`` and ``q``, as for :meth:`from_edge_index`.
            edge_weight: The weights, (E,); by default ``data.edge_weight`` or, without it, 1. ``data.edge_attr`` is
                ignored, with a warning, unless you pass it here.

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
            if edge_weight is not None:
                raise ValueError("edge_weight was given with adj_t, which has its own weights; omit edge_weight")
            edges = conversions.edges_of(adj_t)
            edges = edges._replace(pairs=np.asarray(edges.pairs)[::-1])  # adj_t is the transpose
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
        return cls._from_edges(edges, self_loops, directed, ptr, **operator)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        weight: str | None = "weight",
        self_loops: SelfLoops = "drop",
        *,
        directed: bool | None = None,
        **operator: Unpack[OperatorArguments],
    ) -> Graph:
        """Creates a graph from a NetworkX graph; node i is the i-th of ``graph.nodes``.

        Args:
            graph: A NetworkX graph. Parallel edges must have equal weights. A directed graph that is not symmetric is
                made undirected, with a warning unless ``directed`` is False.
            weight: The edge attribute with the weights, 1 where it is missing; None for an unweighted graph.
            self_loops: As for :meth:`from_edge_index`.
            directed: As for :meth:`from_edge_index`.
            operator: ``normalization``, ``lambda_max`` and ``q``, as for :meth:`from_edge_index`.

        Raises:
            ValueError: If a weight is invalid, or a node pair has conflicting weights.
            TypeError: If ``graph`` is not a NetworkX graph.

        >>> import networkx as nx, polybasis as pb
        >>> pb.Graph.from_networkx(nx.path_graph(["a", "b", "c"]))
        Graph(num_nodes=3, num_edges=2)
        """
        return cls._from_edges(conversions.edges_of_networkx(graph, weight), self_loops, directed, **operator)

    @classmethod
    def from_igraph(
        cls,
        graph: Any,
        weight: str | None = "weight",
        self_loops: SelfLoops = "drop",
        *,
        directed: bool | None = None,
        **operator: Unpack[OperatorArguments],
    ) -> Graph:
        """Creates a graph from an igraph graph.

        Args:
            graph: An ``igraph.Graph``; parallel and directed edges are treated as in :meth:`from_networkx`.
            weight: The edge attribute with the weights, 1 where it is missing; None for an unweighted graph.
            self_loops: As for :meth:`from_edge_index`.
            directed: As for :meth:`from_edge_index`.
            operator: ``normalization``, ``lambda_max`` and ``q``, as for :meth:`from_edge_index`.

        Raises:
            ValueError: If a weight is invalid, or a node pair has conflicting weights.
            TypeError: If ``graph`` is not an igraph graph.
        """
        return cls._from_edges(conversions.edges_of_igraph(graph, weight), self_loops, directed, **operator)

    @classmethod
    def from_pygsp(
        cls,
        graph: Any,
        self_loops: SelfLoops = "drop",
        *,
        directed: bool | None = None,
        **operator: Unpack[OperatorArguments],
    ) -> Graph:
        """Creates a graph from the weight matrix ``graph.W`` of a PyGSP graph.

        Args:
            graph: A ``pygsp.graphs.Graph``.
            self_loops: As for :meth:`from_edge_index`.
            directed: As for :meth:`from_edge_index`.
            operator: ``normalization``, ``lambda_max`` and ``q``, as for :meth:`from_edge_index`.

        Raises:
            ValueError: If a weight is invalid, or a node pair has conflicting weights.
            TypeError: If ``graph`` has no sparse weight matrix.
        """
        return cls._from_edges(conversions.edges_of_pygsp(graph), self_loops, directed, **operator)

    @classmethod
    def _from_edges(
        cls,
        edges: EdgeList,
        self_loops: SelfLoops,
        directed: bool | None,
        ptr: Tensor | None = None,
        **operator: Unpack[OperatorArguments],
    ) -> Graph:
        """Checks and coalesces edges. Warnings point to the caller of the public constructor."""
        if self_loops not in get_args(SelfLoops):
            raise ValueError(f"self_loops is {self_loops!r}; expected one of {', '.join(get_args(SelfLoops))}")
        pairs = edge_checks.checked_pairs(edges.pairs)
        nodes = edge_checks.checked_num_nodes(pairs, edges.num_nodes)
        weight = None if edges.weight is None else edge_checks.checked_weight(edges.weight, pairs.shape[1])
        if ptr is not None:
            ptr = ptr.detach().cpu().long()
            edge_checks.check_ptr(ptr, nodes)
            edge_checks.check_within_graphs(pairs, ptr)
        if isinstance(edges.weight, Tensor) and edges.weight.requires_grad:
            return _differentiable(pairs, edges.weight, nodes, self_loops, directed, ptr, **operator)
        with ordinary_tensors():
            if directed:
                if edges.directed is False:  # an undirected graph may list every edge once
                    pairs = np.concatenate([pairs, pairs[::-1]], axis=1)
                    weight = None if weight is None else np.concatenate([weight, weight])
                return cls(*_directed(pairs, weight, nodes, self_loops, ptr), **operator)
            adjacency = symmetric_adjacency(pairs, weight, nodes, self_loops, _INT32_NONZEROS)
            between_nodes = len(adjacency.indices) - adjacency.num_edges  # the edges that are not self-loops
            one_way = adjacency.num_one_way
            evidently = edges.directed or 0 < one_way < between_nodes
            if directed is None and edges.directed is not False and evidently and one_way:
                warnings.warn(
                    f"{one_way} of {between_nodes} node pairs are listed in one direction only; all are used in both "
                    "directions. Pass directed=False to Graph.from_edge_index to silence this warning, or "
                    "directed=True to keep edge directions",
                    stacklevel=3,
                )
            return cls(adjacency, ptr, **operator)

    # ---- operations ------------------------------------------------------------------------------------------------

    def values(self, dtype: torch.dtype = torch.float64) -> Tensor:
        r"""Returns the nonzeros of :math:`P` in the order of ``indices``.

        Raises:
            ValueError: If :math:`P` has another pattern: in directed graphs, and with ``normalization="laplacian"``.
        """
        if self._form is None:
            return self._normalized_values(dtype)
        if self.directed or self.normalization == "laplacian":
            raise ValueError("P has nonzeros that A does not have; use matrix() instead of values()")
        return self.matrix(dtype).values()

    def _normalized_values(self, dtype: torch.dtype = torch.float64) -> Tensor:
        scale = torch.from_numpy(self._inv_sqrt_degree)
        column = scale[self.indices.long()]
        row = scale.repeat_interleave(torch.diff(self.indptr.long()))
        if self.weight is None:
            return (column * row).to(dtype)
        # The weight is multiplied second, because the product of both scales can overflow. Starting with the larger
        # scale makes P exactly symmetric.
        return (torch.maximum(column, row) * (self.weight / self._unit) * torch.minimum(column, row)).to(dtype)

    def matrix(self, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
        r"""Returns :math:`P` as a torch sparse CSR tensor, N rows, which is complex for a directed graph.

        Args:
            dtype: The data type of the values, or of their real and imaginary parts.
            device: The device of the tensor.
        """
        if self._form is None:
            return self.propagation(dtype, torch.device(device)).to_sparse()
        form = self._create_matrix(torch.float64, torch.device("cpu"))
        csr = sp.csr_array((form.values.numpy(), form.indices.numpy(), form.indptr.numpy()), (form.rows, form.rows))
        csr = complex_matrix(csr) if self.directed else csr
        if self._form.scale is not None:
            scale = self._form.scale.numpy().ravel()
            csr.data *= scale[csr.indices] / scale.repeat(np.diff(csr.indptr))
        values = torch.from_numpy(csr.data).to(dtype.to_complex() if self.directed else dtype)
        return torch.sparse_csr_tensor(
            torch.from_numpy(csr.indptr), torch.from_numpy(csr.indices), values, csr.shape, check_invariants=False
        ).to(device)

    def propagation(self, dtype: torch.dtype, device: torch.device) -> Matrix:
        r"""Returns the symmetric form of :math:`P` for the operators, created once per data type and device.

        It is :math:`P` itself unless :meth:`to_symmetric` changes signals; see :mod:`polybasis.propagation`.

        Args:
            dtype: The data type of the signals, float32 or float64.
            device: The device of the signals.
        """
        if not torch.compiler.is_compiling():
            return self.operator(dtype, device).matrix
        self._prepare("operator", dtype, device)
        return self._matrices[dtype, device]

    def _prepare(self, method: str, *arguments: Any) -> bool:
        """Fills the cache of a method before a compiler traces the code that reads it.

        The compiler runs this method instead of tracing it. What the traced code reads from the cache is guarded as
        usual, so that a compiled function called with another graph is compiled again.
        """
        with ordinary_tensors():
            getattr(self, method)(*arguments)
        return True

    # What torch.compiler.assume_constant_result sets; that decorator imports the compiler and doubles the import time.
    _prepare._dynamo_marked_constant = True  # type: ignore[attr-defined]

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
        ptr = None if self.ptr is None else (2 * self.ptr if self.directed else self.ptr).to(device)
        if self._form is not None and self._form.matrix is not None:
            indptr, indices, values, _ = self._form.matrix
            return Matrix(indptr.to(device), indices.to(device), values.to(device, dtype), ptr)
        return Matrix(self.indptr.to(device), self.indices.to(device), self._normalized_values(dtype).to(device), ptr)

    def to_symmetric(self, x: Tensor) -> Tensor:
        """Converts a signal to that of the symmetric form; the identity unless ``"rw"`` or directed.

        Args:
            x: The signal, (..., N, d), in float32 or float64, or complex on a directed graph.

        Returns:
            (..., N, d), multiplied by the square roots of the degrees for ``"rw"``; (..., 2N, d) on a directed graph:
            the real part of each node and below it the imaginary part.
        """
        return x if self._form is None else self._form.apply(x)

    def from_symmetric(self, y: Tensor) -> Tensor:
        """Undoes :meth:`to_symmetric`; signals on a directed graph are complex."""
        return y if self._form is None else self._form.invert(y)

    def __matmul__(self, x: AnySignal) -> AnySignal:
        """Returns :meth:`propagate`."""
        return self.propagate(x)

    def propagate(self, x: AnySignal) -> AnySignal:
        r"""Returns :math:`P x`; unlike ``graph @ x``, this method works under ``torch.compile``.

        Gradients flow to ``x`` and to edge weights that require them.

        Args:
            x: The signal, (N,), (N, d) or (B, N, d): a torch tensor or a NumPy array. Types narrower than float32 are
                computed in float32, integers in float64. Signals on a directed graph may be complex.

        Returns:
            A tensor or array with the shape and floating-point type of ``x``; complex on a directed graph.

        Raises:
            ValueError: If ``x`` does not have N rows.
            TypeError: If ``x`` is neither a tensor nor an array of numbers.

        >>> import numpy as np, polybasis as pb
        >>> pb.Graph.from_edge_index([[0], [1]]) @ np.array([3.0, 5.0])
        array([5., 3.])
        """
        signal, restore = as_channels(x, self.num_nodes, allow_complex=self.directed)
        form = self.to_symmetric(self.in_working_precision(signal))
        y = self.from_symmetric(product(*self.propagation(form.dtype, form.device), form))
        return restore(y if self.directed else y.to(signal.dtype))

    def in_working_precision(self, x: Tensor) -> Tensor:
        """Returns a signal in the data type in which it is computed: narrower types become float32.

        Raises:
            TypeError: If ``x`` is not a floating-point tensor, nor a complex one on a directed graph.
        """
        if x.is_complex() and self.directed:
            return x if x.dtype in (torch.complex64, torch.complex128) else x.to(torch.complex64)
        if x.is_complex():
            raise TypeError(f"x has dtype {x.dtype}, but the graph is undirected; pass the real and imaginary parts")
        if not x.is_floating_point():
            raise TypeError(f"x has dtype {x.dtype}; expected a floating-point type such as float32")
        return x if x.dtype in (torch.float32, torch.float64) else x.float()

    def eigenvalue(self, mu: Any) -> Any:
        r"""Converts eigenvalues :math:`\mu \in [-1, 1]` of P to those of the matrix that the normalisation scales.

        ================== ============================================= ====================================
        normalization      eigenvalue                                    of
        ================== ============================================= ====================================
        ``"sym", "rw"``    :math:`1 - \mu`                               the normalised Laplacian
        ``"laplacian"``    :math:`(1 - \mu)\, \lambda_{\max} / 2`        the Laplacian :math:`D - A`
        ``None``           :math:`\mu\, \lambda_{\max}`                  the adjacency matrix
        ================== ============================================= ====================================

        Args:
            mu: A number, array or tensor of any shape.

        Returns:
            The same kind and shape; (..., G) for a batch with one ``lambda_max`` per graph.

        >>> import polybasis as pb
        >>> pb.Graph.from_edge_index([[0, 0, 0], [1, 2, 3]], normalization="laplacian").eigenvalue(-1)
        4.0
        """
        if self.lambda_max is None:
            return 1 - mu
        scale: Any = self.lambda_max
        if isinstance(scale, np.ndarray):
            scale = torch.from_numpy(scale).to(mu) if isinstance(mu, Tensor) else scale
            mu = mu[..., None] if isinstance(mu, Tensor) else np.asarray(mu)[..., None]
        return mu * scale if self.normalization is None else (1 - mu) * (scale / 2)

    @property
    def num_graphs(self) -> int:
        """The number of graphs in the batch; 1 for a single graph."""
        return 1 if self.ptr is None else len(self.ptr) - 1

    def degree(self) -> FloatArray:
        r"""Returns the weighted degree of each node, (N,); that of :math:`(A + A^\top) / 2` for a directed graph."""
        return self._degree * self._unit

    def stationary(self, x: Tensor) -> Tensor:
        r"""Returns the limit of :math:`P^k x` for :math:`k \to \infty` if -1 is not an eigenvalue of P.

        In every connected component the limit is the projection of ``x`` onto the eigenvector of eigenvalue 1:
        :math:`\sqrt{\mathrm{degree}}` for ``"sym"``, and constant for ``"rw"``, where the projection is orthogonal in
        the inner product weighted by degrees, and ``"laplacian"``. For ``"sym"`` and ``"rw"``, -1 is an eigenvalue if
        a component is bipartite.

        Args:
            x: The signal, (N, d).

        Returns:
            (N, d).

        Raises:
            ValueError: If the graph is directed or has ``normalization=None``; the limit is then not known in advance.
        """
        if self.directed or self.normalization is None:
            kind = "directed graphs" if self.directed else "graphs with normalization=None"
            raise ValueError(f"stationary() is not available for {kind}; apply P repeatedly instead")
        count, component, eigenvector = self.derived(_components)
        top = eigenvector.to(x).unsqueeze(1)
        x = self.to_symmetric(x)
        mass = x.new_zeros(count, 1).index_add_(0, component, top * top)
        inner = x.new_zeros(count, x.shape[1]).index_add_(0, component, top * x)
        return self.from_symmetric(top * (inner / mass.clamp(min=torch.finfo(x.dtype).tiny))[component])

    def adjacency(self) -> sp.csr_array:
        """Returns the weighted adjacency matrix A, before normalisation: entry (i, j) is the weight from i to j."""
        if self._flow is None:
            return self._on_pattern(None)
        adjacency = self._on_pattern(None).copy()  # with a pattern of its own
        adjacency.data *= 1 + self._flow
        adjacency.eliminate_zeros()
        return adjacency

    def _on_pattern(self, values: FloatArray | None) -> sp.csr_array:
        """Returns a matrix with the given nonzeros, by default the weights."""
        if values is None:
            values = np.ones(len(self.indices)) if self.weight is None else self.weight.numpy().copy()
        return sp.csr_array((values, self.indices.numpy(), self.indptr.numpy()), shape=(self.num_nodes, self.num_nodes))

    def edge_index(self) -> Tensor:
        """Returns both directions of every edge, (2, nonzeros), in the format of PyTorch Geometric.

        For a directed graph, these are its directed edges, (2, num_edges), in the order of the nonzeros of
        :meth:`adjacency`.
        """
        if self.directed:
            entries = self.adjacency().tocoo()
            return torch.from_numpy(np.stack(entries.coords).astype(np.int64))
        rows = torch.arange(self.num_nodes).repeat_interleave(torch.diff(self.indptr.long()))
        return torch.stack([self.indices.long(), rows])

    def with_self_loops(self) -> Graph:
        """Returns the graph with a self-loop of weight 1 added to every node without one; created once.

        The operator is of the same kind. Loops cancel in the Laplacian, and raise the eigenvalues of the adjacency
        matrix by at most 1: with ``normalization=None``, a given ``lambda_max`` is therefore increased by 1.
        """
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
            lambda_max = self._given_lambda_max
            if lambda_max is not None and self.normalization is None:
                lambda_max = np.asarray(lambda_max) + 1.0
            operator: OperatorArguments = {"normalization": self.normalization, "lambda_max": lambda_max, "q": self.q}
            if self.directed:
                parts = _directed(pairs, self.adjacency().data, self.num_nodes, "add", self.ptr)
                self._with_loops = Graph(*parts, **operator)
            else:
                adjacency = symmetric_adjacency(pairs, weight, self.num_nodes, "add", _INT32_NONZEROS)
                self._with_loops = Graph(adjacency, self.ptr, **operator)

    def derived(self, create: Callable[..., T], *arguments: Any) -> T:
        """Returns a cached object that depends only on the graph; callers must not modify it.

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
        parts = [f"num_nodes={self.num_nodes}", f"num_edges={self.num_edges}"]
        parts += [] if self.ptr is None else [f"num_graphs={self.num_graphs}"]
        parts += [] if self.normalization == "sym" else [f"normalization={self.normalization!r}"]
        parts += [f"directed=True, q={self.q:g}"] if self.directed else []
        return f"{type(self).__name__}({', '.join(parts)})"


def _directed(
    pairs: IntArray, weight: FloatArray | None, nodes: int, self_loops: SelfLoops, ptr: Tensor | None
) -> tuple[Adjacency, Tensor | None, FloatArray]:
    """Returns the first arguments of a directed graph."""
    adjacency, flow = directed_adjacency(pairs, weight, nodes, self_loops, _INT32_NONZEROS)
    return adjacency, ptr, flow


def _power_of_four(number: float) -> float:
    """Returns a power of four near a positive number, whose square root is exact as well; 1 for 0."""
    return math.ldexp(1.0, (math.frexp(number)[1] - 1) // 2 * 2) if number > 0 else 1.0


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
    """Returns the number of connected components, that of each node, and the top eigenvector of all."""
    from scipy.sparse.csgraph import connected_components

    eigenvector = np.ones(graph.num_nodes) if graph.normalization == "laplacian" else np.sqrt(graph._degree)
    count, label = connected_components(graph.adjacency(), directed=False)
    return int(count), torch.from_numpy(label).long(), torch.from_numpy(eigenvector)


def _differentiable(
    pairs: IntArray,
    weight: Tensor,
    nodes: int,
    self_loops: SelfLoops,
    directed: bool | None,
    ptr: Tensor | None,
    **operator: Unpack[OperatorArguments],
) -> Graph:
    """Returns the graph of weights that require gradients."""
    from polybasis.tensor_graph import TensorGraph

    if self_loops != "drop" or directed or operator.get("normalization", "sym") != "sym":
        raise ValueError(
            "edge_weight requires gradients, which are only supported for undirected graphs without self-loops and "
            'with normalization="sym"; pass edge_weight.detach() to train without gradients of the weights'
        )
    return TensorGraph(torch.from_numpy(pairs).to(weight.device), nodes, weight, ptr)


def check_graph(value: Any) -> None:
    """Raises TypeError unless a value is a :class:`Graph`."""
    if not isinstance(value, Graph):
        use = "from_adjacency(adjacency)" if conversions.is_matrix(value) else "from_edge_index(edge_index)"
        raise TypeError(f"graph is a {type(value).__name__}; expected a Graph; use pb.Graph.{use}")


def as_graph(value: Any, num_nodes: int | None = None, edge_weight: Tensor | ArrayLike | None = None) -> Graph:
    """Converts any adjacency that layers accept to a graph.

    Args:
        value: A :class:`Graph`, node pairs of shape (2, E), a PyG ``EdgeIndex``, or a sparse matrix in a format of
            :meth:`Graph.from_adjacency`.
        num_nodes: The number of nodes, which a Graph or matrix must have.
        edge_weight: The weights of node pairs, (E,); must be omitted with a Graph or a matrix.

    Raises:
        ValueError: If ``edge_weight`` is given with a Graph or matrix, or if the number of nodes does not match.

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
