"""Orthonormal polynomials with a given recurrence, by Favard's theorem."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases.polynomial import ThreeTermBasis
from polybasis.custom_op import has_values
from polybasis.recurrence import Recurrence
from polybasis.tridiagonal import gauss_quadrature


class Favard(ThreeTermBasis):
    r"""Orthonormal polynomials with a given recurrence, the learnable basis of FavardGNN (Guo and Wei, 2023).

    .. math::
        p_0 = 1 / \sqrt{\beta_0}, \qquad
        \sqrt{\beta_{k+1}}\, p_{k+1}(\mu) = (\mu - \gamma_k)\, p_k(\mu) - \sqrt{\beta_k}\, p_{k-1}(\mu)

    By Favard's theorem they are orthonormal with respect to a weight function of mass :math:`\beta_0`. All methods are
    differentiable with respect to ``gamma`` and ``sqrt_beta``.

    Args:
        gamma: (K,), or (K, d) with one column per channel. An additional row adds a node to the weight function.
        sqrt_beta: (K+1,) or (K+1, d), positive.

    Raises:
        ValueError: If the shapes do not match or ``sqrt_beta`` is not positive.

    >>> import torch, polybasis as pb
    >>> legendre = pb.bases.Favard(torch.zeros(3), torch.tensor([2.0, 1 / 3, 4 / 15, 9 / 35]).sqrt())
    >>> nodes, weights = legendre.weight_function(3)
    >>> float((weights * nodes**2).sum())  # the integral of mu^2 over [-1, 1]
    0.6666...
    """

    def __init__(self, gamma: Tensor, sqrt_beta: Tensor) -> None:
        K = len(sqrt_beta) - 1
        if K < 0 or len(gamma) not in (K, K + 1) or gamma.shape[1:] != sqrt_beta.shape[1:]:
            raise ValueError(
                f"gamma has shape {tuple(gamma.shape)} and sqrt_beta {tuple(sqrt_beta.shape)}; "
                "expected (K, d) and (K+1, d), or (K,) and (K+1,)"
            )
        if has_values() and not (sqrt_beta > 0).all():
            raise ValueError("sqrt_beta has an entry that is not positive; Favard's theorem requires positive numbers")
        self.gamma, self.sqrt_beta = gamma.double(), sqrt_beta.double()

    @classmethod
    def from_moments(cls, moments: Tensor) -> Favard:
        r"""Creates the orthonormal polynomials of a weight function on [-1, 1] from its canonical moments.

        Sequences of numbers in (0, 1) correspond one-to-one to weight functions of mass 1 on the interval (Dette and
        Studden, "The Theory of Canonical Moments", 1997). Whatever the moments, the support of the weight
        function lies within [-1, 1]. If all moments are 1/2, the polynomials are multiples of Chebyshev polynomials.

        Args:
            moments: (2K,) or (2K, d), strictly between 0 and 1.

        Raises:
            ValueError: If the number of rows is odd or a moment is out of range.

        >>> import torch, polybasis as pb
        >>> basis = pb.bases.Favard.from_moments(torch.full((6,), 0.5))
        >>> basis.sqrt_beta  # T_0, sqrt(2) T_1, sqrt(2) T_2, ..
        tensor([1.0000, 0.7071, 0.5000, 0.5000], dtype=torch.float64)
        """
        p = moments.double()
        if len(p) % 2:
            raise ValueError(f"moments has {len(p)} rows; expected an even number, 2K")
        if has_values() and not ((p > 0) & (p < 1)).all():
            raise ValueError("moments has an entry outside (0, 1); expected canonical moments")
        zeta = torch.cat([p[:1], (1 - p[:-1]) * p[1:]])  # the factors of the Jacobi matrix on [0, 1]
        odd, even = zeta[0::2], zeta[1::2]
        before = torch.cat([torch.zeros_like(even[:1]), even[:-1]])
        one = torch.ones((1, *p.shape[1:]), dtype=p.dtype, device=p.device)
        return cls(2 * (before + odd) - 1, torch.cat([one, 2 * (odd * even).sqrt()]))

    @property
    def K(self) -> int:
        """The maximum degree."""
        return len(self.sqrt_beta) - 1

    def recurrence(self, K: int) -> Recurrence:
        if K > self.K:
            raise ValueError(f"K is {K}; {self!r} has a recurrence up to degree {self.K} only")
        above, here = self.sqrt_beta[1 : K + 1], self.sqrt_beta[:K]
        return Recurrence(1 / self.sqrt_beta[0], 1 / above, -self.gamma[:K] / above, -here / above)

    def weight_mass(self) -> Tensor:
        return self.sqrt_beta[0] ** 2

    def weight_function(self, K: int | None = None) -> tuple[Tensor, Tensor]:
        """Returns the weight function as a Gauss quadrature; see :meth:`ThreeTermBasis.weight_function`.

        Args:
            K: The number of quadrature nodes; by default the number of rows of ``gamma``.
        """
        nodes = len(self.gamma) if K is None else K
        return gauss_quadrature(self.gamma[:nodes], self.sqrt_beta[1:nodes], self.weight_mass())

    def __repr__(self) -> str:
        channels = f", channels={self.gamma.shape[1]}" if self.gamma.dim() == 2 else ""
        return f"Favard(K={self.K}{channels})"
