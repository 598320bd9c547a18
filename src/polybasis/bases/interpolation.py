"""Polynomials given by their values at the Chebyshev points."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases.classical import Chebyshev
from polybasis.bases.through_chebyshev import ThroughChebyshev


class ChebyshevInterpolation(ThroughChebyshev):
    r"""Lagrange polynomials on the Chebyshev points, the basis of ChebNetII (He et al., 2022).

    .. math::
        \mu_j = \cos\frac{(j + 1/2)\pi}{K+1}, \qquad
        g_j(\mu) = \frac{2}{K+1} \sum_{k=0}^{K}{}' \; T_k(\mu_j)\, T_k(\mu),

    where the prime halves the first term of the sum. The coefficient of :math:`g_j` is the response at :math:`\mu_j`.

    >>> import torch, polybasis as pb
    >>> basis = pb.bases.ChebyshevInterpolation()
    >>> torch.allclose(basis.evaluate(basis.points(3), 3), torch.eye(4, dtype=torch.float64))
    True
    """

    def points(self, K: int) -> Tensor:
        r"""Returns the points :math:`\mu_0 > \dots > \mu_K`, (K+1,), float64."""
        return torch.cos((torch.arange(K + 1, dtype=torch.float64) + 0.5) * torch.pi / (K + 1))

    def evaluate(self, mu: Tensor, K: int) -> Tensor:
        k = torch.arange(K + 1, dtype=torch.float64)
        at_points = torch.cos(torch.outer(k, (k + 0.5) * torch.pi / (K + 1)))  # T_k(mu_j), (k, j)
        at_points[0] /= 2
        values = Chebyshev().evaluate(mu, K)
        return torch.einsum("kj,k...->j...", at_points, values) * (2 / (K + 1))
