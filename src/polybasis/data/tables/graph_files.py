"""Edges in files of graphs: MatrixMarket, GraphML and GEXF."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polybasis.data.tables.problems import TableError
from polybasis.data.tables.roles import counted
from polybasis.data.tables.table import Table
from polybasis.data.tables.text_files import open_bytes
from polybasis.foreign_files import errors_naming, regular_file

MAX_DEPTH = 64  # of nested XML elements
FIELDS, SYMMETRIES = (["real"], ["integer"], ["pattern"]), (["general"], ["symmetric"])
MAX_ISOLATED = 1 << 21  # nodes of a matrix that are permitted for a file of any size


def read_matrix_market(path: Path) -> tuple[Table, pa.Array]:
    """The edges of an adjacency matrix and its nodes, which are its rows, counted from 0.

    SciPy's reader can crash on damaged files.

    Raises:
        ValueError: if the file is not a square MatrixMarket matrix of real numbers.
    """
    regular_file(path)
    with errors_naming(path, "not a MatrixMarket file, or damaged"), open_bytes(path) as file:
        banner = file.readline(1024).decode("ascii", "replace").lower().split()
        first = ["%%matrixmarket", "matrix", "coordinate"]
        if banner[:3] != first or banner[3:4] not in FIELDS or banner[4:] not in SYMMETRIES:
            expected = "expected %%MatrixMarket matrix coordinate, then real, integer or pattern, general or symmetric"
            raise ValueError(f"{path}:1: the first line is {' '.join(banner)[:60]!r}; {expected}")
        line, number = b"%", 1
        while line.startswith(b"%") or (line and not line.strip()):
            line, number = file.readline(1 << 20), number + 1
        sizes = line.split()
        if len(sizes) != 3 or not all(size.isdigit() and len(size) < 19 for size in sizes):
            raise ValueError(f"{path}:{number}: {line[:40]!r}; expected the numbers of rows, columns and entries")
        rows, columns, entries = (int(size) for size in sizes)
        content = file.read()
    if rows != columns:
        raise ValueError(f"{path}: the matrix has {rows:,} rows and {columns:,} columns; expected a square matrix")
    if rows > max(MAX_ISOLATED, 16 * entries):
        raise ValueError(f"{path}: the header announces {rows:,} rows but {counted(entries, 'entry')}; is it damaged?")
    weighted = banner[3] != "pattern"
    cells = _numbers(path, content).reshape(-1)
    width = 3 if weighted else 2
    if len(cells) != entries * width:
        raise ValueError(
            f"{path}: found {len(cells):,} numbers; the header announces {entries:,} entries of {width} numbers each"
        )
    table = cells.reshape(entries, width)
    ends = table[:, :2]
    wrong = np.flatnonzero(((ends < 1) | (ends > rows) | (ends != np.trunc(ends))).any(axis=1))
    if len(wrong):
        row, column = ends[wrong[0]]
        raise ValueError(
            f"{path}: entry {wrong[0] + 1} is in row {row:g}, column {column:g}; expected rows and columns from 1 to "
            f"{rows:,}"
        )
    arrays = [pa.array(ends[:, i].astype(np.int64) - 1) for i in (0, 1)]
    arrays += [pa.array(table[:, 2])] if weighted else []
    names = ("source", "target", "weight")[: len(arrays)]
    chunked = tuple(pa.chunked_array([array]) for array in arrays)
    return Table(path, names, chunked, unit="entry"), pa.array(np.arange(rows)).cast(pa.string())


def _numbers(path: Path, content: bytes) -> NDArray[np.float64]:
    """The numbers in a text, separated by whitespace."""
    if not content.strip():
        return np.empty(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # NumPy warns of text that is not a number
            return np.fromstring(content.decode("ascii"), sep=" ")
    except (ValueError, DeprecationWarning) as error:
        raise ValueError(f"{path}: an entry is not a number; expected row, column and value") from error


def read_xml_graph(path: Path) -> tuple[Table, pa.Array]:
    """The edges and nodes of a GraphML or GEXF file; the attribute ``weight`` of an edge is its weight, by default 1.

    Raises:
        ValueError: if the file is damaged or declares a document type, which could refer to other files.
    """
    import networkx as nx

    kind = "GEXF" if path.name.lower().removesuffix(".gz").endswith(".gexf") else "GraphML"
    regular_file(path)
    with errors_naming(path, f"not a {kind} file, or damaged"):
        _check_xml(path)
        with open_bytes(path) as file:
            graph: Any = nx.read_gexf(file) if kind == "GEXF" else nx.read_graphml(file)
        edges = list(graph.edges(data="weight"))
    nodes = pa.array([str(node) for node in graph.nodes], pa.string())
    ends = [pa.array([str(edge[i]) for edge in edges], pa.string()) for i in (0, 1)]
    arrays, names = ends, ["source", "target"]
    if any(weight is not None for *_, weight in edges):
        with errors_naming(path, "a weight is not a number"):
            arrays = [*ends, pa.array([1.0 if weight is None else float(weight) for *_, weight in edges])]
        names.append("weight")
    return Table(path, tuple(names), tuple(pa.chunked_array([array]) for array in arrays), unit="edge"), nodes


def _check_xml(path: Path) -> None:
    """Refuses XML with a document type, whose entities can refer to other files or grow without limit."""
    parser = expat.ParserCreate()
    depth = 0

    def doctype(*_: object) -> None:
        raise TableError([f"{path}:{parser.CurrentLineNumber}: <!DOCTYPE> is not allowed"], ["remove it"])

    def start(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise TableError([f"{path}:{parser.CurrentLineNumber}: elements are nested too deeply"])

    def end(*_: object) -> None:
        nonlocal depth
        depth -= 1

    parser.StartDoctypeDeclHandler, parser.StartElementHandler, parser.EndElementHandler = doctype, start, end
    with open_bytes(path) as file:
        try:
            parser.ParseFile(file)
        except expat.ExpatError as error:
            raise TableError(
                [f"{path}:{error.lineno}: not XML, or damaged ({expat.errors.messages[error.code]})"],
                ["write the file again"],
            ) from error
