"""What a set of kernels offers, and the choice between the native ones and plain torch."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from polybasis.graph import Graph


class Lanczos(NamedTuple):
    """An orthonormal basis V of each channel's Krylov space and its tridiagonal matrix."""

    vectors: Tensor  # (K+1) x N x d numbers in the kernels' own order; see Kernels.in_order
    gamma: Tensor  # (K+1, d), float64
    sqrt_beta: Tensor  # (K+1, d), float64
    rank: Tensor  # (d,), int64


class Coefficients(NamedTuple):
    """h_0 = s x, h_{k+1} = (a_k P + b_k) h_k + c_k h_{k-1} in every channel."""

    s: Tensor  # (d,)
    a: Tensor  # (K, d)
    b: Tensor  # (K, d)
    c: Tensor  # (K, d); c_0 multiplies nothing


class Kernels(Protocol):
    """Signals are contiguous (N, d), float32 or float64; nothing here knows autograd."""

    def peak(self, x: Tensor) -> Tensor:
        """The largest |x| of each channel, float64; infinity where x is not finite."""

    def optimal_basis(self, x: Tensor, peak: Tensor, K: int, *, last_gamma: bool) -> Lanczos: ...

    def in_order(self, vectors: Tensor) -> Tensor:
        """The vectors of a basis, or the h_k of a recurrence, as (K+1, N, d)."""

    def combine(self, vectors: Tensor, alpha: Tensor) -> Tensor:
        """z = sum_k alpha_k v_k."""

    def optimal_adjoint(self, basis: Lanczos, alpha: Tensor, z_bar: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of z = sum_k alpha_k v_k to x and alpha."""

    def recurrence(
        self, x: Tensor, alpha: Tensor, coefficients: Coefficients, *, keep: bool
    ) -> tuple[Tensor, Tensor | None]:
        """z = sum_k alpha_k h_k, and all h_k, in the kernels' own order, where they are to be kept."""

    def recurrence_adjoint(
        self, h: Tensor, alpha: Tensor, coefficients: Coefficients, z_bar: Tensor
    ) -> tuple[Tensor, Tensor, Coefficients]:
        """The gradients of z = sum_k alpha_k h_k to x, alpha and the coefficients."""


def kernels_for(graph: Graph, x: Tensor, K: int = 0) -> Kernels:
    """The fastest kernels for signals of this type and shape.

    Args:
        graph: the graph, N nodes.
        x: a signal, (N, d).
        K: products in each call, for filters. Not given where a whole basis is handed out: putting that in order takes
            longer than products on renumbered nodes save.
    """
    from polybasis.krylov.native_kernels import NativeKernels
    from polybasis.krylov.reference_kernels import ReferenceKernels
    from polybasis.krylov.reordered_kernels import Reordering

    key = (x.dtype, x.device)
    if key not in graph.kernels:
        operator = graph.operator(x.dtype, x.device)
        graph.kernels[key] = (
            (ReferenceKernels(graph), None)
            if operator is None
            else (NativeKernels(operator), Reordering(operator, graph.indptr, graph.indices, x.dtype))
        )
    kernels: tuple[Kernels, Reordering | None] = graph.kernels[key]
    as_given, reordering = kernels
    return reordering.kernels if reordering is not None and reordering.pays(x, K) else as_given
