"""The filter layer for any fixed basis."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases import Chebyshev, PolynomialBasis, Recurrence, ThreeTermBasis, named_basis
from polybasis.graph import Graph
from polybasis.krylov import recurrence_filter
from polybasis.nn.filter_layer import FilterLayer


class PolyConv(FilterLayer):
    r"""A polynomial filter in a fixed basis, with coefficients of its own for each channel:

    .. math:: Z_{:l} = \sum_{k=0}^{K} \alpha_{kl}\, g_k(P)\, X_{:l}.

    Bases without a three-term recurrence (Bernstein, interpolation) run in Chebyshev polynomials, which is exact:
    every filter costs K products with the graph. At the start every filter is the identity.

    Args:
        channels: number of channels.
        K: the degree; there are K+1 coefficients a channel.
        basis: a :class:`polybasis.bases.PolynomialBasis` or its name: ``monomial``, ``chebyshev``,
            ``chebyshev-interpolation``, ``bernstein``, ``jacobi``, ``legendre``.
        cached: keep the graph of the first call.

    Shapes:
        x (N, channels), edge_index (2, E) or a Graph -> (N, channels)

    >>> import torch, polybasis as pb
    >>> conv = pb.nn.PolyConv(4, K=3, basis="bernstein")
    >>> conv
    PolyConv(4, K=3, basis=Bernstein(3))
    >>> x, edges = torch.rand(5, 4), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> torch.allclose(conv(x, edges), x)
    True
    """

    def __init__(self, channels: int, K: int, basis: str | PolynomialBasis = "chebyshev", cached: bool = False) -> None:
        super().__init__(channels, K, cached)
        self.basis = named_basis(basis, K) if isinstance(basis, str) else basis
        self.alpha = torch.nn.Parameter(torch.empty(K + 1, channels))
        runs_in = self.basis if isinstance(self.basis, ThreeTermBasis) else Chebyshev()
        recurrence = runs_in.recurrence(K).per_channel(channels)
        self._recurrence = Recurrence(*(numbers.detach() for numbers in recurrence))  # fixed: FavardConv learns one
        self._change = None if runs_in is self.basis else self.basis.to_chebyshev(K)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            constant = self.basis.constant(self.K)
            self.alpha.copy_(constant if constant.dim() == 2 else constant.unsqueeze(-1))

    def coefficients(self) -> Tensor:
        """The coefficients in the layer's basis, (K+1, channels)."""
        return self.alpha

    def polynomials(self, x: Tensor, graph: Graph) -> tuple[PolynomialBasis, Tensor]:
        return self.basis, self.coefficients()

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        return (self.basis.coordinates(gamma, sqrt_beta) * self.coefficients().double()).sum(1)

    def filter(self, x: Tensor, graph: Graph) -> Tensor:
        alpha = self.coefficients()
        alpha = alpha if self._change is None else self._change.to(alpha) @ alpha
        return recurrence_filter(graph, x, alpha, *self._recurrence)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, K={self.K}, basis={self.basis!r})"
