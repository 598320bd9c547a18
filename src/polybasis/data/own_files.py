"""A person's own graph, from plain files. Every complaint names the file and the line."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from polybasis.features import Features, SparseFeatures, as_features
from polybasis.graph import Graph


@dataclass(frozen=True, eq=False)
class OwnGraph:
    """A graph with named nodes.

    Attributes:
        nodes: names, in the order of the graph's nodes.
        graph: the graph.
        x: features; the identity where there were none, so that each node has weights of its own.
        has_features: whether ``x`` came from a file.
        labels: name of each node's class, None where it is not known.
    """

    nodes: list[str]
    graph: Graph
    x: Features
    has_features: bool
    labels: list[str | None]


def read_own_graph(edges: Path, features: Path | None = None, labels: Path | None = None) -> OwnGraph:
    """Reads a graph from files.

    Args:
        edges: CSV or Parquet with a header; the first two columns are the ends of an edge, a third one its weight.
        features: CSV or Parquet with a header, the first column the node; or ``.npy`` / ``.npz`` (dense, or sparse by
            SciPy's ``save_npz``), whose row i belongs to the node named i. Every node of an edge needs features; nodes
            without edges are fine. Without features only the structure counts.
        labels: CSV or Parquet with a header and the columns node and class; nodes may be missing, or have no class.

    Raises:
        ValueError: with file and line, for anything that is not right.
    """
    ends, weights = _read_edges(edges)
    names = [name for pair, _ in ends for name in pair]
    matrix: NDArray[np.float32] | sp.csr_array | None = None
    if features is None:
        nodes = list(dict.fromkeys(names))
    else:
        nodes, matrix = _read_features(features)
    index = {name: i for i, name in enumerate(nodes)}
    for pair, line in ends:
        for name in pair:
            if name not in index:
                raise ValueError(f"{edges}:{line}: node {name!r} has no features in {features}")
    edge_index = np.array([[index[a], index[b]] for (a, b), _ in ends], dtype=np.int64).reshape(-1, 2).T
    try:
        graph = Graph.from_edge_index(edge_index, len(nodes), weights)
    except ValueError as error:
        raise ValueError(f"{edges}: {error}") from error
    known: list[str | None] = [None] * len(nodes)
    if labels is not None:
        known = _read_labels(labels, index)
    x: Features
    if matrix is None:
        x = SparseFeatures(sp.eye_array(len(nodes), format="csr"))
    else:
        x = SparseFeatures(matrix) if sp.issparse(matrix) else as_features(torch.from_numpy(matrix))
    return OwnGraph(nodes, graph, x, matrix is not None, known)


def _rows(path: Path, columns: int, what: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells of a table with a header and at least so many columns."""
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = next(reader, None)
            if header is None:
                raise ValueError(f"{path}:1: the file is empty; expected a header and {what}")
            if len(header) < columns:
                raise ValueError(f"{path}:1: the header has {len(header)} columns; expected {what}")
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise ValueError(f"{path}:{reader.line_num}: {len(row)} columns; the header has {len(header)}")
                yield reader.line_num, [cell.strip() for cell in row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: not a CSV file in UTF-8 ({error})") from error


def _parquet_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"{path} needs pyarrow; install it with: pip install 'polybasis[parquet]'") from error
    try:
        table = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path}: not a Parquet file ({error})") from error
    for i, row in enumerate(zip(*(column.to_pylist() for column in table.columns), strict=True)):
        yield i + 1, ["" if cell is None else str(cell) for cell in row]


def _number(path: Path, line: int, cell: str, what: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        raise ValueError(f"{path}:{line}: {what} is {cell!r}; expected a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{path}:{line}: {what} is {cell}; expected a finite number")
    return number


def _read_edges(path: Path) -> tuple[list[tuple[tuple[str, str], int]], NDArray[np.float64] | None]:
    ends: list[tuple[tuple[str, str], int]] = []
    weights: list[float] = []
    for line, row in _rows(path, 2, "the columns source and target"):
        if not row[0] or not row[1]:
            raise ValueError(f"{path}:{line}: an edge without both its ends")
        ends.append(((row[0], row[1]), line))
        if len(row) > 2:
            weights.append(_number(path, line, row[2], "the weight"))
            if weights[-1] < 0:
                raise ValueError(f"{path}:{line}: the weight is {row[2]}; expected 0 or more")
    if not ends:
        raise ValueError(f"{path}:1: there are no edges in the file")
    return ends, np.array(weights) if weights else None


def _read_features(path: Path) -> tuple[list[str], NDArray[np.float32] | sp.csr_array]:
    if path.suffix in (".npy", ".npz"):
        return _read_array(path)
    nodes: dict[str, int] = {}
    values: list[list[float]] = []
    for line, (name, *cells) in _rows(path, 2, "the node and its features"):
        if name in nodes:
            raise ValueError(f"{path}:{line}: node {name!r} is there twice, first in line {nodes[name]}")
        nodes[name] = line
        values.append([_number(path, line, cell, f"feature {i}") for i, cell in enumerate(cells, 1)])
    if not nodes:
        raise ValueError(f"{path}:1: there are no nodes in the file")
    return list(nodes), np.array(values, dtype=np.float32)


def _read_array(path: Path) -> tuple[list[str], NDArray[np.float32] | sp.csr_array]:
    matrix: NDArray[np.float32] | sp.csr_array
    try:
        if path.suffix == ".npy":
            matrix = np.load(path, allow_pickle=False)
        else:
            with np.load(path, allow_pickle=False) as archive:
                names = archive.files
                dense = archive[names[0]] if len(names) == 1 else None
            matrix = sp.csr_array(sp.load_npz(path)) if dense is None else dense
    except (ValueError, OSError, EOFError, KeyError) as error:
        raise ValueError(f"{path}: not an array of features ({error})") from error
    if matrix.ndim != 2:
        raise ValueError(f"{path}: the array has {matrix.ndim} axes; expected a row of features for each node")
    numbers = matrix.data if sp.issparse(matrix) else matrix
    if not np.issubdtype(numbers.dtype, np.number):
        raise ValueError(f"{path}: the array holds {numbers.dtype}; expected numbers")
    if not np.isfinite(numbers).all():
        rows = matrix.tocoo().row if sp.issparse(matrix) else np.argwhere(~np.isfinite(matrix))[:, 0]
        bad = rows[~np.isfinite(numbers)] if sp.issparse(matrix) else rows
        raise ValueError(f"{path}: row {int(bad[0])} has a feature that is not finite")
    return [str(i) for i in range(matrix.shape[0])], matrix.astype(np.float32)


def _read_labels(path: Path, index: dict[str, int]) -> list[str | None]:
    labels: list[str | None] = [None] * len(index)
    seen: dict[str, int] = {}
    for line, row in _rows(path, 2, "the columns node and class"):
        name, label = row[0], row[1]
        if name not in index:
            raise ValueError(f"{path}:{line}: node {name!r} is in no other file")
        if name in seen:
            raise ValueError(f"{path}:{line}: node {name!r} is there twice, first in line {seen[name]}")
        seen[name] = line
        labels[index[name]] = label or None
    if not any(labels):
        raise ValueError(f"{path}:1: there are no labels in the file")
    return labels
