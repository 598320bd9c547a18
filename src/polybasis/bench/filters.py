"""The engine's filters against bare sparse products, message passing and PyG's ChebConv."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch_geometric.nn import ChebConv

from polybasis.bench.measure import best_seconds, peak_growth, synthetic_graph
from polybasis.krylov.filters import clear_kernels
from polybasis.nn import FavardConv, OptBasisConv

SIZES = {"squirrel": (5_201, 198_353), "arxiv": (169_343, 1_166_243)}


def load_reference(path: Path) -> Any:
    """The comparison code under `benchmarks/`, which is not part of the package."""
    spec = importlib.util.spec_from_file_location("polybasis_benchmark_reference", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"{path} is not there; run in a checkout of polybasis or pass --reference")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # PyG looks a layer's module up by name
    spec.loader.exec_module(module)
    return module


def bench_filters(
    size: str, *, channels: int = 64, K: int = 10, repeats: int = 5, reference: Path | None = None
) -> list[dict[str, Any]]:
    """One row for each contender on a synthetic graph of this size: seconds, peak memory, and ratios.

    Args:
        size: ``squirrel`` or ``arxiv``.
        channels, K: width of the signal and degree of the filter.
        repeats: runs of each after a warm-up; slow contenders get two, or one on a large graph.
        reference: the message-passing code; left out unless given.
    """
    nodes, edges = SIZES[size]
    graph, edge_index = synthetic_graph(nodes, edges)
    signal = torch.randn(nodes, channels, requires_grad=True)
    z_bar = torch.randn(nodes, channels)
    matrix = graph.matrix(torch.float32)

    def bare_products() -> None:
        y = signal.detach()
        for _ in range(K):
            y = matrix @ y

    def contender(layer: torch.nn.Module, *where: Any) -> dict[str, Callable[[], object]]:
        def forward() -> None:
            with torch.no_grad():
                layer(signal, *where)

        def step() -> None:
            layer.zero_grad(set_to_none=True)
            signal.grad = None
            layer(signal, *where).backward(z_bar)

        return {"forward": forward, "step": step}

    contenders = {
        "optimal basis": contender(OptBasisConv(channels, K), graph),
        "learnable basis": contender(FavardConv(channels, K), graph),
    }
    slow = {}
    if reference is not None:
        module = load_reference(reference)
        both, weight = module.normalised(edge_index, nodes)
        slow["message passing"] = contender(module.OptBasisFilter(channels, K), both, weight)
        slow["PyG ChebConv"] = contender(ChebConv(channels, channels, K + 1, bias=False), both)

    quick = {f"{name} {kind}": call for name, calls in contenders.items() for kind, call in calls.items()}
    seconds = best_seconds({"products": bare_products, **quick}, repeats)
    seconds |= best_seconds(
        {f"{name} {kind}": call for name, calls in slow.items() for kind, call in calls.items()},
        2 if nodes < 50_000 else 1,
    )

    yardstick = seconds["products"]
    rows: list[dict[str, Any]] = [{"contender": f"{K} bare torch products", "forward": yardstick}]
    for name, calls in (contenders | slow).items():
        clear_kernels(graph)  # frees the pooled buffers of earlier calls
        step_bytes = peak_growth(calls["step"])
        rows.append(
            {
                "contender": name,
                "forward": seconds[f"{name} forward"],
                "step": seconds[f"{name} step"],
                "peak": step_bytes,
            }
        )
    unit = nodes * channels * 4
    for row in rows:
        row |= {"graph": size, "nodes": nodes, "edges": graph.num_edges, "K": K, "channels": channels}
        row["forward_ratio"] = row["forward"] / yardstick
        if "step" in row:
            row["step_ratio"] = row["step"] / yardstick
            row["peak_vectors"] = None if row["peak"] is None else row["peak"] / unit
    return rows
