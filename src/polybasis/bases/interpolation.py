"""Polynomials given by their values at the Chebyshev points."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases.classical import Chebyshev
from polybasis.bases.through_chebyshev import ThroughChebyshev


class ChebyshevInterpolation(ThroughChebyshev):
    r"""Lagrange polynomials on the Chebyshev points, the basis of ChebNetII (He et al., 2022):

    .. math::
        \mu_j = \cos\frac{(j + 1/2)\pi}{K+1}, \qquad
        g_j(\mu) = \frac{2}{K+1} \sum_{k=0}^{K}{}' \; T_k(\mu_j)\, T_k(\mu),

    the first term of the sum halved. A coefficient is the response of the filter at its point.
    """

    def points(self, K: int) -> Tensor:
        r"""The points :math:`\mu_0 > \dots > \mu_K`, (K+1,)."""
        return torch.cos((torch.arange(K + 1, dtype=torch.float64) + 0.5) * torch.pi / (K + 1))

    def evaluate(self, mu: Tensor, K: int) -> Tensor:
        k = torch.arange(K + 1, dtype=torch.float64)
        at_points = torch.cos(torch.outer(k, (k + 0.5) * torch.pi / (K + 1)))  # T_k(mu_j), (k, j)
        at_points[0] /= 2
        values = Chebyshev().evaluate(mu, K)
        return torch.einsum("kj,k...->j...", at_points, values) * (2 / (K + 1))
