"""The optimal basis of a signal, as a thing of its own: vectors, tridiagonal matrix, and coordinates of other bases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from polybasis.graph import Graph
from polybasis.krylov.kernels import kernels_for
from polybasis.krylov.signal import checked_degree, checked_signal, finite_peak
from polybasis.tridiagonal import gauss_quadrature


class HasCoordinates(Protocol):
    """A polynomial basis that can be written down on a tridiagonal matrix; those of :mod:`polybasis.bases` can."""

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class OptimalBasis:
    r"""The orthonormal basis of the Krylov space :math:`\mathrm{span}\{x, Px, \dots, P^K x\}` of every channel.

    With :math:`T` the tridiagonal matrix of ``gamma`` (diagonal) and ``sqrt_beta[1:]`` (beside it),
    :math:`P V = V T` up to the last column, and every polynomial of degree K at most obeys
    :math:`p(P) x = \|x\|\, V\, p(T)\, e_0`.

    Attributes:
        vectors: (K+1, N, d), orthonormal in each channel; zero past the channel's rank.
        gamma: (K+1, d), :math:`\langle P v_k, v_k\rangle`, float64.
        sqrt_beta: (K+1, d), the length of each residual before it was normalised, float64; the first is
            :math:`\|x\|`.
        rank: (d,), the number of vectors kept, at most K+1. A basis may end earlier at a smaller K, where omitting a
            vector is harmless.
    """

    vectors: Tensor
    gamma: Tensor
    sqrt_beta: Tensor
    rank: Tensor

    @property
    def K(self) -> int:
        """The degree."""
        return len(self.vectors) - 1

    def coordinates(self, basis: HasCoordinates) -> Tensor:
        r"""Coordinates of another polynomial basis on this one, from the tridiagonal matrix alone.

        Args:
            basis: polynomials :math:`g_0, \dots, g_K`.

        Returns:
            (K+1, K+1, d), float64: column k holds :math:`g_k(P) x` in the basis ``vectors``.

        >>> import torch, polybasis as pb
        >>> g = pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> x = torch.rand(4, 2, dtype=torch.float64)
        >>> b = pb.optimal_basis(g, x, K=2)
        >>> through_T = torch.einsum("jnd,jd->nd", b.vectors, b.coordinates(pb.bases.Monomial())[:, 2])
        >>> torch.allclose(through_T, g @ (g @ x))
        True
        """
        return basis.coordinates(self.gamma, self.sqrt_beta)

    def weight_function(self) -> tuple[Tensor, Tensor]:
        r"""The signal's spectral density, as the Gauss quadrature of its tridiagonal matrix.

        Returns:
            Nodes and weights, (K+1, d) each: :math:`\sum_i w_i p(\mu_i) = \langle x, p(P) x\rangle` for every
            polynomial of degree 2K+1 at most.
        """
        return gauss_quadrature(self.gamma, self.sqrt_beta[1:], mass=self.sqrt_beta[0] ** 2)


def optimal_basis(graph: Graph, x: Tensor, K: int) -> OptimalBasis:
    r"""The optimal basis of every channel of a signal: the paper's OptBasisFiltering without the sum.

    .. math:: \beta_{k+1} v_{k+1} = P v_k - \gamma_k v_k - \beta_k v_{k-1}, \qquad v_0 = x / \|x\|.

    It stays orthonormal in floating point, ends where the Krylov space ends, is the same bits for any number of
    threads, and is not differentiable (:func:`polybasis.krylov.optimal_filter` is).

    Args:
        graph: the graph, N nodes.
        x: signals of shape (N, d), finite.
        K: the degree; K+1 vectors come back.

    Raises:
        ValueError: for a signal that is not finite or of another shape.

    >>> import torch, polybasis as pb
    >>> star = pb.Graph.from_edge_index([[0, 0, 0], [1, 2, 3]])
    >>> b = pb.optimal_basis(star, torch.tensor([[1.0], [0.0], [0.0], [0.0]]), K=5)
    >>> b.rank  # a star's hub reaches a space of two dimensions
    tensor([2])
    """
    checked_degree(K)
    signal = checked_signal(graph, x).detach()
    if signal.numel() == 0:
        numbers = signal.new_zeros(K + 1, x.shape[1], dtype=torch.float64)
        rank = torch.zeros(x.shape[1], dtype=torch.int64, device=x.device)
        return OptimalBasis(x.new_zeros(K + 1, *x.shape), numbers, numbers.clone(), rank)
    kernels = kernels_for(graph, signal)
    basis = kernels.optimal_basis(signal, finite_peak(kernels, signal), K, last_gamma=True)
    return OptimalBasis(kernels.in_order(basis.vectors).to(x.dtype), *basis[1:])
