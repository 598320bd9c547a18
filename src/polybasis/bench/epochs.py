"""Time of a training epoch (step and evaluation), compared with message passing on dense features."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from polybasis.bench.filters import load_reference
from polybasis.bench.measure import best_seconds, synthetic_graph
from polybasis.data.catalogue import is_installed, load
from polybasis.data.dataset import NodeDataset
from polybasis.features import SparseFeatures, as_dense
from polybasis.nn import OptBasisGNN, ResidualFilterNet
from polybasis.nn.models.residual import Filter, PyGConv, edge_index_of

# For each data set: its nodes, edges, features and nonzero features; the published hyperparameters of OptBasisGNN.
SIZES: dict[str, tuple[tuple[int, int, int, int], dict[str, Any]]] = {
    "chameleon": ((2_277, 31_371, 2_325, 29_157), {"K": 16, "dropout": 0.2, "dropout2": 0.6}),
    "squirrel": ((5_201, 198_353, 2_089, 93_477), {"K": 20, "dropout": 0.0, "dropout2": 0.5}),
}


def bench_epochs(
    size: str, *, repeats: int = 5, reference: Path | None = None, data_root: str | None = None
) -> list[dict[str, Any]]:
    """Times an epoch of OptBasisGNN and, if given, of a reference implementation.

    Args:
        size: ``chameleon`` or ``squirrel``.
        repeats: number of timed epochs; the fastest is reported. The reference runs twice after a warm-up.
        reference: path of the message-passing implementation; omitted by default.
        data_root: folder of the data sets. If the data set is not installed, a synthetic one of its size is used.

    Returns:
        One row per implementation: ``data``, ``contender``, ``seconds``, ``times`` (relative to polybasis) and the
        hyperparameters.

    Raises:
        FileNotFoundError: if ``reference`` does not exist.
    """
    hyperparameters = SIZES[size][1]
    installed = is_installed(size, data_root)
    data = load(size, data_root) if installed else _synthetic(size)
    x = data.x
    calls = {"polybasis": _epoch(OptBasisGNN(data.num_features, 64, 5, **hyperparameters), data.y, x, data.graph)}
    seconds = best_seconds(calls, repeats)
    if reference is not None:
        module = load_reference(reference)
        model = module.OptBasisGNN(data.num_features, 64, 5, **hyperparameters)
        edge_index, weight = module.normalised_adjacency(data.graph.edge_index(), data.graph.num_nodes)
        dense = x.to_dense() if isinstance(x, SparseFeatures) else x
        seconds |= best_seconds({"message passing, dense": _epoch(model, data.y, dense, edge_index, weight)}, 2)
    ours = seconds["polybasis"]
    return [
        {
            "data": size if installed else f"{size}-sized",
            "contender": name,
            "seconds": value,
            "times": value / ours,
            **hyperparameters,
        }
        for name, value in seconds.items()
    ]


def bench_residual_epochs(*, repeats: int = 5, data_root: str | None = None) -> list[dict[str, Any]]:
    """Times an epoch of the residual network, with filters of this package and with PyG's ``ChebConv`` in its blocks.

    ``ChebConv`` has the same degree and the same number of products, and a dense matrix for every degree besides.

    Args:
        repeats: number of timed epochs; the fastest is reported. ``ChebConv`` runs twice after a warm-up.
        data_root: folder of the data sets. If tolokers is not installed, a synthetic graph of its size is used.

    Returns:
        One row per filter, as in :func:`bench_epochs`; ``times`` is relative to ``favard``.
    """
    from torch_geometric.nn import ChebConv

    K, width, blocks = 4, 64, 3
    installed = is_installed("tolokers", data_root)
    if installed:
        data = load("tolokers", data_root)
        graph, x, y = data.graph, as_dense(data.x), data.y
    else:
        graph, _ = synthetic_graph(11_758, 519_000)
        x, y = torch.rand(11_758, 10), torch.randint(2, (11_758,))

    def network(name: Filter) -> ResidualFilterNet:
        return ResidualFilterNet(x.shape[1], width, 2, filter=name, blocks=blocks, K=K)

    passing = network("none")
    for block in passing.blocks:
        block.conv = PyGConv(ChebConv(width, width, K + 1), edge_index_of)
    names: tuple[Filter, ...] = ("favard", "optbasis", "gcn")
    seconds = best_seconds({name: _epoch(network(name), y, x, graph) for name in names}, repeats)
    seconds |= best_seconds({"PyG's ChebConv": _epoch(passing, y, x, graph)}, 2)
    return [
        {
            "data": "tolokers" if installed else "tolokers-sized",
            "contender": name,
            "K": 1 if name == "gcn" else K,
            "seconds": value,
            "times": value / seconds["favard"],
        }
        for name, value in seconds.items()
    ]


def _synthetic(size: str) -> NodeDataset:
    nodes, edges, features, nonzeros = SIZES[size][0]
    graph, _ = synthetic_graph(nodes, edges)
    rng = np.random.default_rng(0)
    indices = (rng.integers(0, nodes, nonzeros), rng.integers(0, features, nonzeros))
    x = sp.csr_array((np.full(nonzeros, 0.1), indices), shape=(nodes, features))
    y = torch.from_numpy(rng.integers(0, 5, nodes))
    return NodeDataset(name=size, graph=graph, x=SparseFeatures(x), y=y)


def _epoch(model: torch.nn.Module, y: Tensor, *inputs: Any) -> Callable[[], object]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)

    def epoch() -> None:
        model.train()
        optimizer.zero_grad()
        cross_entropy(model(*inputs), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(*inputs)

    return epoch
