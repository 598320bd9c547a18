"""Edges of the user's graph: their ends, weights and repetitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from polybasis.adjacency import SAME_WEIGHT
from polybasis.data.schema import Merge
from polybasis.data.tables.formats import open_table
from polybasis.data.tables.graph_files import read_matrix_market, read_xml_graph
from polybasis.data.tables.problems import Problems
from polybasis.data.tables.roles import WEIGHT_NAMES, Choices, counted, edge_columns, listed, too_few_columns
from polybasis.data.tables.table import Table, Texts
from polybasis.data.tables.text_files import suffix_of

EXPECTED = "the columns source, target and, optionally, weight"
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Edges:
    """Edges between named nodes.

    Attributes:
        table: the table that they come from.
        sources, targets: their ends.
        weight: their weights, (E,), or None.
        nodes: all nodes, if the file lists them.
        note: what was read.
    """

    table: Table
    sources: Texts
    targets: Texts
    weight: NDArray[np.float64] | None
    nodes: pa.Array | None
    note: str

    def name(self, row: int) -> str:
        """An edge in the file's own names."""
        return f"edge {self.sources[row]!r} - {self.targets[row]!r}"

    def in_order_of_appearance(self) -> pa.Array:
        """The nodes: those of the file, or those of the edges in the order in which the edges name them."""
        if self.nodes is not None:
            return self.nodes
        distinct = pc.unique(pa.concat_arrays([self.sources.distinct, self.targets.distinct]))
        first = np.minimum(2 * self.sources.first_rows(distinct), 2 * self.targets.first_rows(distinct) + 1)
        used = np.count_nonzero(first < 2 * len(self.sources.codes))
        return distinct.take(pa.array(np.argsort(first)[:used]))


def read_edges(path: Path, choices: Choices, problems: Problems) -> Edges:
    """Reads edges from a table or a file of a graph.

    Args:
        path: the file.
        choices: what the user says about the tables.
        problems: receives the problems.

    Raises:
        ValueError: if the file cannot be read at all.
    """
    suffix = suffix_of(path)
    nodes, unused, layout = None, [], ""
    if suffix in (".mtx", ".graphml", ".gexf"):
        table, nodes = read_matrix_market(path) if suffix == ".mtx" else read_xml_graph(path)
        layout = "rows and columns counted from 0" if suffix == ".mtx" else ""
    else:
        file = open_table(path, choices.header, EXPECTED, edges=True)
        kept = choices.kept(file)
        if len(kept) < 2:
            raise too_few_columns(file, kept, EXPECTED)
        source, target, others = edge_columns(file.names, kept)
        named = [i for i in others if file.names[i].casefold() in WEIGHT_NAMES]
        if len(others) > 1 and not named:
            raise ValueError(
                f"{file.origin}: several columns besides {file.names[source]!r} and {file.names[target]!r}: "
                f"{listed([file.names[i] for i in others])}; name the weights 'weight', or drop columns with drop=[..] "
                "or --drop"
            )
        weights = named[:1] or others
        unused, layout = [file.names[i] for i in others if i not in weights], file.layout
        table = file.read([source, target, *weights], (source, target), dict.fromkeys(weights, pa.float64()))
    if table.rows == 0:
        raise ValueError(f"{path}: the file has no edges; expected a row for each edge")
    sources, targets = table.text(0), table.text(1)
    for texts, other, name in ((sources, targets, table.names[0]), (targets, sources, table.names[1])):
        problems.add_rows(
            table,
            texts.empty,
            partial(_empty_end, name, other),
            "give both nodes of the edge, or remove the row",
        )
    columns = " and ".join(repr(name) for name in table.names[:2])
    note = f"{path.name}: {counted(table.rows, 'row')}, edges between {columns}"
    note += f", weight {table.names[2]!r}" if len(table.names) > 2 else ""
    note += f", not used: {listed(unused)}" if unused else ""
    note += f" ({layout})" if layout else ""
    edges = Edges(table, sources, targets, None, nodes, note)
    weight = _weights(edges, problems) if len(table.names) > 2 else None
    return replace(edges, table=replace(table, columns=()), weight=weight)


