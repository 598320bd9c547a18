"""The target of each node: from a table of labels, or from a column of the table of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch

from polybasis.data.tables.formats import open_table
from polybasis.data.tables.nodes import refuse_bad_nodes
from polybasis.data.tables.problems import Problems
from polybasis.data.tables.roles import Choices, counted, find_column, guess_target, too_few_columns
from polybasis.data.tables.table import Texts
from polybasis.data.tables.text_tables import MISSING

EXPECTED = "a column of nodes and one of classes"


class Labels(NamedTuple):
    """The classes of nodes.

    Attributes:
        target: name of their column; empty if it has none.
        y: class of each node as an index into ``classes``, -1 if unknown, (N,).
        classes: the classes in alphabetical order.
        note: what was read.
    """

    target: str
    y: torch.Tensor
    classes: tuple[str, ...]
    note: str


def labels_of_column(target: Texts, name: str, source: str) -> Labels:
    """The classes in a column of the table of nodes."""
    classes = _classes(target)
    y = torch.from_numpy(target.index_in(pa.array(classes, pa.string())))
    return Labels(name, y, tuple(classes), _note(source, repr(name), y, classes))


def read_labels(path: Path, choices: Choices, nodes: pa.Array, problems: Problems) -> Labels:
    """Reads the classes of nodes from a table.

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
    known = None if choices.target is None else find_column(file, choices.target, "target")
    of_nodes, said = choices.node_column(file, [i for i in every if i != known], nodes)
    chosen = guess_target(file, [i for i in every if i != of_nodes]) if known is None else known
    table = file.read([of_nodes, chosen], (of_nodes, chosen), {})
    names, labels = table.text(0), table.text(1)
    refuse_bad_nodes(table, names, problems)
    index = names.index_in(nodes)
    column = table.names[0]
    problems.add_rows(
        table,
        (index < 0) & ~names.empty,
        lambda row: f"column {column!r}: node {names[row]!r} does not occur in any other file",
        "add the node to the edges or features, or remove the row",
    )
    classes = _classes(labels)
    if not classes:
        raise ValueError(f"{file.origin}: column {table.names[1]!r} has no labels; expected {EXPECTED}")
    y = np.full(len(nodes), -1)
    y[index[index >= 0]] = labels.index_in(pa.array(classes))[index >= 0]
    tensor = torch.from_numpy(y)
    what = f"{table.names[1]!r}" + ("" if known is not None else " (guessed)") + f" of the nodes in {said}"
    what += f" ({file.layout})" if file.layout else ""
    return Labels(
        table.names[1] if file.header else "", tensor, tuple(classes), _note(path.name, what, tensor, classes)
    )


def _classes(labels: Texts) -> list[str]:
    present = labels.distinct.take(pa.array(np.unique(labels.codes))).to_pylist()
    return sorted(value for value in present if value not in MISSING)


def _note(source: str, said: str, y: torch.Tensor, classes: list[str]) -> str:
    known = int((y >= 0).sum())
    return (
        f"{source}: {counted(len(classes), 'class')} in column {said}; {known:,} of {counted(len(y), 'node')} labelled"
    )
