"""Chooses the kernels for a matrix and a signal."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass

from torch import Tensor

from polybasis.krylov.kernels import Kernels
from polybasis.krylov.native_kernels import NativeKernels
from polybasis.krylov.reference_kernels import ReferenceKernels
from polybasis.krylov.reordered_kernels import Reordering
from polybasis.matrix import SparseOperator

MIN_PANEL_BYTES = 32 << 20  # smaller panels of channels fit into the last-level cache in any order of the nodes
MIN_ROWS_SAVED = 10  # reads from memory saved per node and call, below which permuting the signal does not pay


@dataclass
class _Cached:
    """The kernels of one matrix."""

    kernels: Kernels
    reordering: Reordering | None = None  # created by the first signal that is large enough


# Kernels hold no reference to the operator, so an entry disappears with it.
_CACHE: weakref.WeakKeyDictionary[SparseOperator, _Cached] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def kernels_for(operator: SparseOperator, x: Tensor, K: int = 0, *, paired: bool = False) -> Kernels:
    """Returns the fastest kernels for signals of this shape, created once per matrix.

    Args:
        operator: The matrix, N rows, in the data type and on the device of the signal.
        x: The signal, (N, d).
        K: The degree of a filter, or 0 if all basis vectors are returned to the caller: undoing the permutation of a
            whole basis takes longer than reordered nodes save.
        paired: Whether the kernels have to keep complex vectors orthogonal, which only the reference does; see
            :class:`ReferenceKernels`. Its products are native.
    """
    if paired:
        return ReferenceKernels(operator, operator.matrix.ptr, paired=True)
    cached = _CACHE.get(operator) or _create(operator)
    kernels, matrix = cached.kernels, operator.matrix
    if not isinstance(kernels, NativeKernels) or matrix.ptr is not None:
        return kernels
    panel_bytes = len(x) * min(x.shape[1], kernels.panel_width) * x.itemsize
    # A product reads at most one row per nonzero.
    if panel_bytes < MIN_PANEL_BYTES or K * len(matrix.indices) < MIN_ROWS_SAVED * len(x):
        return kernels
    if cached.reordering is None:
        cached.reordering = Reordering(kernels.operator, matrix.indptr, matrix.indices, x.dtype)
    return cached.reordering.kernels if K * cached.reordering.rows_saved >= MIN_ROWS_SAVED else kernels


def clear_kernels(operator: SparseOperator) -> None:
    """Drops the kernels of a matrix and their pooled buffers."""
    with _LOCK:
        _CACHE.pop(operator, None)


def _create(operator: SparseOperator) -> _Cached:
    with _LOCK:
        if operator not in _CACHE:
            native, matrix = operator.native, operator.matrix
            kernels = (
                ReferenceKernels(matrix.to_sparse(), matrix.ptr)
                if native is None
                else NativeKernels(native, reuse_buffers=operator.lasting)
            )
            _CACHE[operator] = _Cached(kernels)
        return _CACHE[operator]
