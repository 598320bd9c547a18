"""A table in memory whose rows can be found again in their file."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from polybasis.data.columns import as_number

GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}([.,']\d{3})+([.,]\d+)?")  # a number with thousands separators
PART = 1 << 16  # rows to look up at a time: NumPy converts indices to int64


@dataclass(frozen=True)
class TableFile:
    """A table whose names are known and whose rows are not read yet.

    Attributes:
        path: the file.
        names: names of the columns, not necessarily distinct.
        sample: the first rows as text.
        read: reads columns, given by index. Those in the second argument become text, those in the third numbers of the
            given type if all their cells are numbers.
        layout: what was detected, such as the delimiter; empty if nothing was.
        line: the line of the header in a text file.
        header: whether the names come from the file.
    """

    path: Path
    names: tuple[str, ...]
    sample: list[list[str]]
    read: Callable[[list[int], Collection[int], Mapping[int, pa.DataType]], Table]
    layout: str = ""
    line: int | None = None
    header: bool = True

    @property
    def origin(self) -> str:
        """The file and the line of its header."""
        return str(self.path) if self.line is None else f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Texts:
    """A column of text, each distinct text stored once: a small Parquet file can repeat a long text millions of times.

    Attributes:
        codes: index of each row's text, int32.
        distinct: the distinct texts.
    """

    codes: NDArray[np.int32]
    distinct: pa.Array

    @property
    def empty(self) -> NDArray[np.bool_]:
        """The rows without text."""
        mask: NDArray[np.bool_] = pc.equal(self.distinct, "").to_numpy(zero_copy_only=False)[self.codes]
        return mask

    @property
    def duplicate(self) -> NDArray[np.bool_]:
        """The rows whose text occurs in an earlier row."""
        mask = np.ones(len(self.codes), dtype=np.bool_)
        mask[np.unique(self.codes, return_index=True)[1]] = False
        return mask

    def index_in(self, values: pa.Array) -> NDArray[np.int64]:
        """The index of each row's text in ``values``; -1 if it is not there."""
        index = self._index_of_distinct(values)
        found = np.empty(len(self.codes), dtype=np.int64)
        for start in range(0, len(found), PART):
            found[start : start + PART] = index[self.codes[start : start + PART]]
        return found

    def first_rows(self, values: pa.Array) -> NDArray[np.int64]:
        """The first row with each of ``values``; the number of rows if there is none."""
        first = np.full(len(self.distinct), len(self.codes))
        for start in reversed(range(0, len(self.codes), PART)):
            part = self.codes[start : start + PART]
            first[part[::-1]] = np.arange(start, start + len(part))[::-1]  # the last assignment stays
        index = self._index_of_distinct(values)
        rows = np.full(len(values), len(self.codes))
        rows[index[index >= 0]] = first[index >= 0]
        return rows

    def _index_of_distinct(self, values: pa.Array) -> NDArray[np.int32]:
        index: NDArray[np.int32] = pc.fill_null(pc.index_in(self.distinct, value_set=values), -1).to_numpy()
        return index

    def first(self, row: int) -> int:
        """The first row with the text of a row."""
        return int(np.argmax(self.codes == self.codes[row]))

    def rows(self) -> pa.Array:
        """The texts row by row."""
        return self.distinct.take(pa.array(self.codes))

    def __getitem__(self, row: int) -> str:
        return str(self.distinct[int(self.codes[row])].as_py())


@dataclass(frozen=True)
class Table:
    """Columns of a file.

    Attributes:
        path: the file.
        names: names of the columns.
        columns: the columns.
        lines: finds the lines of rows in a text file; None for other files.
        unit: what a row of other files is called.
        decimal: the decimal point of numbers in text.
    """

    path: Path
    names: tuple[str, ...]
    columns: tuple[pa.ChunkedArray, ...]
    lines: Callable[[Collection[int]], dict[int, int]] | None = None
    unit: str = "row"
    decimal: str = "."

    def number(self, text: str) -> float | None:
        """The number that a text spells, or None. Next to a decimal comma, a point could only separate thousands."""
        if self.decimal == ".":
            return as_number(text)
        return None if "." in text else as_number(text.replace(self.decimal, "."))

    def misspelling(self, text: str) -> str:
        """What keeps a text from being a number, or "" if it does not resemble one."""
        if GROUPED.fullmatch(text):
            return "remove thousands separators"
        if as_number(text.replace(",", ".")) is None:
            return ""
        mark = "point" if self.decimal == "." else "comma"
        return f"write decimals with a {mark}, as most numbers of the file do"

    def not_a_number(self, text: str) -> str:
        """Says that a text is not a number, and why if it resembles one."""
        return "; ".join(filter(None, [f"{text[:40]!r} is not a number", self.misspelling(text)]))

    @property
    def rows(self) -> int:
        return len(self.columns[0])

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """File and line of rows."""
        if self.lines is None:
            return {row: f"{self.path}: {self.unit} {row + 1}" for row in rows}
        lines = self.lines(rows)
        return {row: f"{self.path}:{lines[row]}" if row in lines else str(self.path) for row in rows}

    def text(self, column: int) -> Texts:
        """A column as text without surrounding whitespace; missing values become empty.

        Raises:
            ValueError: if its type cannot be text.
        """
        values = self.columns[column]
        try:
            encoded = pa.types.is_dictionary(values.type)
            chunks = (values.unify_dictionaries() if encoded else values.dictionary_encode()).chunks  # one dictionary
            distinct = pc.cast(chunks[0].dictionary if chunks else pa.array([], pa.string()), pa.string())
            indices = pa.concat_arrays([chunk.indices for chunk in chunks] or [pa.array([], pa.int32())])
        except pa.ArrowException as error:
            kind = self.columns[column].type
            raise ValueError(
                f"{self.path}: column {self.names[column]!r} has type {kind}; expected text or numbers"
            ) from error
        trimmed = pc.utf8_trim_whitespace(pc.fill_null(distinct, ""))
        if not indices.null_count and pa.types.is_int32(indices.type) and trimmed.equals(distinct):
            return Texts(indices.to_numpy(), distinct)  # the usual case, without another copy
        again = pa.concat_arrays([trimmed, pa.array([""])]).dictionary_encode()  # texts may differ in whitespace only
        codes = pc.fill_null(pc.cast(indices, pa.int32()), len(distinct)).to_numpy()
        return Texts(again.indices.to_numpy()[codes], again.dictionary)
