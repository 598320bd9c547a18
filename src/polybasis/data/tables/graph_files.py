"""Edges in files of graphs: MatrixMarket, GraphML and GEXF."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from polybasis.data.tables.problems import TableError
from polybasis.data.tables.table import Table
from polybasis.data.tables.text_files import open_bytes
from polybasis.foreign_files import errors_naming, regular_file

MAX_DEPTH = 64  # of nested XML elements
MAX_ISOLATED = 1 << 21  # nodes of a matrix that are permitted for a file of any size


def read_matrix_market(path: Path) -> tuple[Table, pa.Array]:
    """The edges of an adjacency matrix and its nodes, which are its rows, counted from 0.

    Raises:
        ValueError: if the file is not a square MatrixMarket matrix of real numbers.
    """
    from scipy.io import mmread

    size = regular_file(path)
    with errors_naming(path, "not a MatrixMarket file, or a damaged one"):
        with open_bytes(path) as file:
            banner = file.readline(1024).decode("ascii", "replace").lower().split()
            if banner[:3] != ["%%matrixmarket", "matrix", "coordinate"]:
                expected = "expected %%MatrixMarket matrix coordinate"
                raise ValueError(f"{path}:1: the first line is {' '.join(banner)[:60]!r}; {expected}")
            line = b"%"
            while line.startswith(b"%") or not line.strip():
                line = file.readline(1 << 20)
                if not line:
                    raise ValueError(f"{path}: the file has no size line; expected rows, columns and entries")
            rows, columns, entries = (int(part) for part in line.split())
        if rows != columns:
            raise ValueError(f"{path}: the matrix has {rows:,} rows and {columns:,} columns; expected a square one")
        most = size * (1 if path.suffix == ".mtx" else 200)
        if entries * 3 > most or rows > max(MAX_ISOLATED, 16 * entries) or min(rows, entries) < 0:
            raise ValueError(f"{path}: {rows:,} rows and {entries:,} entries in {size:,} bytes; the header is damaged")
        with open_bytes(path) as file:
            matrix = mmread(file).tocoo()
    if np.iscomplexobj(matrix.data):
        raise ValueError(f"{path}: the matrix is complex; expected real numbers")
    source, target = matrix.coords
    once = source <= target if len(banner) > 4 and banner[4] == "symmetric" else np.ones(len(source), dtype=np.bool_)
    arrays = [pa.array(end[once].astype(np.int64)) for end in (source, target)]
    names = ["source", "target"]
    if len(banner) > 3 and banner[3] != "pattern":
        arrays.append(pa.array(matrix.data[once].astype(np.float64)))
        names.append("weight")
    chunked = tuple(pa.chunked_array([array]) for array in arrays)
    return Table(path, tuple(names), chunked, unit="entry"), pa.array(np.arange(rows)).cast(pa.string())


def read_xml_graph(path: Path) -> tuple[Table, pa.Array]:
    """The edges and nodes of a GraphML or GEXF file; the attribute ``weight`` of an edge is its weight, by default 1.

    Raises:
        ValueError: if the file is damaged or declares a document type, which could refer to other files.
    """
    import networkx as nx

    kind = "GEXF" if path.name.lower().removesuffix(".gz").endswith(".gexf") else "GraphML"
    regular_file(path)
    with errors_naming(path, f"not a {kind} file, or a damaged one"):
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
        raise TableError([f"{path}:{parser.CurrentLineNumber}: <!DOCTYPE> is not permitted"], ["remove it"])

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
