"""Tables in Parquet files and in Arrow's own format (Feather), whose sizes are checked before they are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from polybasis.data.tables.problems import TableError
from polybasis.data.tables.table import Table, TableFile
from polybasis.foreign_files import regular_file

MIN_CELLS, MAX_CELLS_PER_BYTE = 1 << 23, 1 << 9  # limits on a file; run lengths can state any number of rows
SAMPLE_ROWS = 200


def open_parquet(path: Path) -> TableFile:
    """Opens a Parquet file."""
    return _opened(path, "a Parquet file", _read_parquet)


def open_feather(path: Path) -> TableFile:
    """Opens a file in Arrow's format."""
    return _opened(path, "an Arrow or Feather file", _read_feather)


def refuse_size(path: Path, rows: int, columns: int) -> None:
    """Raises ValueError for a file that is much larger in memory than on disk: it repeats the same rows."""
    size = regular_file(path)
    if rows * columns > max(MIN_CELLS, MAX_CELLS_PER_BYTE * size):
        raise ValueError(
            f"{path}: {rows:,} rows of {columns:,} columns in a file of {size:,} bytes; are all rows the same?"
        )


def _opened(path: Path, kind: str, read: Callable[[Path], pa.Table]) -> TableFile:
    regular_file(path)
    try:
        table = read(path)
        table.validate(full=True)
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise TableError([f"{path}: not {kind}, or damaged ({reason})"], ["write the file again"]) from error
    names = tuple(name.strip() or f"column {i}" for i, name in enumerate(table.column_names, 1))

    def select(columns: list[int], texts: Collection[int], numbers: Mapping[int, pa.DataType]) -> Table:
        return Table(path, tuple(names[i] for i in columns), tuple(table.column(i) for i in columns))

    return TableFile(path, names, sample_rows(table), select)


def sample_rows(table: pa.Table) -> list[list[str]]:
    """The first rows of a table as text."""
    first = table.slice(0, SAMPLE_ROWS)
    columns = [[_as_text(value) for value in column.to_pylist()] for column in first.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _as_text(value: Any) -> str:
    """A value as Arrow would cast it to text."""
    if value is None or isinstance(value, list | dict | bytes):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read_parquet(path: Path) -> pa.Table:
    with pyarrow.parquet.ParquetFile(path) as file:
        known = file.metadata
        refuse_size(path, known.num_rows, known.num_columns)
        groups = [known.row_group(i) for i in range(known.num_row_groups)]
        values = sum(group.column(j).num_values for group in groups for j in range(group.num_columns))
        refuse_size(path, values, 1)  # lists have more values than rows
        texts = [field.name for field in file.schema_arrow if pa.types.is_string(field.type)]
    with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
        return file.read()


def _read_feather(path: Path) -> pa.Table:
    batches, rows = [], 0
    with pa.OSFile(str(path)) as source:
        start = source.read(6)
        source.seek(0)
        reader: Any
        if start == b"ARROW1":
            reader = pyarrow.ipc.open_file(source)
            found = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            reader = pyarrow.ipc.open_stream(source)
            found = iter(reader)
        for batch in found:
            rows += batch.num_rows
            refuse_size(path, rows, max(1, batch.num_columns))
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)
