"""Edges and features as streams, from files that may be larger than memory."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from polybasis.data.catalogue import CATALOGUE, data_root, load
from polybasis.store.arrays import drop_pages
from polybasis.store.graph_folder import CHUNK, Edges, GraphFolder, NodeData, build_graph_folder, write_dataset


def edge_stream(path: Path) -> Iterator[Edges]:
    """Edges of a file, some millions at a time, as arrays of shape (m, 2).

    Args:
        path: ``.csv`` with a header, or ``.parquet``, whose first two columns are nodes as whole numbers from 0 on; or
            ``.npy`` of shape (2, E) or (E, 2).
    """
    readers = {".csv": _from_csv, ".parquet": _from_parquet, ".npy": _from_npy}
    if path.suffix not in readers:
        raise ValueError(f"{path}: edges come as {', '.join(readers)}")
    return readers[path.suffix](path)


def _from_csv(path: Path) -> Iterator[Edges]:
    with path.open() as file:
        file.readline()
        line = 2
        while lines := list(islice(file, CHUNK)):
            try:
                yield np.loadtxt(lines, dtype=np.int64, delimiter=",", usecols=(0, 1), ndmin=2)
            except ValueError as error:
                raise ValueError(f"{path}, at line {line} or after: {error}; expected two node numbers") from error
            line += len(lines)


def _from_parquet(path: Path) -> Iterator[Edges]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"{path} needs pyarrow; install it with: pip install 'polybasis[parquet]'") from error
    try:
        file = pyarrow.parquet.ParquetFile(path)
        names = file.schema_arrow.names[:2]
        for batch in file.iter_batches(CHUNK, columns=names):
            yield np.column_stack([batch.column(i).to_numpy(zero_copy_only=False) for i in range(2)])
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: {error}") from error


def _from_npy(path: Path) -> Iterator[Edges]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error})") from error
    if array.ndim != 2 or 2 not in array.shape:
        raise ValueError(f"{path} has shape {array.shape}; expected (2, E) or (E, 2)")
    pairs = array if array.shape[1] == 2 else array.T
    for first in range(0, len(pairs), CHUNK):
        yield np.array(pairs[first : first + CHUNK])
        drop_pages(array)


class NpzArray:
    """An array of an ``.npz`` file that is read in order, without unpacking all of it."""

    def __init__(self, path: Path, name: str) -> None:
        try:
            self._file: IO[bytes] = zipfile.ZipFile(path).open(f"{name}.npy")  # noqa: SIM115
            version = np.lib.format.read_magic(self._file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, by_column, dtype = read(self._file)
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} has no array {name!r} ({error})") from error
        if by_column:
            raise ValueError(f"{path}: {name} lies column by column; expected rows")
        self.path, self.name = path, name
        self.shape: tuple[int, ...] = shape
        self.dtype: np.dtype[Any] = dtype
        self._start, self._at = self._file.tell(), 0

    def skip(self, count: int) -> None:
        """Goes on from this number of the flat array."""
        self._file.seek(self._start + count * self.dtype.itemsize)

    def take(self, count: int) -> NDArray[Any]:
        """The next numbers of the flat array."""
        content = self._file.read(count * self.dtype.itemsize)
        if len(content) < count * self.dtype.itemsize:
            raise ValueError(f"{self.path}: {self.name} ends early; the file is cut off")
        return np.frombuffer(content, self.dtype)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        assert rows.start == self._at, "rows are read in order"
        self._at = rows.stop
        width = int(np.prod(self.shape[1:]))
        return self.take((rows.stop - rows.start) * width).reshape(-1, *self.shape[1:])


def _papers100m_edges(path: Path) -> Iterator[Edges]:
    sources, targets = NpzArray(path, "edge_index"), NpzArray(path, "edge_index")
    count = sources.shape[1]
    targets.skip(count)
    for first in range(0, count, CHUNK):
        size = min(CHUNK, count - first)
        yield np.column_stack([sources.take(size), targets.take(size)])


def build_papers100m(root: Path, out: Path, memory: int) -> GraphFolder:
    """ogbn-papers100M from OGB's files, under a memory limit: OGB's own reader needs some 100 GB.

    Args:
        root: the folder ``ogbn_papers100M``, with ``raw/data.npz``, ``raw/node-label.npz`` and ``split/time/*.csv.gz``.
        out: the graph folder.
        memory: bytes to stay within, about.
    """
    parts = {"train": 1, "valid": 2, "test": 3}
    needed = [root / "raw" / name for name in ("data.npz", "node-label.npz")]
    needed += [root / "split" / "time" / f"{part}.csv.gz" for part in parts]
    for path in needed:
        if not path.exists():
            raise FileNotFoundError(f"{path} is not there; get ogbn-papers100M from ogb.stanford.edu")
    x = NpzArray(needed[0], "node_feat")
    nodes = x.shape[0]
    label = NpzArray(needed[1], "node_label")[0:nodes].reshape(-1)
    y = np.where(np.isnan(label), -1, label).astype(np.int32)
    del label
    splits = np.zeros((1, nodes), dtype=np.int8)
    for part, number in parts.items():
        with gzip.open(root / "split" / "time" / f"{part}.csv.gz", "rt") as file:
            splits[0, np.loadtxt(file, dtype=np.int64, ndmin=1)] = number
    data = NodeData(x, y, splits, "ogbn-papers100M")
    return build_graph_folder(out, _papers100m_edges(needed[0]), nodes, memory=memory, data=data)


def graph_of(source: str, beside: Path, root: str | Path | None = None, memory: int = 1 << 30) -> GraphFolder:
    """The graph folder of a source, made where it is not there yet.

    Args:
        source: a graph folder, or a data set's name.
        beside: where to make the folder of a named data set, ``<name>.graph``.
        root: the folder of all data sets.
        memory: bytes to stay within in making it, for data sets that are read as a stream.
    """
    if (Path(source) / "graph.json").exists():
        return GraphFolder.open(source)
    if source not in CATALOGUE:
        raise ValueError(f"{source!r} is neither a graph folder nor a data set; see `polybasis datasets`")
    folder = beside / f"{source}.graph"
    if folder.exists():
        return GraphFolder.open(folder)
    if source == "ogbn-papers100M":
        return build_papers100m(data_root(root) / "ogb" / "ogbn_papers100M", folder, memory)
    return write_dataset(folder, load(source, root))
