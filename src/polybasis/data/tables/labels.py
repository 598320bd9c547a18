"""The target of each node: from a table of labels, or from columns of the table of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from polybasis.data.tables.formats import open_table
from polybasis.data.tables.nodes import refuse_bad_nodes
from polybasis.data.tables.problems import Problems
from polybasis.data.tables.roles import Choices, counted, listed, too_few_columns
from polybasis.data.tables.table import Table
from polybasis.data.tables.target_values import Values, target_values
from polybasis.data.targets import is_known

EXPECTED = "a column of nodes and one of classes, labels or numbers"


class Labels(NamedTuple):
    """The target of nodes.

    Attributes:
        target: names of its columns; none if the file does not name them.
        y: target of each node, see :mod:`polybasis.data.targets`.
        classes: the classes or labels.
        notes: what was read.
    """

    target: tuple[str, ...]
    y: torch.Tensor
    classes: tuple[str, ...]
    notes: tuple[str, ...]


def labels_of_columns(table: Table, columns: list[int], choices: Choices, problems: Problems) -> Labels | None:
    """The target in columns of the table of nodes, or None if there are problems."""
    names = tuple(table.names[i] for i in columns)
    values = target_values(table, columns, table.text(0), choices.task, problems)
    return None if values is None else Labels(names, values.y, values.classes, _notes(table.path, values, _in(names)))


def read_labels(path: Path, choices: Choices, nodes: pa.Array, problems: Problems) -> Labels | None:
    """Reads the target of nodes from a table; returns None if there are problems.

    Args:
        path: the file.
        choices: what the user says about the tables.
        nodes: names of all nodes.
        problems: receives the problems.

    Raises:
        ValueError: if the file cannot be read at all.
    """
    file = open_table(path, choices.header, EXPECTED)
    every = list(range(len(file.names)))
    if len(every) < 2:
        raise too_few_columns(file, every, EXPECTED)
    named = {file.names.index(name) for name in choices.target if name in file.names}
    of_nodes, said = choices.node_column(file, [i for i in every if i not in named] or every, nodes)
    chosen, guessed = choices.target_columns(file, [i for i in every if i != of_nodes])
    table = file.read([of_nodes, *chosen], (of_nodes, *chosen), {})
    names, targets = table.text(0), tuple(table.names[1:])
    refuse_bad_nodes(table, names, problems)
    index = names.index_in(nodes)
    column = table.names[0]
    problems.add_rows(
        table,
        (index < 0) & ~names.empty,
        lambda row: f"column {column!r}: node {names[row]!r} does not occur in any other file",
        "add the node to the edges or features, or remove the row",
    )
    values = target_values(table, list(range(1, len(table.names))), names, choices.task, problems)
    if values is None:
        return None
    if not is_known(values.y).any() or values.y.shape[1:] == (0,):
        raise ValueError(
            f"{file.origin}: {_in(targets)} has no values; give the target of some nodes, or choose another "
            "column with target or --target"
        )
    what = f"{_in(targets)}{' (guessed)' if guessed else ''} of the nodes in {said}"
    what += f" ({file.layout})" if file.layout else ""
    values = values._replace(y=_of_nodes(values.y, index, len(nodes)))
    return Labels(targets if file.header else (), values.y, values.classes, _notes(path, values, what))


def _of_nodes(y: torch.Tensor, index: NDArray[np.int64], nodes: int) -> torch.Tensor:
    """The target of each node, from that of rows, which belong to the nodes of an index."""
    unknown = torch.nan if y.is_floating_point() else -1
    found = torch.full((nodes, *y.shape[1:]), unknown, dtype=y.dtype)
    present = torch.from_numpy(index >= 0)
    found[torch.from_numpy(index)[present]] = y[present]
    return found


def _in(names: tuple[str, ...]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {listed(names)}"


def _notes(path: Path, values: Values, where: str) -> tuple[str, ...]:
    known = int(is_known(values.y).sum())
    note = f"{path.name}: {values.what} in {where}; {known:,} of {counted(len(values.y), 'node')} labelled"
    return (note, f"{path.name}: the target is {values.guess}") if values.guess else (note,)
