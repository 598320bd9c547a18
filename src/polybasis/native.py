"""Access to the native kernels.

The package works without them: filters then run on torch, and the first use warns about the slowdown.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from mmap import mmap
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

_OPERATORS = {
    (torch.float32, torch.int32): "OperatorF32I32",
    (torch.float32, torch.int64): "OperatorF32I64",
    (torch.float64, torch.int32): "OperatorF64I32",
    (torch.float64, torch.int64): "OperatorF64I64",
}


@functools.cache
def _imported() -> ModuleType | ImportError:
    try:
        return importlib.import_module("polybasis._native")
    except ImportError as error:
        return error


def compiled() -> ModuleType | None:
    """The native module, or None without a warning if it is missing. For callers that are fast without it."""
    module = _imported()
    return None if isinstance(module, ImportError) else module


@functools.cache
def kernels() -> ModuleType | None:
    """The native module, or None with one warning if it is missing. For filters."""
    module = _imported()
    if isinstance(module, ImportError):
        warnings.warn(
            f"polybasis runs without its native kernels ({module}): results are the same, filters are several times "
            "slower and need more memory; install a C++ compiler and reinstall polybasis",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return module


def operator(indptr: Tensor, indices: Tensor, values: Tensor, isa: str | None = None) -> Any | None:
    """The native operator of a matrix in compressed rows, or None without kernels for its data type and device.

    Args:
        indptr, indices: int32 or int64, both of the same type, on the CPU.
        values: float32 or float64.
        isa: instruction set, ``plain``, ``avx2`` or ``avx512``; by default the best of this processor.
    """
    name = _OPERATORS.get((values.dtype, indices.dtype))
    if name is None or values.device.type != "cpu":
        return None
    module = kernels()
    if module is None:
        return None
    return getattr(module, name)(indptr, indices, values, isa or module.best_isa())


STRIPE = 1 << 30  # bytes of a vector whose address translations fit into the TLB


def streamed(
    indptr: Any, indices: Any, *, direct: bool = False, stripe_bytes: int = STRIPE, isa: str | None = None
) -> Any:
    """The native operator of an unweighted graph, whose arrays may be memory-mapped files.

    Args:
        indptr, indices: compressed rows, which must not change. If both are memory-mapped, ``indices`` is read from its
            file in chunks.
        direct: bypass the file cache where the file system supports that; faster for files larger than the cache.
        stripe_bytes: the part of a vector that is read at random at a time.
        isa: as in :func:`operator`.

    Raises:
        ImportError: without the kernels, because torch cannot process graphs larger than memory.
    """
    module = kernels()
    if module is None:
        raise ImportError("graphs on disk need the native kernels: install a C++ compiler and reinstall polybasis")
    kind = module.StreamedGraphI32 if indices.dtype.itemsize == 4 else module.StreamedGraphI64
    path, offset = "", 0
    # A slice of a memory-mapped array has the offset of the whole array, so only whole arrays qualify.
    if all(
        isinstance(array, np.memmap) and array.mode == "r" and isinstance(array.base, mmap)
        for array in (indptr, indices)
    ):
        path, offset = str(indices.filename), indices.offset
    return kind(indptr, indices, path, offset, direct, stripe_bytes, isa or module.best_isa())
