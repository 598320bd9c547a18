"""A data set on disk: the adjacency matrix in CSR format in memory-mapped files.

A folder holds ``graph.json``, ``indptr.npy`` (int64) and ``indices.npy`` (int32, or int64 beyond 2^31 nodes) and, if
the data has them, ``x.npy`` (nodes x features, column by column, so that a block of features is contiguous), ``y.npy``
(the targets, see :mod:`polybasis.data.targets`), ``splits.npy`` (splits x nodes: 1 training, 2 validation, 3 test, 0
none) and ``nodes.npy`` (names). ``graph.json`` holds checksums of the files and of itself. The graph is undirected and
unweighted, without self-loops or duplicate edges; its degrees define the normalisation, so no edge values are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polybasis.adjacency import Adjacency
from polybasis.checksums import Manifest, OnBytes, digest
from polybasis.data.dataset import NodeDataset, masks_of
from polybasis.data.metrics import Metric, as_metric
from polybasis.features import as_features
from polybasis.graph import Graph
from polybasis.store.arrays import (
    chunks,
    combined_checksum,
    drop_pages,
    open_array,
    open_target,
    read_header,
    target_tensor,
)

KIND, VERSION, OLDEST = "polybasis graph", 4, 2


@dataclass(frozen=True)
class GraphFolder:
    """An open graph folder with memory-mapped arrays. :meth:`load` reads it into memory.

    Attributes:
        path: the folder.
        num_nodes: number of rows of the adjacency matrix.
        nonzeros: number of nonzeros of the adjacency matrix.
        indptr: boundaries of the rows of the adjacency matrix, in CSR format.
        indices: column of each nonzero.
        x: features, (nodes, features), or None.
        y: class indices or numbers, (nodes,), or labels, (nodes, labels), see :mod:`polybasis.data.targets`; or None.
        splits: (splits, nodes), 1 training, 2 validation, 3 test, or None.
        nodes: names of the nodes, or None if they are named by their numbers.
        header: contents of ``graph.json``: name, classes, metric, protocol.
        files: checksums of the files; None for folders of earlier versions.
    """

    path: Path
    num_nodes: int
    nonzeros: int
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    x: NDArray[Any] | None
    y: NDArray[Any] | None
    splits: NDArray[np.int8] | None
    nodes: NDArray[np.str_] | None
    header: dict[str, Any]
    files: Manifest | None = None

    @classmethod
    def open(cls, path: str | Path) -> GraphFolder:
        """Opens a folder and verifies its header; :meth:`load` and :meth:`verify_files` verify the arrays.

        Raises:
            FileNotFoundError, ValueError: if a file is missing or damaged; the message gives the file.
        """
        folder = Path(path)
        header = read_header(folder / "graph.json", KIND, VERSION, OLDEST)
        try:
            return cls._open(folder, header)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{folder / 'graph.json'} is damaged ({error})") from error

    @classmethod
    def _open(cls, folder: Path, header: dict[str, Any]) -> GraphFolder:
        files = Manifest(folder, header["files"]) if header["version"] == VERSION else None
        if files is not None:
            files.require(
                "indptr.npy", "indices.npy", *(f"{name}.npy" for name in ("x", "y", "splits") if header[name])
            )
            files.require(*(["nodes.npy"] if header["named"] else []))
            files.verify_headers()
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
            open_target(folder / "y.npy", num_nodes) if header.get("y") else None,
            optional("splits", header["splits"], num_nodes),
            open_array(folder / "nodes.npy", (num_nodes,)) if header.get("named") else None,
            header,
            files,
        )

    @property
    def name(self) -> str:
        """Name of the data set."""
        return str(self.header["name"])

    @property
    def metric(self) -> Metric:
        """Metric of the data set."""
        return as_metric(self.header["metric"])

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes or labels, in the order of their indices; none for numbers."""
        if self.y is not None and self.y.dtype.kind == "f":
            return ()
        return tuple(self.header.get("classes") or range(self.header["y"]))

    @property
    def protocol(self) -> str:
        """Split protocol of the data set."""
        return str(self.header.get("protocol") or ("fixed" if self.header["splits"] else "stratified"))

    @property
    def identity(self) -> str:
        """Identifies the contents: the name of a catalogued data set, or the name and a checksum."""
        return str(self.header.get("identity") or f"{self.name}@{self.checksum}")

    @property
    def checksum(self) -> str:
        """Checksum of all files."""
        if "crc32" in self.header:
            return combined_checksum(self.header["crc32"])
        return digest("".join(record["xxh3"] for record in self.header["files"].values()))

    def load(self) -> NodeDataset:
        """Reads the data set into memory and verifies its files.

        Raises:
            ValueError: if the folder has no features or a file is damaged.
        """
        if self.x is None:
            raise ValueError(f"{self.path} has no features; build it with --features")
        self.verify_files()
        dtype = torch.int32 if self.nonzeros < 2**31 else torch.int64  # one type for both, as the kernels expect
        indptr, indices = (torch.from_numpy(np.array(part)).to(dtype) for part in (self.indptr, self.indices))
        adjacency = Adjacency(indptr, indices, None, self.nonzeros // 2)
        return NodeDataset(
            name=self.name,
            graph=Graph(adjacency),
            x=as_features(torch.from_numpy(np.array(self.x, dtype=np.float32, order="C"))),
            y=torch.full((self.num_nodes,), -1) if self.y is None else target_tensor(self.y),
            classes=self.classes,
            nodes=None if self.nodes is None else np.array(self.nodes),
            metric=self.metric,
            fixed_splits=masks_of(self.splits),
            protocol=self.protocol,
            identity=self.identity,
        )

    def verify_files(self, on_bytes: OnBytes | None = None) -> None:
        """Verifies the checksums of all files that have not been verified yet.

        Args:
            on_bytes: called with the number of bytes after each block.

        Raises:
            FileNotFoundError, ValueError: if a file is missing or damaged; the message gives the file.
        """
        if self.files is not None:
            self.files.verify(on_bytes)

    def verify(self, on_bytes: OnBytes | None = None) -> None:
        """Verifies all checksums, and that the rows of the matrix are sorted, in range and symmetric.

        The symmetry check compares sums of hashes of the edges above and below the diagonal; it misses about one
        asymmetric graph in 2^64.

        Args:
            on_bytes: called with the number of bytes after each block of a file.

        Raises:
            ValueError: if a file is damaged; the message gives the file.
        """
        self.verify_files(on_bytes)
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
