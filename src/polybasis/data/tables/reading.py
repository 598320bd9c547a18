"""Reads the user's graph from a table of edges and, optionally, tables of features and labels."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from polybasis.data.columns import Kind, as_number
from polybasis.data.dataset import NodeDataset
from polybasis.data.metrics import TargetKind
from polybasis.data.recipe import Recipe
from polybasis.data.schema import MERGES, Merge, TableSchema
from polybasis.data.tables.edges import Edges, merged, read_edges
from polybasis.data.tables.labels import Labels, labels_of_columns, read_labels
from polybasis.data.tables.nodes import Nodes, read_nodes
from polybasis.data.tables.problems import Problems
from polybasis.data.tables.roles import Choices, counted, listed
from polybasis.data.tables.table import Texts
from polybasis.data.tables.text_files import COMPRESSIONS
from polybasis.data.targets import as_task, target_kind
from polybasis.features import Features, SparseFeatures, as_features
from polybasis.foreign_files import regular_file
from polybasis.graph import Graph

MAX_NAMES = 1 << 28  # bytes of the names of nodes that are permitted for a file of any size


def read_tables(
    edges: str | Path,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    *,
    id: str | None = None,
    target: str | Iterable[str] | None = None,
    task: TargetKind | None = None,
    header: bool | None = None,
    merge: Merge | None = None,
    drop: Iterable[str] = (),
    categorical: Iterable[str] = (),
    numeric: Iterable[str] = (),
    schema: TableSchema | None = None,
) -> NodeDataset:
    """Reads a graph with named nodes from the user's own files.

    Tables are text (separated by commas, tabs, semicolons, ``|`` or spaces; also ``.gz``, ``.zst`` and ``.bz2``),
    Parquet, Feather or JSON lines. Columns may be numeric, boolean or categorical and may have missing values; see
    :meth:`NodeDataset.prepared`. ``notes`` of the data set lists what was read and what was detected.

    Args:
        edges: table with the columns source, target and optionally weight; or a MatrixMarket, GraphML or GEXF file.
        features: table with a node column and feature columns, or one column of lists; a ``.npy`` or ``.npz`` file
            (dense, or sparse and written by SciPy's ``save_npz``) whose row i belongs to the node named i; or a JSON
            object that maps each node to its words. Every node with an edge needs features. Without this file, models
            train on structure only.
        labels: table with a node column and a target; empty cells mark unknown targets.
        id: name of the node column; detected by default.
        target: name of the column of classes, labels (lists) or numbers, or the names of several columns of 0 and 1,
            one for each label. The columns are in ``labels`` or, without that file, in ``features``; detected in
            ``labels`` by default.
        task: kind of the target: ``classification``, ``multi-label`` or ``regression``; detected by default.
        header: whether text tables have a header; detected by default.
        merge: how to combine the weights of repeated edges; by default, repeated weighted edges are an error.
        drop: names of columns of ``edges`` and ``features`` to ignore.
        categorical: names of columns of ``features`` to treat as categorical, for example numeric codes.
        numeric: names of columns of ``features`` to treat as numeric.
        schema: the schema of the tables that a model was trained on. It determines the feature columns and their
            kinds, and the defaults of ``id``, ``task`` and ``merge``. Dropped columns and target columns are ignored; a
            target is only read from ``labels`` or if ``target`` is given.

    Returns:
        A data set whose ``nodes`` and ``classes`` are the names in the files.

    Raises:
        TableError: if files cannot be used; a ``ValueError`` that lists the first twenty problems with file and line.
        FileNotFoundError: if a file does not exist.
    """
    if merge not in (None, *MERGES):
        raise ValueError(f"merge is {merge!r}; expected one of {', '.join(MERGES)}")
    edges = Path(edges)
    features, labels = (None if path is None else Path(path) for path in (features, labels))
    for path in (edges, features, labels):
        if path is not None:
            regular_file(path)
    targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    learned = TableSchema() if schema is None else schema
    task = learned.task if task is None else as_task(task)
    merge = merge or learned.merge
    choices = Choices(header, id, targets, task, _names("drop", drop), _kinds(categorical, numeric), schema)
    problems = Problems()
    rows: Edges | None = None
    table: Nodes | None = None
    known: Labels | None = None
    with problems.collecting():
        rows = read_edges(edges, choices, problems)
    _release_memory()
    names = None if rows is None else rows.in_order_of_appearance()
    if features is not None:
        with problems.collecting():
            table = read_nodes(features, choices, labels is None, names, problems)
        names = None if table is None else table.names
    if labels is not None and names is not None:
        with problems.collecting():
            known = read_labels(labels, choices, names, problems)
    elif table is not None and table.table is not None:
        known = labels_of_columns(table.table, list(range(1, len(table.table.names))), choices, problems)
    _check_choices(choices, edges, features, labels, known, table, problems)
    if rows is None or names is None:
        problems.raise_if_any()
    assert rows is not None
    assert names is not None
    graph, note = _graph(rows, names, features, merge, problems)
    if known is None:
        known = Labels((), torch.full((len(names),), -1), (), ())
    else:
        task = target_kind(known.y)
    columns = None if table is None else table.columns
    return NodeDataset(
        name=_stem(edges),
        graph=graph,
        x=partial(_features, table, len(names)),
        y=known.y,
        classes=known.classes,
        nodes=_node_names(edges if features is None else features, names),
        structure_only=table is None,
        columns=columns,
        notes=(*filter(None, (rows.note, *(table.notes if table else ()), note)), *known.notes),
        schema=TableSchema(
            id=None if table is None else table.id,
            target=known.target or learned.target,
            task=task,
            drop=tuple(sorted(choices.drop.union(learned.drop))),
            merge=merge,
            kinds=None if columns is None else {column.name: column.kind for column in columns},
        ),
    )


def _names(argument: str, names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise ValueError(f"{argument} is {names!r}; expected a list of names")
    return frozenset(names)


def _kinds(categorical: Iterable[str], numeric: Iterable[str]) -> dict[str, Kind]:
    kinds: dict[str, Kind] = dict.fromkeys(sorted(_names("categorical", categorical)), "categorical")
    both = sorted(_names("numeric", numeric).intersection(kinds))
    if both:
        raise ValueError(f"column {both[0]!r} is listed as both categorical and numeric; choose one of the two")
    return kinds | dict.fromkeys(sorted(_names("numeric", numeric)), "numeric")


def _stem(path: Path) -> str:
    """The name of a file without its suffix and that of its compression."""
    return Path(path.stem).stem if path.suffix.lower() in COMPRESSIONS else path.stem


def _check_choices(
    choices: Choices,
    edges: Path,
    features: Path | None,
    labels: Path | None,
    known: Labels | None,
    table: Nodes | None,
    problems: Problems,
) -> None:
    """Adds problems for choices that apply to no table, and for a target that is also a feature."""
    for flag, given in (("id", choices.id), ("target", listed(choices.target)), ("task", choices.task)):
        chosen = given and (choices.schema is None or flag != "task")
        if chosen and features is None and labels is None:
            problems.add(f"{flag} is {given}, but there is no table of features or labels", f"omit {flag}")
    if choices.target and labels is None and table is not None and table.table is None:
        problems.add(
            f"{features}: target is {listed(choices.target)}, but the file has no columns", "pass a table of labels"
        )
    complete = (features is None or table is not None) and (labels is None or known is not None)
    unknown = [choices.unknown(choices.drop, "drop", (edges, features))]
    if choices.id is not None and (features or labels) and complete:
        unknown.append(choices.unknown([choices.id], "id", (features, labels)))
    for kind in ("categorical", "numeric"):
        names = [name for name, chosen in choices.kinds.items() if chosen == kind]
        unknown.append(choices.unknown(names, kind, (features,)))
    for what in filter(None, unknown):
        problems.add(what)
    columns = [] if table is None else [column.name for column in table.columns or ()]
    repeated = [] if labels is None or known is None else [name for name in known.target if name in columns]
    if repeated:
        problems.add(
            f"{features}: column {repeated[0]!r} has the same name as the target in {labels}",
            "drop it with drop=[..] or --drop, or rename it if it is something else",
        )


def _graph(
    rows: Edges, names: pa.Array, features: Path | None, merge: Merge | None, problems: Problems
) -> tuple[Graph, str]:
    """The graph, and a note on its size and on what became of the rows; raises the problems found so far."""
    pairs = _indices(rows, names, features, problems)
    count, loops = pairs.shape[1], int((pairs[0] == pairs[1]).sum())
    pairs, weight = merged(pairs, rows, len(names), merge, problems)
    problems.raise_if_any()
    _release_memory()
    graph = Graph.from_edge_index(pairs, len(names), weight, directed=False)
    repeated = count - loops - graph.num_edges
    isolated = int((graph.indptr.diff() == 0).sum())
    note = f"graph: {counted(graph.num_nodes, 'node')}, {counted(graph.num_edges, 'edge')}"
    note += f", {repeated:,} repeated or of weight 0" if repeated else ""
    note += f", {counted(loops, 'self-loop')} dropped" if loops else ""
    return graph, note + (f", {counted(isolated, 'isolated node')}" if isolated else "")


def _release_memory() -> None:
    """Returns memory that Arrow has finished with and would otherwise keep."""
    pa.default_memory_pool().release_unused()


def _indices(rows: Edges, names: pa.Array, features: Path | None, problems: Problems) -> NDArray[np.int64]:
    """The ends of the edges as indices into the names, (2, E)."""
    indices = np.empty((2, len(rows.sources.codes)), dtype=np.int64)
    for index, texts, column in zip(indices, (rows.sources, rows.targets), rows.table.names, strict=False):
        index[:] = texts.index_in(names)

        def what(row: int, texts: Texts = texts, column: str = column) -> str:
            other = _spelled_otherwise(texts[row], names)
            return f"column {column!r}: node {texts[row]!r} is not in {features}" + (
                f", but {other!r} is" if other else ""
            )

        advice = f"add the missing nodes to {features}, or remove their edges; spell names alike in both files"
        problems.add_rows(rows.table, (index < 0) & ~texts.empty, what, advice)
    return indices


def _spelled_otherwise(name: str, names: pa.Array) -> str | None:
    """A name that is the same number in another spelling, such as 12 for 12.0."""
    number = as_number(name)
    if number is None or not number.is_integer():
        return None
    found = pc.index_in(pa.array([str(int(number)), f"{number:.1f}"]), value_set=names).to_pylist()
    return next((str(names[i].as_py()) for i in found if i is not None), None)


def _features(table: Nodes | None, nodes: int) -> Features:
    """Features as they are before a recipe is learned for training."""
    if table is None:
        return SparseFeatures(sp.eye_array(nodes, format="csr"))
    if table.columns is not None:
        return Recipe.learn(table.columns, scaled=False).apply(table.columns)
    matrix = table.matrix
    return SparseFeatures(matrix) if sp.issparse(matrix) else as_features(torch.from_numpy(matrix))


def _node_names(path: Path, nodes: pa.Array) -> NDArray[np.str_]:
    """Names of nodes as an array, whose size is the number of nodes times the longest name."""
    longest = int(pc.max(pc.utf8_length(nodes)).as_py())
    if 4 * longest * len(nodes) > max(MAX_NAMES, 64 * regular_file(path)):
        raise ValueError(f"{path}: a node's name has {longest:,} characters; is a quote missing?")
    return np.array(nodes.to_pylist(), dtype=np.str_)
