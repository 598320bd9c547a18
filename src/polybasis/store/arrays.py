"""Arrays in files: memory-mapped, processed in chunks and then dropped from memory."""

from __future__ import annotations

import mmap
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.checksums import FormerVersionWarning, read_document
from polybasis.data.targets import target_kind
from polybasis.files import os_errors_naming
from polybasis.foreign_files import NUMBERS, TEXT, map_array

CHUNK_ROWS = 1 << 17  # rows to read or write at a time


def chunks(rows: int, step: int = CHUNK_ROWS) -> Iterator[slice]:
    """Slices that cover this many rows."""
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def read_header(path: Path, kind: str, version: int, oldest: int) -> dict[str, Any]:
    """The JSON header of a folder, verified by its checksum; warns about earlier versions, which had none.

    Args:
        path: the header file.
        kind: the expected format.
        version: the version that this package writes.
        oldest: the oldest version that this package reads.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file is damaged or has a different format or version.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; {path.parent} is not a {kind}")
    header = read_document(path, sealed=lambda header: header.get("version") == version)
    found, number = header.get("format"), header.get("version")
    if found != kind or not isinstance(number, int) or not oldest <= number <= version:
        raise ValueError(
            f"{path} has format {found!r}, version {number}; expected {kind!r}, version {version}: rebuild it"
        )
    if number < version:
        warnings.warn(
            f"{path.parent} was written by an earlier version, without checksums; rebuild it to add them",
            FormerVersionWarning,
            stacklevel=3,
        )
    return header


def open_array(path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    """Memory-maps a .npy file of the given shape.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file is damaged or has a different shape.
    """
    array = map_array(path, NUMBERS + TEXT)
    if array.shape != shape:
        raise ValueError(f"{path} has shape {array.shape}; expected {shape}")
    return array


def open_target(path: Path, rows: int) -> NDArray[Any]:
    """Memory-maps the targets of some rows: class indices (integers) or numbers, (rows,), or labels, (rows, labels).

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file is damaged or has a different shape.
    """
    y = map_array(path, NUMBERS)
    if y.ndim not in (1, 2) or len(y) != rows:
        raise ValueError(f"{path} has shape {y.shape}; expected ({rows},) or ({rows}, labels)")
    return y


def target_tensor(y: NDArray[Any]) -> Tensor:
    """A copy of targets as a tensor; see :mod:`polybasis.data.targets`."""
    copied = torch.from_numpy(np.array(y))
    return copied.long() if target_kind(copied) == "classification" else copied


def create_array(path: Path, dtype: Any, shape: tuple[int, ...], *, by_column: bool = False) -> np.memmap[Any, Any]:
    """Creates a memory-mapped .npy file; Linux reserves its disk space, so that later writes cannot fill the disk."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape, fortran_order=by_column)
    try:
        if hasattr(os, "posix_fallocate"):
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return array


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Writes a .npy file.

    Raises:
        OSError: if the disk is full; :func:`numpy.save` does not notice it for the last bytes of an array.
    """
    with os_errors_naming(path), path.open("wb") as file:
        np.lib.format.write_array(SimpleNamespace(write=file.write), array, allow_pickle=False)


def drop_pages(array: NDArray[Any]) -> None:
    """Releases the resident pages of a mapped file; they stay in the system's file cache while there is room."""
    mapping = getattr(array, "_mmap", None)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def combined_checksum(checksums: dict[str, int]) -> str:
    """Combines the checksums of the files of a folder of version 2 or 3 into one."""
    digest = 0
    for name, value in sorted(checksums.items()):
        digest = (digest * 1_000_003 + value + len(name)) % 2**64
    return f"{digest:016x}"


def zeros(rows: int, width: int) -> NDArray[np.float32]:
    """Page-aligned zeros, in huge pages where available; 16 channels then fill exactly one cache line."""
    memory = mmap.mmap(-1, max(1, rows * width * 4), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.float32, count=rows * width).reshape(rows, width)


class VectorWriter:
    """Writes a one-dimensional .npy file by appending to it."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.dtype, self.count = dtype, 0
        self._file: IO[bytes] = path.open("w+b")
        self._write_header()

    def append(self, values: NDArray[Any]) -> None:
        """Appends values."""
        self._file.write(np.ascontiguousarray(values, self.dtype).data)  # tofile() may not notice a full disk
        self.count += len(values)

    def close(self) -> None:
        """Writes the final length into the header and closes the file."""
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        description = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.count,)}
        np.lib.format.write_array_header_1_0(self._file, description)  # padded for lengths of up to 21 digits
