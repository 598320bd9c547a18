"""Bernstein polynomials on the spectrum."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from polybasis.bases.through_chebyshev import ThroughChebyshev


class Bernstein(ThroughChebyshev):
    r"""Bernstein polynomials of degree K on :math:`\lambda = 1 - \mu \in [0, 2]`, the basis of BernNet (He et al.):

    .. math:: g_k(\mu) = \binom{K}{k} \left(\frac{1+\mu}{2}\right)^{K-k} \left(\frac{1-\mu}{2}\right)^k.

    A filter in it costs K products with the graph, not the K(K+1)/2 of its definition.

    Args:
        K: the degree, which all of them share.
    """

    def __init__(self, K: int) -> None:
        if isinstance(K, bool) or not isinstance(K, int) or K < 0:
            raise ValueError(f"K is {K!r}; expected the degree, a whole number, 0 or more")
        self.K = K

    def evaluate(self, mu: Tensor, K: int) -> Tensor:
        if K != self.K:
            raise ValueError(
                f"{self!r} was asked for degree {K}; Bernstein polynomials have one degree: use Bernstein({K})"
            )
        mu = mu.double()
        low, high = (1 + mu) / 2, (1 - mu) / 2
        return torch.stack([math.comb(K, k) * low ** (K - k) * high**k for k in range(K + 1)])

    def __repr__(self) -> str:
        return f"Bernstein({self.K})"
