"""Tables of nodes: features, and a target if it is one of their columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from polybasis.data.columns import KINDS, Columns, as_number
from polybasis.data.tables.formats import open_table
from polybasis.data.tables.matrices import Matrix, is_list, list_matrix, read_array, read_word_lists
from polybasis.data.tables.problems import Problems
from polybasis.data.tables.roles import Choices, counted, find_column, listed, too_few_columns
from polybasis.data.tables.table import Table, TableFile, Texts
from polybasis.data.tables.text_files import suffix_of
from polybasis.data.tables.text_tables import MISSING_NUMBERS
from polybasis.data.tables.typed_columns import typed_column

EXPECTED = "a column of nodes and columns of features"


@dataclass(frozen=True)
class Nodes:
    """Nodes with features.

    Attributes:
        names: their names.
        columns: typed columns, or None if the features are a matrix.
        matrix: the features as a matrix, or None.
        target: the target of each node, if it is a column of the table; empty where unknown.
        note: what was read.
    """

    names: pa.Array
    columns: Columns | None
    matrix: Matrix | None
    target: Texts | None
    note: str


def read_nodes(path: Path, choices: Choices, target: str | None, known: pa.Array | None, problems: Problems) -> Nodes:
    """Reads the features of nodes.

    Args:
        path: a table, a ``.npy`` or ``.npz`` file, or a JSON object of lists.
        choices: what the user says about the tables.
        target: name of a column that is the target.
        known: names of nodes of the edges.
        problems: receives the problems.

    Raises:
        ValueError: if the file cannot be read at all.
    """
    suffix = suffix_of(path)
    if suffix in (".npy", ".npz", ".json"):
        if suffix == ".json":
            names, matrix = read_word_lists(path, problems)
        else:
            matrix = read_array(path)
            names = pc.cast(pa.array(np.arange(matrix.shape[0])), pa.string())
        width = 0 if matrix is None else matrix.shape[1]
        return Nodes(
            names, None, matrix, None, f"{path.name}: {counted(len(names), 'node')}, {counted(width, 'feature')}"
        )
    file = open_table(path, choices.header, EXPECTED)
    kept = choices.kept(file)
    if len(kept) < 2:
        raise too_few_columns(file, kept, EXPECTED)
    chosen, said = choices.node_column(file, kept, known)
    targets = [] if target is None else [find_column(file, target, "target")]
    features = [i for i in kept if i not in (chosen, *targets)]
    repeated = [name for name, count in Counter(file.names[i] for i in features).items() if count > 1]
    if repeated:
        raise ValueError(f"{path}: two columns have the name {repeated[0]!r}; rename one of them")
    if not features:
        raise ValueError(
            f"{path}: no columns besides {listed([file.names[i] for i in (chosen, *targets)])}; expected {EXPECTED}"
        )
    numeric = {i: pa.float32() for i in features if _looks_numeric(file, i)}
    table = file.read([chosen, *targets, *features], (chosen, *targets), numeric)
    if table.rows == 0:
        raise ValueError(f"{path}: the file has no nodes; expected {EXPECTED}")
    names = table.text(0)
    refuse_bad_nodes(table, names, problems)
    of_target = table.text(1) if targets else None
    note = f"{path.name}: {counted(table.rows, 'node')} in column {said}, "
    first = 1 + len(targets)
    columns, matrix = None, None
    if any(is_list(column.type) for column in table.columns[first:]):
        if len(features) > 1:
            shown = listed(table.names[first:])
            raise ValueError(
                f"{path}: a column of lists among others ({shown}); drop the others with drop=[..] or --drop"
            )
        matrix = list_matrix(table, first, names, problems)
        width = 0 if matrix is None else matrix.shape[1]
        note += f"{counted(width, 'feature')} in the lists of {table.names[first]!r}"
    else:
        found = [typed_column(table, i, names, problems) for i in range(first, len(table.names))]
        columns = tuple(column for column in found if column is not None)
        counts = Counter(column.kind for column in columns)
        note += ", ".join(counted(counts[kind], f"{kind} column") for kind in KINDS if counts[kind])
        gaps = sum(int(column.missing.sum()) for column in columns)
        note += f", {counted(gaps, 'empty cell')}" if gaps else ""
    note += f" ({file.layout})" if file.layout else ""
    return Nodes(names.rows(), columns, matrix, of_target, note)


def refuse_bad_nodes(table: Table, nodes: Texts, problems: Problems) -> None:
    """Adds problems for empty and duplicate names in the first column."""
    name = table.names[0]
    problems.add_rows(table, nodes.empty, lambda row: f"column {name!r} is empty", "name the node, or remove the row")
    duplicate = nodes.duplicate & ~nodes.empty
    problems.add_rows(
        table,
        duplicate,
        lambda row: f"column {name!r}: duplicate node {nodes[row]!r}",
        "keep one row for each node",
        nodes.first,
    )


def _looks_numeric(file: TableFile, i: int) -> bool:
    """Whether the first cells of a column are numbers or missing."""
    cells = [row[i].strip() for row in file.sample[:200] if i < len(row)]
    return all(cell in MISSING_NUMBERS or as_number(cell) is not None for cell in cells)
