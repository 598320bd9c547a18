"""A graph on disk: compressed rows in mapped files, without values, built under a memory limit.

A folder holds ``graph.json``, ``indptr.npy`` (int64), ``indices.npy`` (int32, or int64 past 2^31 nodes) and, where
the graph has them, ``x.npy`` (nodes x features) and ``y.npy`` (classes, -1 where unknown). The graph is undirected, has
no self-loops and no edge twice; its normalisation is in the degrees.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polybasis.graph import Graph
from polybasis.train.files import write_atomically

VERSION = 1
CHUNK = 1 << 22  # edges that are read at a time
Edges = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class GraphFolder:
    """An opened graph folder; arrays are mapped, not read.

    Attributes:
        path: the folder.
        nodes, nonzeros: sizes of the matrix.
        indptr, indices: its rows.
        x: (nodes, features), or None.
        y: (nodes,) classes, -1 where unknown, or None.
    """

    path: Path
    nodes: int
    nonzeros: int
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    x: NDArray[Any] | None
    y: NDArray[np.int64] | None

    @classmethod
    def open(cls, path: str | Path) -> GraphFolder:
        """Opens a folder; refuses one that is not whole, naming the file."""
        folder = Path(path)
        about = read_about(folder / "graph.json", "polybasis graph", VERSION)
        nodes, nonzeros = about["nodes"], about["nonzeros"]
        indptr = open_array(folder / "indptr.npy", (nodes + 1,))
        indices = open_array(folder / "indices.npy", (nonzeros,))
        if int(indptr[-1]) != nonzeros:
            raise ValueError(f"{folder / 'indptr.npy'} ends at {int(indptr[-1])}, not at the {nonzeros} nonzeros")
        x = open_array(folder / "x.npy", (nodes, about["features"])) if about.get("features") else None
        y = open_array(folder / "y.npy", (nodes,)) if about.get("classes") else None
        return cls(folder, nodes, nonzeros, indptr, indices, x, y)


def write_graph_folder(
    path: str | Path, graph: Graph, x: NDArray[Any] | None = None, y: NDArray[np.int64] | None = None
) -> GraphFolder:
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
        _write_rest(folder, graph.num_nodes, len(indices), x, y)
    return GraphFolder.open(path)


def build_graph_folder(
    path: str | Path,
    edges: Iterable[Edges],
    nodes: int,
    *,
    memory: int = 1 << 30,
    x: NDArray[Any] | None = None,
    y: NDArray[np.int64] | None = None,
) -> GraphFolder:
    """Builds a folder from a stream of edges, in any order and direction, with duplicates and self-loops.

    Edges are first dealt into files by ranges of rows, each small enough to be sorted in memory; then each file becomes
    a piece of the matrix.

    Args:
        path: the folder, which must not exist.
        edges: arrays of shape (m, 2) with m up to some millions.
        nodes: number of nodes.
        memory: bytes to stay within, about.
        x, y: features and classes, perhaps mapped arrays.
    """
    kind = _index_type(nodes)
    with _Building(path) as folder:
        # A bucket of m pairs is sorted with some 40 m bytes; both directions of an edge are pairs.
        buckets, rows_each, dealt = _deal(folder, edges, nodes, memory, kind)
        degrees = np.zeros(nodes, dtype=np.int64)
        nonzeros = 0
        with (folder / "indices.raw").open("wb") as out:
            for bucket in range(buckets):
                pairs = np.fromfile(dealt / f"{bucket}.raw", dtype=kind).reshape(-1, 2)
                keys = np.unique(pairs[:, 0].astype(np.uint64) * np.uint64(nodes) + pairs[:, 1].astype(np.uint64))
                first = bucket * rows_each
                counts = np.bincount((keys // np.uint64(nodes)).astype(np.int64) - first, minlength=rows_each)
                degrees[first : first + rows_each] = counts[: max(0, min(rows_each, nodes - first))]
                (keys % np.uint64(nodes)).astype(kind).tofile(out)
                nonzeros += len(keys)
                (dealt / f"{bucket}.raw").unlink()
        dealt.rmdir()
        indptr = np.zeros(nodes + 1, dtype=np.int64)
        np.cumsum(degrees, out=indptr[1:])
        np.save(folder / "indptr.npy", indptr)
        _give_header(folder / "indices.raw", folder / "indices.npy", nonzeros, kind)
        _write_rest(folder, nodes, nonzeros, x, y)
    return GraphFolder.open(path)


def synthetic_edges(nodes: int, edges: int, seed: int = 0, skew: float = 3.0) -> Iterator[Edges]:
    """A stream of edges whose degrees are unequal as those of real graphs: node ranks are powers of uniform numbers.

    Args:
        nodes, edges: how many; some edges come out as self-loops or twice and are lost in building.
        seed: the same seed gives the same stream.
        skew: 1 for equal degrees, larger for larger hubs.
    """
    rng = np.random.default_rng(seed)
    stride = 0x9E3779B1 | 1  # scatters the ranks over all nodes, one to one where it is prime to their number
    while np.gcd(stride, nodes) != 1:
        stride += 2
    for first in range(0, edges, CHUNK):
        count = min(CHUNK, edges - first)
        ranks = (nodes * rng.random((count, 2)) ** np.array([skew, 1.0])).astype(np.int64)
        yield ranks * stride % nodes


def _deal(folder: Path, edges: Iterable[Edges], nodes: int, memory: int, kind: np.dtype[Any]) -> tuple[int, int, Path]:
    buckets = max(1, min(nodes, 512))
    rows_each = -(-nodes // buckets)
    buckets = -(-nodes // rows_each)
    dealt = folder / "dealt"
    dealt.mkdir()
    files = [(dealt / f"{bucket}.raw").open("wb") for bucket in range(buckets)]
    largest = np.zeros(buckets, dtype=np.int64)
    try:
        for number, chunk in enumerate(edges):
            pairs = np.asarray(chunk)
            if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
                raise ValueError(f"edges come as whole numbers of shape (m, 2); piece {number} has {pairs.shape}")
            if len(pairs) and (pairs.min() < 0 or pairs.max() >= nodes):
                wrong = pairs[(pairs < 0).any(1) | (pairs >= nodes).any(1)][0]
                raise ValueError(f"edge {tuple(int(i) for i in wrong)} is outside of 0 .. {nodes - 1}")
            pairs = pairs[pairs[:, 0] != pairs[:, 1]].astype(kind)
            pairs = np.concatenate([pairs, pairs[:, ::-1]])
            place = pairs[:, 0] // rows_each
            order = np.argsort(place, kind="stable")
            pairs, counts = pairs[order], np.bincount(place, minlength=buckets)
            largest += counts
            if 40 * int(largest.max()) > memory:
                raise MemoryError(
                    f"a 512th of the rows has more than {int(largest.max()):,} edges: allow more than {memory:,} bytes"
                )
            for bucket, part in enumerate(np.split(pairs, np.cumsum(counts)[:-1])):
                part.tofile(files[bucket])
    finally:
        for file in files:
            file.close()
    return buckets, rows_each, dealt


def _give_header(raw: Path, target: Path, count: int, kind: np.dtype[Any]) -> None:
    """Makes a .npy file of raw numbers, a piece at a time."""
    mapped = np.lib.format.open_memmap(target, mode="w+", dtype=kind, shape=(count,))
    with raw.open("rb") as file:
        for first in range(0, count, CHUNK):
            piece = np.fromfile(file, dtype=kind, count=min(CHUNK, count - first))
            mapped[first : first + len(piece)] = piece
    mapped.flush()
    raw.unlink()


def _write_rest(folder: Path, nodes: int, nonzeros: int, x: NDArray[Any] | None, y: NDArray[np.int64] | None) -> None:
    about: dict[str, Any] = {"format": "polybasis graph", "version": VERSION, "nodes": nodes, "nonzeros": nonzeros}
    if x is not None:
        if x.ndim != 2 or len(x) != nodes:
            raise ValueError(f"x has shape {x.shape}; expected ({nodes}, features)")
        np.save(folder / "x.npy", x)
        about["features"] = x.shape[1]
    if y is not None:
        if y.shape != (nodes,):
            raise ValueError(f"y has shape {y.shape}; expected ({nodes},)")
        np.save(folder / "y.npy", y.astype(np.int64))
        about["classes"] = int(y.max()) + 1
    write_atomically(folder / "graph.json", json.dumps(about, indent=1).encode())


class _Building:
    """A folder under construction, which gets its name when it is whole."""

    def __init__(self, path: str | Path) -> None:
        self.target = Path(path)
        self.folder = self.target.parent / f".{self.target.name}.building"

    def __enter__(self) -> Path:
        if self.target.exists():
            raise FileExistsError(f"{self.target} is there already: remove it, or choose another folder")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        return self.folder

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.folder.rename(self.target)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def _index_type(nodes: int) -> np.dtype[Any]:
    return np.dtype(np.int32 if nodes <= np.iinfo(np.int32).max else np.int64)


def read_about(path: Path, kind: str, version: int) -> dict[str, Any]:
    """The description of a folder, or an error that names the file."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: {path.parent} is no {kind}")
    try:
        about = json.loads(path.read_text())
        found, number = about["format"], about["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be read ({error})") from error
    if found != kind or number != version:
        raise ValueError(f"{path} says {found!r}, version {number}; expected {kind!r}, version {version}")
    result: dict[str, Any] = about
    return result


def open_array(path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    """A mapped .npy file of the shape that is expected, or an error that names it."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error})") from error
    if array.shape != shape:
        raise ValueError(f"{path} has shape {array.shape}; expected {shape}")
    return array
