"""Roofline: measured time of each kernel compared with a bound from memory bandwidth.

A kernel streams arrays of the signal's size and, for every product with P, gathers one row of the signal per nonzero.
The bound for a product is the time to move the graph, the signal and the result once at the measured bandwidth of a
triad. Rows are gathered more than once, so products on graphs without locality do not reach it. The bound for a filter
is the time to stream its arrays plus the measured time of its products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from polybasis.bench.filters import SIZES
from polybasis.bench.measure import best_seconds, synthetic_graph
from polybasis.krylov.native_kernels import NativeKernels
from polybasis.recurrence import Recurrence

TRIAD_LENGTH = 1 << 26


class Traffic(NamedTuple):
    """Memory traffic of a kernel: streamed arrays of the signal's size, and products with P, which write one each."""

    arrays: float
    products: int


def bench_roofline(size: str, *, channels: int = 64, K: int = 10, repeats: int = 5) -> dict[str, Any]:
    """Times the native kernels on a synthetic graph and compares them with the bandwidth bound.

    Args:
        size: ``squirrel`` or ``arxiv``, whose numbers of nodes and edges the graph has.
        channels: number of channels of the signal.
        K: degree of the filters.
        repeats: number of runs; the fastest is reported.

    Returns:
        ``triad``, the bandwidth in bytes per second, and ``kernels``, one row each: ``seconds``; ``needed``, the bytes
        if every array and the graph move once per pass; ``moved``, the bytes with every gathered row counted; and
        ``share``, the bound divided by the measured time, which may exceed 1 for arrays that fit the caches.

    Raises:
        RuntimeError: if the native kernels are not installed.
    """
    graph, _ = synthetic_graph(*SIZES[size])
    nodes, nonzeros = graph.num_nodes, len(graph.indices)
    x = torch.randn(nodes, channels)
    operator = graph.operator(x.dtype, x.device).native
    if operator is None:
        raise RuntimeError("the roofline requires the native kernels; install a C++ compiler and reinstall polybasis")
    calls = _kernel_calls(operator, x, K)
    a, b, c = (torch.ones(TRIAD_LENGTH) for _ in range(3))
    seconds = best_seconds(
        {
            "triad": lambda: torch.add(a, b, alpha=2.0, out=c),
            **{name: call for name, (call, _) in calls.items()},
        },
        repeats,
    )
    triad = 3 * TRIAD_LENGTH * 4 / seconds["triad"]
    array, pattern = nodes * channels * 4, nonzeros * 8 + nodes * 4
    kernels = []
    for name, (_, traffic) in calls.items():
        needed = (traffic.arrays + traffic.products) * array + traffic.products * pattern
        bound = (
            needed / triad
            if name == "product"
            else traffic.arrays * array / triad + traffic.products * seconds["product"]
        )
        kernels.append(
            {
                "kernel": name,
                "seconds": seconds[name],
                "needed": needed,
                "moved": needed + traffic.products * (nonzeros * channels * 4 - array),
                "share": bound / seconds[name],
            }
        )
    return {"graph": size, "K": K, "channels": channels, "triad": triad, "kernels": kernels}


def _kernel_calls(operator: Any, x: torch.Tensor, K: int) -> dict[str, tuple[Callable[[], object], Traffic]]:
    """Each kernel with its traffic, counted in native/optimal.cpp, optimal_adjoint.cpp and recurrence.cpp."""
    kernels, channels = NativeKernels(operator), x.shape[1]
    alpha, z_bar, y = torch.randn(K + 1, channels), torch.randn_like(x), torch.empty_like(x)
    peak = kernels.peak(x)
    basis = kernels.optimal_basis(x, peak, K, last_gamma=False)
    half = torch.full((K, channels), 0.5)
    recurrence = Recurrence(torch.ones(channels), half, half, -half)
    _, h = kernels.recurrence(x, alpha, recurrence, keep=True)
    assert h is not None
    return {
        "product": (lambda: operator.product(x, y, torch.get_num_threads()), Traffic(1, 1)),
        # Besides its product, which writes w, a step reads v_k and v_{k-1}, then reads and writes v_k and w.
        "optimal basis": (lambda: kernels.optimal_basis(x, peak, K, last_gamma=False), Traffic(6 * K + 4, K)),
        "combination": (lambda: kernels.combine(basis.vectors, alpha), Traffic(K + 2, 0)),
        # Two passes over V at the start and one at the end; besides its product, a step reads five arrays.
        "optimal adjoint": (lambda: kernels.optimal_adjoint(basis, alpha, z_bar), Traffic(5 * K + 3 * K + 6, K)),
        "recurrence": (lambda: kernels.recurrence(x, alpha, recurrence, keep=True), Traffic(4 * K + 4, K)),
        "recurrence adjoint": (
            lambda: kernels.recurrence_adjoint(h, alpha, recurrence, z_bar),
            Traffic(5 * K + 10, K),
        ),
    }
