"""Features as one matrix: NumPy arrays, a column of lists, or lists of words as SNAP publishes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from polybasis.data.tables.json_tables import read_words
from polybasis.data.tables.problems import Problems
from polybasis.data.tables.table import Table, Texts
from polybasis.foreign_files import Archive, map_array, read_sparse

Matrix = Any  # a dense float32 array or a SciPy csr_array, (N, F)
LARGEST = float(np.finfo(np.float32).max)


def read_array(path: Path) -> Matrix:
    """The array of a ``.npy`` file, or the dense or sparse matrix of an ``.npz`` file.

    Raises:
        ValueError: if the file is damaged, not a matrix of numbers, or has numbers that are not finite.
    """
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
    finite = np.abs(numbers) <= LARGEST
    if not finite.all():
        row = matrix.tocoo().row[~finite][0] if sp.issparse(matrix) else np.argwhere(~finite)[0, 0]
        raise ValueError(f"{path}: node {int(row)} has a feature that is not finite; replace NaN and infinite values")
    features: Matrix = matrix.astype(np.float32)
    return features


def read_word_lists(path: Path, problems: Problems) -> tuple[pa.Array, Matrix | None]:
    """The nodes of a JSON object of lists, and their words as a sparse matrix of zeros and ones."""
    lists = read_words(path)
    nodes = pa.array([name.strip() for name in lists], pa.string())
    wrong = 0
    for name, words in lists.items():
        if any(type(word) is not int and type(word) is not float for word in words):
            problems.add(
                f"{path}: the list of node {name!r} holds values other than numbers", "number the words from 0"
            )
            wrong += 1
        if wrong == 20:
            break
    if wrong:
        return nodes, None
    try:
        values = pa.array([*lists.values()], pa.list_(pa.float64()))
    except (pa.ArrowException, OverflowError) as error:
        raise ValueError(f"{path}: a list holds a number that is too large; number the words from 0") from error
    integers = all(type(word) is int for words in lists.values() for word in words)
    table = Table(path, ("words",), (pa.chunked_array([values]),), unit="entry")
    return nodes, list_matrix(table, 0, Texts(np.arange(len(nodes), dtype=np.int32), nodes), problems, words=integers)


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def list_matrix(table: Table, i: int, nodes: Texts, problems: Problems, words: bool | None = None) -> Matrix | None:
    """A column of lists as a matrix: lists of equal length are rows, other lists of integers are words.

    Args:
        table: the table.
        i: index of the column.
        nodes: the node of each row.
        problems: receives the problems.
        words: whether the numbers are words; by default, integers are words if lists have different lengths.

    Returns:
        A dense matrix, or a sparse one with a 1 for each word; None if there are problems.
    """
    name, values = table.names[i], table.columns[i].combine_chunks()
    kind = values.type.value_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        problems.add(f"{table.path}: column {name!r} holds lists of {kind}", "expected lists of numbers")
        return None

    def shown(row: int) -> str:
        return f"column {name!r}, node {nodes[row]!r}: "

    if problems.add_rows(
        table, values.is_null().to_numpy(zero_copy_only=False), lambda row: shown(row) + "the list is missing",
        "give every node a list, which may be empty",
    ):  # fmt: skip
        return None
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    numbers = pc.cast(pc.list_flatten(values), pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    rows = np.arange(len(lengths)).repeat(lengths)
    wrong = ~(np.abs(numbers) <= LARGEST)
    if problems.add_rows(
        table, np.isin(np.arange(len(lengths)), rows[wrong]),
        lambda row: shown(row) + "a number is missing or infinite", "correct the list",
    ):  # fmt: skip
        return None
    equal = len(lengths) == 0 or bool((lengths == lengths[0]).all())
    if words is None:
        words = bool(pa.types.is_integer(kind)) and not equal
    if not words:
        usual = int(np.bincount(lengths).argmax()) if len(lengths) else 0
        if problems.add_rows(
            table, lengths != usual, lambda row: shown(row) + f"the list has length {lengths[row]}, others {usual}",
            "give all lists the same length",
        ):  # fmt: skip
            return None
        return numbers.astype(np.float32).reshape(len(lengths), usual)
    limit = max(1 << 21, 16 * len(numbers))
    outside = (numbers < 0) | (numbers >= limit)
    if problems.add_rows(
        table, np.isin(np.arange(len(lengths)), rows[outside]),
        lambda row: shown(row) + f"a word is negative or above {limit:,}", "number the words from 0",
    ):  # fmt: skip
        return None
    columns = numbers.astype(np.int64)
    shape = (len(lengths), int(columns.max(initial=-1)) + 1)
    matrix = sp.coo_array((np.ones(len(columns), dtype=np.float32), (rows, columns)), shape=shape).tocsr()
    matrix.data[:] = 1  # a word that is listed twice
    return matrix
