"""The graph folder of ogbn-papers100M, read as a stream from OGB's files."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from polybasis.data.dataset import refuse_classes
from polybasis.foreign_files import NUMBERS, Archive, errors_naming, regular_file
from polybasis.store.graph_folder import GraphFolder
from polybasis.store.graph_writing import Edges, build_graph_folder

BATCH = 1 << 22  # edges to read at a time


class NpzArray:
    """An array in an ``.npz`` file, read sequentially without unpacking the file."""

    def __init__(self, path: Path, name: str, axes: int, kinds: str = NUMBERS) -> None:
        self._file: IO[bytes]
        self._file, header = Archive(path).open(name, kinds)
        if header.by_column or len(header.shape) != axes:
            raise ValueError(f"{path}: {name} has shape {header.shape}; expected {axes} axes in row order")
        self.path, self.name = path, name
        self.shape, self.dtype = header.shape, header.dtype
        self._start, self._at = header.offset, 0

    def skip(self, count: int) -> None:
        """Moves to this index of the flat array."""
        with errors_naming(self.path, f"array {self.name!r} is damaged"):
            self._file.seek(self._start + count * self.dtype.itemsize)

    def take(self, count: int) -> NDArray[Any]:
        """The next values of the flat array."""
        with errors_naming(self.path, f"array {self.name!r} is damaged"):
            content = self._file.read(count * self.dtype.itemsize)
        if len(content) < count * self.dtype.itemsize:
            raise ValueError(f"{self.path}: {self.name} ends early; the file is truncated")
        return np.frombuffer(content, self.dtype)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        assert rows.start == self._at, "rows must be read in order"
        self._at = rows.stop
        width = int(np.prod(self.shape[1:]))
        return self.take((rows.stop - rows.start) * width).reshape(-1, *self.shape[1:])


def _edges(path: Path, nodes: int) -> Iterator[Edges]:
    sources, targets = (NpzArray(path, "edge_index", 2, "iu") for _ in range(2))
    if sources.shape[0] != 2:
        raise ValueError(f"{path}: edge_index has shape {sources.shape}; expected (2, E)")
    count = sources.shape[1]
    targets.skip(count)
    for first in range(0, count, BATCH):
        size = min(BATCH, count - first)
        pairs = np.column_stack([sources.take(size), targets.take(size)])
        if pairs.min() < 0 or pairs.max() >= nodes:
            raise ValueError(f"{path}: edge_index has a node outside 0 .. {nodes - 1}")
        yield pairs


def build_papers100m(root: Path, out: Path, memory: int) -> GraphFolder:
    """Builds the graph folder of ogbn-papers100M under a memory limit; OGB's own reader needs about 100 GB.

    Args:
        root: the folder ``ogbn_papers100M``, with ``raw/data.npz``, ``raw/node-label.npz`` and ``split/time/*.csv.gz``.
        out: the graph folder.
        memory: approximate memory limit in bytes.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is damaged; the message gives the file.
    """
    parts = {"train": 1, "valid": 2, "test": 3}
    needed = [root / "raw" / name for name in ("data.npz", "node-label.npz")]
    needed += [root / "split" / "time" / f"{part}.csv.gz" for part in parts]
    for path in needed:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist; get ogbn-papers100M from ogb.stanford.edu")
    x = NpzArray(needed[0], "node_feat", 2)
    nodes = x.shape[0]
    labels = NpzArray(needed[1], "node_label", 2)
    if labels.shape != (nodes, 1):
        raise ValueError(f"{needed[1]}: node_label has shape {labels.shape}; expected ({nodes}, 1)")
    with errors_naming(needed[1], "not a class for each node"):
        label = labels[0:nodes].reshape(-1)
        y = np.where(np.isnan(label), -1, label)
        refuse_classes(int(y.min()), int(y.max()), nodes)
        y = y.astype(np.int32)
        del label
    splits = np.zeros((1, nodes), dtype=np.int8)
    for path, number in zip(needed[2:], parts.values(), strict=True):
        regular_file(path)
        with errors_naming(path, "not a list of nodes"), gzip.open(path, "rt") as file:
            here = np.loadtxt(file, dtype=np.int64, ndmin=1, max_rows=nodes + 1)
            if here.ndim != 1 or here.min() < 0 or here.max() >= nodes:
                raise ValueError(f"a node is outside 0 .. {nodes - 1}")
            splits[0, here] = number
    name = "ogbn-papers100M"
    edges = _edges(needed[0], nodes)
    return build_graph_folder(out, edges, nodes, x=x, y=y, splits=splits, name=name, identity=name, memory=memory)