def _empty_end(name: str, other: Texts, row: int) -> str:
    return f"column {name!r} is empty; the other end of the edge is {other[row]!r}"


def _weights(edges: Edges, problems: Problems) -> NDArray[np.float64]:
    """The third column as finite numbers that are not negative."""
    table, name = edges.table, edges.table.names[2]
    advice = f"correct the weights, or drop {name!r} with drop=[..] or --drop if it does not hold weights"
    values = table.columns[2]
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        numbers: NDArray[np.float64] = pc.cast(values, pa.float64(), safe=False).to_numpy()
        known = ~np.isnan(numbers)
        texts = None
    else:
        texts = table.text(2)
        found = [table.number(text) for text in texts.distinct.to_pylist()]
        numbers = np.array([np.nan if number is None else number for number in found])[texts.codes]
        known = np.array([number is not None for number in found])[texts.codes] & ~np.isnan(numbers)

    def shown(row: int) -> str:
        return f"column {name!r}, {edges.name(row)}: "

    problems.add_rows(
        table,
        ~known,
        lambda row: shown(row) + (table.not_a_number(texts[row]) if texts and texts[row] else "the weight is missing"),
        advice,
    )
    infinite = known & ((numbers > LARGEST) | (numbers < -LARGEST))
    problems.add_rows(table, infinite, lambda row: f"{shown(row)}{numbers[row]:g} is too large for float32", advice)
    problems.add_rows(table, numbers < 0, lambda row: shown(row) + f"{numbers[row]:g} is negative", advice)
    return numbers


def merged(
    pairs: NDArray[np.int64], edges: Edges, nodes: int, merge: Merge | None, problems: Problems
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Pairs without repetitions of weighted edges, and their weights.

    An edge that is listed once in each direction with the same weight is one edge. Other repetitions of weighted edges
    are merged, or are problems if ``merge`` is None. Repeated edges without weights are merged by ``Graph``, or counted
    if ``merge`` is "sum".

    Args:
        pairs: the ends of the edges, (2, E).
        edges: the edges.
        nodes: number of nodes.
        merge: how to merge the weights of one pair.
        problems: receives the problems.
    """
    weight = edges.weight
    if weight is None:
        if merge != "sum":
            return pairs, None
        weight = np.ones(pairs.shape[1])
    key = _pair_keys(pairs, nodes)
    key.sort()
    if not (key[1:] == key[:-1]).any():
        return pairs, edges.weight
    key = _pair_keys(pairs, nodes)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(key[order]) != 0])
    if merge is None:
        _refuse_repeated(pairs, weight, order, starts, edges, problems)
        return pairs, weight
    first = order[starts]
    counts = np.diff(starts, append=len(order))
    if merge == "first":
        combined = weight[first]
    elif merge == "max":
        combined = np.maximum.reduceat(weight[order], starts)
    else:
        combined = np.add.reduceat(weight[order], starts) / (counts if merge == "mean" else 1)
    return pairs[:, first], combined


def _pair_keys(pairs: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """One number for each pair of nodes, the same in both directions."""
    key: NDArray[np.int64] = np.minimum(pairs[0], pairs[1])
    key *= nodes
    key += np.maximum(pairs[0], pairs[1])
    return key


def _refuse_repeated(
    pairs: NDArray[np.int64],
    weight: NDArray[np.float64],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    edges: Edges,
    problems: Problems,
) -> None:
    first = np.empty(len(order), dtype=np.int64)  # for each edge, the first row of its pair
    first[order] = order[starts].repeat(np.diff(starts, append=len(order)))
    rows = np.arange(len(order))
    differs = np.abs(weight - weight[first]) > SAME_WEIGHT * np.maximum(weight, weight[first])
    again = (rows != first) & (pairs[0] == pairs[0][first])  # in the same direction
    wrong = (differs | again) & (pairs[0] != pairs[1])  # self-loops are dropped

    def what(row: int) -> str:
        return f"{edges.name(row)} is repeated, with weights {weight[first[row]]:g} and {weight[row]:g}"

    advice = "pass merge='sum', 'mean', 'max' or 'first' (--merge) to combine the weights of repeated edges"
    problems.add_rows(edges.table, wrong, what, advice, lambda row: int(first[row]))
