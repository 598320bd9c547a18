"""Tables of nodes: features, and a target if it is one of their columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from polybasis.data.columns import KINDS, Column, Columns, Kind, as_number
from polybasis.data.recipe import MIN_ROWS
from polybasis.data.schema import refuse_other_columns
from polybasis.data.tables.formats import open_table
from polybasis.data.tables.matrices import Matrix, is_list, list_matrix, read_array, read_word_lists
from polybasis.data.tables.problems import Problems
from polybasis.data.tables.roles import Choices, counted, find_column, listed, too_few_columns
from polybasis.data.tables.table import Table, TableFile, Texts
from polybasis.data.tables.text_files import suffix_of
from polybasis.data.tables.text_tables import MISSING_NUMBERS
from polybasis.data.tables.typed_columns import typed_column

EXPECTED = "a column of nodes and columns of features"
MAX_CODES, CODES_SAMPLE = 30, 1000


@dataclass(frozen=True)
class Nodes:
    """Nodes with features.

    Attributes:
        names: their names.
        notes: what was read.
        columns: typed columns, or None if the features are a matrix.
        matrix: the features as a matrix, or None.
        id: name of the column of nodes; None if there is none.
        table: the column of nodes and those of the target, in this order; None without a target.
    """

    names: pa.Array
    notes: tuple[str, ...]
    columns: Columns | None = None
    matrix: Matrix | None = None
    id: str | None = None
    table: Table | None = None


def read_nodes(path: Path, choices: Choices, target: bool, known: pa.Array | None, problems: Problems) -> Nodes:
    """Reads the features of nodes.

    Args:
        path: a table, a ``.npy`` or ``.npz`` file, or a JSON object of lists.
        choices: what the user says about the tables.
        target: whether the table holds the target, if its columns are chosen.
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
        note = f"{path.name}: {counted(len(names), 'node')}, {counted(width, 'feature')}"
        return Nodes(names, (note,), matrix=matrix)
    file = open_table(path, choices.header, EXPECTED)
    targets = _target_columns(file, choices) if target else []
    chosen, said, features = _roles(file, choices, targets, known)
    kinds = _kinds(file, features, choices)
    texts = [i for i in features if kinds.get(i) == "categorical"]
    expected = [i for i in features if kinds.get(i) == "numeric" or (i not in texts and _looks_numeric(file, i))]
    table = file.read([chosen, *targets, *features], (chosen, *targets, *texts), dict.fromkeys(expected, pa.float32()))
    if table.rows == 0:
        raise ValueError(f"{path}: the file has no nodes; expected {EXPECTED}")
    names = table.text(0)
    refuse_bad_nodes(table, names, problems)
    first = 1 + len(targets)
    of_target = replace(table, names=table.names[:first], columns=table.columns[:first]) if targets else None
    note = f"{path.name}: {counted(table.rows, 'node')} in column {said}"
    if any(is_list(column.type) for column in table.columns[first:]):
        if len(features) > 1:
            shown = listed(table.names[first:])
            raise ValueError(
                f"{path}: a column of lists must be the only column of features; found {shown}: drop the others with "
                "drop=[..] or --drop"
            )
        matrix = list_matrix(table, first, names, problems)
        width = 0 if matrix is None else matrix.shape[1]
        note += f", {counted(width, 'feature')} in the lists of {table.names[first]!r}"
        note += f" ({file.layout})" if file.layout else ""
        return Nodes(names.rows(), (note,), matrix=matrix, id=file.names[chosen], table=of_target)
    pairs = zip(features, range(first, len(table.names)), strict=True)
    found = [typed_column(table, place, names, problems, kinds.get(i)) for i, place in pairs]
    columns = tuple(column for column in found if column is not None)
    gaps = sum(int(column.missing.sum()) for column in columns)
    note += f", {counted(gaps, 'empty cell')}" if gaps else ""
    note += f" ({file.layout})" if file.layout else ""
    notes = [note]
    for kind in KINDS:
        alike = [column.name for column in columns if column.kind == kind]
        notes += [f"{path.name}: {kind} {'columns' if len(alike) > 1 else 'column'} {listed(alike)}"] if alike else []
    if choices.schema is None:
        notes += [
            f"{path.name}: column {column.name!r}: no category has {MIN_ROWS} rows, so it becomes a constant; drop it, "
            "or group its values, for example by their first digits"
            for column in columns
            if _is_rare_throughout(column)
        ]
    coded = [column.name for column in columns if choices.schema is None and _may_be_codes(column, choices)]
    if coded:
        notes.append(
            f"{path.name}: numeric with few different integers: {listed(coded)}; if these are codes, pass "
            "categorical=[..] or --categorical"
        )
    return Nodes(names.rows(), tuple(notes), columns, id=file.names[chosen], table=of_target)


