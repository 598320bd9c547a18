"""Optimal bases on disk.

A finished store is a folder with

- ``store.json``: the data set, degree, blocks of channels, data type and feature transform;
- ``vectors.npy``, (rows, K+1, channels): a node's values are contiguous, so that reading a batch of nodes is cheap;
- ``rows.npy``: the node of each row, ascending; ``y.npy``: its class; ``splits.npy`` (splits, rows): 1 training,
  2 validation, 3 test; ``nodes.npy``: its name; the last three exist only if the data set has them;
- ``basis.json``, written last: gamma, sqrt_beta and rank of every channel, and checksums of the vectors.

While a store is being built, every finished block of channels has a ``block-0000.json`` with its coefficients,
checksums and file name; the file has shape (K+1, rows, channels of the block). ``log.jsonl`` records timings.
"""

from __future__ import annotations

import json
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
from polybasis.data.dataset import LabelledNodes, Masks, Metric, masks_of
from polybasis.features import FeatureTransform
from polybasis.store.arrays import chunks, combined_checksum, crc32, drop_pages, open_array, read_header

KIND, VERSION, OLDEST = "polybasis store", 3, 2


@dataclass(frozen=True, eq=False)
class BasisStore(LabelledNodes):
    """An open store; its vectors are memory-mapped. Entry i of ``y``, ``nodes`` and the splits belongs to row i.

    Attributes in addition to those of :class:`polybasis.data.dataset.LabelledNodes`:
        path: the folder.
        vectors: (rows, K+1, channels), multiplied by :math:`2^{exponent}`.
        exponent: 0, but for float16: entries of unit vectors are about :math:`1/\\sqrt N`, below its normal numbers.
        rows: the nodes of the data set whose rows are stored, ascending.
        gamma, sqrt_beta: (K+1, channels), float64. The last gamma is 0: no filter of degree K depends on it.
        rank: (channels,).
        K: the degree.
        feature_transform: the transform that was applied to the features.
        dataset_identity: identifies the data set that the store was built from.
        header: contents of ``store.json``.
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

    @cached_property
    def y(self) -> Tensor:  # type: ignore[override]
        """Class of each row as an index into ``classes``; -1 if unknown."""
        return _classes_of(self.path, self.header)

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

    def node_names(self) -> list[Any]:
        """The name of every row's node, or its number."""
        names: list[Any] = (self.rows if self.nodes is None else self.nodes).tolist()
        return names

    def row_indices(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of some nodes.

        Raises:
            ValueError: for a node whose row is not stored.
        """
        places = np.searchsorted(self.rows, nodes)
        found = (places < len(self.rows)) & (self.rows[np.minimum(places, len(self.rows) - 1)] == nodes)
        if not found.all():
            raise ValueError(f"node {int(nodes[~found][0])} is not among the {len(self.rows):,} rows of {self.path}")
        return places

    def batch(self, rows: NDArray[np.int64]) -> Tensor:
        """The vectors of some rows, (len(rows), K+1, channels), float32."""
        return torch.from_numpy(np.asarray(self.vectors[rows])).float() * 2.0**-self.exponent

    def coordinates(self, basis: PolynomialBasis) -> Tensor:
        """Coordinates of a basis on the stored one, (K+1, K+1, channels); differentiable in the basis."""
        return basis.coordinates(self.gamma, self.sqrt_beta)

    def verify(self) -> None:
        """Reads all vectors and compares their checksums.

        Raises:
            ValueError: if a checksum differs; the message gives the file.
        """
        step = checked_rows(self.header)
        found = checksums(self.vectors, step)
        expected = json.loads((self.path / "basis.json").read_text())["crc32"]
        for number, pair in enumerate(zip(found, expected, strict=True)):
            if pair[0] != pair[1]:
                raise ValueError(
                    f"{self.path / 'vectors.npy'}: checksum mismatch at row {number * step} or after; "
                    "remove the store and run precompute again"
                )


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
    place = folder / "basis.json"
    if not place.exists():
        raise ValueError(f"{place} does not exist: the store is unfinished; run precompute again")
    try:
        found = json.loads(place.read_text())
        gamma, sqrt_beta, rank = (np.asarray(found[key]) for key in ("gamma", "sqrt_beta", "rank"))
        degrees, channels = header["K"] + 1, sum(header["blocks"])
        if (gamma.shape, sqrt_beta.shape, rank.shape) != ((degrees, channels), (degrees, channels), (channels,)):
            raise ValueError("coefficients of the wrong shape")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{place} is damaged ({error}); remove it and run precompute again") from error
    rows = header["rows"]
    classes = header.get("classes") or range(int(_classes_of(folder, header).max()) + 1 if rows else 0)
    store = BasisStore(
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
        metric=header["metric"],
        protocol=header.get("protocol") or ("fixed" if header["splits"] else "stratified"),
        classes=tuple(classes),
        nodes=open_array(folder / "nodes.npy", (rows,)) if header.get("named") else None,
        feature_transform=header.get("feature_transform"),
        dataset_identity=header.get("identity") or f"{header['name']}@{combined_checksum(header['graph'])}",
        header=header,
    )
    if verify:
        store.verify()
    return store


def _classes_of(folder: Path, header: dict[str, Any]) -> Tensor:
    rows = (header["rows"],)
    if not header["y"]:
        return torch.full(rows, -1)
    return torch.from_numpy(np.array(open_array(folder / "y.npy", rows))).long()


def scale_exponent(nodes: int) -> int:
    """The power of two that brings entries of unit vectors close to 1; an entry of 1 stays in the range of float16."""
    return min(15, round(math.log2(max(1, nodes)) / 2))


def checked_rows(header: dict[str, Any]) -> int:
    """Number of rows that are merged at a time and share a checksum: about 16 MB of vectors."""
    row: int = (header["K"] + 1) * sum(header["blocks"]) * np.dtype(header["dtype"]).itemsize
    return max(1, (1 << 24) // row)


def checksums(vectors: NDArray[Any], step: int, axis: int = 0) -> list[int]:
    """A checksum for every ``step`` rows along the given axis."""
    found = []
    for rows in chunks(vectors.shape[axis], step):
        found.append(crc32(vectors[rows] if axis == 0 else vectors[:, rows]))
        drop_pages(vectors)
    return found
