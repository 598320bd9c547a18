"""A data set on disk: the adjacency matrix in CSR format in memory-mapped files, built under a memory limit.

A folder holds ``graph.json``, ``indptr.npy`` (int64) and ``indices.npy`` (int32, or int64 beyond 2^31 nodes) and, if
the data has them, ``x.npy`` (nodes x features, column by column, so that a block of features is contiguous), ``y.npy``
(class indices, -1 if unknown), ``splits.npy`` (splits x nodes: 1 training, 2 validation, 3 test, 0 none) and
``nodes.npy`` (names). The graph is undirected and unweighted, without self-loops or duplicate edges; its degrees
define the normalisation, so no edge values are stored.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from filelock import Timeout
from numpy.typing import NDArray

from polybasis.adjacency import Adjacency
from polybasis.data.dataset import Metric, NodeDataset, masks_of
from polybasis.features import as_dense, as_features
from polybasis.files import lock_for, write_atomically
from polybasis.graph import Graph
from polybasis.store.arrays import (
    VectorWriter,
    chunks,
    combined_checksum,
    create_array,
    drop_pages,
    file_crc32,
    open_array,
    read_header,
)

KIND, VERSION, OLDEST = "polybasis graph", 3, 2
MAX_BUCKETS = 512
Edges = NDArray[np.integer[Any]]


class Rows(Protocol):
    """An array, or an object like one, whose rows are requested in order, one chunk at a time."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type."""

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        """Some rows."""