def _target_columns(file: TableFile, choices: Choices) -> list[int]:
    """The columns of the target in the table of nodes."""
    learned = () if choices.schema is None else choices.schema.target
    missing = [name for name in choices.target if name in learned and name not in file.names]
    if missing:
        raise ValueError(f"{file.origin}: no column {missing[0]!r}, the target of the model; pass labels or --labels")
    return [find_column(file, name, "target") for name in choices.target]


def _roles(file: TableFile, choices: Choices, targets: list[int], known: pa.Array | None) -> tuple[int, str, list[int]]:
    """The column of nodes, its name for a note, and the columns of features."""
    learned = choices.schema
    kept = choices.kept(file)
    if learned is not None:
        kept = [i for i in kept if file.names[i] not in learned.target or i in targets]
    if len(kept) < 2:
        raise too_few_columns(file, kept, EXPECTED)
    kinds = {} if learned is None or learned.kinds is None else learned.kinds
    dropped = sorted(choices.drop.intersection(kinds))
    if dropped:
        raise ValueError(f"drop (--drop): the model needs {listed(dropped)}")
    candidates = [i for i in kept if file.names[i] not in kinds] or kept
    chosen, said = choices.node_column(file, candidates, known)
    features = [i for i in kept if i not in (chosen, *targets)]
    if kinds:
        refuse_other_columns([file.names[i] for i in features], list(kinds), file.origin)
    repeated = [name for name, count in Counter(file.names[i] for i in features).items() if count > 1]
    if repeated:
        raise ValueError(f"{file.origin}: two columns are named {repeated[0]!r}; rename one of them")
    if not features:
        only = listed([file.names[i] for i in (chosen, *targets)])
        raise ValueError(f"{file.path}: no columns besides {only}; expected {EXPECTED}")
    return chosen, said, features


def _kinds(file: TableFile, features: list[int], choices: Choices) -> dict[int, Kind]:
    """The kinds of columns that are chosen or known from a model."""
    learned = choices.schema.kinds if choices.schema is not None else None
    kinds = {**(learned or {}), **choices.kinds}
    return {i: kinds[file.names[i]] for i in features if file.names[i] in kinds}


def _may_be_codes(column: Column, choices: Choices) -> bool:
    """Whether a numeric column has few different integers, as codes of categories have."""
    if column.kind != "numeric" or column.name in choices.kinds:
        return False
    for values in (column.values[:CODES_SAMPLE], column.values):  # most columns are ruled out by the first rows
        distinct = np.unique(values[~np.isnan(values)])
        if not 2 < len(distinct) <= MAX_CODES or (distinct != np.trunc(distinct)).any():
            return False
    return len(column.values) >= 5 * len(distinct)


def _is_rare_throughout(column: Column) -> bool:
    """Whether all values of a categorical column are in rare categories, which share one feature."""
    if column.kind != "categorical" or column.missing.all():
        return False
    return bool(np.bincount(column.values[~column.missing]).max() < MIN_ROWS)


def refuse_bad_nodes(table: Table, nodes: Texts, problems: Problems) -> None:
    """Adds problems for empty and duplicate names in the first column."""
    name = table.names[0]
    problems.add_rows(table, nodes.empty, lambda row: f"column {name!r} is empty", "name the node, or remove the row")
    duplicate = nodes.duplicate & ~nodes.empty
    problems.add_rows(
        table,
        duplicate,
        lambda row: f"column {name!r}: duplicate node {nodes[row]!r}",
        "keep one row for each node, or name the column of the nodes with id=.. or --id",
        nodes.first,
    )


def _looks_numeric(file: TableFile, i: int) -> bool:
    """Whether the first cells of a column are numbers or missing."""
    cells = [row[i].strip() for row in file.sample[:200] if i < len(row)]
    return all(cell in MISSING_NUMBERS or as_number(cell) is not None for cell in cells)
