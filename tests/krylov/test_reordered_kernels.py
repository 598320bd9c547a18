"""Kernels on reordered nodes agree with those on the original order, and are used where they are faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from conftest import kernels_of, random_graph, with_copies

import polybasis as pb
from polybasis import native
from polybasis.krylov import kernel_choice
from polybasis.krylov.native_kernels import MIN_POOLED_BYTES, NativeKernels
from polybasis.krylov.reordered_kernels import ReorderedKernels, Reordering
from polybasis.matrix import native_operator
from polybasis.recurrence import Recurrence

if native.kernels() is None:
    pytest.skip("polybasis was built without its native kernels", allow_module_level=True)

WIDTHS = [1, 2, 3, 5, 8, 16, 31, 33, 63, 64, 130]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
CPU = torch.device("cpu")


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


def close(got: torch.Tensor, expected: torch.Tensor) -> None:
    scale = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(got / scale, expected / scale, rtol=0, atol=TOLERANCE.get(got.dtype, 0))


def lattice(side: int, *, shuffled: bool, edges_kept: float = 1.0) -> pb.Graph:
    """A square grid with diagonals, with nodes in row-major or random order."""
    rng = np.random.default_rng(3)
    number = np.arange(side * side)
    if shuffled:
        rng.shuffle(number)
    node = number.reshape(side, side)
    pairs = [
        (node[:, :-1], node[:, 1:]),
        (node[:-1], node[1:]),
        (node[:-1, :-1], node[1:, 1:]),
        (node[:-1, 1:], node[1:, :-1]),
    ]
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in pairs], axis=1)
    return pb.Graph.from_edge_index(edges[:, rng.random(edges.shape[1]) < edges_kept], side * side)


def communities(count: int, size: int, degree: int) -> pb.Graph:
    """Nine of ten edges are within a community; the nodes are in random order."""
    rng = np.random.default_rng(4)
    nodes = count * size
    edges = nodes * degree // 2
    a, anywhere = rng.integers(nodes, size=(2, edges))
    b = np.where(rng.random(edges) < 0.9, a // size * size + rng.integers(size, size=edges), anywhere)
    return pb.Graph.from_edge_index(rng.permutation(nodes)[np.stack([a, b])], nodes)


def without_edges(nodes: int) -> pb.Graph:
    return pb.Graph.from_edge_index(np.zeros((2, 0), dtype=np.int64), nodes)


def saved(graph: pb.Graph) -> tuple[float, torch.Tensor]:
    order = torch.full((graph.num_nodes,), -1, dtype=graph.indices.dtype)
    operator: Any = graph.operator(torch.float32, CPU).native
    return operator.locality_order(order), order


def in_random_order(graph: pb.Graph, dtype: torch.dtype) -> tuple[ReorderedKernels, NativeKernels]:
    """Kernels on randomly ordered nodes and on the original order."""
    operator = graph.operator(dtype, CPU).native
    order = torch.randperm(graph.num_nodes).to(graph.indices.dtype)
    return Reordering(operator, graph.indptr, graph.indices, dtype).kernels_in(order), NativeKernels(operator)


@pytest.mark.parametrize("width", WIDTHS)
def test_optimal_basis_and_its_gradient(width: int, dtype: torch.dtype) -> None:
    K, graph = 5, random_graph(900, 6000)
    ours, theirs = in_random_order(graph, dtype)
    x = torch.relu(torch.randn(900, width, dtype=dtype))
    alpha, z_bar = torch.randn(K + 1, width, dtype=dtype), torch.randn(900, width, dtype=dtype)
    peak = ours.peak(x)
    assert torch.equal(peak, theirs.peak(x))
    got, expected = (kernels.optimal_basis(x, peak, K, last_gamma=True) for kernels in (ours, theirs))
    assert torch.equal(got.rank, expected.rank)
    close(ours.standard_layout(got.vectors), theirs.standard_layout(expected.vectors))
    for number, other in zip(got[1:3], expected[1:3], strict=True):
        close(number.to(dtype), other.to(dtype))
    close(ours.combine(got.vectors, alpha), theirs.combine(expected.vectors, alpha))
    for bar, other in zip(
        ours.optimal_adjoint(got, alpha, z_bar), theirs.optimal_adjoint(expected, alpha, z_bar), strict=True
    ):
        close(bar, other)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
def test_recurrence_and_its_gradient(width: int, keep: bool, dtype: torch.dtype) -> None:
    K, graph = 4, random_graph(900, 6000)
    ours, theirs = in_random_order(graph, dtype)
    x, z_bar = torch.randn(900, width, dtype=dtype), torch.randn(900, width, dtype=dtype)
    alpha = torch.randn(K + 1, width, dtype=dtype)
    numbers = Recurrence(torch.rand(width, dtype=dtype) + 0.5, *torch.randn(3, K, width, dtype=dtype).unbind())
    z, h = ours.recurrence(x, alpha, numbers, keep=keep)
    expected_z, expected_h = theirs.recurrence(x, alpha, numbers, keep=keep)
    close(z, expected_z)
    assert (h is not None) == (expected_h is not None) == keep
    if h is None or expected_h is None:
        return
    close(ours.standard_layout(h), theirs.standard_layout(expected_h))
    x_bar, alpha_bar, bars = ours.recurrence_adjoint(h, alpha, numbers, z_bar)
    expected_x_bar, expected_alpha_bar, expected_bars = theirs.recurrence_adjoint(expected_h, alpha, numbers, z_bar)
    for got, expected in zip(
        (x_bar, alpha_bar, *bars), (expected_x_bar, expected_alpha_bar, *expected_bars), strict=True
    ):
        close(got, expected)


def test_a_result_is_not_overwritten_by_the_next_one() -> None:
    """Internal results are pooled; those of the caller are not."""
    nodes = MIN_POOLED_BYTES // 256 + 1
    ring = torch.arange(nodes)
    graph = pb.Graph.from_edge_index(torch.stack([ring, (ring + 1) % nodes]))
    kernels, _ = in_random_order(graph, torch.float32)
    basis = kernels.optimal_basis(x := torch.rand(nodes, 64), kernels.peak(x), 1, last_gamma=False)
    first = kernels.combine(basis.vectors, torch.ones(2, 64))
    before = first.clone()
    kernels.combine(basis.vectors, torch.zeros(2, 64))
    assert torch.equal(first, before)


def test_a_product_is_bit_identical(dtype: torch.dtype) -> None:
    """The nonzeros of a row keep their order."""
    graph = random_graph(900, 6000)
    operator: Any = graph.operator(dtype, CPU).native
    order = torch.randperm(900).int()
    indptr, indices = torch.empty_like(graph.indptr), torch.empty_like(graph.indices)
    values = torch.empty(len(indices), dtype=dtype)
    operator.permute(order, indptr, indices, values)
    renumbered: Any = native_operator(indptr, indices, values)
    x = torch.randn(900, 64, dtype=dtype)
    y = torch.empty_like(x)
    renumbered.product(x[order.long()], y, 2)
    assert torch.equal(y, (graph @ x)[order.long()])


@pytest.mark.parametrize(
    "made",
    [lambda: lattice(320, shuffled=True), lambda: communities(300, 500, 10)],
    ids=["lattice", "communities"],
)
def test_an_order_is_found_where_neighbours_are_far_apart(made: Callable[[], pb.Graph]) -> None:
    graph = made()
    rows, order = saved(graph)
    assert rows > 1
    assert torch.equal(order.sort().values, torch.arange(graph.num_nodes, dtype=order.dtype))
    again_rows, again = saved(graph)
    assert again_rows == rows
    assert torch.equal(again, order)


@pytest.mark.parametrize(
    "made",
    [
        lambda: lattice(320, shuffled=False),
        lambda: lattice(50, shuffled=True),
        lambda: random_graph(150_000, 600_000),
        lambda: with_copies(lattice(130, shuffled=True), 6),
        lambda: without_edges(1000),
        lambda: without_edges(0),
    ],
    ids=["already local", "small", "random", "compressed", "no edges", "no nodes"],
)
def test_no_order_is_found_where_none_is_better(made: Callable[[], pb.Graph]) -> None:
    assert saved(made())[0] == 0


def test_large_signals_are_filtered_on_reordered_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = lattice(370, shuffled=True, edges_kept=0.9)  # edges are removed so that no two rows are equal
    x, K = torch.randn(graph.num_nodes, 64), 4
    assert isinstance(kernels_of(graph, x, K), ReorderedKernels)
    assert isinstance(kernels_of(graph, x, 1), NativeKernels)
    assert isinstance(kernels_of(graph, x), NativeKernels)
    assert isinstance(kernels_of(graph, x[:, :8], K), NativeKernels)

    def trained() -> list[torch.Tensor]:
        signal, alpha = x.clone().requires_grad_(), torch.linspace(1, 2, (K + 1) * 64).view(K + 1, 64).requires_grad_()
        z = pb.krylov.optimal_filter(graph, signal, alpha)
        z.square().sum().backward()
        assert signal.grad is not None
        assert alpha.grad is not None
        return [z.detach(), signal.grad, alpha.grad]

    reordered = trained()
    threads = torch.get_num_threads()
    torch.set_num_threads(2 if threads == 1 else 1)
    again = trained()
    torch.set_num_threads(threads)
    for got, expected in zip(again, reordered, strict=True):
        assert torch.equal(got, expected)
    monkeypatch.setattr(kernel_choice, "MIN_PANEL_BYTES", 1 << 60)
    assert isinstance(kernels_of(graph, x, K), NativeKernels)
    for got, expected in zip(reordered, trained(), strict=True):
        close(got, expected)


def test_orders_are_checked() -> None:
    graph = random_graph(10, 20)
    operator: Any = graph.operator(torch.float32, CPU).native
    arrays = graph.indptr.clone(), graph.indices.clone(), graph.values(torch.float32)
    x = torch.zeros(10, 2)
    for order in ([0] * 10, [*range(9), 10], [*range(9), -1]):
        with pytest.raises(ValueError, match="order is not a permutation"):
            operator.permute(torch.tensor(order, dtype=torch.int32), *arrays)
    with pytest.raises(ValueError, match="order has a node out of range"):
        operator.take(x, torch.full((10,), 10, dtype=torch.int32), torch.empty_like(x), 1)
    with pytest.raises(ValueError, match="order has the wrong shape"):
        operator.take(x, torch.zeros(9, dtype=torch.int32), torch.empty_like(x), 1)
    with pytest.raises(ValueError, match="order has the wrong shape"):
        operator.locality_order(torch.zeros(9, dtype=torch.int32))
