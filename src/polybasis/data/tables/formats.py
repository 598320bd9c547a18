"""Opens a table by the type of its file."""

from __future__ import annotations

from pathlib import Path

from polybasis.data.tables.arrow_tables import open_feather, open_parquet
from polybasis.data.tables.json_tables import open_json_lines
from polybasis.data.tables.table import TableFile
from polybasis.data.tables.text_files import suffix_of
from polybasis.data.tables.text_tables import open_text_table
from polybasis.foreign_files import regular_file

PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow", ".ipc")
JSON_LINES = (".jsonl", ".ndjson")
OTHER = (".xlsx", ".xls", ".ods", ".pkl", ".pickle", ".h5", ".hdf5", ".zip", ".npy", ".npz", ".json", ".db", ".sqlite")


def open_table(path: Path, header: bool | None, expected: str, edges: bool = False) -> TableFile:
    """Opens a table: Parquet, Feather, JSON lines, or text in any other file.

    Args:
        path: the file.
        header: whether a text table has a header; None to detect it.
        expected: the columns that it should have, for error messages.
        edges: whether it is a table of edges.

    Raises:
        ValueError: if the file is not a table; the message gives the file and the line.
        FileNotFoundError: if it does not exist.
    """
    regular_file(path)
    suffix = suffix_of(path)
    if suffix in PARQUET:
        return open_parquet(path)
    if suffix in FEATHER:
        return open_feather(path)
    if suffix in JSON_LINES:
        return open_json_lines(path, expected)
    if suffix in OTHER:
        raise ValueError(
            f"{path}: files of type {suffix} are not supported; save {expected} as CSV, Parquet or JSON lines"
        )
    return open_text_table(path, header, expected, edges)
