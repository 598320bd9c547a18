"""The values of a target: the classes, the labels or the number that columns of a table give for each row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from polybasis.data.columns import truth
from polybasis.data.metrics import TargetKind
from polybasis.data.tables.matrices import is_list
from polybasis.data.tables.problems import Problems
from polybasis.data.tables.roles import counted
from polybasis.data.tables.table import Table, Texts
from polybasis.data.tables.text_tables import MISSING, MISSING_NUMBERS
from polybasis.data.tables.typed_columns import LARGEST

MANY = 20  # more different integers than this may be numbers
MAX_LABELS = 1000  # of a column of lists
TASK = "pass task='{0}' or --task {0}"
EMPTY_IF_UNKNOWN = "correct the cells, or leave them empty if they are unknown"


class Values(NamedTuple):
    """The target of each row.

    Attributes:
        y: see :mod:`polybasis.data.targets`; for the rows of a table.
        classes: classes in alphabetical order, or labels.
        what: what they are, in words.
        guess: what was guessed and how to say otherwise; empty if nothing was guessed.
    """

    y: torch.Tensor
    classes: tuple[str, ...]
    what: str
    guess: str = ""


def target_values(
    table: Table, columns: list[int], nodes: Texts, task: TargetKind | None, problems: Problems
) -> Values | None:
    """Reads the target of each row, or adds problems and returns None.

    Args:
        table: the table.
        columns: the columns of the target.
        nodes: the node of each row.
        task: the kind of target. By default, several columns and columns of lists hold labels, text is a class, and one
            column of numbers holds classes or numbers by how many different ones there are.
        problems: receives the problems.
    """
    lists = is_list(table.columns[columns[0]].type)
    names = ", ".join(repr(table.names[i]) for i in columns)
    if task not in (None, "multi-label") and (lists or len(columns) > 1):
        what = "a column of lists" if lists else f"{len(columns)} columns"
        problems.add(
            f"{table.path}: the target {names} is {what}, which holds labels; the task is {task}",
            f"{TASK.format('multi-label')}, or choose another column with target or --target",
        )
        return None
    if lists and len(columns) == 1:
        return _listed_labels(table, columns[0], problems)
    if task == "multi-label" or len(columns) > 1:
        return _label_columns(table, columns, nodes, problems)
    return _one_column(table, columns[0], nodes, task, problems)


def _one_column(table: Table, i: int, nodes: Texts, task: TargetKind | None, problems: Problems) -> Values | None:
    """Classes or numbers."""
    name, text = table.names[i], table.text(i)
    distinct: list[str] = text.distinct.to_pylist()
    counts = np.bincount(text.codes, minlength=len(distinct))
    used = [j for j, word in enumerate(distinct) if counts[j] and word not in MISSING]
    numbers = {j: table.number(distinct[j]) for j in used}
    used = [j for j in used if (number := numbers[j]) is None or not np.isnan(number)]  # "NAN" is a gap, too
    other = [j for j in used if numbers[j] is None and distinct[j] not in MISSING_NUMBERS]
    readable = [j for j in used if numbers[j] is not None]
    guess = ""
    if task is None:
        filled = int(counts[used].sum())
        mostly = 2 * int(counts[readable].sum()) >= filled
        if other and not (mostly and len(readable) > MANY):
            if len(used) > MANY and 2 * len(used) > filled:
                problems.add(
                    f"{table.path}: the target {name!r} has {len(used):,} different texts in {filled:,} rows; expected "
                    "classes, labels or numbers",
                    f"choose another column with target or --target, or {TASK.format('classification')}",
                )
                return None
            task = "classification"
        elif other:
            task = "regression"
        else:
            values = np.array([numbers[j] for j in readable], dtype=np.float64)
            padded = any(len(word) > 1 and word.startswith("0") and word.isdigit() for word in distinct)
            task = "classification" if padded else _guessed_task(values, filled)
            if task is None:
                kind = "integers" if (values == np.trunc(values)).all() else "numbers"
                problems.add(
                    f"{table.path}: the target {name!r} has {len(values):,} different {kind} in {filled:,} rows, which "
                    "may be classes or measurements",
                    f"{TASK.format('classification')}, or {TASK.format('regression')}",
                )
                return None
            if task == "regression":
                guess = f"read as numbers; {TASK.format('classification')} if they are classes"
            elif len(values) > 2 and not padded:
                guess = f"read as classes; {TASK.format('regression')} if they are measurements"
        if task == "classification" and not other:
            used = readable  # a "?" among numbers is a gap
    if task == "regression":
        return _numbers(table, i, nodes, text, numbers, other, guess, problems)
    classes = sorted(distinct[j] for j in used)
    y = torch.from_numpy(text.index_in(pa.array(classes, pa.string())))
    return Values(y, tuple(classes), counted(len(classes), "class"), guess)


def _guessed_task(numbers: NDArray[np.float64], rows: int) -> TargetKind | None:
    """Whether different numbers are classes or measurements; None if that is not clear.

    >>> _guessed_task(np.array([1.0, 2.0, 3.0]), 100), _guessed_task(np.arange(80.0) + 0.5, 100)
    ('classification', 'regression')
    """
    whole = bool((numbers == np.trunc(numbers)).all())
    if whole and len(numbers) <= MANY:
        return "classification"
    if 2 * len(numbers) > rows or (not whole and len(numbers) > MANY):
        return "regression"
    return None


def _numbers(
    table: Table,
    i: int,
    nodes: Texts,
    text: Texts,
    numbers: dict[int, float | None],
    other: list[int],
    guess: str,
    problems: Problems,
) -> Values | None:
    """The target of a regression."""
    name = table.names[i]
    looked_up = np.full(len(text.distinct), np.nan)
    for j, number in numbers.items():
        looked_up[j] = np.nan if number is None else number
    values = looked_up[text.codes]

    def shown(row: int) -> str:
        return f"column {name!r}, node {nodes[row]!r}: "

    wrong = problems.add_rows(
        table,
        np.isin(text.codes, other),
        lambda row: shown(row) + table.not_a_number(text[row]),
        f"{EMPTY_IF_UNKNOWN}; if the column holds classes, {TASK.format('classification')}",
    )
    wrong |= problems.add_rows(
        table,
        np.abs(values) > LARGEST,
        lambda row: f"{shown(row)}{text[row][:40]!r} is too large for float32",
        EMPTY_IF_UNKNOWN,
    )
    if wrong:
        return None
    known = values[~np.isnan(values)]
    what = f"numbers from {known.min():.6g} to {known.max():.6g}" if len(known) else "no numbers"
    return Values(torch.from_numpy(values), (), what, guess)


def _label_columns(table: Table, columns: list[int], nodes: Texts, problems: Problems) -> Values | None:
    """Labels from columns of 0 and 1, one for each label."""
    y = np.full((table.rows, len(columns)), -1, dtype=np.int8)
    wrong = False
    for label, i in enumerate(columns):
        name = table.names[i]
        if is_list(table.columns[i].type):
            problems.add(f"{table.path}: the target {name!r} is a column of lists among others", "choose one of them")
            return None
        text = table.text(i)
        truths = [truth(word) for word in text.distinct.to_pylist()]
        missing = pc.is_in(text.distinct, value_set=pa.array(MISSING_NUMBERS)).to_numpy(zero_copy_only=False)
        y[:, label] = np.array([-1 if value is None else value for value in truths], dtype=np.int8)[text.codes]
        other = np.array([value is None for value in truths]) & ~missing

        def what(row: int, name: str = name, text: Texts = text) -> str:
            return f"column {name!r}, node {nodes[row]!r}: {text[row][:40]!r} is neither 0 nor 1"

        advice = "give each label a column of 0 and 1, or of true and false; or pass one column of lists of labels"
        wrong |= problems.add_rows(table, other[text.codes], what, advice)
    if wrong:
        return None
    names, known = [table.names[i] for i in columns], y >= 0

    def gap(row: int) -> str:
        return (
            f"column {names[int(np.argmin(known[row]))]!r}, node {nodes[row]!r}: the label is missing, others are not"
        )

    partly = known.any(axis=1) & ~known.all(axis=1)
    if problems.add_rows(table, partly, gap, "fill in all labels of a node, or leave all of them empty"):
        return None
    return Values(torch.from_numpy(y), tuple(names), counted(len(columns), "label"))


def _listed_labels(table: Table, i: int, problems: Problems) -> Values | None:
    """Labels from a column of lists; a missing list is unknown, and an empty one has no labels."""
    name, lists = table.names[i], table.columns[i].combine_chunks()
    known = lists.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    try:
        items = pc.utf8_trim_whitespace(pc.fill_null(pc.cast(pc.list_flatten(lists), pa.string()), ""))
    except pa.ArrowException:
        problems.add(
            f"{table.path}: the target {name!r} holds lists of {lists.type.value_type}", "expected lists of text"
        )
        return None
    classes = sorted(set(pc.unique(items).to_pylist()) - {""})
    if len(classes) > MAX_LABELS:
        problems.add(
            f"{table.path}: the lists in column {name!r} have {len(classes):,} different labels",
            f"keep the most common ones, at most {MAX_LABELS:,}",
        )
        return None
    y = np.where(known, 0, -1).astype(np.int8)[:, None].repeat(len(classes), axis=1)
    found = pc.fill_null(pc.index_in(items, value_set=pa.array(classes, pa.string())), -1).to_numpy()
    y[np.arange(len(lengths)).repeat(lengths)[found >= 0], found[found >= 0]] = 1
    return Values(torch.from_numpy(y), tuple(classes), counted(len(classes), "label"))
