"""Bernstein polynomials on the spectrum."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from polybasis.bases.through_chebyshev import ThroughChebyshev
from polybasis.krylov.filters import checked_degree


class Bernstein(ThroughChebyshev):
    r"""Bernstein polynomials on :math:`\lambda = 1 - \mu \in [0, 2]`, the basis of BernNet (He et al., 2021).

    .. math:: g_k(\mu) = \binom{K}{k} \left(\frac{1+\mu}{2}\right)^{K-k} \left(\frac{1-\mu}{2}\right)^k

    A filter in this basis takes K products with P instead of the K(K+1)/2 of the definition.

    Args:
        K: The degree of all polynomials.

    Raises:
        ValueError: If K is not a non-negative integer.

    >>> import torch, polybasis as pb
    >>> pb.bases.Bernstein(2).evaluate(torch.tensor([0.0]), K=2).flatten()
    tensor([0.2500, 0.5000, 0.2500], dtype=torch.float64)
    """

    def __init__(self, K: int) -> None:
        self.K = checked_degree(K)

    def evaluate(self, mu: Tensor, K: int) -> Tensor:
        if K != self.K:
            raise ValueError(f"K is {K}; {self!r} has polynomials of degree {self.K} only: use Bernstein({K})")
        mu = mu.double()
        low, high = (1 + mu) / 2, (1 - mu) / 2
        return torch.stack([math.comb(K, k) * low ** (K - k) * high**k for k in range(K + 1)])

    def __repr__(self) -> str:
        return f"Bernstein({self.K})"
