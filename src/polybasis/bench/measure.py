"""Time and peak memory of a call."""

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
    """A graph with skewed degrees (weights i^-1/2) in random order, and its edge_index, about `edges` pairs."""
    rng = np.random.default_rng(seed)
    chance = np.arange(1, nodes + 1) ** -0.5
    rng.shuffle(chance)
    ends = np.searchsorted(np.cumsum(chance / chance.sum()), rng.random((2, edges))).clip(max=nodes - 1)
    edge_index = torch.from_numpy(ends)
    return Graph.from_edge_index(edge_index, nodes), edge_index


def best_seconds(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The best of several runs of each call, taken in turn so that all of them see the same machine."""
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
    """How far resident memory rises above where it is while `call` runs, in bytes; None where Linux is not there."""
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
