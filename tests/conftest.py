"""Graphs and signals that the tests draw, and the real data they look for."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import polybasis as pb

settings.register_profile("polybasis", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
settings.load_profile("polybasis")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def random_graph(nodes: int, edges: int, seed: int = 0) -> pb.Graph:
    """Pairs drawn with skewed degrees."""
    rng = np.random.default_rng(seed)
    weight = np.arange(1, nodes + 1) ** -0.5
    ends = rng.choice(nodes, size=(2, edges), p=weight / weight.sum())
    return pb.Graph.from_edge_index(ends, nodes)


def with_copies(graph: pb.Graph, copies: int) -> pb.Graph:
    """Every node several times over, copies having the same neighbours: all copies of the first one's."""
    rows = np.arange(graph.num_nodes).repeat(np.diff(graph.indptr))
    ends = np.stack([rows, graph.indices.numpy()])[:, rows <= graph.indices.numpy()]
    shifts = graph.num_nodes * np.stack(np.meshgrid(np.arange(copies), np.arange(copies))).reshape(2, -1)
    edges = (ends[:, :, None] + shifts[:, None, :]).reshape(2, -1)
    return pb.Graph.from_edge_index(edges, copies * graph.num_nodes)


def dense(graph: pb.Graph) -> torch.Tensor:
    """P as a dense matrix, built from its definition and not from the package's own values."""
    adjacency = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    rows = torch.arange(graph.num_nodes).repeat_interleave(torch.diff(graph.indptr.long()))
    weight = torch.ones(len(rows), dtype=torch.float64) if graph.weight is None else graph.weight
    adjacency[rows, graph.indices.long()] = weight
    degree = adjacency.sum(1)
    scale = torch.where(degree > 0, degree.clamp(min=1e-300).rsqrt(), 0)
    return scale[:, None] * adjacency * scale


@st.composite
def graphs(draw: st.DrawFn, most_nodes: int = 14) -> pb.Graph:
    """Small graphs, weighted or not, with loops or not, often disconnected or with isolated nodes."""
    nodes = draw(st.integers(1, most_nodes))
    node = st.integers(0, nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=3 * nodes, unique_by=lambda pair: tuple(sorted(pair))))
    edge_index = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    weight = None
    if draw(st.booleans()):
        weight = np.array(draw(st.lists(st.floats(0.1, 10), min_size=len(pairs), max_size=len(pairs))))
    return pb.Graph.from_edge_index(edge_index, nodes, weight, draw(st.sampled_from(["drop", "keep", "add"])))


@st.composite
def signals(draw: st.DrawFn, nodes: int, most_channels: int = 3) -> torch.Tensor:
    """Signals with channels of all kinds: random, of few values, constant, one node, zero."""
    channels = draw(st.integers(1, most_channels))
    seed = draw(st.integers(0, 2**20))
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(nodes, channels, generator=random, dtype=torch.float64)
    for channel in range(channels):
        kind = draw(st.sampled_from(["random", "random", "few values", "constant", "one node", "zero"]))
        if kind == "few values":
            x[:, channel] = torch.randint(-1, 2, (nodes,), generator=random).double()
        elif kind == "constant":
            x[:, channel] = 3.0
        elif kind == "one node":
            x[:, channel] = 0
            x[draw(st.integers(0, nodes - 1)), channel] = 2.0
        elif kind == "zero":
            x[:, channel] = 0
    return x


@st.composite
def graphs_with_signals(draw: st.DrawFn) -> tuple[pb.Graph, torch.Tensor]:
    graph = draw(graphs())
    return graph, draw(signals(graph.num_nodes))


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Where the real data sets are: POLYBASIS_TEST_DATA, or a folder `shared/data` beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    root = Path(os.environ.get("POLYBASIS_TEST_DATA", beside))
    if not root.is_dir():
        pytest.skip("no real data: set POLYBASIS_TEST_DATA to a folder with wikipedia/, actor/, planetoid/, ..")
    return root
