"""Optimal bases on disk.

A finished store is a folder with

- ``store.json``: what it was made of: graph, degree, blocks of channels, data type;
- ``vectors.npy``, of shape (rows, K+1, channels): all of a node lies together, so that a batch of nodes reads little;
- ``rows.npy``: the node of each row, ascending; ``y.npy``: its class; ``splits.npy`` (splits, rows): 1 for training,
  2 validation, 3 test; the last two where the graph has them;
- ``basis.json``, written last: gamma, sqrt_beta and rank of every channel, and checksums of the vectors.

While it is made, every finished block of channels has a ``block-0000.json`` with its numbers, its checksums and the
name of its file, (K+1, rows, channels of the block). ``log.jsonl`` says how long the work took; it is no part of the
store.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.bases import PolynomialBasis
from polybasis.data.dataset import Metric
from polybasis.store.arrays import crc32, drop_pages, open_array, pieces, read_about

KIND, VERSION = "polybasis store", 2


@dataclass(frozen=True)
class BasisStore:
    """An opened store; vectors are mapped, not read.

    Attributes:
        path: the folder.
        vectors: (rows, K+1, channels).
        rows: the nodes whose rows are there, ascending.
        y: their classes, -1 where unknown, or None.
        splits: (splits, rows): 1 training, 2 validation, 3 test, or None.
        gamma, sqrt_beta: (K+1, channels), float64. The last gamma is 0: no filter of degree K depends on it.
        rank: (channels,).
        name, metric: of the data set.
    """

    path: Path
    vectors: NDArray[Any]
    rows: NDArray[np.int64]
    y: NDArray[np.integer[Any]] | None
    splits: NDArray[np.int8] | None
    gamma: Tensor
    sqrt_beta: Tensor
    rank: Tensor
    name: str
    metric: Metric

    @property
    def K(self) -> int:
        """The degree."""
        return len(self.gamma) - 1

    @property
    def channels(self) -> int:
        """How many channels there are."""
        return self.gamma.shape[1]

    def __len__(self) -> int:
        return len(self.rows)

    def places(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where nodes stand among the rows that are kept."""
        places = np.searchsorted(self.rows, nodes)
        found = (places < len(self.rows)) & (self.rows[np.minimum(places, len(self.rows) - 1)] == nodes)
        if not found.all():
            raise ValueError(f"node {int(nodes[~found][0])} is not in {self.path}: it keeps {len(self.rows):,} rows")
        return places

    def batch(self, places: NDArray[np.int64]) -> Tensor:
        """The vectors of some rows, (len(places), K+1, channels), as they are stored."""
        return torch.from_numpy(np.asarray(self.vectors[places]))

    def coordinates(self, basis: PolynomialBasis) -> Tensor:
        """Any basis on the stored one, (K+1, K+1, channels); gradients flow to a basis that is learned."""
        return basis.coordinates(self.gamma, self.sqrt_beta)

    def verify(self) -> None:
        """Reads all vectors and compares their checksums; refuses damage by the file's name."""
        step = checked_rows(read_about(self.path / "store.json", KIND, VERSION))
        found = checksums(self.vectors, step)
        expected = json.loads((self.path / "basis.json").read_text())["crc32"]
        for number, pair in enumerate(zip(found, expected, strict=True)):
            if pair[0] != pair[1]:
                raise ValueError(
                    f"{self.path / 'vectors.npy'} is damaged at row {number * step} or after: its checksum is "
                    "another; remove the store and make it again"
                )


def open_store(path: str | Path, *, verify: bool = False) -> BasisStore:
    """Opens a store.

    Args:
        path: its folder.
        verify: read all of it and compare checksums.

    Raises:
        ValueError: for a store that is not finished, damaged, or of another version; the file is named.
    """
    folder = Path(path)
    about = read_about(folder / "store.json", KIND, VERSION)
    place = folder / "basis.json"
    if not place.exists():
        raise ValueError(f"{place} is not there: the store is not finished; run precompute again")
    try:
        found = json.loads(place.read_text())
        gamma, sqrt_beta, rank = (np.asarray(found[key]) for key in ("gamma", "sqrt_beta", "rank"))
        degrees, channels = about["K"] + 1, sum(about["blocks"])
        if (gamma.shape, sqrt_beta.shape, rank.shape) != ((degrees, channels), (degrees, channels), (channels,)):
            raise ValueError("its numbers have another shape")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{place} is damaged ({error}); remove it and run precompute again") from error
    rows = about["rows"]
    store = BasisStore(
        folder,
        open_array(folder / "vectors.npy", (rows, degrees, channels)),
        open_array(folder / "rows.npy", (rows,)),
        open_array(folder / "y.npy", (rows,)) if about["y"] else None,
        open_array(folder / "splits.npy", (about["splits"], rows)) if about["splits"] else None,
        torch.from_numpy(gamma).double(),
        torch.from_numpy(sqrt_beta).double(),
        torch.from_numpy(rank),
        about["name"],
        about["metric"],
    )
    if verify:
        store.verify()
    return store


def checked_rows(about: dict[str, Any]) -> int:
    """Rows that have a checksum together, and are joined at a time: some 16 MB of vectors."""
    row: int = (about["K"] + 1) * sum(about["blocks"]) * np.dtype(about["dtype"]).itemsize
    return max(1, (1 << 24) // row)


def checksums(vectors: NDArray[Any], step: int, axis: int = 0) -> list[int]:
    """Of every so many rows, which stand on this axis."""
    found = []
    for rows in pieces(vectors.shape[axis], step):
        found.append(crc32(vectors[rows] if axis == 0 else vectors[:, rows]))
        drop_pages(vectors)
    return found
