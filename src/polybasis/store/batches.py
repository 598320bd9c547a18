"""Batches of a store's rows, read ahead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.store.basis_store import BasisStore


class Batches:
    """Reads the next batch while the current one is processed; two batches are in memory.

    Attributes:
        waited: seconds spent waiting for a batch.
    """

    def __init__(self, store: BasisStore) -> None:
        self.store = store
        self.waited = 0.0
        self._buffers = [np.empty((0, store.K + 1, store.channels), store.vectors.dtype) for _ in range(2)]

    def over(self, batches: list[NDArray[np.int64]]) -> Iterator[Tensor]:
        """The vectors of each batch of rows in turn, (rows, K+1, channels); valid until the next one is requested."""
        with ThreadPoolExecutor(1) as reader:
            coming = [reader.submit(self._read, 0, batches[0])] if batches else []
            for number in range(len(batches)):
                start = time.monotonic()
                vectors = coming.pop().result()
                self.waited += time.monotonic() - start
                if number + 1 < len(batches):
                    coming.append(reader.submit(self._read, (number + 1) % 2, batches[number + 1]))
                yield vectors

    def _read(self, buffer: int, rows: NDArray[np.int64]) -> Tensor:
        if len(self._buffers[buffer]) < len(rows):
            self._buffers[buffer] = np.empty((len(rows), *self._buffers[buffer].shape[1:]), self.store.vectors.dtype)
        out = self._buffers[buffer][: len(rows)]
        np.take(self.store.vectors, rows, axis=0, out=out, mode="clip")
        return torch.from_numpy(out)
