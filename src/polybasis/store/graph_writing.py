"""Writes graph folders: from a data set in memory, or from a stream of edges under a memory limit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from polybasis.checksums import Manifest, write_document
from polybasis.data.dataset import NodeDataset, refuse_classes
from polybasis.data.targets import check_target
from polybasis.features import as_dense
from polybasis.files import exclusive, remove_stale_files, temporary_path
from polybasis.store.arrays import VectorWriter, chunks, create_array, drop_pages, save_array
from polybasis.store.graph_folder import KIND, VERSION, GraphFolder

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
        raise ValueError(f"{dataset.name} has no features, which a graph folder requires; pass --features or features")
    if dataset.sample_weight is not None:
        raise ValueError(f"{dataset.name} has sample weights, which graph folders cannot hold: use tables or arrays")
    graph = dataset.graph
    if graph.directed or graph.normalization != "sym":
        raise ValueError(f'{graph!r}: graph folders hold undirected graphs with normalization="sym"')
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
    with _building(path) as folder:
        save_array(folder / "indptr.npy", indptr)
        save_array(folder / "indices.npy", indices.astype(_index_type(graph.num_nodes)))
        if dataset.nodes is not None:
            save_array(folder / "nodes.npy", dataset.nodes)
        x, y = as_dense(dataset.x).numpy(), dataset.y.numpy() if len(dataset.labelled) else None
        _write_node_data(folder, graph.num_nodes, len(indices), x, y, splits, header)
    return GraphFolder.open(path)


def build_graph_folder(
    path: str | Path,
    edges: Iterable[Edges],
    num_nodes: int,
    *,
    x: Rows | None = None,
    y: NDArray[Any] | None = None,
    splits: NDArray[np.int8] | None = None,
    name: str = "graph",
    identity: str = "",
    memory: int = 1 << 30,
) -> GraphFolder:
    """Builds a graph folder from a stream of edges in any order and direction; drops duplicates and self-loops.

    Edges are first partitioned into files by row range, each small enough to sort in memory. Each sorted file then
    becomes one part of the matrix.

    Args:
        path: the folder, which must not exist.
        edges: arrays of shape (m, 2) with m up to a few million.
        num_nodes: number of nodes.
        x: features, (num_nodes, features).
        y: class indices (integers) or numbers, (num_nodes,), or labels, (num_nodes, labels); see
            :mod:`polybasis.data.targets`.
        splits: (splits, num_nodes), 1 training, 2 validation, 3 test, 0 none.
        name: name of the data set.
        identity: identifies the contents; by default a checksum.
        memory: approximate memory limit in bytes.

    Raises:
        ValueError: for edges that are not pairs of node numbers, arrays of the wrong shape, targets that are not valid,
            or too little memory.
        FileExistsError: if the folder exists.
    """
    dtype = _index_type(num_nodes)
    refuse_nodes(num_nodes, memory)
    with _building(path) as folder:
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
        save_array(folder / "indptr.npy", indptr)
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
                files[bucket].write(np.ascontiguousarray(part).data)
    finally:
        for file in files:
            file.close()
    return buckets


def _write_node_data(
    folder: Path,
    num_nodes: int,
    nonzeros: int,
    x: Rows | None,
    y: NDArray[Any] | None,
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
        header["y"] = _write_target(folder / "y.npy", num_nodes, y)
    if splits is not None:
        if splits.ndim != 2 or splits.shape[1] != num_nodes:
            raise ValueError(f"splits has shape {splits.shape}; expected (splits, {num_nodes})")
        save_array(folder / "splits.npy", splits.astype(np.int8, copy=False))
        header["splits"] = len(splits)
    header["files"] = Manifest.records(folder, (path.name for path in folder.glob("*.npy")))
    write_document(folder / "graph.json", header)


def _write_target(path: Path, num_nodes: int, y: NDArray[Any]) -> int:
    """Writes the targets of all nodes and returns the number of classes or labels, or 1 for numbers."""
    if y.ndim not in (1, 2) or len(y) != num_nodes or y.dtype.kind not in "iuf":
        raise ValueError(
            f"y has dtype {y.dtype}, shape {y.shape}; expected numbers ({num_nodes},) or ({num_nodes}, labels)"
        )
    if y.ndim == 2 or y.dtype.kind == "f":
        check_target(torch.from_numpy(y.astype(np.float32 if y.ndim == 2 else np.float64)))
    if y.ndim == 2:
        save_array(path, np.where(y >= 0, y, -1).astype(np.int8))  # unknown labels may be NaN
        return int(y.shape[1])
    if y.dtype.kind == "f":
        save_array(path, y)
        return 1
    largest = int(y.max()) if len(y) else -1
    refuse_classes(int(y.min()) if len(y) else -1, largest, num_nodes)
    save_array(path, y.astype(np.int32, copy=False))
    return max(0, largest) + 1


def refuse_nodes(num_nodes: int, memory: int) -> None:
    """Raises ValueError if the degrees and row pointers of a graph exceed a memory limit in bytes."""
    if 16 * num_nodes > memory:
        raise ValueError(
            f"{num_nodes:,} nodes need {16 * num_nodes:,} bytes; raise the memory limit of {memory:,} bytes"
        )


@contextmanager
def _building(path: str | Path) -> Iterator[Path]:
    """A folder under construction, renamed to ``path`` when it is complete; waits for other processes that build it."""
    target = Path(path)
    _refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(target, f"is building {target}"):
        _refuse_existing(target)
        remove_stale_files(target.parent)
        folder = temporary_path(target)
        try:
            folder.mkdir()
            yield folder
            os.replace(folder, target)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise FileExistsError(f"{target} exists; remove it or choose another folder")


def _index_type(nodes: int) -> np.dtype[Any]:
    return np.dtype(np.int32 if nodes <= np.iinfo(np.int32).max else np.int64)
