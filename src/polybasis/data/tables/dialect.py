"""The layout of a text table: its delimiter, its decimal point and whether it has a header."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from polybasis.data.columns import as_number
from polybasis.data.tables.problems import TableError
from polybasis.data.tables.roles import KNOWN_NAMES
from polybasis.data.tables.text_files import open_bytes

SAMPLE = 1 << 18  # bytes of a file to judge its layout by
SAMPLE_ROWS = 2000
DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "|", " ": "space"}
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+([eE][+-]?\d+)?\s*")


@dataclass(frozen=True)
class Dialect:
    """How a text table is laid out.

    Attributes:
        delimiter: what separates cells.
        decimal: the decimal point.
        header: whether the first row is a header.
        guessed: whether that is a guess, because nothing tells the first row from the others.
        names: names of the columns.
        skip: number of lines before the first row of data.
        rows: the first rows of data.
    """

    delimiter: str
    decimal: str
    header: bool
    guessed: bool
    names: tuple[str, ...]
    skip: int
    rows: list[list[str]]


def detect(path: Path, header: bool | None, expected: str, edges: bool = False) -> Dialect:
    """Detects the layout of a text table from its beginning.

    Args:
        path: the file.
        header: whether it has a header; None to detect it.
        expected: the columns that it should have, for error messages.
        edges: whether the first two columns hold the same kind of names.

    Raises:
        TableError: if the file is not text, or is empty.
    """
    text, complete = _beginning(path)
    if not text.strip():
        raise TableError([f"{path}:1: the file is empty"], [f"expected {expected}"])
    comments = 0
    for line in io.StringIO(text, newline=""):
        if not line.startswith(("#", "%")):
            break
        comments += 1
    body = "".join(list(io.StringIO(text, newline=""))[comments:])
    tables = {mark: _parse(body, mark, complete) for mark in DELIMITERS}
    delimiter = _choose(body, tables)
    rows = [row for _, row in tables[delimiter]]
    if not rows:
        raise TableError([f"{path}:1: not a table of text"], [f"expected {expected}; is a quote missing?"])
    first, *others = rows
    decimal = _decimal(delimiter, rows)
    evident = _has_header(_plain(first, decimal), [_plain(row, decimal) for row in others], edges)
    found = evident is not False if header is None else header
    names = tuple((cell.strip() if found else "") or f"column {i}" for i, cell in enumerate(first, 1))
    lines = tables[delimiter][0][0] if found else 0
    data = others if found else rows
    guessed = header is None and evident is None
    return Dialect(delimiter, decimal, found, guessed, names, comments + lines, data)


def _beginning(path: Path) -> tuple[str, bool]:
    """The first part of a text file, and whether that is all of it."""
    with open_bytes(path) as file:
        start = file.read(SAMPLE + 1)
    content = start[:SAMPLE]
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TableError([f"{path}:1: the file is encoded in UTF-16"], ["save it as UTF-8"])
    if b"\0" in content:
        line = content[: content.index(b"\0")].count(b"\n") + 1
        raise TableError([f"{path}:{line}: the file holds binary data, not text"], ["save the table as CSV or Parquet"])
    return content.decode("utf-8-sig", errors="replace"), len(start) <= SAMPLE


def _parse(text: str, delimiter: str, complete: bool) -> list[tuple[int, list[str]]]:
    """Last line and cells of the first rows; none if the text cannot be parsed."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows = []
    try:
        for row in reader:
            if row:
                rows.append((reader.line_num, row))
            if len(rows) == SAMPLE_ROWS:
                return rows
    except csv.Error:
        return rows
    return rows if complete or len(rows) < 2 else rows[:-1]  # the last row may be cut


def _choose(text: str, tables: dict[str, list[tuple[int, list[str]]]]) -> str:
    """The delimiter that divides most rows into the same number of cells, at least two."""
    shares = {}
    for mark, rows in tables.items():
        widths = Counter(len(row) for _, row in rows)
        width, count = widths.most_common(1)[0] if widths else (0, 0)
        shares[mark] = count / len(rows) if width > 1 else 0.0
    best = max(shares.values())
    if shares[","] == best and best > 0:
        decimals = len(re.findall(r"\d,\d", text)) == text.count(",")
        others = [mark for mark in ("\t", ";", "|") if shares[mark] == best]
        return others[0] if decimals and others else ","
    return next(mark for mark, share in shares.items() if share == best) if best else ","


def _decimal(delimiter: str, rows: list[list[str]]) -> str:
    """A comma if more cells have a decimal comma than a decimal point."""
    if delimiter == ",":
        return "."
    cells = [cell for row in rows for cell in row]
    points = sum("." in cell and as_number(cell.strip()) is not None for cell in cells)
    return "," if sum(DECIMAL_COMMA.fullmatch(cell) is not None for cell in cells) > points else "."


def _plain(row: list[str], decimal: str) -> list[str]:
    """Cells without surrounding whitespace, and numbers with a decimal point."""
    cells = [cell.strip() for cell in row]
    return cells if decimal == "." else [c.replace(",", ".") if DECIMAL_COMMA.fullmatch(c) else c for c in cells]


def _has_header(first: list[str], others: list[list[str]], edges: bool) -> bool | None:
    """Whether the first row names the columns; None if nothing speaks for or against it."""
    columns = [[row[i] for row in others if i < len(row) and row[i]] for i in range(len(first))]
    if any(cell.casefold() in KNOWN_NAMES for cell in first):
        return True
    for cell, column in zip(first, columns, strict=True):
        numbers = sum(as_number(other) is not None for other in column)
        if cell and as_number(cell) is None and 2 * numbers > len(column):
            return True  # a word above numbers
    numbers_above = [cell for cell in first if as_number(cell) is not None]
    if numbers_above:  # data frames number their columns
        counted = [[str(i) for i in range(start, start + len(numbers_above))] for start in (0, 1)]
        return numbers_above in counted and len(numbers_above) == len(first) - 1 > 1
    ends = {cell for column in columns[:2] for cell in column} if edges else set()
    if any(cell in column for cell, column in zip(first, columns, strict=True)) or ends & set(first[:2]):
        return False  # a node or a category that occurs again
    shapes = [{_shape(other) for other in column} for column in columns]
    alike = all(shape == {_shape(cell)} for cell, shape in zip(first, shapes, strict=True))
    return False if alike and others and any("9" in shape for shape in map(_shape, first)) else None


def _shape(cell: str) -> str:
    """A cell with every run of digits replaced with 9 and every run of letters with a.

    >>> _shape("user-0012")
    'a-9'
    """
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", cell))
