"""Numeric and sparse variables of MATLAB files of level 5, as MATLAB (up to version 7) and SciPy write them.

SciPy's reader crashes the process on some damaged files: it uses the type of an element as an index without a check.
This one compares every type and size with the bytes that are there.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polybasis.foreign_files import regular_file, sparse_matrix

# "MAT-File Format" (The MathWorks): types of elements, and classes of arrays.
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX, COMPRESSED = 14, 15
SPARSE, CLASSES = 5, {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
COMPLEX, LOGICAL = 0x08, 0x02
HEADER = 128  # bytes


def read_mat(path: Path, *names: str) -> list[Any]:
    """Variables of a MATLAB file: NumPy arrays, or SciPy ``csr_array`` for sparse ones.

    Args:
        path: the file.
        names: names of the variables.

    Raises:
        ValueError: if the file is damaged, or a variable is missing or does not hold real numbers.
    """
    regular_file(path)
    content = memoryview(path.read_bytes())
    if len(content) < HEADER or bytes(content[126:128]) not in (b"IM", b"MI"):
        raise ValueError(f"{path}: not a MATLAB file of level 5")
    order = "<" if bytes(content[126:128]) == b"IM" else ">"
    found: dict[str, Any] = {}
    try:
        for kind, data in _elements(content[HEADER:], order):
            for variable in _variables(kind, data, order):
                if variable.name in names:
                    found[variable.name] = variable.read(path)
    except (ValueError, zlib.error) as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path}: not a MATLAB file, or a damaged one ({error})") from error
    if missing := [name for name in names if name not in found]:
        raise ValueError(f"{path}: no variable {missing[0]!r}")
    return [found[name] for name in names]


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """The type and the bytes of each element."""
    at = 0
    while at < len(content):
        if len(content) - at < 8:
            raise ValueError("truncated element")
        kind, size = (int(number) for number in np.frombuffer(content[at : at + 8], f"{order}u4"))
        start = at + 8
        if kind >> 16:  # up to four bytes, inside the tag
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
            end = at + 8
            if size > 4:
                raise ValueError(f"small element of {size} bytes")
        else:
            end = start + size
            if kind != COMPRESSED:
                end += -size % 8
        if start + size > len(content):
            raise ValueError(f"element of {size:,} bytes, but {len(content) - start:,} remain")
        yield kind, content[start : start + size]
        at = end


@dataclass(frozen=True)
class _Variable:
    """A variable: the elements of its values, not yet converted."""

    name: str
    kind: int
    flags: int
    shape: tuple[int, ...]
    parts: list[tuple[int, memoryview]]
    order: str

    def read(self, path: Path) -> Any:
        """The values as an array. Raises ValueError if they are not real numbers of this shape."""
        if self.flags & COMPLEX or self.kind not in (SPARSE, *CLASSES):
            raise ValueError(f"{path}: {self.name} holds something other than real numbers")
        arrays = [_numbers(*part, self.order) for part in self.parts]
        if self.kind == SPARSE:
            if len(arrays) != 3 or any(array.dtype.kind not in "iu" for array in arrays[:2]) or len(self.shape) != 2:
                raise ValueError(f"{path}: {self.name} is a damaged sparse matrix")
            rows, offsets, values = arrays
            stored = int(offsets[-1]) if len(offsets) else 0  # MATLAB may allocate more
            values, rows = values[:stored].astype(bool if self.flags & LOGICAL else np.float64), rows[:stored]
            return sparse_matrix(path, "csc", np.array(self.shape), values, [rows, offsets])
        if len(arrays) != 1 or prod(self.shape) != len(arrays[0]):
            raise ValueError(f"{path}: {self.name} of shape {self.shape} has another number of values")
        return arrays[0].astype(bool if self.flags & LOGICAL else CLASSES[self.kind]).reshape(self.shape, order="F")


def _variables(kind: int, data: memoryview, order: str) -> Iterator[_Variable]:
    """The variable of an element; none if the element is something else."""
    if kind == COMPRESSED:
        stream = zlib.decompressobj()
        unpacked = stream.decompress(data)
        if not stream.eof:
            raise ValueError("truncated compressed element")
        for inner, inside in _elements(memoryview(unpacked), order):
            if inner == COMPRESSED:
                raise ValueError("compressed element inside another")
            yield from _variables(inner, inside, order)
    elif kind == MATRIX:
        head = _elements(data, order)
        try:
            flags, shape, name = (_numbers(*next(head), order) for _ in range(3))
        except StopIteration:
            raise ValueError("truncated variable") from None
        integers = all(array.dtype.kind in "iu" for array in (flags, shape, name))
        if not integers or len(flags) != 2 or min(shape, default=0) < 0:
            raise ValueError("damaged description of a variable")
        word = int(flags[0])
        text = name.astype(np.uint8).tobytes().decode("latin1")
        lengths = tuple(int(length) for length in shape)
        yield _Variable(text, word & 0xFF, word >> 8 & 0xFF, lengths, list(head), order)


def _numbers(kind: int, data: memoryview, order: str) -> NDArray[Any]:
    if kind not in TYPES or len(data) % int(TYPES[kind][1]):
        raise ValueError(f"element of unknown type {kind}, or of another size")
    numbers = np.frombuffer(data, f"{order}{TYPES[kind]}")
    return numbers.astype(numbers.dtype.newbyteorder("="))
