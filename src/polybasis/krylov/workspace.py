"""Memory that is used again.

A basis of half a gigabyte, allocated afresh for every step of training, costs a quarter of the step: the system has to
find and clear each page. A workspace keeps the memory of arrays that nobody holds any more and hands it out again.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SMALLEST = 32 << 20  # bytes; what is smaller the C library keeps mapped by itself


class Workspace:
    """Lends out large arrays; memory of one that has died goes to the next of about its size."""

    def __init__(self) -> None:
        self._free: list[NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    def empty(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """An array with whatever numbers are in it."""
        size = math.prod(shape) * dtype.itemsize
        if size < SMALLEST:
            return torch.empty(shape, dtype=dtype)
        lease = _Lease(self._block(size), self)
        return torch.from_numpy(np.asarray(lease)[:size]).view(dtype).view(shape)

    def _block(self, size: int) -> NDArray[np.uint8]:
        with self._lock:
            for i, block in enumerate(self._free):
                if size <= block.nbytes <= 2 * size:
                    return self._free.pop(i)
            self._free.clear()  # sizes have changed: what is left over would never be asked for
        return torch.empty(size, dtype=torch.uint8).numpy()  # torch aligns to cache lines, NumPy does not


class _Lease:
    """Owns a block while an array lives on it, and brings it back."""

    def __init__(self, block: NDArray[np.uint8], workspace: Workspace) -> None:
        self.__array_interface__: dict[str, Any] = block.__array_interface__
        self._block = block
        self._workspace = weakref.ref(workspace)

    def __del__(self) -> None:
        workspace = self._workspace()
        if workspace is not None:
            workspace._free.append(self._block)
