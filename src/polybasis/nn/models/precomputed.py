r"""Models on a precomputed basis: a filter in the optimal basis of the features, followed by an MLP.

The basis V of the features is fixed, so a filter is :math:`p(P) x = \|x\| V p(T) e_0`. A batch of nodes needs only its
rows of V, and no parameter depends on the size of the graph. The paper scales up OptBasisGNN this way. Every other
polynomial filter, including those of FavardGNN and BernNet, can be computed on the same basis.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from polybasis import native
from polybasis.bases import Jacobi, Monomial, named_basis
from polybasis.features import as_dense
from polybasis.graph import Graph
from polybasis.krylov import optimal_basis
from polybasis.krylov.filters import checked_degree
from polybasis.krylov.streamed import CHANNELS, plain_basis
from polybasis.nn.favard_conv import FavardConv, RecurrenceKind
from polybasis.nn.filter_layer import FilterLayer
from polybasis.nn.linear import dropout
from polybasis.nn.models.decoupled import SharedFilter, pagerank
from polybasis.nn.models.jacobiconv import first_factor
from polybasis.nn.models.model import Inputs, Model, Precomputed
from polybasis.nn.optbasis_conv import OptBasisConv

Start = Literal["optimal", "chebyshev"]  # the initial recurrence of FavardGNN; see PrecomputedGNN.start_at


def _optbasis(channels: int, K: int) -> FilterLayer:
    return OptBasisConv(channels, K, scale="signal")


def _favard(channels: int, K: int, recurrence: RecurrenceKind = "free", start: Start = "optimal") -> FilterLayer:
    if start not in get_args(Start):
        raise ValueError(f"start is {start!r}; expected {' or '.join(get_args(Start))}")
    return FavardConv(channels, K, recurrence=recurrence)


def _gpr(channels: int, K: int, alpha: float = 0.1) -> FilterLayer:
    return SharedFilter(channels, K, named_basis("monomial", K), pagerank(K, alpha))


def _bern(channels: int, K: int) -> FilterLayer:
    return SharedFilter(channels, K, named_basis("bernstein", K), torch.ones(K + 1), nonnegative=True)


def _chebii(channels: int, K: int) -> FilterLayer:
    return SharedFilter(channels, K, named_basis("chebyshev-interpolation", K), torch.ones(K + 1), nonnegative=True)


def _jacobi(channels: int, K: int, a: float = 1.0, b: float = 1.0, scale: float = 1.0) -> FilterLayer:
    # On a graph, JacobiConv has one filter for each class. Here it has a single filter: one for each of thousands of
    # features would train badly, because their vectors in a fixed basis are far from orthogonal. Its coefficient
    # decomposition is omitted, because it makes the coefficients of high degrees, and their updates, small.
    return SharedFilter(channels, K, Jacobi(a, b), first_factor(scale) ** torch.arange(K + 1))


def _hops(channels: int, K: int) -> None:
    """SIGN does not learn a filter: its first layer takes all hops as input."""


FILTERS: dict[str, Callable[..., FilterLayer | None]] = {
    "optbasisgnn": _optbasis,
    "favardgnn": _favard,
    "gpr-gnn": _gpr,
    "bernnet": _bern,
    "chebnetii": _chebii,
    "jacobiconv": _jacobi,
    "sign": _hops,
}


def precomputed_hyperparameters(model: str) -> dict[str, Any]:
    """The arguments of a model on a precomputed basis with their defaults.

    Raises:
        ValueError: if the model has no precomputed version.
    """
    if model not in FILTERS:
        raise ValueError(f"{model} has no precomputed version; expected one of {', '.join(FILTERS)}")
    own = inspect.signature(FILTERS[model]).parameters
    common = inspect.signature(PrecomputedGNN.__init__).parameters
    names = {name: common[name].default for name in ("K", "layers", "dropout")}
    return names | {name: own[name].default for name in own if name not in ("channels", "K")}


class PrecomputedGNN(Model):
    """A filter on a precomputed basis, followed by an MLP.

    The output of every filter scales with the signal; OptBasisGNN uses ``scale="signal"``. All filters except those of
    SIGN and JacobiConv are initialised close to the identity.

    Args:
        model: the model whose filter is used: ``optbasisgnn``, ``favardgnn``, ``gpr-gnn``, ``bernnet``, ``chebnetii``,
            ``jacobiconv``, or ``sign``, whose first layer takes X, PX, ..., P^K X instead of the output of a filter.
        in_channels: channels of the basis.
        hidden_channels: hidden width.
        out_channels: number of classes.
        K: degree of the filter; at most the degree of the basis.
        layers: number of linear layers; three in the paper.
        dropout: dropout rate before each linear layer.
        num_nodes: unused.
        arguments: additional arguments of the filter.

    >>> import polybasis as pb
    >>> data = pb.data.csbm(nodes=200, features=8)
    >>> model = pb.nn.PrecomputedGNN("favardgnn", 8, 16, 2, K=4)
    >>> basis = model.precompute(data.x, data.graph)  # once
    >>> model(basis).shape  # in every step, without the graph
    torch.Size([200, 2])
    """

    def __init__(
        self,
        model: str,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 10,
        layers: int = 3,
        dropout: float = 0.5,
        num_nodes: int | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.model, self.K, self.dropout = model, checked_degree(K), dropout
        self.conv = FILTERS[model](in_channels, K, **arguments)
        self.start: Start = arguments.get("start", "optimal")
        first = in_channels * (K + 1 if self.conv is None else 1)
        widths = [first] + [hidden_channels] * (layers - 1) + [out_channels]
        self.lins = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in pairwise(widths))

    def start_at(self, gamma: Tensor, sqrt_beta: Tensor) -> None:
        """Initialises the free recurrence of FavardGNN with that of a basis if ``start`` is ``optimal``.

        Args:
            gamma: diagonal of the tridiagonal matrix of the basis, (K+1 or more, in_channels).
            sqrt_beta: norms of the signals, followed by the off-diagonal, (K+1 or more, in_channels).
        """
        if isinstance(self.conv, FavardConv) and self.conv.recurrence == "free" and self.start == "optimal":
            self.conv.start_at(gamma[: self.K + 1], sqrt_beta[: self.K + 1])

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        """Returns the filter as coordinates on a basis, (K+1, outputs, in_channels); one output, or K+1 for SIGN.

        Args:
            gamma: diagonal of the tridiagonal matrix of the basis, (K+1 or more, in_channels).
            sqrt_beta: norms of the signals, followed by the off-diagonal, (K+1 or more, in_channels).
        """
        gamma, sqrt_beta = gamma[: self.K + 1], sqrt_beta[: self.K + 1]
        if self.conv is None:
            return Monomial().coordinates(gamma, sqrt_beta).to(self._dtype)
        return self.conv.coordinates(gamma, sqrt_beta).to(self._dtype).unsqueeze(1)

    @property
    def output_bias(self) -> Tensor:
        bias: Tensor = self.lins[-1].bias  # type: ignore[assignment]
        return bias

    @property
    def _dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.lins[0].weight.dtype  # type: ignore[assignment]
        return dtype

    def forward(self, x: Inputs, graph: Graph | None = None) -> Tensor:
        """Computes the class scores.

        Args:
            x: features, (N, in_channels), whose basis is computed block by block; or rows of a basis, see
                :meth:`on_basis`.
            graph: the graph, N nodes; not needed for rows of a basis.

        Returns:
            (N, out_channels).
        """
        if isinstance(x, Precomputed):
            vectors, gamma, sqrt_beta, offset, scale = x.values
            return self._mlp(filtered(vectors, scale * self.coordinates(gamma, sqrt_beta)), offset)
        assert graph is not None
        signal = as_dense(x)
        parts = []
        for first in range(0, signal.shape[1], CHANNELS):
            vectors, gamma, sqrt_beta = basis_of(graph, signal[:, first : first + CHANNELS], self.K)
            channels = slice(first, first + gamma.shape[1])
            ones = torch.ones(self.K + 1, self.in_channels, dtype=torch.float64)
            padded = [ones.clone(), ones.clone()]
            padded[0][:, channels], padded[1][:, channels] = gamma, sqrt_beta
            coordinates = self.coordinates(*padded)[:, :, channels]
            parts.append(filtered(vectors, coordinates).view(len(signal), coordinates.shape[1], -1))
        return self._mlp(torch.cat(parts, dim=2).flatten(1))

    def precompute(self, x: Inputs, graph: Graph) -> Precomputed:
        """Computes the basis of the features."""
        return x if isinstance(x, Precomputed) else self.on_basis(*basis_of(graph, as_dense(x), self.K))

    @staticmethod
    def on_basis(vectors: Tensor, gamma: Tensor, sqrt_beta: Tensor, offset: int = 0, scale: float = 1.0) -> Precomputed:
        """Packs rows of a basis as input for the model.

        Args:
            vectors: (batch, K+1 or more, in_channels).
            gamma: diagonal of the tridiagonal matrix of the basis, (K+1 or more, in_channels).
            sqrt_beta: norms of the signals, followed by the off-diagonal, (K+1 or more, in_channels).
            offset: index of the first row in a larger batch that is divided among processes; a multiple of 256.
            scale: power of two to multiply the vectors by.
        """
        return Precomputed((vectors, gamma, sqrt_beta, offset, scale))

    def _mlp(self, hidden: Tensor, offset: int = 0) -> Tensor:
        for number, lin in enumerate(self.lins):
            hidden = hidden.relu() if number else hidden
            hidden = lin(dropout(hidden, self.dropout, self.training, offset * hidden.shape[1]))
        return hidden

    def __repr__(self) -> str:
        widths = ", ".join(str(lin.in_features) for lin in self.lins)
        return f"PrecomputedGNN({self.model!r}, {widths}, {self.out_channels}, K={self.K})"


def basis_of(graph: Graph, x: Tensor, K: int) -> tuple[Tensor, Tensor, Tensor]:
    """The basis that a store would contain; that of :func:`polybasis.optimal_basis` for weights or other operators.

    Args:
        graph: the graph, N nodes.
        x: signals, (N, d).
        K: the degree.

    Returns:
        Vectors, (N, K+1, d); gamma and sqrt_beta, (K+1, d).
    """
    normalized = graph.normalization == "sym" and not graph.directed
    if normalized and graph.weight is None and native.kernels() is not None:
        return plain_basis(graph, x, K)
    basis = optimal_basis(graph, x, K)
    return basis.vectors.movedim(0, 1), basis.gamma, basis.sqrt_beta


def filtered(vectors: Tensor, coordinates: Tensor) -> Tensor:
    """Sums vectors times coordinates over the degrees.

    Args:
        vectors: (batch, K+1 or more, channels), float32 or float16.
        coordinates: (K+1, outputs, channels).

    Returns:
        (batch, outputs * channels).
    """
    return cast(Tensor, _Filtered.apply(vectors, coordinates))  # type: ignore[no-untyped-call]


CHUNK_NUMBERS = 1 << 17  # numbers of one degree in a chunk, so that partial sums stay in the cache


class _Filtered(torch.autograd.Function):
    """Reads the vectors once in the forward and once in the backward pass; einsum would copy them."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, coordinates: Tensor) -> Tensor:
        degrees, outputs, channels = coordinates.shape
        ctx.save_for_backward(vectors, coordinates)
        z = coordinates.new_empty(len(vectors), outputs, channels)
        for rows in _chunks(vectors):
            v = vectors[rows].to(z.dtype)
            for j in range(outputs):
                torch.mul(v[:, 0], coordinates[0, j], out=z[rows, j])
                for k in range(1, degrees):
                    z[rows, j].addcmul_(v[:, k], coordinates[k, j])
        return z.reshape(len(vectors), outputs * channels)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, z_bar: Tensor) -> tuple[None, Tensor | None]:
        vectors, coordinates = ctx.saved_tensors
        if not ctx.needs_input_grad[1]:
            return None, None
        degrees, outputs, channels = coordinates.shape
        z_bar = z_bar.reshape(len(z_bar), outputs, channels)
        bar = torch.zeros_like(coordinates)
        for rows in _chunks(vectors):
            v, here = vectors[rows].to(bar.dtype), z_bar[rows]
            for j in range(outputs):
                for k in range(degrees):
                    bar[k, j] += (v[:, k] * here[:, j]).sum(0)
        return None, bar


def _chunks(vectors: Tensor) -> list[slice]:
    step = max(1, CHUNK_NUMBERS // max(1, vectors.shape[2]))
    return [slice(first, first + step) for first in range(0, len(vectors), step)]
