"""Seeded random graphs of any size with heavy-tailed degrees, generated as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polybasis.store.graph_folder import GraphFolder
from polybasis.store.graph_writing import Edges, build_graph_folder, refuse_nodes

CLASSES = 10
BATCH = 1 << 22  # edges to generate at a time


def synthetic_edges(nodes: int, edges: int, seed: int = 0) -> Iterator[Edges]:
    """Generates a stream of edges with heavy-tailed degrees: one endpoint of each edge follows a power law.

    Args:
        nodes: number of nodes.
        edges: number of edges; self-loops and duplicates are dropped when the graph is built.
        seed: the same seed gives the same stream.

    Yields:
        Arrays of shape (m, 2).
    """
    rng = np.random.default_rng(seed)
    stride = 0x9E3779B1 | 1  # made coprime to the number of nodes below, so that it permutes the nodes
    while np.gcd(stride, nodes) != 1:
        stride += 2
    for first in range(0, edges, BATCH):
        uniform = rng.random((min(BATCH, edges - first), 2))
        uniform[:, 0] *= uniform[:, 0] * uniform[:, 0]
        yield (nodes * uniform).astype(np.int64) * stride % nodes


@dataclass(frozen=True)
class SyntheticFeatures:
    """Uniform random features, generated on request."""

    shape: tuple[int, int]
    seed: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type that the features are stored in."""
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
    """Generates a graph folder with a synthetic graph.

    Args:
        path: the folder, which must not exist.
        nodes: number of nodes.
        edges: number of edges; see :func:`synthetic_edges`.
        features: number of features, float16.
        labelled: fraction of nodes that have one of ten random classes; they are split 50/25/25.
        memory: approximate memory limit in bytes.
        seed: random seed.

    Raises:
        ValueError: if the memory limit is too low for the number of nodes.
        FileExistsError: if the folder exists.
    """
    refuse_nodes(nodes, memory)
    rng = np.random.default_rng([seed, 1])
    known = rng.random(nodes, dtype=np.float32) < labelled
    y = np.full(nodes, -1, dtype=np.int32)
    y[known] = rng.integers(0, CLASSES, int(known.sum()))
    splits = np.zeros((1, nodes), dtype=np.int8)
    splits[0, known] = rng.choice(np.array([1, 2, 3], dtype=np.int8), int(known.sum()), p=[0.5, 0.25, 0.25])
    x = SyntheticFeatures((nodes, features), seed)
    stream = synthetic_edges(nodes, edges, seed)
    return build_graph_folder(path, stream, nodes, x=x, y=y, splits=splits, name="synthetic", memory=memory)