@dataclass(frozen=True)
class GraphFolder:
    """An open graph folder; its arrays are memory-mapped. :meth:`load` reads it into memory.

    Attributes:
        path: the folder.
        num_nodes, nonzeros: number of rows and of nonzeros of the adjacency matrix.
        indptr, indices: the adjacency matrix in CSR format.
        x: features, (nodes, features), or None.
        y: class indices, (nodes,), -1 if unknown, or None.
        splits: (splits, nodes), 1 training, 2 validation, 3 test, or None.
        nodes: names of the nodes, or None if they are named by their numbers.
        header: contents of ``graph.json``: name, classes, metric, protocol, checksums.
    """

    path: Path
    num_nodes: int
    nonzeros: int
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    x: NDArray[Any] | None
    y: NDArray[np.integer[Any]] | None
    splits: NDArray[np.int8] | None
    nodes: NDArray[np.str_] | None
    header: dict[str, Any]

    @classmethod
    def open(cls, path: str | Path) -> GraphFolder:
        """Opens a folder.

        Raises:
            FileNotFoundError, ValueError: if a file is missing or damaged; the message gives the file.
        """
        folder = Path(path)
        header = read_header(folder / "graph.json", KIND, VERSION, OLDEST)
        num_nodes, nonzeros = header["nodes"], header["nonzeros"]
        indptr = open_array(folder / "indptr.npy", (num_nodes + 1,))
        indices = open_array(folder / "indices.npy", (nonzeros,))
        if int(indptr[-1]) != nonzeros:
            raise ValueError(f"{folder / 'indptr.npy'} ends at {int(indptr[-1])}; expected {nonzeros} nonzeros")

        def optional(name: str, *shape: int) -> NDArray[Any] | None:
            return open_array(folder / f"{name}.npy", shape) if header.get(name) else None

        return cls(
            folder,
            num_nodes,
            nonzeros,
            indptr,
            indices,
            optional("x", num_nodes, header["x"]),
            optional("y", num_nodes),
            optional("splits", header["splits"], num_nodes),
            open_array(folder / "nodes.npy", (num_nodes,)) if header.get("named") else None,
            header,
        )

    @property
    def name(self) -> str:
        """Name of the data set."""
        return str(self.header["name"])

    @property
    def metric(self) -> Metric:
        """Metric of the data set."""
        metric: Metric = self.header["metric"]
        return metric

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes, in the order of their indices."""
        return tuple(self.header.get("classes") or range(self.header["y"]))

    @property
    def protocol(self) -> str:
        """Split protocol of the data set."""
        return str(self.header.get("protocol") or ("fixed" if self.header["splits"] else "stratified"))

    @property
    def identity(self) -> str:
        """Identifies the contents: the name of a catalogued data set, or the name and a checksum."""
        checksum = combined_checksum(self.header["crc32"])
        return str(self.header.get("identity") or f"{self.name}@{checksum}")

    def load(self) -> NodeDataset:
        """Reads the data set into memory.

        Raises:
            ValueError: if the folder has no features.
        """
        if self.x is None:
            raise ValueError(f"{self.path} has no features; build it with --features")
        dtype = torch.int32 if self.nonzeros < 2**31 else torch.int64  # one type for both, as the kernels expect
        indptr, indices = (torch.from_numpy(np.array(part)).to(dtype) for part in (self.indptr, self.indices))
        adjacency = Adjacency(indptr, indices, None, self.nonzeros // 2)
        y = np.full(self.num_nodes, -1) if self.y is None else np.array(self.y)
        return NodeDataset(
            name=self.name,
            graph=Graph(adjacency),
            x=as_features(torch.from_numpy(np.array(self.x, dtype=np.float32, order="C"))),
            y=torch.from_numpy(y).long(),
            classes=self.classes,
            nodes=None if self.nodes is None else np.array(self.nodes),
            metric=self.metric,
            fixed_splits=masks_of(self.splits),
            protocol=self.protocol,
            identity=self.identity,
        )

    def verify(self) -> None:
        """Reads all files and checks their checksums and that rows are ascending, in range and symmetric.

        The symmetry check compares sums of hashes of the edges above and below the diagonal; it misses about one
        asymmetric graph in 2^64.

        Raises:
            ValueError: if a file is damaged; the message gives the file.
        """
        for name, expected in self.header["crc32"].items():
            if file_crc32(self.path / name) != expected:
                raise ValueError(f"{self.path / name}: checksum mismatch; rebuild the folder")
        above = below = 0
        for rows in chunks(self.num_nodes):
            indptr = np.asarray(self.indptr[rows.start : rows.stop + 1])
            if (np.diff(indptr) < 0).any():
                raise ValueError(f"{self.path / 'indptr.npy'} is not ascending")
            columns = np.asarray(self.indices[indptr[0] : indptr[-1]]).astype(np.int64)
            row = np.repeat(np.arange(rows.start, rows.stop), np.diff(indptr))
            ascending = (np.diff(columns) > 0) | (np.diff(row) > 0)
            if not ascending.all() or (len(columns) and (columns.min() < 0 or columns.max() >= self.num_nodes)):
                raise ValueError(f"{self.path / 'indices.npy'} has a row with unordered, duplicate or invalid nodes")
            if (columns == row).any():
                raise ValueError(f"{self.path / 'indices.npy'} has a self-loop at node {row[columns == row][0]}")
            upper = columns > row
            above += int(_hash_pairs(row[upper], columns[upper]).sum(dtype=np.uint64))
            below += int(_hash_pairs(columns[~upper], row[~upper]).sum(dtype=np.uint64))
            drop_pages(self.indptr)
            drop_pages(self.indices)
        if (above - below) % 2**64:
            raise ValueError(f"{self.path / 'indices.npy'} is not symmetric: an edge has one direction only")


def _hash_pairs(low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 mixed bits for each pair (the finalizer of SplitMix64)."""
    z = low.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + high.astype(np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return result


def write_graph_folder(path: str | Path, dataset: NodeDataset) -> GraphFolder:
    """Writes a data set from memory to a new folder.

    Args:
        path: the folder, which must not exist.
        dataset: the data set; its graph must be unweighted and without self-loops.

    Raises:
        ValueError: for a graph with weights or self-loops, or a data set without features.
        FileExistsError: if the folder exists.
    """
    if dataset.structure_only:
        raise ValueError(f"{dataset.name} has no features, but a graph folder needs them; pass --features or features")
    graph = dataset.graph
    indptr, indices = graph.indptr.numpy().astype(np.int64), graph.indices.numpy()
    if (np.repeat(np.arange(graph.num_nodes), np.diff(indptr)) == indices).any():
        raise ValueError("the graph has self-loops; graph folders cannot hold them: drop them")
    if graph.weight is not None and not (graph.weight == graph.weight[:1]).all():
        raise ValueError(f"{dataset.name} has edge weights; graph folders hold unweighted graphs: drop the weights")
    splits = None
    if dataset.fixed_splits:
        splits = np.zeros((len(dataset.fixed_splits), graph.num_nodes), dtype=np.int8)
        for row, masks in zip(splits, dataset.fixed_splits, strict=True):
            for part, mask in enumerate(masks, 1):
                row[mask.numpy()] = part
    header = {
        "name": dataset.name,
        "metric": dataset.metric,
        "classes": list(dataset.classes),
        "protocol": dataset.protocol,
        "identity": dataset.fingerprint,
    }
    with _Building(path) as folder:
        np.save(folder / "indptr.npy", indptr)
        np.save(folder / "indices.npy", indices.astype(_index_type(graph.num_nodes)))
        if dataset.nodes is not None:
            np.save(folder / "nodes.npy", dataset.nodes)
        x, y = as_dense(dataset.x).numpy(), dataset.y.numpy() if (dataset.y >= 0).any() else None
        _write_node_data(folder, graph.num_nodes, len(indices), x, y, splits, header)
    return GraphFolder.open(path)


def build_graph_folder(
    path: str | Path,
    edges: Iterable[Edges],
    num_nodes: int,
    *,
    x: Rows | None = None,
    y: NDArray[np.integer[Any]] | None = None,
    splits: NDArray[np.int8] | None = None,
    name: str = "graph",
    identity: str = "",
    memory: int = 1 << 30,
) -> GraphFolder:
    """Builds a folder from a stream of edges in any order and direction; drops duplicates and self-loops.

    Edges are first distributed over files by range of rows; each file is small enough to sort in memory. Each sorted
    file then becomes a part of the matrix.

    Args:
        path: the folder, which must not exist.
        edges: arrays of shape (m, 2) with m up to a few million.
        num_nodes: number of nodes.
        x: features, (num_nodes, features).
        y: class indices, (num_nodes,), -1 if unknown.
        splits: (splits, num_nodes), 1 training, 2 validation, 3 test, 0 none.
        name: name of the data set.
        identity: identifies the contents; by default a checksum.
        memory: approximate memory limit in bytes.

    Raises:
        ValueError: for edges that are not pairs of node numbers, arrays of the wrong shape, or too little memory.
        FileExistsError: if the folder exists.
    """
    dtype = _index_type(num_nodes)
    with _Building(path) as folder:
        buckets = _distribute(folder / "buckets", edges, num_nodes, memory, dtype)
        indices = VectorWriter(folder / "indices.npy", dtype)
        degrees = np.zeros(num_nodes, dtype=np.int64)
        bits = np.uint64(max(1, num_nodes - 1).bit_length())
        for bucket, rows in enumerate(chunks(num_nodes, buckets.rows_each)):
            pairs = np.fromfile(buckets.file(bucket), dtype=dtype).reshape(-1, 2)
            keys = (pairs[:, 0] - dtype.type(rows.start)).astype(np.uint64) << bits
            keys |= pairs[:, 1].astype(np.uint64)
            del pairs
            keys.sort()
            keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
            degrees[rows] = np.bincount((keys >> bits).astype(np.int64), minlength=rows.stop - rows.start)
            indices.append(keys & np.uint64((1 << int(bits)) - 1))
            buckets.file(bucket).unlink()
        buckets.folder.rmdir()
        indices.close()
        indptr = np.zeros(num_nodes + 1, dtype=np.int64)
        np.cumsum(degrees, out=indptr[1:])
        np.save(folder / "indptr.npy", indptr)
        del degrees, indptr
        header = {"name": name, "metric": "accuracy", "identity": identity}
        _write_node_data(folder, num_nodes, indices.count, x, y, splits, header)
    return GraphFolder.open(path)


@dataclass(frozen=True)
class _Buckets:
    folder: Path
    rows_each: int

    def file(self, bucket: int) -> Path:
        return self.folder / f"{bucket}.raw"


def _distribute(folder: Path, edges: Iterable[Edges], nodes: int, memory: int, dtype: np.dtype[Any]) -> _Buckets:
    """Writes both directions of every edge to the bucket of its row; sorting m pairs takes about 40 m bytes."""
    rows_each = -(-nodes // min(nodes, MAX_BUCKETS))
    count = -(-nodes // rows_each)
    buckets = _Buckets(folder, rows_each)
    folder.mkdir()
    files = [buckets.file(bucket).open("wb") for bucket in range(count)]
    sizes = np.zeros(count, dtype=np.int64)
    try:
        for number, batch in enumerate(edges):
            pairs = np.asarray(batch)
            if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
                raise ValueError(
                    f"batch {number} of edges has dtype {pairs.dtype}, shape {pairs.shape}; expected integers (m, 2)"
                )
            if len(pairs) and (pairs.min() < 0 or pairs.max() >= nodes):
                wrong = pairs[(pairs < 0).any(1) | (pairs >= nodes).any(1)][0]
                raise ValueError(f"edge {tuple(int(i) for i in wrong)} has a node outside 0 .. {nodes - 1}")
            pairs = pairs[pairs[:, 0] != pairs[:, 1]].astype(dtype)
            pairs = np.concatenate([pairs, pairs[:, ::-1]])
            place = (pairs[:, 0] // rows_each).astype(np.uint16)
            pairs, counts = pairs[np.argsort(place, kind="stable")], np.bincount(place, minlength=count)
            sizes += counts
            if 40 * int(sizes.max()) > memory:
                raise ValueError(
                    f"{rows_each:,} rows have more than {int(sizes.max()):,} edges, too many to sort in {memory:,} "
                    "bytes; raise the memory limit"
                )
            for bucket, part in enumerate(np.split(pairs, np.cumsum(counts)[:-1])):
                part.tofile(files[bucket])
    finally:
        for file in files:
            file.close()
    return buckets


def _write_node_data(
    folder: Path,
    num_nodes: int,
    nonzeros: int,
    x: Rows | None,
    y: NDArray[np.integer[Any]] | None,
    splits: NDArray[np.int8] | None,
    header: dict[str, Any],
) -> None:
    header = {
        "format": KIND,
        "version": VERSION,
        **header,
        "nodes": num_nodes,
        "nonzeros": nonzeros,
        "x": 0,
        "y": 0,
        "splits": 0,
        "named": (folder / "nodes.npy").exists(),
    }
    if x is not None:
        if len(x.shape) != 2 or x.shape[0] != num_nodes:
            raise ValueError(f"x has shape {x.shape}; expected ({num_nodes}, features)")
        if not (np.issubdtype(x.dtype, np.number) or x.dtype == np.bool_) or np.issubdtype(x.dtype, np.complexfloating):
            raise ValueError(f"x has dtype {x.dtype}; expected real numbers")
        dtype = np.float16 if x.dtype == np.float16 else np.float32
        header["x"] = x.shape[1]
        target = create_array(folder / "x.npy", dtype, x.shape, by_column=True)
        for rows in chunks(num_nodes):
            target[rows] = x[rows]
            drop_pages(target)
            if isinstance(x, np.memmap) and x.mode == "r":
                drop_pages(x)
        del target
    if y is not None:
        if y.shape != (num_nodes,) or not np.issubdtype(y.dtype, np.integer):
            raise ValueError(f"y has dtype {y.dtype}, shape {y.shape}; expected integers ({num_nodes},)")
        largest = int(y.max()) if len(y) else -1
        if largest >= 2**31:
            raise ValueError(f"y has class {largest}; expected class indices below 2^31")
        np.save(folder / "y.npy", y.astype(np.int32, copy=False))
        header["y"] = max(0, largest) + 1
    if splits is not None:
        if splits.ndim != 2 or splits.shape[1] != num_nodes:
            raise ValueError(f"splits has shape {splits.shape}; expected (splits, {num_nodes})")
        np.save(folder / "splits.npy", splits.astype(np.int8, copy=False))
        header["splits"] = len(splits)
    header["crc32"] = {path.name: file_crc32(path) for path in sorted(folder.glob("*.npy"))}
    write_atomically(folder / "graph.json", json.dumps(header, indent=1).encode())


class _Building:
    """A folder under construction; it is renamed when it is complete."""

    def __init__(self, path: str | Path) -> None:
        self.target = Path(path)
        self.folder = self.target.parent / f".{self.target.name}.building"
        self._lock = lock_for(self.target, timeout=0)

    def __enter__(self) -> Path:
        if self.target.exists():
            raise FileExistsError(f"{self.target} exists; remove it or choose another folder")
        self.target.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire()
        except Timeout:
            raise ValueError(f"another process is building {self.target}; wait for it to finish") from None
        shutil.rmtree(self.folder, ignore_errors=True)  # left by a process that was killed
        self.folder.mkdir()
        return self.folder

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            os.replace(self.folder, self.target)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()


def _index_type(nodes: int) -> np.dtype[Any]:
    return np.dtype(np.int32 if nodes <= np.iinfo(np.int32).max else np.int64)
