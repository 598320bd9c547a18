"""Seeded graphs of any size with unequal degrees, made as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polybasis.store.graph_folder import CHUNK, Edges, GraphFolder, NodeData, build_graph_folder

CLASSES = 10


def synthetic_edges(nodes: int, edges: int, seed: int = 0) -> Iterator[Edges]:
    """A stream of edges whose degrees are unequal as those of real graphs: one end is drawn with a power law.

    Args:
        nodes, edges: how many; some edges come out as self-loops or twice and are lost in building.
        seed: the same seed gives the same stream.
    """
    rng = np.random.default_rng(seed)
    stride = 0x9E3779B1 | 1  # scatters the ranks over all nodes, one to one where it is prime to their number
    while np.gcd(stride, nodes) != 1:
        stride += 2
    for first in range(0, edges, CHUNK):
        uniform = rng.random((min(CHUNK, edges - first), 2))
        uniform[:, 0] *= uniform[:, 0] * uniform[:, 0]
        yield (nodes * uniform).astype(np.int64) * stride % nodes


@dataclass(frozen=True)
class SyntheticFeatures:
    """Uniform random features, made when they are asked for."""

    shape: tuple[int, int]
    seed: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the file they are written to."""
        return np.dtype(np.float16)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        rng = np.random.default_rng([self.seed, 2, rows.start])
        return rng.random((rows.stop - rows.start, self.shape[1]), dtype=np.float32) - np.float32(0.5)


def make_synthetic(
    path: str | Path,
    nodes: int,
    edges: int,
    features: int,
    *,
    labelled: float,
    memory: int = 1 << 30,
    seed: int = 0,
) -> GraphFolder:
    """Makes the folder of a synthetic graph.

    Args:
        path: the folder.
        nodes, edges: see :func:`synthetic_edges`.
        features: how many, float16.
        labelled: share of the nodes that have a class, one of ten at random; they are cut 50/25/25.
        memory: bytes to stay within, about.
        seed: of everything.
    """
    rng = np.random.default_rng([seed, 1])
    known = rng.random(nodes, dtype=np.float32) < labelled
    y = np.full(nodes, -1, dtype=np.int32)
    y[known] = rng.integers(0, CLASSES, int(known.sum()))
    splits = np.zeros((1, nodes), dtype=np.int8)
    splits[0, known] = rng.choice(np.array([1, 2, 3], dtype=np.int8), int(known.sum()), p=[0.5, 0.25, 0.25])
    data = NodeData(SyntheticFeatures((nodes, features), seed), y, splits, "synthetic")
    return build_graph_folder(path, synthetic_edges(nodes, edges, seed), nodes, memory=memory, data=data)
