"""The compiled kernels behind the interface of :class:`polybasis.krylov.kernels.Kernels`."""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.krylov.basis import OptimalBasis
from polybasis.recurrence import Recurrence

MIN_POOLED_BYTES = 32 << 20  # the C library keeps smaller blocks mapped itself


class NativeKernels:
    """Kernels on a native operator.

    An operator of a batch of G graphs treats every graph apart: ``peak`` and ``rank`` are (G, d), ``gamma`` and
    ``sqrt_beta`` (G, K+1, d). ``alpha`` is (K+1, d) for all graphs or, for the optimal basis, (G, K+1, d).

    Arrays of K+1 vectors are stored graph after graph, each graph as panels of at most ``panel_width`` channels, one
    (K+1, N, width) array after the other. Basis buffers are pooled. The number of threads is that of torch.

    Args:
        operator: See :func:`polybasis.matrix.native_operator`.
        results: A pool for results, for callers that copy them at once; otherwise every result is a new tensor.
        reuse_buffers: Pool the buffers of bases; not for operators that are used once.
    """

    def __init__(self, operator: Any, results: BufferPool | None = None, *, reuse_buffers: bool = True) -> None:
        self.operator = operator
        self.panel_width: int = operator.panel_width()
        graphs: int | None = operator.num_graphs()
        self._batch = () if graphs is None else (graphs,)  # the leading axes of numbers that each graph has
        self._buffers = BufferPool(reuse_buffers)
        self._results = results

    def peak(self, x: Tensor) -> Tensor:
        peak = torch.empty(*self._batch, x.shape[1], dtype=torch.float64)
        self.operator.peak(x, peak, torch.get_num_threads())
        return peak

    def optimal_basis(self, x: Tensor, peak: Tensor, K: int, *, last_gamma: bool) -> OptimalBasis:
        channels = x.shape[1]
        basis = OptimalBasis(
            self._buffers.empty(K + 1, *x.shape, dtype=x.dtype),
            torch.empty(*self._batch, K + 1, channels, dtype=torch.float64),
            torch.empty(*self._batch, K + 1, channels, dtype=torch.float64),
            torch.empty(*self._batch, channels, dtype=torch.int64),
        )
        self.operator.optimal_basis(x, peak, *basis, last_gamma, torch.get_num_threads())
        return basis

    def standard_layout(self, vectors: Tensor) -> Tensor:
        if not self._batch and vectors.shape[2] <= self.panel_width:
            return vectors
        out = torch.empty_like(vectors)
        self.operator.standard_layout(vectors, out, torch.get_num_threads())
        return out

    def combine(self, vectors: Tensor, alpha: Tensor) -> Tensor:
        z = self._empty_result(vectors[0])
        self.operator.combine(vectors, alpha, z, torch.get_num_threads())
        return z

    def optimal_adjoint(
        self, basis: OptimalBasis, alpha: Tensor, z_bar: Tensor, *, signal: bool = False
    ) -> tuple[Tensor, Tensor]:
        vectors, gamma, sqrt_beta, _ = basis
        x_bar, alpha_bar = self._empty_result(z_bar), torch.empty(gamma.shape, dtype=alpha.dtype)
        work = self._buffers.empty(2, *z_bar.shape, dtype=z_bar.dtype)
        threads = torch.get_num_threads()
        self.operator.optimal_adjoint(vectors, gamma, sqrt_beta, alpha, z_bar, signal, x_bar, alpha_bar, work, threads)
        return x_bar, alpha_bar

    def recurrence(
        self, x: Tensor, alpha: Tensor, recurrence: Recurrence, *, keep: bool
    ) -> tuple[Tensor, Tensor | None]:
        planes = len(alpha) if keep else min(2, len(alpha))
        h, z = self._buffers.empty(planes, *x.shape, dtype=x.dtype), self._empty_result(x)
        self.operator.recurrence(x, alpha, *recurrence, h, z, torch.get_num_threads())
        return z, h if keep else None

    def recurrence_adjoint(
        self, h: Tensor, alpha: Tensor, recurrence: Recurrence, z_bar: Tensor
    ) -> tuple[Tensor, Tensor, Recurrence]:
        x_bar, alpha_bar = self._empty_result(z_bar), torch.empty_like(alpha)
        work = self._buffers.empty(*z_bar.shape, dtype=z_bar.dtype)
        bars = Recurrence(*(torch.empty_like(values) for values in recurrence))
        threads = torch.get_num_threads()
        self.operator.recurrence_adjoint(h, alpha, *recurrence, z_bar, x_bar, alpha_bar, *bars, work, threads)
        return x_bar, alpha_bar, bars

    def _empty_result(self, like: Tensor) -> Tensor:
        return torch.empty_like(like) if self._results is None else self._results.empty(*like.shape, dtype=like.dtype)


class BufferPool:
    """A pool of large buffers, which avoids page faults in every training step.

    Allocating a basis of half a gigabyte takes a quarter of a training step, because the operating system maps and
    clears every page. A buffer returns to the pool when no tensor refers to it any more.
    """

    def __init__(self, reuse: bool = True) -> None:
        self._reuse = reuse
        self._free: list[NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    def empty(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Returns an uninitialised tensor, in a pooled buffer if it is large."""
        size = math.prod(shape) * dtype.itemsize
        if size < MIN_POOLED_BYTES or not self._reuse:
            return torch.empty(shape, dtype=dtype)
        lease = _Lease(self._block(size), self)
        return torch.from_numpy(np.asarray(lease)[:size]).view(dtype).view(shape)

    def _block(self, size: int) -> NDArray[np.uint8]:
        with self._lock:
            for i, block in enumerate(self._free):
                if size <= block.nbytes <= 2 * size:
                    return self._free.pop(i)
            self._free.clear()  # the sizes have changed, so the other blocks are unlikely to be requested again
        return torch.empty(size, dtype=torch.uint8).numpy()  # torch aligns to cache lines, NumPy does not


class _Lease:
    """Owns a block while a tensor uses it, then returns it to its pool."""

    def __init__(self, block: NDArray[np.uint8], pool: BufferPool) -> None:
        self.__array_interface__: dict[str, Any] = block.__array_interface__
        self._block = block
        self._pool = weakref.ref(pool)

    def __del__(self) -> None:
        pool = self._pool()
        if pool is not None:
            pool._free.append(self._block)
