"""The compiled kernels, where they are there.

The package works without them: the same mathematics then runs on plain torch, and the first use says so.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from mmap import mmap
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
def kernels() -> Any | None:
    """The compiled module, or None, with one warning, where the package was built without it."""
    try:
        return importlib.import_module("polybasis._native")
    except ImportError as error:
        warnings.warn(
            f"polybasis runs without its native kernels ({error}): results are the same, filters are several times "
            "slower and need more memory; install a C++ compiler and reinstall polybasis",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def compiled() -> Any | None:
    """The compiled module, or None without a warning: building a graph is no reason to warn about slow filters."""
    try:
        return importlib.import_module("polybasis._native")
    except ImportError:
        return None


def operator(indptr: Tensor, indices: Tensor, values: Tensor, isa: str | None = None) -> Any | None:
    """The native operator of a matrix in compressed rows, or None where the kernels cannot serve it.

    Args:
        indptr, indices: int32 or int64, both the same, on the CPU.
        values: float32 or float64.
        isa: ``plain``, ``avx2`` or ``avx512``; the best this processor has unless given.
    """
    name = _OPERATORS.get((values.dtype, indices.dtype))
    if name is None or values.device.type != "cpu":
        return None
    module = kernels()
    if module is None:
        return None
    return getattr(module, name)(indptr, indices, values, isa or module.best_isa())


def pattern(indptr: Tensor, indices: Tensor, columns: int) -> Any | None:
    """The native pattern of a sparse matrix in compressed rows (int32), or None where there are no kernels."""
    module = kernels()
    return None if module is None else module.Pattern(indptr, indices, columns, module.best_isa())


STRIPE = 1 << 30  # bytes of a vector whose addresses the processor keeps at hand


def streamed(
    indptr: Any, indices: Any, *, direct: bool = False, stripe_bytes: int = STRIPE, isa: str | None = None
) -> Any:
    """The native operator of an unweighted graph in arrays that may be mapped files.

    Args:
        indptr, indices: its compressed rows, which may not change. Where they are mapped files, ``indices`` is read
            from its file a part at a time.
        direct: read past the system's file cache where the file system can: faster for what does not fit there.
        stripe_bytes: of a vector, as much as is read from at random at a time.
        isa: as in :func:`operator`.

    Raises:
        ImportError: where there are no kernels: plain torch cannot work on graphs larger than memory.
    """
    module = kernels()
    if module is None:
        raise ImportError("graphs on disk need the native kernels: install a C++ compiler and reinstall polybasis")
    kind = module.StreamedGraphI32 if indices.dtype.itemsize == 4 else module.StreamedGraphI64
    path, offset = "", 0
    # A part of a mapped array says the whole one's offset: only whole ones are known to begin there.
    if all(
        isinstance(array, np.memmap) and array.mode == "r" and isinstance(array.base, mmap)
        for array in (indptr, indices)
    ):
        path, offset = str(indices.filename), indices.offset
    return kind(indptr, indices, path, offset, direct, stripe_bytes, isa or module.best_isa())
