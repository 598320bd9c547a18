"""Files that this package did not write: checked before they are read, and refused with one line that names the file.

A reader never trusts a size that a file states about itself. It compares the size with the bytes that are there before
it allocates memory, and reads nothing that is not a regular file: pipes and devices block or never end.
"""

from __future__ import annotations

import os
import stat
import tomllib
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

NUMBERS = "biuf"  # kinds of NumPy data types: booleans, integers, unsigned integers, floats
TEXT = "SU"
MAX_TEXT = 16 << 20  # bytes of a configuration
MAX_RATIO = 1100  # Deflate compresses by at most 1032:1
PIECE = 1 << 24  # bytes to unpack at a time


def regular_file(path: Path) -> int:
    """The size of a file in bytes.

    Raises:
        FileNotFoundError: if it does not exist.
        ValueError: if it is not a regular file.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    if stat.S_ISDIR(status.st_mode):
        raise ValueError(f"{path} is a folder; expected a file")
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is a pipe, socket or device; expected a regular file")
    return status.st_size


@contextmanager
def errors_naming(path: Path, problem: str) -> Iterator[None]:
    """Turns every error into one that names the file; parsers raise errors of many types for damaged files.

    Args:
        path: the file.
        problem: what is wrong if an error occurs, such as ``not a MATLAB file, or damaged``.

    Raises:
        ValueError: for any error inside, unless it names the file already, as errors of the operating system do.
    """
    try:
        yield
    except Exception as error:
        if (isinstance(error, ValueError) and str(path) in str(error)) or getattr(error, "filename", None):
            raise
        raise ValueError(f"{path}: {problem} ({_reason(error)})") from error


def read_text(path: Path, limit: int = MAX_TEXT) -> str:
    """The text of a small file in UTF-8.

    Raises:
        ValueError: if the file is larger than ``limit`` bytes, not regular or not UTF-8.
    """
    size = regular_file(path)
    if size > limit:
        raise ValueError(f"{path} has {size:,} bytes; expected at most {limit:,}")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not valid UTF-8 ({error.reason} at byte {error.start})") from error


def read_toml(path: Path) -> dict[str, Any]:
    """The document of a TOML file.

    Raises:
        ValueError: if the file is not TOML or is nested too deeply.
    """
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from error
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply") from None


# ---- NumPy arrays --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrayHeader:
    """What the header of a ``.npy`` file states.

    Attributes:
        shape, dtype: shape and data type of the array.
        by_column: whether the first index varies fastest.
        offset: size of the header in bytes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_column: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Size of the values in bytes."""
        return prod(self.shape) * self.dtype.itemsize


def read_array_header(file: IO[bytes], origin: str, size: int, kinds: str = NUMBERS) -> ArrayHeader:
    """Reads a ``.npy`` header and compares it with the size of the file.

    Args:
        file: the file, at its beginning; afterwards, at the first value.
        origin: what to call the file in error messages.
        size: size of the file in bytes.
        kinds: permitted kinds of data type, as in ``numpy.dtype.kind``.

    Raises:
        ValueError: if the header is damaged, the data type is not permitted, or the size does not match.
    """
    try:
        version = np.lib.format.read_magic(file)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, by_column, dtype = readers[version](file)
    except Exception as error:  # NumPy's parser raises errors of ten types, such as tokenize.TokenError
        raise ValueError(f"{origin}: not a NumPy array, or damaged ({_reason(error)})") from error
    if dtype.hasobject:
        raise ValueError(f"{origin}: the array holds Python objects, which are not loaded; expected {_expected(kinds)}")
    if dtype.kind not in kinds or dtype.subdtype is not None:
        raise ValueError(f"{origin}: the array has dtype {dtype}; expected {_expected(kinds)}")
    if any(isinstance(length, bool) or length < 0 for length in shape):
        raise ValueError(f"{origin}: damaged header (shape {shape})")
    header = ArrayHeader(shape, dtype, by_column, file.tell())
    if header.offset + header.nbytes != size:
        raise ValueError(
            f"{origin}: {_shown(shape)} of {dtype} needs {header.offset + header.nbytes:,} bytes, but the file has "
            f"{size:,}: it is truncated, damaged or has bytes appended"
        )
    return header


def map_array(path: Path, kinds: str = NUMBERS) -> NDArray[Any]:
    """Maps the array of a ``.npy`` file into memory, read-only.

    Raises:
        ValueError: if the file is damaged or its data type is not permitted; see :func:`read_array_header`.
    """
    size = regular_file(path)
    with path.open("rb") as file:
        header = read_array_header(file, str(path), size, kinds)
    if header.nbytes == 0:
        return np.empty(header.shape, header.dtype)
    order: Any = "F" if header.by_column else "C"
    return np.memmap(path, header.dtype, "r", header.offset, header.shape, order)


class Archive:
    """The arrays of an ``.npz`` file, checked before they are unpacked.

    Args:
        path: the file.

    Raises:
        ValueError: if the file is not a ZIP archive of arrays, or claims more data than its size can hold.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        size = regular_file(path)
        with errors_naming(path, "not an archive of arrays, or damaged"):
            self._archive = zipfile.ZipFile(path)
            entries = self._archive.infolist()
        for entry in entries:
            if entry.flag_bits & 1:
                raise ValueError(f"{path}: {entry.filename} is encrypted")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{path}: {entry.filename} has an unknown compression; expected Deflate or none")
            if entry.file_size > MAX_RATIO * entry.compress_size:
                raise ValueError(f"{path}: {entry.filename} claims {entry.file_size:,} bytes, more than it can hold")
        if sum(entry.compress_size for entry in entries) > size:
            raise ValueError(f"{path}: the entries overlap")
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in entries}

    @property
    def names(self) -> Collection[str]:
        """Names of the arrays."""
        return self._entries.keys()

    def open(self, name: str, kinds: str = NUMBERS) -> tuple[IO[bytes], ArrayHeader]:
        """An array as a stream, at its first value, and its header.

        Raises:
            ValueError: if there is no such array, or it is damaged; see :func:`read_array_header`.
        """
        if name not in self._entries:
            raise ValueError(f"{self.path}: no array {name!r}")
        entry = self._entries[name]
        try:
            file = self._archive.open(entry)
        except Exception as error:  # zipfile raises errors of many types
            raise ValueError(f"{self._origin(name)} is damaged ({_reason(error)})") from error
        return file, read_array_header(file, self._origin(name), entry.file_size, kinds)

    def read(self, name: str, kinds: str = NUMBERS) -> NDArray[Any]:
        """An array in memory. Raises ValueError as :meth:`open` does, and for a wrong checksum."""
        file, header = self.open(name, kinds)
        try:
            values = np.empty(header.nbytes, np.uint8)
            at = 0
            while piece := file.read(min(PIECE, header.nbytes - at) or 1):  # the read at the end compares the checksum
                values[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
                at += len(piece)
        except Exception as error:  # as in open
            raise ValueError(f"{self._origin(name)} is damaged ({_reason(error)})") from error
        if at != header.nbytes:
            raise ValueError(f"{self._origin(name)} is truncated")
        return values.view(header.dtype).reshape(header.shape, order="F" if header.by_column else "C")

    def _origin(self, name: str) -> str:
        return f"{self.path}: array {name!r}"

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()


def read_arrays(path: Path, *names: str) -> list[NDArray[Any]]:
    """Arrays of numbers from an ``.npz`` file. Raises ValueError; see :class:`Archive`."""
    with Archive(path) as archive:
        return [archive.read(name) for name in names]


def read_sparse(path: Path) -> Any:
    """A sparse matrix that SciPy's ``save_npz`` wrote, as a ``csr_array``.

    Raises:
        ValueError: if the file is damaged, or its indices do not describe a matrix of its shape.
    """
    with Archive(path) as archive:
        kind = archive.read("format", TEXT).reshape(-1)[:1]
        with errors_naming(path, "damaged name of a sparse format"):
            name = b"".join(kind.astype("S8")).decode("ascii", "replace")
        parts = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}.get(name)
        if parts is None:
            raise ValueError(
                f"{path}: sparse matrix in format {name!r}; expected csr, csc or coo: convert with tocsr()"
            )
        shape = archive.read("shape", "iu")
        indices = [archive.read(part, "iu") for part in parts]
        data = archive.read("data")
    return sparse_matrix(path, name, shape, data, indices)


