"""Graphs in the user's own files: CSV, Parquet and NumPy arrays. Error messages give the file and the line.

CSV files must have a header. They are read as text, so that errors can give the line of a value that is not a number.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from polybasis.data.dataset import NodeDataset, refuse_classes
from polybasis.features import SparseFeatures, as_features
from polybasis.foreign_files import Archive, map_array, read_sparse, regular_file
from polybasis.graph import Graph

BLOCK = 1 << 24  # bytes of a CSV file to parse at a time
MIN_CELLS, MAX_CELLS_PER_BYTE = 1 << 23, 1 << 9  # limits on a Parquet file; run lengths can state any number of rows
MAX_NAMES = 1 << 28  # bytes of the names of nodes that are permitted for a file of any size
ROWS = 1 << 22  # rows of a Parquet file or an array to read at a time


def read_tables(edges: str | Path, features: str | Path | None = None, labels: str | Path | None = None) -> NodeDataset:
    """Reads a graph with named nodes.

    Args:
        edges: CSV or Parquet file with the columns source, target and, optionally, weight.
        features: CSV or Parquet file whose first column is the node and whose other columns are numbers; or a ``.npy``
            or ``.npz`` file (dense, or sparse and written by SciPy's ``save_npz``) whose row i belongs to the node
            named i. Every node of an edge needs features. Without this file, models train on structure only.
        labels: CSV or Parquet file with the columns node and class; an empty cell marks an unknown class.

    Returns:
        A data set whose ``nodes`` and ``classes`` are the names in the files.

    Raises:
        ValueError: if a file is invalid; the message gives the file and the line.
        FileNotFoundError: if a file does not exist.
    """
    edges = Path(edges)
    features, labels = (None if path is None else Path(path) for path in (features, labels))
    table = _read(edges, "the columns source and target", columns=2)
    if table.width > 3:
        raise ValueError(f"{table.at_header()}: {table.width} columns; expected source, target and, optionally, weight")
    if table.rows == 0:
        raise ValueError(f"{table.at_header()}: the file has no edges")
    ends = [table.text(column) for column in (0, 1)]
    for column in ends:
        table.refuse(column.empty, "edge with a missing endpoint")
    weight = table.numbers(2, "weight") if table.width == 3 else None
    if weight is not None:
        table.refuse(weight < 0, "the weight is negative")

    matrix: NDArray[np.float32] | sp.csr_array | None = None
    if features is None:
        nodes = _in_order_of_appearance(*ends)
    else:
        nodes, matrix = _read_features(features)
    indices = []
    for column in ends:
        index = column.index_in(nodes)
        table.refuse(index < 0, f"node {{!r}} has no features in {features}", column)
        indices.append(index)
    try:
        graph = Graph.from_edge_index(np.stack(indices), len(nodes), weight, directed=False)
    except ValueError as error:
        raise ValueError(f"{edges}: {error}") from error
    y, classes = (torch.full((len(nodes),), -1), ()) if labels is None else _read_labels(labels, nodes)
    if matrix is None:
        x: Any = SparseFeatures(sp.eye_array(len(nodes), format="csr"))
    else:
        x = SparseFeatures(matrix) if sp.issparse(matrix) else as_features(torch.from_numpy(matrix))
    return NodeDataset(
        name=edges.stem,
        graph=graph,
        x=x,
        y=y,
        classes=classes,
        nodes=_node_names(edges if features is None else features, nodes),
        structure_only=matrix is None,
    )


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


# ---- tables --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Texts:
    """A column of text, each distinct text stored once: a small Parquet file can repeat a long text millions of times.

    Attributes:
        codes: index of each row's text.
        distinct: the distinct texts.
    """

    codes: NDArray[np.int64]
    distinct: pa.Array

    @property
    def empty(self) -> NDArray[np.bool_]:
        """The rows without text."""
        mask: NDArray[np.bool_] = pc.equal(self.distinct, "").to_numpy(zero_copy_only=False)[self.codes]
        return mask

    def index_in(self, values: pa.Array) -> NDArray[np.int64]:
        """The index of each row's text in ``values``; -1 if it is not there."""
        index = pc.fill_null(pc.index_in(self.distinct, value_set=values), -1).to_numpy()
        found: NDArray[np.int64] = index.astype(np.int64)[self.codes]
        return found

    def __getitem__(self, row: int) -> str:
        return str(self.distinct[int(self.codes[row])].as_py())


def _in_order_of_appearance(sources: _Texts, targets: _Texts) -> pa.Array:
    """The distinct nodes of edges, in the order in which the edges name them."""
    distinct = pc.unique(pa.concat_arrays([sources.distinct, targets.distinct]))
    nodes = np.stack([sources.index_in(distinct), targets.index_in(distinct)], axis=1).ravel()
    first = np.full(len(distinct), -1)
    first[nodes[::-1]] = np.arange(len(nodes))[::-1]  # the last assignment stays: the first appearance
    return distinct.take(pa.array(np.argsort(first)[np.count_nonzero(first < 0) :]))


def _node_names(path: Path, nodes: pa.Array) -> NDArray[np.str_]:
    """Names of nodes as an array, whose size is the number of nodes times the longest name."""
    longest = int(pc.max(pc.utf8_length(nodes)).as_py())
    if 4 * longest * len(nodes) > max(MAX_NAMES, 64 * regular_file(path)):
        raise ValueError(f"{path}: a node's name has {longest:,} characters; is a quote missing?")
    return np.array(nodes.to_pylist(), dtype=np.str_)


@dataclass(frozen=True)
class _Table:
    """A table in memory that can look up the line of a row in its file."""

    path: Path
    columns: list[pa.Array]

    @property
    def rows(self) -> int:
        return len(self.columns[0])

    @property
    def width(self) -> int:
        return len(self.columns)

    def at_header(self) -> str:
        return str(self.path) if self.path.suffix == ".parquet" else f"{self.path}:1"

    def at(self, row: int) -> str:
        """File and line of a row."""
        return f"{self.path}: row {row + 1}" if self.path.suffix == ".parquet" else f"{self.path}:{self.line(row)}"

    def line(self, row: int) -> int:
        """Line of a row; row + 1 in a Parquet file. Quoted cells may contain line breaks, so this reads the file."""
        if self.path.suffix == ".parquet":
            return row + 1
        lines = (line for line, _ in _csv_rows(self.path))
        return next((line for i, line in enumerate(lines) if i == row + 1), row + 2)

    def text(self, column: int) -> _Texts:
        """A column as text without surrounding whitespace; missing values become empty."""
        values = self.columns[column]
        try:
            if not pa.types.is_dictionary(values.type):
                values = values.dictionary_encode()
            distinct = pc.cast(values.dictionary, pa.string())
        except pa.ArrowException as error:
            expected = f"column {column + 1} has type {values.type}; expected text or numbers"
            raise ValueError(f"{self.at_header()}: {expected}") from error
        encoded = pa.concat_arrays([pc.utf8_trim_whitespace(pc.fill_null(distinct, "")), pa.array([""])])
        encoded = encoded.dictionary_encode()  # again, because texts may differ in whitespace only
        codes = pc.fill_null(pc.cast(values.indices, pa.int64()), len(distinct)).to_numpy()
        return _Texts(encoded.indices.to_numpy().astype(np.int64)[codes], encoded.dictionary)

    def numbers(self, column: int, what: str) -> NDArray[np.float64]:
        """A column as numbers; raises ValueError for a number that is not finite in float32."""
        values = self.columns[column]
        texts = pa.types.is_string(values.type) or pa.types.is_dictionary(values.type)
        try:
            distinct = self.text(column).distinct if texts else values
            numbers: NDArray[np.float64] = pc.cast(distinct, pa.float64()).to_numpy(zero_copy_only=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            # Slower, but Python accepts more forms than Arrow, such as +1, and this finds the first invalid cell.
            found = [_as_number(cell) for cell in self.text(column).distinct.to_pylist()]
            wrong = np.array([number is None for number in found])[self.text(column).codes]
            self.refuse(wrong, f"{what} is {{!r}}; expected a number", self.text(column))
            texts, numbers = True, np.array([np.nan if number is None else number for number in found])
        numbers = numbers[self.text(column).codes] if texts else numbers
        wrong = ~(np.abs(numbers) <= np.finfo(np.float32).max)
        if wrong.any():
            text = self.text(column)[int(wrong.argmax())] or "missing"
            self.refuse(wrong, f"{what} is {text}; expected a finite number in the range of float32")
        return numbers

    def refuse(self, wrong: Any, why: str, values: _Texts | None = None) -> None:
        """Raises ValueError for the first row that is wrong; ``{}`` in the message stands for the row's value."""
        mask = np.asarray(wrong)
        if mask.any():
            row = int(mask.argmax())
            raise ValueError(f"{self.at(row)}: {why if values is None else why.format(values[row])}")


def _as_number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _read(path: Path, what: str, columns: int) -> _Table:
    """Reads a table with at least ``columns`` columns, which ``what`` describes in error messages."""
    regular_file(path)
    if path.suffix == ".parquet":
        try:
            with pyarrow.parquet.ParquetFile(path) as file:
                _refuse_size(path, file.metadata.num_rows, file.metadata.num_columns)
                texts = [field.name for field in file.schema_arrow if pa.types.is_string(field.type)]
            with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
                arrays = [column.unify_dictionaries().combine_chunks() for column in file.read().columns]
            for array in arrays:
                array.validate(full=True)
        except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: not a Parquet file, or a damaged one ({error})") from error
    else:
        width = _csv_width(path, what)
        if width < columns:
            raise ValueError(f"{path}:1: the header has {width} columns; expected {what}")
        arrays = [column.combine_chunks() for column in _csv_table(path, width, pa.string()).columns]
    if len(arrays) < columns:
        raise ValueError(f"{path}: {len(arrays)} columns; expected {what}")
    return _Table(path, arrays)


def _refuse_size(path: Path, rows: int, columns: int) -> None:
    """Raises ValueError for a Parquet file that is much larger in memory than on disk: it repeats the same rows."""
    size = regular_file(path)
    if rows * columns > max(MIN_CELLS, MAX_CELLS_PER_BYTE * size):
        raise ValueError(f"{path}: {rows:,} rows of {columns:,} columns in {size:,} bytes; are all rows the same?")


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every non-blank row, including the header; slow, so used only for headers and errors.

    Raises:
        ValueError: if the file is not a CSV file in UTF-8; the message gives the file and the line.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except UnicodeDecodeError:
            raise ValueError(f"{path}:{_undecodable_line(path)}: not text in UTF-8") from None
        except csv.Error as error:
            raise ValueError(f"{path}:{reader.line_num}: not CSV ({error})") from error


def _undecodable_line(path: Path) -> int:
    """The first line that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 1


def _csv_width(path: Path, what: str) -> int:
    first = next(_csv_rows(path), None)
    if first is None:
        raise ValueError(f"{path}:1: the file is empty; expected a header and {what}")
    if all(_as_number(cell.strip()) is not None for cell in first[1]):
        raise ValueError(f"{path}:{first[0]}: the first line is all numbers; expected a header and {what}")
    return len(first[1])


def _csv_options(width: int, dtype: pa.DataType) -> dict[str, Any]:
    # The first non-blank row is the header. Column names are generated because headers may repeat a name.
    return {
        "read_options": pyarrow.csv.ReadOptions(autogenerate_column_names=True, block_size=BLOCK),
        "parse_options": pyarrow.csv.ParseOptions(newlines_in_values=True),
        "convert_options": pyarrow.csv.ConvertOptions(
            column_types={f"f{i}": dtype for i in range(width)}, strings_can_be_null=False
        ),
    }


def _csv_table(path: Path, width: int, dtype: pa.DataType) -> pa.Table:
    try:
        return pyarrow.csv.read_csv(path, **_csv_options(width, dtype)).slice(1)
    except pa.ArrowException as error:
        raise _csv_error(path, width, error) from error


def _csv_error(path: Path, width: int, error: Exception) -> ValueError:
    """The error for a file that Arrow cannot parse, with the line if it is found."""
    try:
        for line, row in _csv_rows(path):
            if len(row) != width:
                return ValueError(f"{path}:{line}: {len(row)} columns; the header has {width}")
    except ValueError as found:
        return found
    return ValueError(f"{path}: not a CSV file ({error})")


# ---- features and labels -------------------------------------------------------------------------------------------


def _read_features(path: Path) -> tuple[pa.Array, NDArray[np.float32] | sp.csr_array]:
    if path.suffix in (".npy", ".npz"):
        matrix = _read_matrix(path)
        return pc.cast(pa.array(np.arange(matrix.shape[0])), pa.string()), matrix
    table = _read(path, "the node and its features", columns=2)
    if table.rows == 0:
        raise ValueError(f"{table.at_header()}: the file has no nodes")
    nodes = table.text(0)
    table.refuse(nodes.empty, "missing node")
    _refuse_duplicates(table, nodes)
    x = np.empty((table.rows, table.width - 1), dtype=np.float32)
    for column in range(1, table.width):
        x[:, column - 1] = table.numbers(column, f"feature {column}")
    return nodes.distinct.take(pa.array(nodes.codes)), x


def _refuse_duplicates(table: _Table, nodes: _Texts) -> None:
    _, places = np.unique(nodes.codes, return_index=True)
    if len(places) < len(nodes.codes):
        row = int(np.setdiff1d(np.arange(len(nodes.codes)), places)[0])
        earlier = table.line(int(np.argmax(nodes.codes == nodes.codes[row])))
        place = f"in row {earlier}" if table.path.suffix == ".parquet" else f"on line {earlier}"
        raise ValueError(f"{table.at(row)}: duplicate node {nodes[row]!r} (first {place})")


def _read_matrix(path: Path) -> NDArray[np.float32] | sp.csr_array:
    matrix: Any
    if path.suffix == ".npy":
        matrix = map_array(path)
    else:
        with Archive(path) as archive:
            names = list(archive.names)
            dense = archive.read(names[0]) if len(names) == 1 else None
        matrix = read_sparse(path) if dense is None else dense
    if matrix.ndim != 2:
        raise ValueError(f"{path}: the array has {matrix.ndim} axes; expected 2, one row of features for each node")
    if matrix.shape[0] == 0:
        raise ValueError(f"{path}: the array has no rows; expected one for each node")
    numbers = matrix.data if sp.issparse(matrix) else matrix
    if numbers.dtype == np.bool_:
        raise ValueError(f"{path}: the array has dtype bool; expected real numbers")
    finite = np.abs(numbers) <= np.finfo(np.float32).max
    if not finite.all():
        row = matrix.tocoo().row[~finite][0] if sp.issparse(matrix) else np.argwhere(~finite)[0, 0]
        raise ValueError(f"{path}: row {int(row)} has a feature that is not finite")
    features: NDArray[np.float32] | sp.csr_array = matrix.astype(np.float32)
    return features


def _read_labels(path: Path, nodes: pa.Array) -> tuple[torch.Tensor, tuple[str, ...]]:
    table = _read(path, "the columns node and class", columns=2)
    names, labels = table.text(0), table.text(1)
    index = names.index_in(nodes)
    table.refuse(index < 0, "node {!r} does not occur in any other file", names)
    _refuse_duplicates(table, names)
    present = np.unique(labels.codes)
    classes = sorted(value for value in labels.distinct.take(pa.array(present)).to_pylist() if value)
    if not classes:
        raise ValueError(f"{table.at_header()}: the file has no labels")
    y = np.full(len(nodes), -1)
    y[index] = labels.index_in(pa.array(classes))
    return torch.from_numpy(y), tuple(classes)


# ---- edges between numbered nodes ----------------------------------------------------------------------------------


def _refuse_weights(path: Path, width: int) -> None:
    if width != 2:
        raise ValueError(f"{path} has {width} columns; expected source and target: a graph folder holds no weights")


def _in_range(path: Path, batches: Iterator[NDArray[np.int64]], num_nodes: int) -> Iterator[NDArray[np.int64]]:
    """Passes batches of edges on; raises ValueError for a node that is out of range."""
    for pairs in batches:
        if len(pairs) and (pairs.min() < 0 or pairs.max() >= num_nodes):
            source, target = pairs[((pairs < 0) | (pairs >= num_nodes)).any(axis=1)][0]
            raise ValueError(f"{path}: edge ({source}, {target}); expected nodes from 0 to {num_nodes - 1}")
        yield pairs


def _csv_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    width = _csv_width(path, "the columns source and target")
    _refuse_weights(path, width)
    header = True
    try:
        for batch in pyarrow.csv.open_csv(path, **_csv_options(width, pa.string())):
            rows = batch.slice(1) if header else batch
            header = False
            columns = [pc.cast(pc.utf8_trim_whitespace(rows.column(i)), pa.int64()) for i in range(2)]
            yield np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])
    except pa.ArrowInvalid as error:
        for number, (line, row) in enumerate(_csv_rows(path)):
            if number and not (len(row) == width and all(re.fullmatch(r"-?[0-9]{1,18}", cell.strip()) for cell in row)):
                raise ValueError(f"{path}:{line}: {','.join(row)!r}; expected two node numbers") from error
        raise _csv_error(path, width, error) from error


def _parquet_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _refuse_weights(path, len(file.schema_arrow.names))
            _refuse_size(path, file.metadata.num_rows, 2)
            first = 0
            for batch in file.iter_batches(ROWS):
                yield np.column_stack([_node_numbers(path, batch.column(i), first) for i in range(2)])
                first += len(batch)
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a Parquet file, or a damaged one ({error})") from error


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
