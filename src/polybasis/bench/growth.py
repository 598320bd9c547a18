"""Scaling of a training step with the degree, the number of channels and the number of edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from polybasis.bench.measure import best_seconds, synthetic_graph
from polybasis.nn import OptBasisConv

BASELINE = {"K": 10, "d": 64, "E": 1_166_243}
NODES = 169_343
SWEEPS = {"K": (5, 10, 15, 20), "d": (64, 128, 256), "E": (600_000, 1_200_000, 2_400_000)}


def bench_growth(repeats: int = 3) -> list[dict[str, Any]]:
    """Times a training step of the optimal-basis filter for several values of K, d and E.

    Args:
        repeats: number of runs; the fastest is reported.

    Returns:
        One row per parameter: ``axis`` (K, d or E), ``values``, ``seconds``, and the ``exponent`` of a power law fitted
        to them.
    """
    rows = []
    for axis, values in SWEEPS.items():
        calls = {str(value): _step(**(BASELINE | {axis: value})) for value in values}
        seconds = list(best_seconds(calls, repeats).values())
        exponent = float(np.polyfit(np.log(values), np.log(seconds), 1)[0])
        rows.append({"axis": axis, "values": list(values), "seconds": seconds, "exponent": exponent})
    return rows


def _step(K: int, d: int, E: int) -> Callable[[], object]:
    graph, _ = synthetic_graph(NODES, E)
    layer = OptBasisConv(d, K)
    signal = torch.randn(NODES, d, requires_grad=True)
    z_bar = torch.randn(NODES, d)
    return lambda: layer(signal, graph).backward(z_bar)
