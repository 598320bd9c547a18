"""A graph on disk: compressed rows in mapped files, without values, built under a memory limit.

A folder holds ``graph.json``, ``indptr.npy`` (int64) and ``indices.npy`` (int32, or int64 past 2^31 nodes); where the
graph has them, ``x.npy`` (nodes x features, one feature after the other, so that a block of them is read alone),
``y.npy`` (classes, -1 where unknown) and ``splits.npy`` (splits x nodes: 1 for training, 2 validation, 3 test, 0 none).
The graph is undirected, has no self-loops and no edge twice; its normalisation is in the degrees.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polybasis.data.dataset import Metric, NodeDataset
from polybasis.features import as_dense
from polybasis.files import write_atomically
from polybasis.graph import Graph
from polybasis.store.arrays import VectorWriter, create_array, drop_pages, file_crc32, open_array, pieces, read_about

KIND, VERSION = "polybasis graph", 2
CHUNK = 1 << 22  # edges that are read at a time
Edges = NDArray[np.integer[Any]]


class Rows(Protocol):
    """An array, or what stands for one: rows are asked for a piece at a time, in order."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        """Some rows."""


@dataclass(frozen=True)
class NodeData:
    """What a graph folder holds of nodes.

    Attributes:
        x: features, (nodes, features).
        y: classes, (nodes,), -1 where unknown.
        splits: (splits, nodes): 1 training, 2 validation, 3 test, 0 none of them.
        name, metric: of the data set.
    """

    x: Rows | None = None
    y: NDArray[np.integer[Any]] | None = None
    splits: NDArray[np.int8] | None = None
    name: str = "graph"
    metric: Metric = "accuracy"


@dataclass(frozen=True)
class GraphFolder:
    """An opened graph folder; arrays are mapped, not read.

    Attributes:
        path: the folder.
        nodes, nonzeros: sizes of the matrix.
        indptr, indices: its rows.
        x: (nodes, features), or None.
        y: (nodes,) classes, -1 where unknown, or None.
        splits: (splits, nodes), 1 training, 2 validation, 3 test, or None.
        name, metric: of the data set.
        checksums: of every file, as it was built.
    """

    path: Path
    nodes: int
    nonzeros: int
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    x: NDArray[Any] | None
    y: NDArray[np.integer[Any]] | None
    splits: NDArray[np.int8] | None
    name: str
    metric: Metric
    checksums: dict[str, int]

    @classmethod
    def open(cls, path: str | Path) -> GraphFolder:
        """Opens a folder; refuses one that is not whole, naming the file."""
        folder = Path(path)
        about = read_about(folder / "graph.json", KIND, VERSION)
        nodes, nonzeros = about["nodes"], about["nonzeros"]
        indptr = open_array(folder / "indptr.npy", (nodes + 1,))
        indices = open_array(folder / "indices.npy", (nonzeros,))
        if int(indptr[-1]) != nonzeros:
            raise ValueError(f"{folder / 'indptr.npy'} ends at {int(indptr[-1])}, not at the {nonzeros} nonzeros")

        def optional(name: str, *shape: int) -> NDArray[Any] | None:
            return open_array(folder / name, shape) if about[name.removesuffix(".npy")] else None

        return cls(
            folder,
            nodes,
            nonzeros,
            indptr,
            indices,
            optional("x.npy", nodes, about["x"]),
            optional("y.npy", nodes),
            optional("splits.npy", about["splits"], nodes),
            about["name"],
            about["metric"],
            about["crc32"],
        )

    def verify(self) -> None:
        """Reads everything and refuses a changed file, or rows that are not ascending, in range and symmetric.

        Symmetric: edges are summed up in a hash, those above the diagonal and those below it, which come out equal by
        chance once in 2^64 graphs.
        """
        for name, expected in self.checksums.items():
            if file_crc32(self.path / name) != expected:
                raise ValueError(f"{self.path / name} is damaged: its checksum is another; build the folder again")
        above = below = 0
        for rows in pieces(self.nodes):
            indptr = np.asarray(self.indptr[rows.start : rows.stop + 1])
            if (np.diff(indptr) < 0).any():
                raise ValueError(f"{self.path / 'indptr.npy'} decreases")
            columns = np.asarray(self.indices[indptr[0] : indptr[-1]]).astype(np.int64)
            row = np.repeat(np.arange(rows.start, rows.stop), np.diff(indptr))
            ascending = (np.diff(columns) > 0) | (np.diff(row) > 0)
            if not ascending.all() or (len(columns) and (columns.min() < 0 or columns.max() >= self.nodes)):
                raise ValueError(f"{self.path / 'indices.npy'} has a row with nodes out of range, twice or unordered")
            if (columns == row).any():
                raise ValueError(f"{self.path / 'indices.npy'} has a self-loop at node {row[columns == row][0]}")
            upper = columns > row
            above += int(_hash(row[upper], columns[upper]).sum(dtype=np.uint64))
            below += int(_hash(columns[~upper], row[~upper]).sum(dtype=np.uint64))
            drop_pages(self.indptr)
            drop_pages(self.indices)
        if (above - below) % 2**64:
            raise ValueError(f"{self.path / 'indices.npy'} is not symmetric: an edge has one direction only")


def _hash(low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 mixed bits of each pair (the finalizer of SplitMix64)."""
    z = low.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + high.astype(np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return result


def write_graph_folder(path: str | Path, graph: Graph, data: NodeData | None = None) -> GraphFolder:
    """Writes a graph that is in memory; it has to be unweighted and without self-loops."""
    indptr, indices = graph.indptr.numpy().astype(np.int64), graph.indices.numpy()
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(indptr))
    if (rows == indices).any():
        raise ValueError("the graph has self-loops; a graph folder holds graphs without: drop them")
    weights = graph.adjacency().data
    if len(weights) and not (weights == weights[0]).all():
        raise ValueError("the graph has edge weights; a graph folder holds unweighted graphs")
    with _Building(path) as folder:
        np.save(folder / "indptr.npy", indptr)
        np.save(folder / "indices.npy", indices.astype(_index_type(graph.num_nodes)))
        _write_rest(folder, graph.num_nodes, len(indices), data or NodeData())
    return GraphFolder.open(path)


