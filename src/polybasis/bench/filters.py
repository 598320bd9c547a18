"""Time and memory of the filters, compared with sparse products, message passing and PyG's ChebConv."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch_geometric.nn import ChebConv

from polybasis.bench.measure import best_seconds, peak_growth, synthetic_graph
from polybasis.krylov.kernel_choice import clear_kernels
from polybasis.nn import FavardConv, OptBasisConv

SIZES = {"squirrel": (5_201, 198_353), "arxiv": (169_343, 1_166_243)}


def load_reference(path: Path) -> Any:
    """Imports a reference implementation, such as ``benchmarks/message_passing.py``, by path.

    Args:
        path: path of the module.

    Returns:
        The module.

    Raises:
        FileNotFoundError: if there is no such file.
    """
    spec = importlib.util.spec_from_file_location("polybasis_benchmark_reference", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; run in a checkout of polybasis or pass --reference")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # PyG looks up the module of a layer by name
    spec.loader.exec_module(module)
    return module


def bench_filters(
    size: str, *, channels: int = 64, K: int = 10, repeats: int = 5, reference: Path | None = None
) -> list[dict[str, Any]]:
    """Times forward passes and training steps on a synthetic graph and measures peak memory.

    Args:
        size: ``squirrel`` or ``arxiv``, whose numbers of nodes and edges the graph has.
        channels: number of channels of the signal.
        K: degree of the filters.
        repeats: number of runs after a warm-up. Reference implementations run twice, or once on a large graph.
        reference: path of the message-passing implementation; it and ChebConv are omitted by default.

    Returns:
        One row per contender: ``forward`` and ``step`` (forward and backward) in seconds, ``peak`` memory of a step in
        bytes, ``forward_ratio`` and ``step_ratio`` relative to K sparse products in torch, ``peak_vectors`` in arrays
        of the signal's size, and the size of the problem. ``peak`` is None if it cannot be measured.

    Raises:
        FileNotFoundError: if ``reference`` does not exist.
    """
    nodes, edges = SIZES[size]
    graph, edge_index = synthetic_graph(nodes, edges)
    signal = torch.randn(nodes, channels, requires_grad=True)
    z_bar = torch.randn(nodes, channels)
    matrix = graph.matrix(torch.float32)

    def products() -> None:
        y = signal.detach()
        for _ in range(K):
            y = matrix @ y

    def contender(layer: torch.nn.Module, *graph_arguments: Any) -> dict[str, Callable[[], object]]:
        def forward() -> None:
            with torch.no_grad():
                layer(signal, *graph_arguments)

        def step() -> None:
            layer.zero_grad(set_to_none=True)
            signal.grad = None
            layer(signal, *graph_arguments).backward(z_bar)

        return {"forward": forward, "step": step}

    contenders = {
        "optimal basis": contender(OptBasisConv(channels, K), graph),
        "learnable basis": contender(FavardConv(channels, K), graph),
    }
    slow = {}
    if reference is not None:
        module = load_reference(reference)
        both_directions, weight = module.normalised_adjacency(edge_index, nodes)
        slow["message passing"] = contender(module.OptBasisFilter(channels, K), both_directions, weight)
        slow["PyG ChebConv"] = contender(ChebConv(channels, channels, K + 1, bias=False), both_directions)

    fast = {f"{name} {kind}": call for name, calls in contenders.items() for kind, call in calls.items()}
    seconds = best_seconds({"products": products, **fast}, repeats)
    seconds |= best_seconds(
        {f"{name} {kind}": call for name, calls in slow.items() for kind, call in calls.items()},
        2 if nodes < 50_000 else 1,
    )

    unit_seconds, unit_bytes = seconds["products"], nodes * channels * 4
    rows: list[dict[str, Any]] = [{"contender": f"{K} torch sparse products", "forward": unit_seconds}]
    for name, calls in (contenders | slow).items():
        clear_kernels(graph.operator(torch.float32, torch.device("cpu")))  # frees the pooled buffers of earlier calls
        step_bytes = peak_growth(calls["step"])
        rows.append(
            {
                "contender": name,
                "forward": seconds[f"{name} forward"],
                "step": seconds[f"{name} step"],
                "peak": step_bytes,
            }
        )
    for row in rows:
        row |= {"graph": size, "nodes": nodes, "edges": graph.num_edges, "K": K, "channels": channels}
        row["forward_ratio"] = row["forward"] / unit_seconds
        if "step" in row:
            row["step_ratio"] = row["step"] / unit_seconds
            row["peak_vectors"] = None if row["peak"] is None else row["peak"] / unit_bytes
    return rows
