r"""The scaled-up models: a filter on basis vectors that were computed once, then an MLP.

The basis V of the features is fixed, so a filter is :math:`p(P) x = \|x\| V p(T) e_0`: a batch of nodes needs its rows
of V, and what is learned (coefficients, recurrences, linear layers) does not know how large the graph is. The paper
scales OptBasisGNN up this way; on the same basis every polynomial filter can be, FavardGNN and BernNet too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from polybasis.bases import Jacobi, Monomial, named_basis
from polybasis.nn.favard_conv import FavardConv, RecurrenceKind
from polybasis.nn.filter_layer import FilterLayer
from polybasis.nn.linear import dropout
from polybasis.nn.models.decoupled import SharedFilter, pagerank
from polybasis.nn.models.jacobiconv import first_factor
from polybasis.nn.models.model import RoledModule
from polybasis.nn.optbasis_conv import OptBasisConv
from polybasis.recurrence import checked_degree

Start = Literal["optimal", "chebyshev"]  # where a learned recurrence starts: see PrecomputedGNN.start_at_basis


def _optbasis(channels: int, K: int) -> FilterLayer:
    return OptBasisConv(channels, K)


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
    # On the graph JacobiConv has a filter for each class. One for each of thousands of features would hardly be
    # learned: their vectors in a fixed basis are far from orthogonal. Its decomposition of the coefficients
    # is left out: in it high degrees start small and take steps that are as small.
    return SharedFilter(channels, K, Jacobi(a, b), first_factor(scale) ** torch.arange(K + 1))


def _hops(channels: int, K: int) -> None:
    """SIGN learns no filter: its layers see all hops beside one another."""


FILTERS: dict[str, Callable[..., FilterLayer | None]] = {
    "optbasisgnn": _optbasis,
    "favardgnn": _favard,
    "gpr-gnn": _gpr,
    "bernnet": _bern,
    "chebnetii": _chebii,
    "jacobiconv": _jacobi,
    "sign": _hops,
}


def scaled_hyperparameters(model: str) -> dict[str, Any]:
    """The arguments of a scaled-up model with their defaults, or an error that lists the models."""
    if model not in FILTERS:
        raise ValueError(f"there is no scaled-up model {model!r}; expected one of {', '.join(FILTERS)}")
    own = inspect.signature(FILTERS[model]).parameters
    common = inspect.signature(PrecomputedGNN.__init__).parameters
    names = {name: common[name].default for name in ("K", "layers", "dropout")}
    return names | {name: own[name].default for name in own if name not in ("channels", "K")}


class PrecomputedGNN(RoledModule):
    """A filter on a stored basis, then an MLP.

    Args:
        model: whose filter: ``optbasisgnn``, ``favardgnn``, ``gpr-gnn``, ``bernnet``, ``chebnetii``, ``jacobiconv``, or
            ``sign``, which has all of X, PX, .., P^K X beside one another in place of a filter.
        in_channels, hidden_channels, out_channels: channels of the basis, hidden width, classes.
        K: degree of the filter; not above that of the basis.
        layers: linear layers; three in the paper.
        dropout: rate before each of them.
        own: arguments of the filter.

    All filters have the signals' own scale: in the optimal basis too, where the coefficients are multiplied by the
    signals' lengths, so that every filter but SIGN's and JacobiConv's starts near the identity.
    """

    gamma: Tensor
    sqrt_beta: Tensor

    def __init__(
        self,
        model: str,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 10,
        layers: int = 3,
        dropout: float = 0.5,
        **own: Any,
    ) -> None:
        super().__init__()
        self.model, self.K, self.dropout = model, checked_degree(K), dropout
        self.conv = FILTERS[model](in_channels, K, **own)
        self.start: Start = own.get("start", "optimal")
        first = in_channels * (K + 1 if self.conv is None else 1)
        widths = [first] + [hidden_channels] * (layers - 1) + [out_channels]
        self.lins = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in pairwise(widths))
        for name in ("gamma", "sqrt_beta"):
            self.register_buffer(name, torch.zeros(K + 1, in_channels, dtype=torch.float64))

    def set_basis(self, gamma: Tensor, sqrt_beta: Tensor) -> None:
        """Sets the numbers of the basis, (K+1, channels) or more, of which a lower degree needs the first."""
        if len(gamma) <= self.K:
            raise ValueError(f"the basis has degree {len(gamma) - 1}; {self.model} with K = {self.K} needs more")
        self.gamma.copy_(gamma[: self.K + 1])
        self.sqrt_beta.copy_(sqrt_beta[: self.K + 1])

    def start_at_basis(self) -> None:
        """Sets a free recurrence of FavardGNN to that of the basis, unless it is to start as it does on graphs."""
        if isinstance(self.conv, FavardConv) and self.conv.recurrence == "free" and self.start == "optimal":
            self.conv.start_at(self.gamma, self.sqrt_beta)

    def coordinates(self) -> Tensor:
        """The filter on the stored basis, (K+1, outputs, channels); one output but for SIGN, which has one a hop."""
        if self.conv is None:
            return Monomial().coordinates(self.gamma, self.sqrt_beta).float()
        own = self.conv.coordinates(self.gamma, self.sqrt_beta)
        if isinstance(self.conv, OptBasisConv):
            own = own * self.sqrt_beta[0]
        return own.float().unsqueeze(1)

    def forward(self, vectors: Tensor, offset: int = 0) -> Tensor:
        """Scores of a batch.

        Args:
            vectors: rows of the basis, (batch, K+1 or more, channels).
            offset: where the rows stand in a larger batch that several processes share; a multiple of 256.
        """
        hidden = filtered(vectors, self.coordinates())
        for number, lin in enumerate(self.lins):
            hidden = hidden.relu() if number else hidden
            hidden = lin(dropout(hidden, self.dropout, self.training, offset * hidden.shape[1]))
        return hidden

    def __repr__(self) -> str:
        widths = ", ".join(str(lin.in_features) for lin in self.lins)
        return f"PrecomputedGNN({self.model!r}, {widths}, {self.lins[-1].out_features}, K={self.K})"


def filtered(vectors: Tensor, coordinates: Tensor) -> Tensor:
    """Sums over degrees of vectors times coordinates, outputs beside one another.

    Args:
        vectors: (batch, K+1 or more, channels), float32 or float16.
        coordinates: (K+1, outputs, channels).

    Returns:
        (batch, outputs * channels).
    """
    return cast(Tensor, _Filtered.apply(vectors, coordinates))  # type: ignore[no-untyped-call]


NUMBERS_AT_A_TIME = 1 << 17  # of one degree: what is added up stays in the cache


class _Filtered(torch.autograd.Function):
    """Reads the vectors once in each direction; torch's own product of this shape would copy them."""

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
    step = max(1, NUMBERS_AT_A_TIME // max(1, vectors.shape[2]))
    return [slice(first, first + step) for first in range(0, len(vectors), step)]