def write_dataset(path: str | Path, dataset: NodeDataset) -> GraphFolder:
    """Writes a data set that is in memory, with the splits it came with."""
    splits = None
    if dataset.fixed_splits:
        splits = np.zeros((len(dataset.fixed_splits), dataset.graph.num_nodes), dtype=np.int8)
        for row, masks in zip(splits, dataset.fixed_splits, strict=True):
            for part, mask in enumerate(masks, 1):
                row[mask.numpy()] = part
    x, y = as_dense(dataset.x).numpy(), dataset.y.numpy()
    return write_graph_folder(path, dataset.graph, NodeData(x, y, splits, dataset.name, dataset.metric))


def build_graph_folder(
    path: str | Path, edges: Iterable[Edges], nodes: int, *, memory: int = 1 << 30, data: NodeData | None = None
) -> GraphFolder:
    """Builds a folder from a stream of edges, in any order and direction, with duplicates and self-loops.

    Edges are first dealt into files by ranges of rows, each small enough to be sorted in memory; then each file becomes
    a piece of the matrix.

    Args:
        path: the folder, which must not exist.
        edges: arrays of shape (m, 2) with m up to some millions.
        nodes: number of nodes.
        memory: bytes to stay within, about.
        data: features, classes, splits.
    """
    kind = _index_type(nodes)
    with _Building(path) as folder:
        dealt = _deal(folder / "dealt", edges, nodes, memory, kind)
        indices = VectorWriter(folder / "indices.npy", kind)
        degrees = np.zeros(nodes, dtype=np.int64)
        bits = np.uint64(max(1, nodes - 1).bit_length())
        for bucket, rows in enumerate(pieces(nodes, dealt.rows_each)):
            pairs = np.fromfile(dealt.file(bucket), dtype=kind).reshape(-1, 2)
            keys = (pairs[:, 0] - kind.type(rows.start)).astype(np.uint64) << bits
            keys |= pairs[:, 1].astype(np.uint64)
            del pairs
            keys.sort()
            keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
            degrees[rows] = np.bincount((keys >> bits).astype(np.int64), minlength=rows.stop - rows.start)
            indices.append(keys & np.uint64((1 << int(bits)) - 1))
            dealt.file(bucket).unlink()
        dealt.folder.rmdir()
        indices.close()
        indptr = np.zeros(nodes + 1, dtype=np.int64)
        np.cumsum(degrees, out=indptr[1:])
        np.save(folder / "indptr.npy", indptr)
        del degrees, indptr
        _write_rest(folder, nodes, indices.count, data or NodeData())
    return GraphFolder.open(path)


@dataclass(frozen=True)
class _Dealt:
    folder: Path
    rows_each: int

    def file(self, bucket: int) -> Path:
        return self.folder / f"{bucket}.raw"


