"""The optimal basis of a signal: orthonormal vectors and their tridiagonal matrix."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from polybasis.tridiagonal import gauss_quadrature


class HasCoordinates(Protocol):
    """A polynomial basis that can be expressed in an optimal basis, such as those of :mod:`polybasis.bases`."""

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor: ...


class OptimalBasis(NamedTuple):
    r"""Orthonormal bases of the Krylov spaces :math:`\mathrm{span}\{x, Px, \dots, P^K x\}`, one per channel.

    Let :math:`T` be the tridiagonal matrix with diagonal ``gamma`` and off-diagonal ``sqrt_beta[1:]``. Then
    :math:`P V = V T` up to the last column, and every polynomial :math:`p` of degree at most K satisfies

    .. math:: p(P)\, x = \|x\|\, V\, p(T)\, e_0.

    The attributes are torch tensors, or NumPy arrays if the signal is one.

    Attributes:
        vectors: (K+1, N, d), orthonormal in each channel and zero beyond the channel's rank. The inner product is
            weighted by degrees for ``normalization="rw"``; vectors are complex on a directed graph.
        gamma: (K+1, d), float64: :math:`\gamma_k = \langle P v_k, v_k\rangle`.
        sqrt_beta: (K+1, d), float64: the norm of each residual before normalisation; the first is :math:`\|x\|`.
        rank: (d,), int64: the number of nonzero vectors, at most K+1. It may be lower for a smaller K, because a
            vector is dropped if it cannot noticeably change any polynomial of degree K.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> b = pb.optimal_basis(g, torch.tensor([[1.0], [2.0], [0.0], [0.0]]), K=2)
    >>> b.vectors.shape, b.K, b.rank
    (torch.Size([3, 4, 1]), 2, tensor([3]))
    """

    vectors: Any
    gamma: Any
    sqrt_beta: Any
    rank: Any

    @property
    def K(self) -> int:
        """The degree."""
        return len(self.vectors) - 1

    def coordinates(self, basis: HasCoordinates) -> Any:
        r"""Expresses another polynomial basis in this one, using only the tridiagonal matrix.

        .. math:: g_k(P)\, x = V c_k, \qquad c_k = \|x\|\, g_k(T)\, e_0

        Args:
            basis: The polynomials :math:`g_0, \dots, g_K`.

        Returns:
            (K+1, K+1, d), float64; column k holds :math:`c_k`.

        >>> import torch, polybasis as pb
        >>> g = pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> x = torch.rand(4, 2, dtype=torch.float64)
        >>> b = pb.optimal_basis(g, x, K=2)
        >>> through_T = torch.einsum("jnd,jd->nd", b.vectors, b.coordinates(pb.bases.Monomial())[:, 2])
        >>> torch.allclose(through_T, g @ (g @ x))
        True
        """
        coordinates = basis.coordinates(torch.as_tensor(self.gamma), torch.as_tensor(self.sqrt_beta))
        return coordinates if isinstance(self.gamma, Tensor) else coordinates.numpy()

    def weight_function(self) -> tuple[Any, Any]:
        r"""Returns the spectral density of the signal as the Gauss quadrature of its tridiagonal matrix.

        .. math:: \sum_i w_i\, p(\mu_i) = \langle x, p(P)\, x\rangle \quad \text{for all } p \text{ of degree at most }
                  2K+1

        Returns:
            Nodes :math:`\mu_i` in ascending order and weights :math:`w_i`, (K+1, d) each.

        >>> import torch, polybasis as pb
        >>> g = pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> x = torch.rand(4, 1, dtype=torch.float64)
        >>> nodes, weights = pb.optimal_basis(g, x, K=2).weight_function()
        >>> torch.allclose((weights * nodes).sum(0), (x * (g @ x)).sum(0))
        True
        """
        gamma, sqrt_beta = torch.as_tensor(self.gamma), torch.as_tensor(self.sqrt_beta)
        nodes, weights = gauss_quadrature(gamma, sqrt_beta[1:], mass=sqrt_beta[0] ** 2)
        return (nodes, weights) if isinstance(self.gamma, Tensor) else (nodes.numpy(), weights.numpy())


def scaled_coefficients(alpha: Tensor, sqrt_beta: Tensor, signal: bool) -> Tensor:
    r"""Returns the coefficients of the basis vectors: :math:`\alpha`, or :math:`\|x\|\,\alpha` with ``signal``.

    Args:
        alpha: (K+1, d).
        sqrt_beta: Of the optimal basis, (K+1, d), or (G, K+1, d) for a batch of graphs.
        signal: Whether the filter is scaled with the norm of the signal.
    """
    if not signal:
        return alpha
    return (alpha * sqrt_beta[..., :1, :]).to(alpha.dtype)
