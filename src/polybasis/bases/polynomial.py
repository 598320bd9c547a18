r"""Polynomial bases :math:`g_0, \dots, g_K`, and those with a three-term recurrence.

>>> import torch, polybasis as pb
>>> pb.bases.Chebyshev().evaluate(torch.tensor([0.5]), K=2).flatten()
tensor([ 1.0000,  0.5000, -0.5000], dtype=torch.float64)
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from polybasis.recurrence import Recurrence
from polybasis.tridiagonal import apply_tridiagonal, gauss_quadrature


class PolynomialBasis(ABC):
    r"""A basis :math:`g_0, \dots, g_K` of the polynomials of degree at most K.

    Subclasses implement :meth:`evaluate`, :meth:`constant` and :meth:`coordinates`.

    >>> import torch, polybasis as pb
    >>> basis = pb.bases.Bernstein(2)
    >>> basis.evaluate(torch.tensor([-1.0, 0.0, 1.0]), K=2).sum(dim=0)  # Bernstein polynomials sum to 1
    tensor([1., 1., 1.], dtype=torch.float64)
    """

    @abstractmethod
    def evaluate(self, mu: Tensor, K: int) -> Tensor:
        r"""Evaluates all polynomials.

        Args:
            mu: The points, (...): eigenvalues of the operator P, in [-1, 1].
            K: The degree.

        Returns:
            The values :math:`g_k(\mu)`, (K+1, ...), float64; (K+1, ..., d) for a basis with channels.

        Raises:
            ValueError: If the basis does not exist for this degree.
        """

    @abstractmethod
    def constant(self, K: int) -> Tensor:
        """Returns the coefficients of the constant polynomial 1, the identity filter, (K+1,) or (K+1, d), float64."""

    @abstractmethod
    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        r"""Returns the coordinates of the :math:`g_k(P)\, x` in an optimal basis.

        Args:
            gamma: The diagonal of the tridiagonal matrix T of a :class:`polybasis.OptimalBasis`, (K+1, d).
            sqrt_beta: The norm :math:`\|x\|`, followed by the off-diagonal of T, (K+1, d).

        Returns:
            (K+1, K+1, d); column k is :math:`\|x\|\, g_k(T)\, e_0`.
        """

    def to_chebyshev(self, K: int) -> Tensor:
        r"""Returns the change of basis to Chebyshev polynomials.

        .. math:: g_k = \sum_j C_{jk} T_j

        Computed from the values at the Chebyshev points, where the Chebyshev polynomials are orthogonal. No linear
        system is solved, so no accuracy is lost.

        Args:
            K: The degree.

        Returns:
            The matrix C, (K+1, K+1), float64.
        """
        j = torch.arange(K + 1, dtype=torch.float64)
        points = torch.cos((j + 0.5) * torch.pi / (K + 1))
        transform = torch.cos(torch.outer(j, (j + 0.5) * torch.pi / (K + 1))) * (2 / (K + 1))
        transform[0] /= 2
        return transform @ self.evaluate(points, K).T

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ThreeTermBasis(PolynomialBasis):
    """A basis given by a three-term recurrence, in which the k-th polynomial has degree k.

    Subclasses implement :meth:`recurrence`.

    >>> import torch, polybasis as pb
    >>> class SecondKind(pb.bases.ThreeTermBasis):
    ...     def recurrence(self, K):  # U_0 = 1, U_1 = 2 mu, U_{k+1} = 2 mu U_k - U_{k-1}
    ...         zeros = torch.zeros(K, dtype=torch.float64)
    ...         return pb.bases.Recurrence(torch.ones((), dtype=torch.float64), zeros + 2, zeros, zeros - 1)
    >>> SecondKind().evaluate(torch.tensor([1.0]), K=3).flatten()
    tensor([1., 2., 3., 4.], dtype=torch.float64)
    """

    @abstractmethod
    def recurrence(self, K: int) -> Recurrence:
        """Returns the coefficients of the recurrence up to degree K, float64.

        Raises:
            ValueError: If the recurrence does not exist up to degree K.
        """

    def constant(self, K: int) -> Tensor:
        s = self.recurrence(K).s
        return torch.cat([(1 / s)[None], s.new_zeros(K, *s.shape)])

    def evaluate(self, mu: Tensor, K: int) -> Tensor:
        mu = mu.double()
        s, a, b, c = self.recurrence(K)
        if s.dim():  # the channels become the last axis of the values
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
        """Returns the integral of the weight function with respect to which the polynomials are orthogonal.

        Raises:
            ValueError: If there is no positive weight function.
        """
        raise ValueError(f"{self!r} is not orthogonal with respect to a positive weight function")

    def weight_function(self, K: int) -> tuple[Tensor, Tensor]:
        r"""Returns the weight function of an orthogonal basis as a Gauss quadrature.

        The recurrence of the orthonormal multiples of the :math:`g_k` defines a Jacobi matrix. By Favard's theorem the
        polynomials are orthogonal with respect to a weight function, and the quadrature of the Jacobi matrix integrates
        polynomials of degree 2K-1 exactly.

        Args:
            K: The number of quadrature nodes.

        Returns:
            Nodes in ascending order and weights, (K,) each, or (K, d) for a basis with channels.

        Raises:
            ValueError: If there is no positive weight function, as for monomials.
        """
        mass = self.weight_mass()
        _, a, b, c = self.recurrence(K)
        return gauss_quadrature(-b / a, torch.sqrt(-c[1:] / (a[:-1] * a[1:])), mass)