def integers_of(path: Path, values: NDArray[Any]) -> NDArray[np.int64]:
    """Integers that are stored as floats, as MATLAB does. Raises ValueError if they do not fit."""
    numbers = values.astype(np.float64)
    if not ((np.abs(numbers) < 2**53) & (numbers == np.trunc(numbers))).all():
        raise ValueError(f"{path}: expected integers")
    return values.astype(np.int64)


def sparse_matrix(path: Path, kind: str, shape: NDArray[Any], data: NDArray[Any], indices: list[NDArray[Any]]) -> Any:
    """A sparse matrix from arrays of a file, as a ``csr_array``.

    Args:
        path: the file, for error messages.
        kind: ``csr``, ``csc`` or ``coo``.
        shape: number of rows and columns.
        data: the stored values.
        indices: column (row) indices and offsets of the rows (columns); rows and columns for ``coo``.

    Raises:
        ValueError: if the arrays do not describe a matrix of this shape.
    """
    import scipy.sparse as sp

    if shape.shape != (2,) or any(array.ndim != 1 for array in (data, *indices)):
        raise ValueError(f"{path}: not a sparse matrix: expected two lengths and three vectors")
    rows, columns = (int(length) for length in shape)
    if min(rows, columns) < 0 or max(rows, columns) > max(1 << 21, 16 * len(data)):
        raise ValueError(f"{path}: shape ({rows}, {columns}) with {len(data):,} stored values; the header is damaged")
    if kind != "coo" and (np.diff(indices[1].astype(np.int64)) < 0).any():  # SciPy overlooks it if the last is 0
        raise ValueError(f"{path}: not a valid sparse matrix (the offsets decrease)")
    with errors_naming(path, "not a valid sparse matrix"):
        if kind == "coo":
            matrix = sp.coo_array((data, tuple(indices)), shape=(rows, columns))
        else:
            matrix = (sp.csr_array if kind == "csr" else sp.csc_array)((data, *indices), shape=(rows, columns))
            matrix.check_format(full_check=True)
        return matrix.tocsr()


def _expected(kinds: str) -> str:
    return {NUMBERS: "real numbers", TEXT: "text", "iu": "integers"}.get(kinds, f"one of the kinds {kinds}")


def _shown(shape: tuple[int, ...]) -> str:
    return f"an array of shape {shape}" if len(str(shape)) < 80 else f"an array of {len(shape)} axes"


def _reason(error: Exception) -> str:
    """The first line of an error, or its type if it has no text."""
    text = " ".join(str(error).split())
    return text[:200] if text else type(error).__name__
