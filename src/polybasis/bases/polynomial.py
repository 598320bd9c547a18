r"""What a polynomial basis :math:`g_0, \dots, g_K` is, and what follows from a three-term recurrence.

>>> import torch, polybasis as pb
>>> pb.bases.Chebyshev().evaluate(torch.tensor([0.5]), K=2).flatten()
tensor([ 1.0000,  0.5000, -0.5000], dtype=torch.float64)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from polybasis.tridiagonal import apply_tridiagonal, gauss_quadrature


class Recurrence(NamedTuple):
    r"""Coefficients of :math:`g_0 = s`, :math:`g_{k+1}(\mu) = (a_k \mu + b_k)\, g_k(\mu) + c_k\, g_{k-1}(\mu)`.

    ``s`` has shape () or (d,); ``a``, ``b``, ``c`` have shape (K,) or (K, d), one column for each channel.
    """

    s: Tensor
    a: Tensor
    b: Tensor
    c: Tensor

    def per_channel(self, channels: int) -> Recurrence:
        """The same with a column for each channel."""
        if self.s.dim() == 1:
            return self
        return Recurrence(*(numbers.unsqueeze(-1).expand(*numbers.shape, channels) for numbers in self))


class PolynomialBasis(ABC):
    r"""Polynomials :math:`g_0, \dots, g_K` of degree K at most that span all of them."""

    @abstractmethod
    def evaluate(self, mu: Tensor, K: int) -> Tensor:
        r"""Values :math:`g_k(\mu)`, shape (K+1, ...) for points ``mu`` of shape (...), float64."""

    @abstractmethod
    def constant(self, K: int) -> Tensor:
        r"""Coefficients of the constant polynomial 1, (K+1,): the filter that changes nothing."""

    @abstractmethod
    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        r"""Coordinates on the optimal basis with this tridiagonal matrix.

        Args:
            gamma, sqrt_beta: (K+1, d) of an :class:`polybasis.OptimalBasis`.

        Returns:
            (K+1, K+1, d): column k is :math:`\|x\|\, g_k(T)\, e_0`, the coordinates of :math:`g_k(P) x`.
        """

    def to_chebyshev(self, K: int) -> Tensor:
        r"""The matrix C, (K+1, K+1), with :math:`g_k = \sum_j C_{jk} T_j` in Chebyshev polynomials.

        Found from the values at the Chebyshev points, where the Chebyshev polynomials are orthogonal: no system is
        solved and no digits are lost.
        """
        j = torch.arange(K + 1, dtype=torch.float64)
        points = torch.cos((j + 0.5) * torch.pi / (K + 1))
        transform = torch.cos(torch.outer(j, (j + 0.5) * torch.pi / (K + 1))) * (2 / (K + 1))
        transform[0] /= 2
        return transform @ self.evaluate(points, K).T

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ThreeTermBasis(PolynomialBasis):
    """A basis given by a three-term recurrence, in which every polynomial has a degree one higher than the last."""

    @abstractmethod
    def recurrence(self, K: int) -> Recurrence:
        """The coefficients up to degree K, float64."""

    def constant(self, K: int) -> Tensor:
        s = self.recurrence(K).s
        return torch.cat([(1 / s)[None], s.new_zeros(K, *s.shape)])

    def evaluate(self, mu: Tensor, K: int) -> Tensor:
        mu = mu.double()
        s, a, b, c = self.recurrence(K)
        if s.dim():  # channels: the values get a last axis for them
            mu = mu.unsqueeze(-1)
        values = [s.expand(*mu.shape[:-1], *s.shape) if s.dim() else s.expand(mu.shape)]
        for k in range(K):
            value = (a[k] * mu + b[k]) * values[k]
            values.append(value + c[k] * values[k - 1] if k > 0 else value)
        return torch.stack(values)

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        K = len(gamma) - 1
        s, a, b, c = self.recurrence(K)
        start = torch.zeros_like(gamma)
        start[0] = s * sqrt_beta[0]
        columns = [start]
        for k in range(K):
            column = a[k] * apply_tridiagonal(gamma, sqrt_beta, columns[k]) + b[k] * columns[k]
            columns.append(column + c[k] * columns[k - 1] if k > 0 else column)
        return torch.stack(columns, dim=1)

    def weight_mass(self) -> Tensor:
        """The integral of the weight function the polynomials are orthogonal to."""
        raise ValueError(f"{self!r} is not orthogonal to a positive weight function")

    def weight_function(self, K: int) -> tuple[Tensor, Tensor]:
        r"""The weight function the basis is orthogonal to, as a Gauss quadrature with K nodes.

        The recurrence of the orthonormal multiples of the :math:`g_k` is a Jacobi matrix; by Favard's theorem there is
        a weight function to it, and its quadrature integrates polynomials of degree 2K-1 exactly.

        Returns:
            Nodes, ascending, and weights: (K,), or (K, d) for a basis with channels.

        Raises:
            ValueError: where there is no such weight function (monomials).
        """
        mass = self.weight_mass()
        _, a, b, c = self.recurrence(K)
        return gauss_quadrature(-b / a, torch.sqrt(-c[1:] / (a[:-1] * a[1:])), mass)
