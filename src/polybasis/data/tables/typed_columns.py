"""Columns of a table as numbers, booleans or categories; dates and free text are refused."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from polybasis.data.columns import Column, Kind, truth
from polybasis.data.tables.problems import Problems
from polybasis.data.tables.table import Table, Texts
from polybasis.data.tables.text_tables import MISSING, MISSING_NUMBERS

LARGEST = float(np.finfo(np.float32).max)
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})( .*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
    r"|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}|[A-Za-z]{3,9} \d{1,2},? \d{4}"
)
DROP = "drop the column with drop=[..] or --drop"
CORRECT = f"correct the cells, leave them empty, or {DROP}"


def typed_column(table: Table, i: int, nodes: Texts, problems: Problems, kind: Kind | None = None) -> Column | None:
    """A column with its type, or None if it is refused.

    Args:
        table: the table.
        i: index of the column.
        nodes: the node of each row.
        problems: receives the problems.
        kind: the kind of the column; None to detect it.
    """
    values, name = table.columns[i], table.names[i]
    found = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_null(found):
        return _empty(name, table.rows, kind)
    if kind == "categorical" and not pa.types.is_nested(found):
        return _of_text(table, i, nodes, problems, kind)
    if pa.types.is_temporal(found):
        present = pc.is_valid(values).to_numpy()
        _refuse_dates(table, i, int(present.argmax()), nodes, problems)
        return None
    if pa.types.is_boolean(found) and kind != "numeric":
        codes = pc.fill_null(pc.cast(values, pa.int32()), -1).to_numpy()
        return Column(name, "boolean", codes.astype(np.int32), ("false", "true"))
    if pa.types.is_boolean(found) or _is_number(found):
        wide = found if pa.types.is_float32(found) else pa.float64()
        column = _numeric(table, i, pc.cast(values, wide, safe=False).to_numpy(), nodes, problems, kind)
        if kind == "boolean" and column is not None and column.kind != "boolean":
            return _of_text(table, i, nodes, problems, kind)
        return column
    if pa.types.is_string(found) or pa.types.is_large_string(found):
        return _of_text(table, i, nodes, problems, kind)
    problems.add(
        f"{table.path}: column {name!r} has the unsupported type {found}", f"convert it to numbers or text, or {DROP}"
    )
    return None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _empty(name: str, rows: int, kind: Kind | None) -> Column:
    """A column without any value."""
    if kind in (None, "numeric"):
        return Column(name, "numeric", np.full(rows, np.nan, dtype=np.float32))
    return Column(name, kind, np.full(rows, -1, dtype=np.int32))


def _of_text(table: Table, i: int, nodes: Texts, problems: Problems, kind: Kind | None) -> Column | None:
    """A column of text: booleans, numbers in unusual spellings, or categories."""
    name, text = table.names[i], table.text(i)
    distinct: list[str] = text.distinct.to_pylist()
    counts = np.bincount(text.codes, minlength=len(distinct))
    used = [j for j, word in enumerate(distinct) if counts[j] and word not in MISSING]
    filled = int(counts[used].sum())
    if not used:
        return _empty(name, table.rows, kind)
    if kind == "categorical":
        return _coded(name, kind, text, distinct, used)
    spelled = [j for j in used if truth(distinct[j]) is not None]
    if kind == "boolean" and len(spelled) < len(used):
        _refuse_cells(table, i, nodes, sorted(set(used) - set(spelled)), _neither, problems)
        return None
    if len(spelled) == len(used) and kind != "numeric":
        return _coded(name, "boolean", text, distinct, used)
    numbers = {j: table.number(distinct[j]) for j in range(len(distinct)) if counts[j]}
    readable = {j for j in used if numbers[j] is not None}
    other = [j for j in used if j not in readable and distinct[j] not in MISSING_NUMBERS]
    if not other:
        return _numeric(table, i, _looked_up(numbers, text), nodes, problems, kind)
    resembling = [j for j in other if table.misspelling(distinct[j])]
    mostly = 2 * counts[[*readable, *resembling]].sum() >= filled and (len(used) > 20 or 2 * len(used) > filled)
    if mostly or kind == "numeric":
        _refuse_cells(table, i, nodes, other, table.not_a_number, problems)
        return None
    sample = [distinct[j] for j in used[:1000]]
    if all(DATE.fullmatch(word) for word in sample):
        _refuse_dates(table, i, int(np.argmax(text.codes == used[0])), nodes, problems)
        return None
    length = sum(len(word) for word in sample) / len(sample)
    if len(used) > 20 and 2 * len(used) > filled and (len(used) > 100 or length > 30):
        row = int(np.argmax(np.isin(text.codes, used)))
        problems.add_row(
            table,
            row,
            f"column {name!r} holds free text or identifiers ({len(used):,} different values in {filled:,} rows), such "
            f"as {text[row][:40]!r} for node {nodes[row]!r}",
            f"{DROP}, replace it with numbers or categories, or pass categorical=[..] or --categorical",
        )
        return None
    return _coded(name, "categorical", text, distinct, used)


def _neither(text: str) -> str:
    return f"{text[:40]!r} is neither true nor false"


def _refuse_cells(
    table: Table, i: int, nodes: Texts, wrong: list[int], what: Callable[[str], str], problems: Problems
) -> None:
    """Adds a problem for each cell of a column with one of some texts; ``what`` describes it."""
    name, text = table.names[i], table.text(i)
    problems.add_rows(
        table,
        np.isin(text.codes, wrong),
        lambda row: f"column {name!r}, node {nodes[row]!r}: {what(text[row])}",
        CORRECT,
    )


def _coded(name: str, kind: str, text: Texts, distinct: list[str], used: list[int]) -> Column:
    """A column of indices into its distinct texts."""
    order = np.full(len(distinct), -1, dtype=np.int32)
    order[used] = np.arange(len(used))
    categories = tuple(distinct[j] for j in used)
    return Column(name, "boolean" if kind == "boolean" else "categorical", order[text.codes], categories)


def _looked_up(numbers: dict[int, float | None], text: Texts) -> NDArray[np.float64]:
    table = np.full(len(text.distinct), np.nan)
    for j, number in numbers.items():
        table[j] = np.nan if number is None else number
    return table[text.codes]


def _numeric(
    table: Table, i: int, values: NDArray[np.floating], nodes: Texts, problems: Problems, kind: Kind | None
) -> Column | None:
    """A column of numbers; those that are only 0 and 1 are booleans unless they are said to be numeric."""
    name = table.names[i]
    wrong = np.abs(values) > LARGEST
    if problems.add_rows(
        table,
        wrong,
        lambda row: f"column {name!r}, node {nodes[row]!r}: the number is infinite or too large for float32",
        CORRECT,
    ):
        return None
    missing = np.isnan(values)
    if kind != "numeric" and ((values == 0) | (values == 1) | missing).all() and not missing.all():
        codes = np.where(missing, -1, values).astype(np.int32)
        return Column(name, "boolean", codes, ("0", "1"))
    return Column(name, "numeric", values.astype(np.float32, copy=False))


def _refuse_dates(table: Table, i: int, row: int, nodes: Texts, problems: Problems) -> None:
    example = str(table.columns[i][row].as_py())[:40]
    problems.add_row(
        table,
        row,
        f"column {table.names[i]!r} holds dates or times, such as {example!r} for node {nodes[row]!r}",
        f"{DROP}, or replace it with a number such as days since a fixed date",
    )
