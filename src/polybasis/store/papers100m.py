"""The graph folder of ogbn-papers100M, read as a stream from OGB's files."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from polybasis.store.graph_folder import GraphFolder
from polybasis.store.graph_writing import Edges, build_graph_folder

BATCH = 1 << 22  # edges to read at a time


class NpzArray:
    """An array in an ``.npz`` file, read sequentially without unpacking the file."""

    def __init__(self, path: Path, name: str) -> None:
        try:
            self._file: IO[bytes] = zipfile.ZipFile(path).open(f"{name}.npy")  # noqa: SIM115
            version = np.lib.format.read_magic(self._file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, by_column, dtype = read(self._file)
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} has no array {name!r} ({error})") from error
        if by_column:
            raise ValueError(f"{path}: {name} is stored by column; expected row order")
        self.path, self.name = path, name
        self.shape: tuple[int, ...] = shape
        self.dtype: np.dtype[Any] = dtype
        self._start, self._at = self._file.tell(), 0

    def skip(self, count: int) -> None:
        """Moves to this index of the flat array."""
        self._file.seek(self._start + count * self.dtype.itemsize)

    def take(self, count: int) -> NDArray[Any]:
        """The next values of the flat array."""
        content = self._file.read(count * self.dtype.itemsize)
        if len(content) < count * self.dtype.itemsize:
            raise ValueError(f"{self.path}: {self.name} ends early; the file is truncated")
        return np.frombuffer(content, self.dtype)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        assert rows.start == self._at, "rows must be read in order"
        self._at = rows.stop
        width = int(np.prod(self.shape[1:]))
        return self.take((rows.stop - rows.start) * width).reshape(-1, *self.shape[1:])


def _edges(path: Path) -> Iterator[Edges]:
    sources, targets = NpzArray(path, "edge_index"), NpzArray(path, "edge_index")
    count = sources.shape[1]
    targets.skip(count)
    for first in range(0, count, BATCH):
        size = min(BATCH, count - first)
        yield np.column_stack([sources.take(size), targets.take(size)])


def build_papers100m(root: Path, out: Path, memory: int) -> GraphFolder:
    """Builds the graph folder of ogbn-papers100M under a memory limit; OGB's own reader needs about 100 GB.

    Args:
        root: the folder ``ogbn_papers100M``, with ``raw/data.npz``, ``raw/node-label.npz`` and ``split/time/*.csv.gz``.
        out: the graph folder.
        memory: approximate memory limit in bytes.
    """
    parts = {"train": 1, "valid": 2, "test": 3}
    needed = [root / "raw" / name for name in ("data.npz", "node-label.npz")]
    needed += [root / "split" / "time" / f"{part}.csv.gz" for part in parts]
    for path in needed:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist; get ogbn-papers100M from ogb.stanford.edu")
    x = NpzArray(needed[0], "node_feat")
    nodes = x.shape[0]
    label = NpzArray(needed[1], "node_label")[0:nodes].reshape(-1)
    y = np.where(np.isnan(label), -1, label).astype(np.int32)
    del label
    splits = np.zeros((1, nodes), dtype=np.int8)
    for part, number in parts.items():
        with gzip.open(root / "split" / "time" / f"{part}.csv.gz", "rt") as file:
            splits[0, np.loadtxt(file, dtype=np.int64, ndmin=1)] = number
    name = "ogbn-papers100M"
    edges = _edges(needed[0])
    return build_graph_folder(out, edges, nodes, x=x, y=y, splits=splits, name=name, identity=name, memory=memory)
