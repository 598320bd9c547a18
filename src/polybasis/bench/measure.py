"""Measurement of time and peak memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from polybasis.graph import Graph

STATUS = Path("/proc/self/status")


def synthetic_graph(nodes: int, edges: int, seed: int = 0) -> tuple[Graph, Tensor]:
    """Generates a random graph with skewed degrees: node i is an endpoint with probability proportional to i^-1/2.

    Args:
        nodes: number of nodes, in random order.
        edges: number of sampled node pairs; duplicates and self-loops are dropped from the graph.
        seed: seed of the generator.

    Returns:
        The graph, and the sampled pairs, (2, edges).
    """
    rng = np.random.default_rng(seed)
    probability = np.arange(1, nodes + 1) ** -0.5
    rng.shuffle(probability)
    ends = np.searchsorted(np.cumsum(probability / probability.sum()), rng.random((2, edges))).clip(max=nodes - 1)
    edge_index = torch.from_numpy(ends)
    return Graph.from_edge_index(edge_index, nodes, directed=False), edge_index


def best_seconds(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Times several calls after a warm-up, interleaved so that changes in machine load affect all of them.

    Args:
        calls: the calls by name.
        repeats: number of runs of each.

    Returns:
        The shortest time of each call in seconds.
    """
    best = {}
    for name, call in calls.items():
        call()
        best[name] = float("inf")
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_growth(call: Callable[[], object]) -> int | None:
    """Measures by how much resident memory grows at its peak during a call.

    Args:
        call: the call.

    Returns:
        The growth in bytes, or None if ``/proc/self/clear_refs`` is not writable (outside Linux).
    """
    reset = Path("/proc/self/clear_refs")
    gc.collect()
    try:
        reset.write_text("5")
        before = _status("VmRSS")
        call()
        return _status("VmHWM") - before
    except OSError:
        return None


def _status(field: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024
