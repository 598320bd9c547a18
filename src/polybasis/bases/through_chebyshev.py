"""Bases without a three-term recurrence: their work on a matrix is done in Chebyshev polynomials."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases.classical import Chebyshev
from polybasis.bases.polynomial import PolynomialBasis


class ThroughChebyshev(PolynomialBasis):
    """A basis that depends on K as a whole, a partition of unity, and costs K products like any other."""

    def constant(self, K: int) -> Tensor:
        return torch.ones(K + 1, dtype=torch.float64)

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        chebyshev = Chebyshev().coordinates(gamma, sqrt_beta)
        change = self.to_chebyshev(len(gamma) - 1).to(gamma)
        return torch.einsum("ijd,jk->ikd", chebyshev, change)
