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
import torch  # noqa: F401 - loads its OpenMP library, which the kernels use and which may be the only one

# The native module, or None if it is missing: for callers that are fast without it. Filters use kernels(), which warns.
module: ModuleType | None = None
_reason = ""
try:
    module = importlib.import_module("polybasis._native")
except ImportError as error:
    _reason = str(error)


@functools.cache
def kernels() -> ModuleType | None:
    """The native module, or None with one warning if it is missing."""
    if module is None:
        warnings.warn(
            f"polybasis runs without its native kernels ({_reason}): results are the same, but filters are several "
            "times slower and need more memory; install a C++ compiler and reinstall polybasis",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return module


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
        isa: as in :func:`polybasis.matrix.native_operator`.

    Raises:
        ImportError: without the kernels, because torch cannot process graphs larger than memory.
    """
    found = kernels()
    if found is None:
        raise ImportError("graphs on disk need the native kernels: install a C++ compiler and reinstall polybasis")
    kind = found.StreamedGraphI32 if indices.dtype.itemsize == 4 else found.StreamedGraphI64
    path, offset = "", 0
    # A slice of a memory-mapped array has the offset of the whole array, so only whole arrays qualify.
    if all(
        isinstance(array, np.memmap) and array.mode == "r" and isinstance(array.base, mmap)
        for array in (indptr, indices)
    ):
        path, offset = str(indices.filename), indices.offset
    return kind(indptr, indices, path, offset, direct, stripe_bytes, isa or found.best_isa())
