"""A table in memory whose rows can be found again in their file."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


@dataclass(frozen=True)
class TableFile:
    """A table whose names are known and whose rows are not read yet.

    Attributes:
        path: the file.
        names: names of the columns, not necessarily distinct.
        sample: the first rows as text.
        read: reads columns, given by index; those in the second argument become text, those in the third numbers.
        layout: what was detected, such as the delimiter; empty if nothing was.
        line: the line of the header in a text file.
        header: whether the names come from the file.
    """

    path: Path
    names: tuple[str, ...]
    sample: list[list[str]]
    read: Callable[[list[int], Collection[int], Collection[int]], Table]
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
        codes: index of each row's text.
        distinct: the distinct texts.
    """

    codes: NDArray[np.int64]
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
        index = pc.fill_null(pc.index_in(self.distinct, value_set=values), -1).to_numpy()
        found: NDArray[np.int64] = index.astype(np.int64)[self.codes]
        return found

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
    """

    path: Path
    names: tuple[str, ...]
    columns: tuple[pa.ChunkedArray, ...]
    lines: Callable[[Collection[int]], dict[int, int]] | None = None
    unit: str = "row"

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
            if not pa.types.is_dictionary(values.type):
                values = values.dictionary_encode()
            values = values.unify_dictionaries().combine_chunks()
            distinct = pc.cast(values.dictionary, pa.string())
        except pa.ArrowException as error:
            kind = self.columns[column].type
            raise ValueError(
                f"{self.path}: column {self.names[column]!r} has type {kind}; expected text or numbers"
            ) from error
        encoded = pa.concat_arrays([pc.utf8_trim_whitespace(pc.fill_null(distinct, "")), pa.array([""])])
        encoded = encoded.dictionary_encode()  # again, because texts may differ in whitespace only
        codes = pc.fill_null(values.indices, len(distinct)).to_numpy(zero_copy_only=False)
        return Texts(encoded.indices.to_numpy().astype(np.int64)[codes], encoded.dictionary)
