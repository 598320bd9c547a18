"""The interface of the kernels."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from polybasis.krylov.basis import OptimalBasis
from polybasis.recurrence import Recurrence


class Kernels(Protocol):
    r"""Forward and adjoint computations on one graph, outside autograd.

    Signals are contiguous (N, d) tensors in float32 or float64. An argument or result ``y_bar`` is the gradient
    :math:`\partial L / \partial y`. Arrays of K+1 vectors have an internal layout that depends on the kernels (panels
    of channels, permuted nodes); :meth:`standard_layout` converts it.

    On a batch of G graphs, the numbers per channel are also per graph: ``peak`` and ``rank`` have the shape (G, d),
    ``gamma``, ``sqrt_beta`` and the gradient of alpha (G, K+1, d), and alpha may be (K+1, d) or (G, K+1, d).
    """

    def peak(self, x: Tensor) -> Tensor:
        """Returns the largest absolute value of each channel, (d,), float64; infinity if a channel is not finite."""

    def optimal_basis(self, x: Tensor, peak: Tensor, K: int, *, last_gamma: bool) -> OptimalBasis:
        """Returns the optimal basis with ``vectors`` in the internal layout.

        Args:
            x: The signal, (N, d).
            peak: The result of :meth:`peak`, finite.
            K: The degree.
            last_gamma: Compute ``gamma[K]``, which takes one more product with P; otherwise it is 0.
        """

    def standard_layout(self, vectors: Tensor) -> Tensor:
        """Converts vectors from the internal layout to (K+1, N, d)."""

    def combine(self, vectors: Tensor, alpha: Tensor) -> Tensor:
        """Returns z = sum_k alpha_k v_k, (N, d), for vectors in the internal layout."""

    def optimal_adjoint(
        self, basis: OptimalBasis, alpha: Tensor, z_bar: Tensor, *, signal: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Returns the gradients of z = sum_k alpha_k v_k with respect to x and alpha.

        With ``signal``, alpha is a multiple of the norm of x, and the gradient with respect to x includes it.
        """

    def recurrence(
        self, x: Tensor, alpha: Tensor, recurrence: Recurrence, *, keep: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Returns z = sum_k alpha_k h_k and, if ``keep`` is set, all h_k in the internal layout."""

    def recurrence_adjoint(
        self, h: Tensor, alpha: Tensor, recurrence: Recurrence, z_bar: Tensor
    ) -> tuple[Tensor, Tensor, Recurrence]:
        """Returns the gradients of z = sum_k alpha_k h_k with respect to x, alpha and the recurrence."""