def _deal(folder: Path, edges: Iterable[Edges], nodes: int, memory: int, kind: np.dtype[Any]) -> _Dealt:
    """Both directions of every edge, by ranges of rows. A bucket of m pairs is sorted in some 40 m bytes."""
    rows_each = -(-nodes // min(nodes, 512))
    buckets = -(-nodes // rows_each)
    dealt = _Dealt(folder, rows_each)
    folder.mkdir()
    files = [dealt.file(bucket).open("wb") for bucket in range(buckets)]
    largest = np.zeros(buckets, dtype=np.int64)
    try:
        for number, chunk in enumerate(edges):
            pairs = np.asarray(chunk)
            if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
                raise ValueError(
                    f"edges come as whole numbers of shape (m, 2); piece {number} has {pairs.dtype} {pairs.shape}"
                )
            if len(pairs) and (pairs.min() < 0 or pairs.max() >= nodes):
                wrong = pairs[(pairs < 0).any(1) | (pairs >= nodes).any(1)][0]
                raise ValueError(f"edge {tuple(int(i) for i in wrong)} is outside of 0 .. {nodes - 1}")
            pairs = pairs[pairs[:, 0] != pairs[:, 1]].astype(kind)
            pairs = np.concatenate([pairs, pairs[:, ::-1]])
            place = (pairs[:, 0] // rows_each).astype(np.uint16)
            pairs, counts = pairs[np.argsort(place, kind="stable")], np.bincount(place, minlength=buckets)
            largest += counts
            if 40 * int(largest.max()) > memory:
                raise ValueError(
                    f"a 512th of the rows has more than {int(largest.max()):,} edges: allow more than {memory:,} bytes"
                )
            for bucket, part in enumerate(np.split(pairs, np.cumsum(counts)[:-1])):
                part.tofile(files[bucket])
    finally:
        for file in files:
            file.close()
    return dealt


def _write_rest(folder: Path, nodes: int, nonzeros: int, data: NodeData) -> None:
    about: dict[str, Any] = {
        "format": KIND,
        "version": VERSION,
        "name": data.name,
        "metric": data.metric,
        "nodes": nodes,
        "nonzeros": nonzeros,
        "x": 0,
        "y": 0,
        "splits": 0,
    }
    if data.x is not None:
        if len(data.x.shape) != 2 or data.x.shape[0] != nodes:
            raise ValueError(f"x has shape {data.x.shape}; expected ({nodes}, features)")
        dtype = np.float16 if data.x.dtype == np.float16 else np.float32
        about["x"] = data.x.shape[1]
        target = create_array(folder / "x.npy", dtype, data.x.shape, by_column=True)
        for rows in pieces(nodes):
            target[rows] = data.x[rows]
            drop_pages(target)
            if isinstance(data.x, np.memmap) and data.x.mode == "r":
                drop_pages(data.x)
        del target
    if data.y is not None:
        if data.y.shape != (nodes,) or not np.issubdtype(data.y.dtype, np.integer):
            raise ValueError(f"y has {data.y.dtype} {data.y.shape}; expected whole numbers ({nodes},)")
        np.save(folder / "y.npy", data.y.astype(np.int32, copy=False))
        about["y"] = max(0, int(data.y.max())) + 1
    if data.splits is not None:
        if data.splits.ndim != 2 or data.splits.shape[1] != nodes:
            raise ValueError(f"splits have shape {data.splits.shape}; expected (splits, {nodes})")
        np.save(folder / "splits.npy", data.splits.astype(np.int8, copy=False))
        about["splits"] = len(data.splits)
    about["crc32"] = {path.name: file_crc32(path) for path in sorted(folder.glob("*.npy"))}
    write_atomically(folder / "graph.json", json.dumps(about, indent=1).encode())


class _Building:
    """A folder under construction, which gets its name when it is whole."""

    def __init__(self, path: str | Path) -> None:
        self.target = Path(path)
        self.folder = self.target.parent / f".{self.target.name}.building"

    def __enter__(self) -> Path:
        if self.target.exists():
            raise FileExistsError(f"{self.target} is there already: remove it, or choose another folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise ValueError(f"another process is building {self.target}: wait for it") from None
        for left in self.folder.iterdir():  # by a process that was killed
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        return self.folder

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.folder.rename(self.target)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def _index_type(nodes: int) -> np.dtype[Any]:
    return np.dtype(np.int32 if nodes <= np.iinfo(np.int32).max else np.int64)
