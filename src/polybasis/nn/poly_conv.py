"""The filter layer in a fixed basis."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from polybasis.bases import Chebyshev, PolynomialBasis, Recurrence, ThreeTermBasis, named_basis
from polybasis.graph import Graph
from polybasis.krylov import recurrence_filter
from polybasis.nn.filter_layer import FilterLayer


class FixedBasisLayer(FilterLayer):
    """A filter layer in a fixed basis; subclasses define the parameters behind the coefficients.

    Bases without a three-term recurrence (Bernstein, Chebyshev interpolation) are converted to Chebyshev polynomials,
    which is exact, so every filter takes K products with P.

    Args:
        channels: The number of channels.
        K: The degree.
        basis: The polynomial basis.
    """

    def __init__(self, channels: int, K: int, basis: PolynomialBasis) -> None:
        super().__init__(channels, K)
        self.basis = basis
        three_term = basis if isinstance(basis, ThreeTermBasis) else Chebyshev()
        recurrence = three_term.recurrence(K).per_channel(channels)
        self._recurrence = Recurrence(*(values.detach() for values in recurrence))  # not learned, unlike FavardConv's
        self._to_chebyshev = None if three_term is basis else basis.to_chebyshev(K)

    @abstractmethod
    def coefficients(self) -> Tensor:
        """Returns the coefficients in the layer's basis, (K+1, channels)."""

    def polynomials(self, x: Tensor, graph: Graph) -> tuple[PolynomialBasis, Tensor]:
        return self.basis, self.coefficients()

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        return (self.basis.coordinates(gamma, sqrt_beta) * self.coefficients().double()).sum(1)

    def filter(self, x: Tensor, graph: Graph) -> Tensor:
        alpha = self.coefficients()
        if self._to_chebyshev is not None:  # not a matrix product, which autocast would compute in low precision
            alpha = (self._to_chebyshev.to(alpha).unsqueeze(-1) * alpha).sum(1)
        return recurrence_filter(graph, x, alpha, *self._recurrence)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, K={self.K}, basis={self.basis!r})"


class PolyConv(FixedBasisLayer):
    r"""A polynomial filter in a fixed basis, with separate coefficients for each channel.

    .. math:: Z_{:l} = \sum_{k=0}^{K} \alpha_{kl}\, g_k(P)\, X_{:l}

    Every filter takes K products with P and is initially the identity.

    Args:
        channels: The number of channels.
        K: The degree; a channel has K+1 coefficients.
        basis: A :class:`polybasis.bases.PolynomialBasis` or its name: ``"monomial"``, ``"chebyshev"``,
            ``"chebyshev-interpolation"``, ``"bernstein"``, ``"jacobi"``, ``"legendre"``, or that of a basis registered
            with :func:`polybasis.register_basis`.

    Shapes:
        - **input:** x (N, channels) or (B, N, channels), edge_index (2, E) or a :class:`polybasis.Graph`, edge_weight
          (E,), optional, batch (N,), optional
        - **output:** that of x

    Raises:
        ValueError: If the basis is unknown.

    >>> import torch, polybasis as pb
    >>> conv = pb.nn.PolyConv(4, K=3, basis="bernstein")
    >>> conv
    PolyConv(4, K=3, basis=Bernstein(3))
    >>> x, edges = torch.rand(5, 4), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> torch.allclose(conv(x, edges), x)
    True
    """

    def __init__(self, channels: int, K: int, basis: str | PolynomialBasis = "chebyshev") -> None:
        super().__init__(channels, K, named_basis(basis, K) if isinstance(basis, str) else basis)
        self.alpha = torch.nn.Parameter(torch.empty(K + 1, channels).copy_(self._identity()))

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.alpha.copy_(self._identity())

    def coefficients(self) -> Tensor:
        return self.alpha

    def _identity(self) -> Tensor:
        constant = self.basis.constant(self.K).detach()
        return constant if constant.dim() == 2 else constant.unsqueeze(-1)
