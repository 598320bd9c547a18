"""Tables in JSON: one object per line, or one object that gives the words of every node, as SNAP publishes them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from polybasis.data.tables.arrow_tables import sample_rows
from polybasis.data.tables.problems import LIMIT, TableError
from polybasis.data.tables.table import Table, TableFile
from polybasis.data.tables.text_files import open_text, undecodable
from polybasis.foreign_files import regular_file

ONE_PER_LINE = 'expected one object per line, such as {"node": "a", "age": 31}'


def open_json_lines(path: Path, expected: str) -> TableFile:
    """Opens a file of JSON lines; a name that a line lacks is a missing value there.

    Raises:
        TableError: if a line is not an object; the message gives the file and the line.
    """
    regular_file(path)
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    problems: list[str] = []
    more = 0
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                row = _parse(line)
                if isinstance(row, dict):
                    rows.append(row)
                    lines.append(number)
                elif len(problems) < LIMIT:
                    problems.append(f"{path}:{number}: {row}")
                else:
                    more += 1
    except UnicodeDecodeError:
        raise undecodable(path) from None
    if problems:
        raise TableError(problems, [ONE_PER_LINE], more)
    if not rows:
        raise TableError([f"{path}:1: the file is empty"], [f"expected {expected}"])
    keys = tuple(dict.fromkeys(name for row in rows for name in row))
    arrays = [_array([row.get(key) for row in rows]) for key in keys]
    table = pa.table(arrays, names=[str(i) for i in range(len(keys))])
    names = tuple(key.strip() or f"column {i}" for i, key in enumerate(keys, 1))

    def find_lines(wanted: Collection[int]) -> dict[int, int]:
        return {row: lines[row] for row in wanted}

    def select(columns: list[int], texts: Collection[int], numbers: Mapping[int, pa.DataType]) -> Table:
        return Table(path, tuple(names[i] for i in columns), tuple(table.column(i) for i in columns), find_lines)

    return TableFile(path, names, sample_rows(table), select, line=1)


def read_words(path: Path) -> dict[str, list[Any]]:
    """The lists of a JSON object, by node.

    Raises:
        TableError: if the file is something else.
    """
    regular_file(path)
    problems: list[str] = []
    expected = 'expected one object with a list for every node, such as {"a": [3, 17], "b": [5]}'

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            repeated = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
            problems.extend(f"{path}: duplicate node {key!r}" for key in repeated)
        return found

    try:
        with open_text(path) as file:
            document = json.load(file, object_pairs_hook=unique)
    except UnicodeDecodeError:
        raise undecodable(path) from None
    except json.JSONDecodeError as error:
        raise TableError([f"{path}:{error.lineno}: not JSON ({error.msg})"], [expected]) from error
    except (RecursionError, ValueError) as error:  # an integer of thousands of digits is a ValueError
        if isinstance(error, TableError):
            raise
        raise TableError([f"{path}: not JSON ({str(error)[:80]})"], [expected]) from error
    if problems:
        raise TableError(problems[:LIMIT], ["keep one list for every node"], max(0, len(problems) - LIMIT))
    if not isinstance(document, dict) or not document:
        found = f"a {type(document).__name__}" if document else "empty"
        advice = f"{expected}, or a .jsonl file with one object per line"
        raise TableError([f"{path}: the document is {found}"], [advice])
    for node, words in document.items():
        if not isinstance(words, list) and len(problems) < LIMIT:
            problems.append(f"{path}: node {node!r} has {str(words)[:40]!r} instead of a list")
    if problems:
        raise TableError(problems, [expected])
    return document


def _parse(line: str) -> dict[str, Any] | str:
    """The object on a line, or what is wrong with it."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON ({str(error)[:80]})"
    return row if isinstance(row, dict) else f"{line.strip()[:40]!r} is not an object"


def _array(values: list[Any]) -> pa.Array:
    """A column; values of several types become text."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        return pa.array([None if text is None else text.encode("utf-8", "replace").decode() for text in texts])
