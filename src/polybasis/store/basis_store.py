"""Optimal bases on disk.

A store is a folder with ``store.json``, ``rows.npy`` (the nodes whose rows are kept), and for every block of channels
``block-0000.npy``, of shape (rows, K+1, channels) so that what belongs to a node is read together, with
``block-0000.json`` beside it: gamma, sqrt_beta and rank of its channels, and the checksum of the vectors. A block
counts when its JSON file is there, which is written last.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.bases import PolynomialBasis
from polybasis.store.graph_folder import open_array, read_about

VERSION = 1


@dataclass(frozen=True)
class BasisStore:
    """An opened store; vectors are mapped, not read.

    Attributes:
        path: the folder.
        rows: the nodes whose rows are there, ascending.
        blocks: the vectors of each block of channels, (rows, K+1, channels).
        gamma, sqrt_beta: (K+1, channels of all blocks), float64.
        rank: (channels,).
    """

    path: Path
    rows: NDArray[np.int64]
    blocks: list[NDArray[Any]]
    gamma: Tensor
    sqrt_beta: Tensor
    rank: Tensor

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
        """The vectors of some rows, (len(places), K+1, channels), float32."""
        parts = [torch.from_numpy(np.asarray(block[places], dtype=np.float32)) for block in self.blocks]
        return torch.cat(parts, dim=2)

    def coordinates(self, basis: PolynomialBasis) -> Tensor:
        """Any basis on the stored one, (K+1, K+1, channels); gradients flow to a basis that is learned."""
        return basis.coordinates(self.gamma, self.sqrt_beta)

    def verify(self) -> None:
        """Reads every block and compares its checksum; refuses a damaged one by its name."""
        for number, block in enumerate(self.blocks):
            about = json.loads((self.path / f"{block_name(number)}.json").read_text())
            if checksum(block) != about["crc32"]:
                raise ValueError(
                    f"{self.path / block_name(number)}.npy is damaged: its checksum is another; make it again"
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
    about = read_about(folder / "store.json", "polybasis store", VERSION)
    rows = open_array(folder / "rows.npy", (about["rows"],))
    blocks, numbers = [], []
    for number, width in enumerate(about["blocks"]):
        name = folder / block_name(number)
        if not name.with_suffix(".json").exists():
            raise ValueError(f"{name}.json is not there: the store is not finished; run precompute again")
        try:
            found = json.loads(name.with_suffix(".json").read_text())
            numbers.append([np.asarray(found[key]) for key in ("gamma", "sqrt_beta", "rank")])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{name}.json is damaged ({error}); remove it and run precompute again") from error
        blocks.append(open_array(name.with_suffix(".npy"), (about["rows"], about["K"] + 1, width)))
    gamma, sqrt_beta, rank = (torch.from_numpy(np.concatenate(parts, axis=-1)) for parts in zip(*numbers, strict=True))
    store = BasisStore(folder, rows, blocks, gamma.double(), sqrt_beta.double(), rank)
    if verify:
        store.verify()
    return store


def block_name(number: int) -> str:
    """The name of a block's files, without the ending."""
    return f"block-{number:04d}"


def checksum(vectors: NDArray[Any]) -> int:
    """Of a block's vectors, a piece at a time."""
    value = 0
    step = max(1, (1 << 24) // max(1, vectors[0].nbytes)) if len(vectors) else 1
    for first in range(0, len(vectors), step):
        value = zlib.crc32(np.ascontiguousarray(vectors[first : first + step]).tobytes(), value)
    return value
