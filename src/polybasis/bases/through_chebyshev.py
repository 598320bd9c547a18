"""Bases without a three-term recurrence, which are applied to matrices through Chebyshev polynomials."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases.classical import Chebyshev
from polybasis.bases.polynomial import PolynomialBasis


class ThroughChebyshev(PolynomialBasis):
    r"""A partition of unity, :math:`\sum_k g_k = 1`, whose polynomials depend on K.

    Filters are computed in Chebyshev polynomials and take K products with P, like those in any other basis.
    """

    def constant(self, K: int) -> Tensor:
        return torch.ones(K + 1, dtype=torch.float64)

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        chebyshev = Chebyshev().coordinates(gamma, sqrt_beta)
        change_of_basis = self.to_chebyshev(len(gamma) - 1).to(gamma)
        return torch.einsum("ij...,jk->ik...", chebyshev, change_of_basis)
