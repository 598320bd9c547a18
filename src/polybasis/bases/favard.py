"""The orthonormal basis of any positive recurrence: Favard's theorem."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases.polynomial import Recurrence, ThreeTermBasis
from polybasis.tridiagonal import gauss_quadrature


class Favard(ThreeTermBasis):
    r"""The orthonormal polynomials of a recurrence, the learnable basis of FavardGNN (Guo and Wei, 2023):

    .. math::
        p_0 = 1 / \sqrt{\beta_0}, \qquad
        \sqrt{\beta_{k+1}}\, p_{k+1}(\mu) = (\mu - \gamma_k)\, p_k(\mu) - \sqrt{\beta_k}\, p_{k-1}(\mu).

    By Favard's theorem they are orthonormal to a weight function of mass :math:`\beta_0`. Gradients flow to ``gamma``
    and ``sqrt_beta`` through everything here.

    Args:
        gamma: (K,) or (K, d), one column for each channel; a row more gives the weight function a node more.
        sqrt_beta: (K+1,) or (K+1, d), positive.

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
        if not (sqrt_beta > 0).all():
            raise ValueError("sqrt_beta has an entry that is not positive; Favard's theorem wants all of them positive")
        self.gamma, self.sqrt_beta = gamma.double(), sqrt_beta.double()

    @classmethod
    def from_moments(cls, moments: Tensor) -> Favard:
        r"""The orthonormal polynomials of a weight function on [-1, 1], given by its canonical moments.

        Every sequence of numbers between 0 and 1 belongs to one weight function of mass 1 on the interval, and the
        other way round (Dette and Studden, "The Theory of Canonical Moments", 1997): whatever the numbers do, the
        weight cannot leave the spectrum, and the polynomials cannot explode on it. All of them 1/2 is the weight of
        Chebyshev.

        Args:
            moments: (2K,) or (2K, d), strictly between 0 and 1.

        >>> import torch, polybasis as pb
        >>> basis = pb.bases.Favard.from_moments(torch.full((6,), 0.5))
        >>> basis.sqrt_beta  # T_0, sqrt(2) T_1, sqrt(2) T_2, ..
        tensor([1.0000, 0.7071, 0.5000, 0.5000], dtype=torch.float64)
        """
        p = moments.double()
        if len(p) % 2:
            raise ValueError(f"moments has {len(p)} rows; expected 2K, an even number of them")
        if not ((p > 0) & (p < 1)).all():
            raise ValueError("moments has an entry that is not between 0 and 1")
        zeta = torch.cat([p[:1], (1 - p[:-1]) * p[1:]])  # zeta_1 .. zeta_2K; on [0, 1] they factor the Jacobi matrix
        odd, even = zeta[0::2], zeta[1::2]
        before = torch.cat([torch.zeros_like(even[:1]), even[:-1]])
        one = torch.ones((1, *p.shape[1:]), dtype=p.dtype, device=p.device)
        return cls(2 * (before + odd) - 1, torch.cat([one, 2 * (odd * even).sqrt()]))

    @property
    def K(self) -> int:
        """The largest degree."""
        return len(self.sqrt_beta) - 1

    def recurrence(self, K: int) -> Recurrence:
        if K > self.K:
            raise ValueError(f"{self!r} was asked for degree {K}; pass gamma and sqrt_beta up to {K}")
        following, here = self.sqrt_beta[1 : K + 1], self.sqrt_beta[:K]
        return Recurrence(1 / self.sqrt_beta[0], 1 / following, -self.gamma[:K] / following, -here / following)

    def weight_mass(self) -> Tensor:
        return self.sqrt_beta[0] ** 2

    def weight_function(self, K: int | None = None) -> tuple[Tensor, Tensor]:
        """As :meth:`ThreeTermBasis.weight_function`; with as many nodes as there are ``gamma`` unless K is given."""
        nodes = len(self.gamma) if K is None else K
        return gauss_quadrature(self.gamma[:nodes], self.sqrt_beta[1:nodes], self.weight_mass())

    def __repr__(self) -> str:
        channels = f", channels={self.gamma.shape[1]}" if self.gamma.dim() == 2 else ""
        return f"Favard(K={self.K}{channels})"
