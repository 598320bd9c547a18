"""Tables in text files: CSV and its relatives, parsed by Arrow straight into typed columns.

The text is parsed a second time, row by row, only to find the line of a problem.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from polybasis.data.tables.dialect import DELIMITERS, Dialect, detect
from polybasis.data.tables.problems import LIMIT, TableError
from polybasis.data.tables.roles import counted
from polybasis.data.tables.table import Table, TableFile
from polybasis.data.tables.text_files import compression_of, csv_rows, open_bytes, undecodable

BLOCK = 1 << 20  # bytes of a file to parse at a time
MISSING = (
    "",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "<NA>",
    "NaN",
    "nan",
    "-NaN",
    "-nan",
    "NULL",
    "null",
)  # as pandas writes gaps
MISSING_NUMBERS = (*MISSING, "None", "none", "?", "-")


def open_text_table(path: Path, header: bool | None, expected: str, edges: bool = False) -> TableFile:
    """Opens a text table; see :func:`polybasis.data.tables.dialect.detect`."""
    dialect = detect(path, header, expected, edges)
    parts = [f"{DELIMITERS[dialect.delimiter]}-separated"] if dialect.delimiter != "," else []
    parts += ["decimal comma"] if dialect.decimal == "," else []
    parts += ["the first row is taken as the header"] if dialect.guessed else []
    parts += [] if dialect.header else ["no header"]
    read, layout = partial(_read, path, dialect), ", ".join(parts)
    return TableFile(path, dialect.names, dialect.rows, read, layout, max(1, dialect.skip), dialect.header)


def _read(
    path: Path, dialect: Dialect, columns: list[int], texts: Collection[int], numbers: Mapping[int, pa.DataType]
) -> Table:
    """Reads columns; ``texts`` become text, ``numbers`` numbers if all their cells are, and others what they are.

    Raises:
        TableError: if rows have different numbers of cells or the file is not UTF-8.
    """
    types = dict.fromkeys(texts, pa.string())
    try:
        try:
            table = _parse(path, dialect, columns, types | dict(numbers))
        except pa.ArrowInvalid:
            if not numbers:
                raise
            table = _parse(path, dialect, columns, types)
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error):
            raise undecodable(path) from error
        _refuse_ragged(path, dialect)
        raise TableError([f"{path}: not a table of text ({' '.join(str(error).split())[:200]})"]) from error
    if any(pa.types.is_binary(column.type) for column in table.columns):
        raise undecodable(path)
    names = tuple(dialect.names[i] for i in columns)
    return Table(path, names, tuple(table.columns), partial(_lines, path, dialect), decimal=dialect.decimal)


def _parse(path: Path, dialect: Dialect, columns: list[int], types: dict[int, Any]) -> pa.Table:
    options = {
        "read_options": pyarrow.csv.ReadOptions(
            column_names=[str(i) for i in range(len(dialect.names))],
            skip_rows=dialect.skip,
            block_size=BLOCK,
            use_threads=False,  # threads need three times the memory and more processor time
        ),
        "parse_options": pyarrow.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        "convert_options": pyarrow.csv.ConvertOptions(
            include_columns=[str(i) for i in columns],
            column_types={str(i): kind for i, kind in types.items() if i in columns},
            null_values=MISSING_NUMBERS,
            strings_can_be_null=False,
            true_values=[],  # booleans are recognised later, with all their spellings
            false_values=[],
            decimal_point=dialect.decimal,
        ),
    }
    if compression_of(path) is None:
        return pyarrow.csv.read_csv(path, **options)
    with open_bytes(path) as file:
        return pyarrow.csv.read_csv(file, **options)


def _lines(path: Path, dialect: Dialect, rows: Collection[int]) -> dict[int, int]:
    """The lines of rows."""
    last, found = max(rows), {}
    for row, (line, _) in enumerate(csv_rows(path, dialect.delimiter, dialect.skip)):
        if row in rows:
            found[row] = line
        if row == last:
            break
    return found


def _refuse_ragged(path: Path, dialect: Dialect) -> None:
    """Raises TableError if rows have more or fewer cells than the first."""
    width, more = len(dialect.names), 0
    problems: list[str] = []
    for line, row in csv_rows(path, dialect.delimiter, dialect.skip):
        if len(row) != width:
            more += len(problems) == LIMIT
            if len(problems) < LIMIT:
                start = ", ".join(repr(cell.strip()[:40]) for cell in row[:2])
                problems.append(f"{path}:{line}: the row that starts with {start} has {counted(len(row), 'cell')}")
    if problems:
        whose = "the header" if dialect.header else "the first row"
        advice = f"{whose} has {width}: quote cells that contain the delimiter, and complete short rows"
        raise TableError(problems, [advice], more)
