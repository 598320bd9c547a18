"""Arrays in files: opened without reading them, read a piece at a time, let go of after."""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

PIECE = 1 << 17  # rows that are read or written at a time


def pieces(rows: int, step: int = PIECE) -> Iterator[slice]:
    """Slices that cover this many rows."""
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def read_about(path: Path, kind: str, version: int) -> dict[str, Any]:
    """The description of a folder, or an error that names the file."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: {path.parent} is no {kind}")
    try:
        about = json.loads(path.read_text())
        found, number = about["format"], about["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be read ({error})") from error
    if found != kind or number != version:
        raise ValueError(
            f"{path} says {found!r}, version {number}; expected {kind!r}, version {version}: make it again"
        )
    result: dict[str, Any] = about
    return result


def open_array(path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    """A mapped .npy file of the shape that is expected, or an error that names it."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error})") from error
    if array.shape != shape:
        raise ValueError(f"{path} has shape {array.shape}; expected {shape}")
    return array


def create_array(path: Path, dtype: Any, shape: tuple[int, ...], *, by_column: bool = False) -> np.memmap[Any, Any]:
    """A new mapped .npy file to write into; the disk's room for it is taken at once, so that none is missing later."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape, fortran_order=by_column)
    try:
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return array


def drop_pages(array: NDArray[Any]) -> None:
    """Gives back the memory of a mapped file's pages, which the system keeps in its cache while there is room."""
    mapping = getattr(array, "_mmap", None)
    if mapping is not None:
        mapping.madvise(mmap.MADV_DONTNEED)


def crc32(array: NDArray[Any]) -> int:
    """The checksum of an array's bytes."""
    return zlib.crc32(np.ascontiguousarray(array).data)


def file_crc32(path: Path) -> int:
    """The checksum of a file."""
    value = 0
    with path.open("rb") as file:
        while content := file.read(1 << 24):
            value = zlib.crc32(content, value)
    return value


def zeros(rows: int, width: int) -> NDArray[np.float32]:
    """Zeros that begin at a page, so that 16 channels are a cache line; in large pages where the system has them."""
    memory = mmap.mmap(-1, max(1, rows * width * 4), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.float32, count=rows * width).reshape(rows, width)


class VectorWriter:
    """A .npy file of one axis that grows as pieces come."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.dtype, self.count = dtype, 0
        self._file: IO[bytes] = path.open("w+b")
        self._header()

    def append(self, piece: NDArray[Any]) -> None:
        """Adds numbers at the end."""
        piece.astype(self.dtype, copy=False).tofile(self._file)
        self.count += len(piece)

    def close(self) -> None:
        """Writes the length, for which the header has room."""
        self._file.seek(0)
        self._header()
        self._file.close()

    def _header(self) -> None:
        description = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.count,)}
        np.lib.format.write_array_header_1_0(self._file, description)  # padded for lengths of up to 21 digits
