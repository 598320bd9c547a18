"""The classical bases with a three-term recurrence: monomials and the Jacobi family."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from polybasis.bases.polynomial import ThreeTermBasis
from polybasis.recurrence import Recurrence


class Monomial(ThreeTermBasis):
    r"""Monomials :math:`g_k(\mu) = \mu^k`, the basis of GPR-GNN (Chien et al., 2021).

    >>> import torch, polybasis as pb
    >>> pb.bases.Monomial().evaluate(torch.tensor([0.5]), K=2).flatten()
    tensor([1.0000, 0.5000, 0.2500], dtype=torch.float64)
    """

    def recurrence(self, K: int) -> Recurrence:
        zeros = torch.zeros(K, dtype=torch.float64)
        return Recurrence(torch.ones((), dtype=torch.float64), zeros + 1, zeros, zeros)


class Chebyshev(ThreeTermBasis):
    r"""Chebyshev polynomials of the first kind, the basis of ChebNet (Defferrard et al., 2016).

    .. math:: T_0 = 1, \qquad T_1 = \mu, \qquad T_{k+1} = 2 \mu\, T_k - T_{k-1}

    >>> import torch, polybasis as pb
    >>> pb.bases.Chebyshev().evaluate(torch.tensor([0.5]), K=2).flatten()
    tensor([ 1.0000,  0.5000, -0.5000], dtype=torch.float64)
    """

    def recurrence(self, K: int) -> Recurrence:
        zeros = torch.zeros(K, dtype=torch.float64)
        a = zeros + 2
        a[:1] = 1
        return Recurrence(torch.ones((), dtype=torch.float64), a, zeros, zeros - 1)

    def weight_mass(self) -> Tensor:
        return torch.tensor(math.pi, dtype=torch.float64)


class Jacobi(ThreeTermBasis):
    r"""Jacobi polynomials :math:`P_k^{(a, b)}`, the basis of JacobiConv (Wang and Zhang, 2022).

    They are orthogonal with respect to :math:`(1-\mu)^a (1+\mu)^b` if a and b exceed -1.

    .. math::
        2k(k+a+b)(2k+a+b-2)\, P_k =
        (2k+a+b-1)\left[(2k+a+b)(2k+a+b-2)\,\mu + a^2 - b^2\right] P_{k-1}
        - 2(k+a-1)(k+b-1)(2k+a+b)\, P_{k-2}

    Args:
        a: The exponent of :math:`1-\mu`.
        b: The exponent of :math:`1+\mu`.

    Raises:
        ValueError: If an exponent is not finite.

    >>> import polybasis as pb
    >>> pb.bases.Jacobi(0.5, 1.0)
    Jacobi(0.5, 1)
    """

    def __init__(self, a: float, b: float) -> None:
        if not (math.isfinite(a) and math.isfinite(b)):
            raise ValueError(f"a and b are {a} and {b}; expected finite numbers")
        self.a, self.b = float(a), float(b)

    def recurrence(self, K: int) -> Recurrence:
        a, b = self.a, self.b
        k = torch.arange(2, max(K, 1) + 1, dtype=torch.float64)
        total = 2 * k + a + b
        divisor = 2 * k * (k + a + b) * (total - 2)
        if (divisor == 0).any():
            raise ValueError(f"{self!r} has no recurrence up to degree {K}; change a or b slightly")
        slope = (total - 1) * total * (total - 2) / divisor
        shift = (total - 1) * (a * a - b * b) / divisor
        back = -2 * (k + a - 1) * (k + b - 1) * total / divisor
        first = torch.tensor([[(a + b + 2) / 2], [(a - b) / 2], [0.0]], dtype=torch.float64)[:, : min(K, 1)]
        rest = torch.stack([slope, shift, back])
        return Recurrence(torch.ones((), dtype=torch.float64), *torch.cat([first, rest], dim=1))

    def weight_mass(self) -> Tensor:
        a, b = self.a, self.b
        if min(a, b) <= -1:
            return super().weight_mass()
        log_beta = math.lgamma(a + 1) + math.lgamma(b + 1) - math.lgamma(a + b + 2)
        return torch.tensor(2 ** (a + b + 1) * math.exp(log_beta), dtype=torch.float64)

    def __repr__(self) -> str:
        return f"Jacobi({self.a:g}, {self.b:g})"


class Legendre(Jacobi):
    """Legendre polynomials: Jacobi polynomials with a = b = 0, orthogonal with respect to a constant weight function.

    >>> import torch, polybasis as pb
    >>> pb.bases.Legendre().evaluate(torch.tensor([0.5]), K=2).flatten()
    tensor([ 1.0000,  0.5000, -0.1250], dtype=torch.float64)
    """

    def __init__(self) -> None:
        super().__init__(0.0, 0.0)

    def __repr__(self) -> str:
        return "Legendre()"
