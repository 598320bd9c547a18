"""Arrays of numbers and sparse matrices from MATLAB files of version 5, the format of MATLAB 5 to 7 and of SciPy.

SciPy's reader trusts the sizes and types in a file, and a damaged file can crash the interpreter. This one reads only
what the published data sets contain, and compares every size with the bytes that are there. The format is described in
*MAT-File Format* by The MathWorks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from polybasis.foreign_files import errors_naming, regular_file

HEADER = 128
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
MATRIX, COMPRESSED, SPARSE, COMPLEX = 14, 15, 5, 0x0800
MAX_HEAD = 4096  # bytes at the start of a variable that contain its type, shape and name


def read_matlab(path: Path, *names: str) -> list[Any]:
    """Reads variables: arrays as NumPy arrays, sparse matrices as SciPy's ``csc_array``.

    Args:
        path: the file.
        names: names of the variables.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file is damaged, or a variable is missing or not an array of real numbers; the message gives
            the file.
    """
    size = regular_file(path)
    with errors_naming(path, "not a MATLAB file of version 5, or damaged"):
        if size < HEADER:
            raise ValueError(f"{size} bytes; the header has {HEADER}")
        content = np.memmap(path, np.uint8, "r")
        order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:128]), "")
        if not order or int(content[125 if order == "<" else 124]) != 1:
            raise ValueError("not version 5")
        found = {}
        for kind, data in _elements(content[HEADER:], order):
            if kind == COMPRESSED:
                head = np.frombuffer(zlib.decompressobj().decompress(data.tobytes(), MAX_HEAD), np.uint8)
                if _name(head[8:], order) in names:
                    kind, data = next(_elements(np.frombuffer(zlib.decompress(data.tobytes()), np.uint8), order))
            if kind == MATRIX and (name := _name(data, order)) in names:
                found[name] = _variable(data, order)
        if missing := [name for name in names if name not in found]:
            raise ValueError(f"no variable {missing[0]!r}")
        return [found[name] for name in names]


Bytes = NDArray[np.uint8]


def _elements(content: Bytes, order: str) -> Iterator[tuple[int, Bytes]]:
    """Type and data of consecutive elements, each read when it is asked for."""
    while len(content) >= 8:
        kind, size = (int(word) for word in content[:8].view(f"{order}u4"))
        if kind >> 16:  # up to four bytes of data in the place of the size
            kind, size, start, end = kind & 0xFFFF, kind >> 16, 4, 8
        else:
            start, end = 8, 8 + size + (-size % 8 if kind != COMPRESSED else 0)
        data = content[start : start + size]
        if (start == 4 and size > 4) or len(data) < size:
            raise ValueError(f"an element states {size:,} bytes, but {len(data):,} are left")
        yield kind, data
        content = content[end:]


def _numbers(element: tuple[int, Bytes], order: str) -> NDArray[Any]:
    kind, data = element
    if kind not in STORED:
        raise ValueError(f"an element of type {kind}; expected numbers")
    return np.frombuffer(data.tobytes(), f"{order}{STORED[kind]}")


def _name(matrix: Bytes, order: str) -> str:
    """The name of a variable; the data may end after it."""
    elements = _elements(matrix, order)
    next(elements), next(elements)
    return next(elements)[1].tobytes().decode("latin1")


def _variable(matrix: Bytes, order: str) -> Any:
    flags, dimensions, _, *parts = _elements(matrix, order)
    flag = int(_numbers(flags, order)[0])
    shape = tuple(int(length) for length in _numbers(dimensions, order))
    if flag & COMPLEX:
        raise ValueError("a variable is complex; expected real numbers")
    if flag & 0xFF == SPARSE:
        indices, indptr, values = (_numbers(part, order) for part in parts)
        count = int(indptr[-1])
        if (np.diff(indptr.astype(np.int64)) < 0).any():  # SciPy overlooks it if the last is 0
            raise ValueError("the offsets of a sparse matrix decrease")
        arrays = (values[:count].astype(np.float64), indices[:count].astype(np.int64), indptr.astype(np.int64))
        found = sp.csc_array(arrays, shape=shape)
        found.check_format(full_check=True)
        return found
    if flag & 0xFF not in CLASSES:
        raise ValueError(f"a variable of class {flag & 0xFF}; expected an array of numbers")
    (values,) = (_numbers(part, order) for part in parts)
    if min(shape) < 0 or prod(shape) != len(values):
        raise ValueError(f"{len(values):,} numbers for an array of {len(shape)} axes")
    return values.astype(CLASSES[flag & 0xFF]).reshape(shape, order="F")
