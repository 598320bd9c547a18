"""The filters as compositions of differentiable torch operations.

They are slower than the kernels and need several times their memory, but autograd differentiates through them to any
order and with respect to the values of P. The operators fall back on them for gradients of the edge weights, second
derivatives and forward-mode differentiation.
"""

from __future__ import annotations

from torch import Tensor

from polybasis.krylov.basis import scaled_coefficients
from polybasis.krylov.reference_kernels import ReferenceKernels
from polybasis.matrix import Matrix
from polybasis.recurrence import Recurrence


def optimal_filter(matrix: Matrix, x: Tensor, alpha: Tensor, signal: bool, paired: bool) -> Tensor:
    """See :func:`polybasis.krylov.optimal_filter`, and :class:`ReferenceKernels` for ``paired``."""
    kernels = ReferenceKernels(matrix, matrix.ptr, paired=paired)
    basis = kernels.optimal_basis(x, kernels.peak(x.detach()), len(alpha) - 1, last_gamma=False)
    return kernels.combine(basis.vectors, scaled_coefficients(alpha, basis.sqrt_beta, signal))


def recurrence_filter(matrix: Matrix, x: Tensor, alpha: Tensor, *coefficients: Tensor) -> Tensor:
    """See :func:`polybasis.krylov.recurrence_filter`."""
    kernels = ReferenceKernels(matrix, matrix.ptr)
    return kernels.recurrence(x, alpha, Recurrence(*coefficients), keep=False)[0]
