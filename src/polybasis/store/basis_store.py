"""Optimal bases on disk.

A finished store is a folder with

- ``store.json``: the data set, degree, blocks of channels, data type and feature transform;
- ``vectors.npy``, (rows, K+1, channels): a node's values are contiguous, so that reading a batch of nodes is cheap;
- ``rows.npy``: the node of each row, ascending; ``y.npy``: its target; ``splits.npy`` (splits, rows): 1 training,
  2 validation, 3 test; ``nodes.npy``: its name; the last three exist only if the data set has them;
- ``basis.json``, written last: gamma, sqrt_beta and rank of every channel.

``store.json`` and ``basis.json`` hold checksums of the other files and of themselves. Opening a store verifies every
file except the vectors; blocks of vectors are verified when they are first read.

While a store is being built, every finished block of channels has a ``block-0000.json`` with its coefficients,
checksums and file name; the file has shape (K+1, rows, channels of the block). ``log.jsonl`` records timings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.bases import PolynomialBasis
from polybasis.checksums import Manifest, OnBytes, VerifiedFile, digest, read_document
from polybasis.data.dataset import LabelledNodes, Masks, masks_of
from polybasis.data.metrics import Metric, as_metric
from polybasis.features import FeatureTransform
from polybasis.store.arrays import (
    chunks,
    combined_checksum,
    drop_pages,
    open_array,
    open_target,
    read_header,
    target_tensor,
)

KIND, VERSION, OLDEST = "polybasis store", 4, 2


@dataclass(frozen=True, eq=False)
class BasisStore(LabelledNodes):
    """An open store with memory-mapped vectors. Entry i of ``y``, ``nodes`` and the splits belongs to row i.

    Attributes in addition to those of :class:`polybasis.data.dataset.LabelledNodes`:
        path: the folder.
        vectors: (rows, K+1, channels), multiplied by :math:`2^{exponent}`. Reading this array directly does not verify
            it; :meth:`read` and :meth:`batch` do.
        exponent: 0 for float32. In float16, unscaled entries, about :math:`1/\\sqrt N`, would be subnormal.
        rows: the nodes of the data set whose rows are stored, ascending.
        gamma: diagonal of the tridiagonal matrix, (K+1, channels), float64. The last row is 0: no filter of degree K
            depends on it.
        sqrt_beta: norms of the signals, followed by the off-diagonal, (K+1, channels), float64.
        rank: (channels,).
        K: the degree.
        feature_transform: the transform that was applied to the features.
        dataset_identity: identifies the data set that the store was built from.
        header: contents of ``store.json``.
        file: checksums of the vectors; None for stores of earlier versions.
    """

    path: Path
    vectors: NDArray[Any]
    exponent: int
    rows: NDArray[np.int64]
    gamma: Tensor
    sqrt_beta: Tensor
    rank: Tensor
    K: int
    num_features: int
    name: str
    metric: Metric
    protocol: str
    classes: tuple[Any, ...]
    nodes: NDArray[np.str_] | None
    feature_transform: FeatureTransform | None
    dataset_identity: str
    header: dict[str, Any]
    file: VerifiedFile | None

    @cached_property
    def y(self) -> Tensor:  # type: ignore[override]
        """Target of each row; see :mod:`polybasis.data.targets`."""
        return _target_of(self.path, self.header)

    @cached_property
    def fixed_splits(self) -> list[Masks]:  # type: ignore[override]
        """The splits that come with the data set, as masks over the rows."""
        count = self.header["splits"]
        return masks_of(open_array(self.path / "splits.npy", (count, len(self.rows))) if count else None)

    @property
    def fingerprint(self) -> str:
        """Equal for two stores if they were built from the same data with the same settings."""
        return f"{self.dataset_identity} {(self.K, self.header['rows'], self.header['dtype'], self.feature_transform)}"

    @property
    def structure_only(self) -> bool:  # type: ignore[override]
        """Always False: a store is built from features."""
        return False

    @property
    def channels(self) -> int:
        """Number of channels, one for each feature."""
        return self.num_features

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def node_ids(self) -> NDArray[Any]:
        """The name of the node of every row, or its number in the graph, which is not its row, (rows,)."""
        return self.rows if self.nodes is None else self.nodes

    def row_indices(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the rows of some nodes.

        Raises:
            ValueError: for a node whose row is not stored.
        """
        places = np.searchsorted(self.rows, nodes)
        found = (places < len(self.rows)) & (self.rows[np.minimum(places, len(self.rows) - 1)] == nodes)
        if not found.all():
            raise ValueError(f"node {int(nodes[~found][0])} is not among the {len(self.rows):,} rows of {self.path}")
        return places

    def read(self, rows: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Reads the vectors of some rows and verifies blocks of the file when they are first read.

        Args:
            rows: indices of rows.
            out: array to read into, (len(rows), K+1, channels), with the data type of the stored vectors.

        Raises:
            ValueError: if a block is damaged; the message gives the file.
        """
        if self.file is not None:
            row = self.vectors[0].nbytes if len(self) else 0
            first = self.file.size - len(self) * row + rows * row  # the rows are the end of the file
            self.file.verify_ranges(first, first + row - 1)
        np.take(self.vectors, rows, axis=0, out=out, mode="clip")

    def batch(self, rows: NDArray[np.int64]) -> Tensor:
        """Returns the vectors of some rows, (len(rows), K+1, channels), float32."""
        vectors = np.empty((len(rows), *self.vectors.shape[1:]), self.vectors.dtype)
        self.read(np.asarray(rows), vectors)
        return torch.from_numpy(vectors).float() * 2.0**-self.exponent

    def coordinates(self, basis: PolynomialBasis) -> Tensor:
        """Returns the coordinates of a basis in the stored one, (K+1, K+1, channels); differentiable in the basis."""
        return basis.coordinates(self.gamma, self.sqrt_beta)

    def verify(self, on_bytes: OnBytes | None = None) -> None:
        """Verifies the checksums of all vectors that have not been verified yet.

        Args:
            on_bytes: called with the number of bytes after each block.

        Raises:
            ValueError: if a checksum differs; the message gives the file.
        """
        if self.file is not None:
            self.file.verify(on_bytes)


def open_store(path: str | Path, *, verify: bool = False) -> BasisStore:
    """Opens a store.

    Args:
        path: its folder.
        verify: read all vectors and compare their checksums.

    Raises:
        FileNotFoundError, ValueError: for a store that is unfinished, damaged or of an unsupported version; the
            message gives the file.
    """
    folder = Path(path)
    header = read_header(folder / "store.json", KIND, VERSION, OLDEST)
    if not (folder / "basis.json").exists():
        raise ValueError(f"{folder / 'basis.json'} does not exist: the store is unfinished; run precompute again")
    basis = read_document(folder / "basis.json", sealed=lambda _: header["version"] == VERSION)
    try:
        store = _open(folder, header, basis)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the header of {folder} is damaged ({error}); run precompute again") from error
    if verify:
        store.verify()
    return store


def _open(folder: Path, header: dict[str, Any], basis: dict[str, Any]) -> BasisStore:
    gamma, sqrt_beta, rank = (np.asarray(basis[key]) for key in ("gamma", "sqrt_beta", "rank"))
    rows, degrees, channels = header["rows"], header["K"] + 1, sum(header["blocks"])
    if (gamma.shape, sqrt_beta.shape, rank.shape) != ((degrees, channels), (degrees, channels), (channels,)):
        raise ValueError(f"{folder / 'basis.json'} is damaged (coefficients of the wrong shape); run precompute again")
    file = None
    if header["version"] == VERSION:
        files, vectors = Manifest(folder, header["files"]), Manifest(folder, basis["files"])
        files.require("rows.npy", *(f"{name}.npy" for name in ("y", "splits") if header[name]))
        files.require(*(["nodes.npy"] if header["named"] else []))
        files.verify()
        vectors.verify_headers()
        file = vectors["vectors.npy"]
    classes = header.get("classes")
    if classes is None:  # stores of earlier versions
        classes = range(int(_target_of(folder, header).max()) + 1 if rows else 0)
    return BasisStore(
        path=folder,
        vectors=open_array(folder / "vectors.npy", (rows, degrees, channels)),
        exponent=header.get("exponent", 0),
        rows=open_array(folder / "rows.npy", (rows,)),
        gamma=torch.from_numpy(gamma).double(),
        sqrt_beta=torch.from_numpy(sqrt_beta).double(),
        rank=torch.from_numpy(rank),
        K=header["K"],
        num_features=channels,
        name=header["name"],
        metric=as_metric(header["metric"]),
        protocol=header.get("protocol") or ("fixed" if header["splits"] else "stratified"),
        classes=tuple(classes),
        nodes=open_array(folder / "nodes.npy", (rows,)) if header.get("named") else None,
        feature_transform=header.get("feature_transform"),
        dataset_identity=header.get("identity") or f"{header['name']}@{combined_checksum(header['graph'])}",
        header=header,
        file=file,
    )


def _target_of(folder: Path, header: dict[str, Any]) -> Tensor:
    if not header["y"]:
        return torch.full((header["rows"],), -1)
    return target_tensor(open_target(folder / "y.npy", header["rows"]))


def scale_exponent(nodes: int) -> int:
    """The power of two that brings entries of unit vectors close to 1; an entry of 1 stays in the range of float16."""
    return min(15, round(math.log2(max(1, nodes)) / 2))


def checked_rows(header: dict[str, Any]) -> int:
    """Number of rows of a block that are merged at a time and share a checksum: about 16 MB of vectors."""
    row: int = (header["K"] + 1) * sum(header["blocks"]) * np.dtype(header["dtype"]).itemsize
    return max(1, (1 << 24) // row)


def block_checksums(block: NDArray[Any], step: int) -> list[str]:
    """A checksum for every ``step`` rows of a block, (K+1, rows, channels)."""
    found = []
    for rows in chunks(block.shape[1], step):
        found.append(digest(np.ascontiguousarray(block[:, rows])))
        drop_pages(block)
    return found
