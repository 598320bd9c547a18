"""Graphs whose nodes are numbers, in files that may be larger than memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from polybasis.data.columns import as_number
from polybasis.data.dataset import refuse_classes
from polybasis.data.tables.arrow_tables import refuse_size
from polybasis.data.tables.text_files import csv_rows
from polybasis.foreign_files import map_array, regular_file

BLOCK = 1 << 24  # bytes of a CSV file to parse at a time
ROWS = 1 << 22  # rows of a Parquet file or an array to read at a time


def edge_batches(path: Path, num_nodes: int) -> Iterator[NDArray[np.int64]]:
    """Edges between numbered nodes, a few million at a time, from a file that may be larger than memory.

    Args:
        path: CSV with a header or Parquet, with the columns source and target; or ``.npy`` of shape (2, E) or (E, 2).
        num_nodes: number of nodes.

    Yields:
        Arrays of shape (m, 2).

    Raises:
        ValueError: for anything but two columns of node numbers; the message gives the file and the line or edge.
    """
    readers = {".csv": _csv_edges, ".parquet": _parquet_edges, ".npy": _array_edges}
    if path.suffix not in readers:
        raise ValueError(f"{path}: unknown file type {path.suffix!r}; expected {', '.join(readers)}")
    regular_file(path)
    return _in_range(path, readers[path.suffix](path), num_nodes)


def read_node_features(path: Path, num_nodes: int) -> NDArray[Any]:
    """Maps the features of numbered nodes, a ``.npy`` file of shape (num_nodes, features), into memory.

    Raises:
        ValueError: if the file is damaged or has another shape; the message gives the file.
    """
    x = map_array(path)
    if x.ndim != 2 or len(x) != num_nodes:
        raise ValueError(f"{path}: the array has shape {x.shape}; expected ({num_nodes}, features)")
    return x


def read_node_classes(path: Path, num_nodes: int) -> NDArray[np.integer[Any]]:
    """Maps the classes of numbered nodes, a ``.npy`` file of shape (num_nodes,), -1 if unknown, into memory.

    Raises:
        ValueError: if the file is damaged, has another shape or a class that is out of range; the message gives the
            file.
    """
    y = map_array(path, "iu")
    if y.shape != (num_nodes,):
        raise ValueError(f"{path}: the array has shape {y.shape}; expected ({num_nodes},)")
    try:
        refuse_classes(int(y.min()), int(y.max()), num_nodes)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return y


def _refuse_weights(path: Path, width: int) -> None:
    if width != 2:
        raise ValueError(
            f"{path} has {width} columns; expected source and target only, because a graph folder holds no weights"
        )


def _in_range(path: Path, batches: Iterator[NDArray[np.int64]], num_nodes: int) -> Iterator[NDArray[np.int64]]:
    """Passes batches of edges on; raises ValueError for a node that is out of range."""
    for pairs in batches:
        if len(pairs) and (pairs.min() < 0 or pairs.max() >= num_nodes):
            source, target = pairs[((pairs < 0) | (pairs >= num_nodes)).any(axis=1)][0]
            raise ValueError(f"{path}: edge ({source}, {target}); expected nodes from 0 to {num_nodes - 1}")
        yield pairs


def _csv_width(path: Path) -> int:
    expected = "expected a header and the columns source and target"
    first = next(csv_rows(path, ",", 0), None)
    if first is None:
        raise ValueError(f"{path}:1: the file is empty; {expected}")
    if all(as_number(cell.strip()) is not None for cell in first[1]):
        raise ValueError(f"{path}:{first[0]}: the first line is all numbers; {expected}")
    if len(first[1]) == 1:
        raise ValueError(f"{path}:{first[0]}: the header is {first[1][0]!r}; {expected}, separated by a comma")
    return len(first[1])


def _csv_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    width = _csv_width(path)
    _refuse_weights(path, width)
    header = True
    options = {
        # The first non-blank row is the header. Column names are generated because headers may repeat a name.
        "read_options": pyarrow.csv.ReadOptions(autogenerate_column_names=True, block_size=BLOCK),
        "parse_options": pyarrow.csv.ParseOptions(newlines_in_values=True),
        "convert_options": pyarrow.csv.ConvertOptions(
            column_types={f"f{i}": pa.string() for i in range(width)}, strings_can_be_null=False
        ),
    }
    try:
        for batch in pyarrow.csv.open_csv(path, **options):
            rows = batch.slice(1) if header else batch
            header = False
            columns = [pc.cast(pc.utf8_trim_whitespace(rows.column(i)), pa.int64()) for i in range(2)]
            yield np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])
    except pa.ArrowInvalid as error:
        for number, (line, row) in enumerate(csv_rows(path, ",", 0)):
            if number and not (len(row) == width and all(re.fullmatch(r"-?[0-9]{1,18}", cell.strip()) for cell in row)):
                raise ValueError(
                    f"{path}:{line}: {','.join(row)!r}; expected two node numbers, counted from 0"
                ) from error
        raise ValueError(f"{path}: not a CSV file ({error})") from error


def _parquet_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _refuse_weights(path, len(file.schema_arrow.names))
            refuse_size(path, file.metadata.num_rows, 2)
            first = 0
            for batch in file.iter_batches(ROWS):
                yield np.column_stack([_node_numbers(path, batch.column(i), first) for i in range(2)])
                first += len(batch)
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a Parquet file, or damaged ({error})") from error


def _node_numbers(path: Path, column: pa.Array, first: int) -> NDArray[np.int64]:
    """A column of a Parquet file as integers; ``first`` is the index of its first row in the file."""
    try:
        numbers: NDArray[np.int64] = pc.cast(column, pa.int64()).to_numpy()  # no copy, so no missing values
        return numbers
    except pa.ArrowException as error:
        for row, cell in enumerate(column):
            try:
                valid = cell.cast(pa.int64()).is_valid
            except pa.ArrowException:
                valid = False
            if not valid:
                place = f"{path}: row {first + row + 1}"
                raise ValueError(f"{place}: {cell.as_py()!r}; expected a node number") from error
        raise


def _array_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    def mapped() -> NDArray[np.int64]:
        array = map_array(path, "iu")
        if array.ndim != 2 or 2 not in array.shape:
            raise ValueError(f"{path}: the array has shape {array.shape}; expected (2, E) or (E, 2)")
        if array.shape == (2, 2):
            raise ValueError(f"{path}: shape (2, 2) may be (2, E) or (E, 2); write the two edges to a .csv file")
        pairs: NDArray[np.int64] = array if array.shape[1] == 2 else array.T
        return pairs

    for first in range(0, len(mapped()), ROWS):
        yield np.array(mapped()[first : first + ROWS])  # mapped anew, so that earlier rows can leave memory
