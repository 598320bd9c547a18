"""Batches of graphs: every graph has the same bits as on its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from conftest import random_graph, with_copies
from torch import Tensor

import polybasis as pb
from polybasis import native
from polybasis.krylov.basis import OptimalBasis
from polybasis.krylov.native_kernels import NativeKernels
from polybasis.recurrence import Recurrence

module: Any = native.kernels()
if module is None:
    pytest.skip("polybasis was built without its native kernels", allow_module_level=True)

ISAS = ["plain", "avx2", "avx512"][: ["plain", "avx2", "avx512"].index(module.best_isa()) + 1]
K = 6


class Matrix(NamedTuple):
    """A matrix in compressed rows, with values in float64."""

    indptr: Tensor
    indices: Tensor
    values: Tensor

    @property
    def nodes(self) -> int:
        return len(self.indptr) - 1

    def operator(self, dtype: torch.dtype, isa: str, ptr: Tensor | None = None) -> Any:
        kind = "F32" if dtype == torch.float32 else "F64"
        bits = "I32" if self.indices.dtype == torch.int32 else "I64"
        return getattr(module, f"Operator{kind}{bits}")(self.indptr, self.indices, self.values.to(dtype), isa, ptr)


EMPTY = Matrix(torch.zeros(1, dtype=torch.int32), torch.zeros(0, dtype=torch.int32), torch.zeros(0).double())


def matrix_of(graph: pb.Graph) -> Matrix:
    return Matrix(graph.indptr.int(), graph.indices.int(), graph.values(torch.float64))


def small_graph(nodes: int, seed: int) -> Matrix:
    return matrix_of(random_graph(nodes, 2 * nodes, seed)) if nodes else EMPTY


def block_diagonal(matrices: list[Matrix]) -> tuple[Matrix, Tensor]:
    """The matrix of all graphs and their ptr."""
    ptr = torch.tensor([0, *np.cumsum([matrix.nodes for matrix in matrices])])
    edges = torch.tensor([0, *np.cumsum([len(matrix.indices) for matrix in matrices])], dtype=torch.int32)
    indptr = [matrix.indptr[1:] + edge for matrix, edge in zip(matrices, edges[:-1], strict=True)]
    indices = [matrix.indices + first.int() for matrix, first in zip(matrices, ptr[:-1], strict=True)]
    values = [matrix.values for matrix in matrices]
    return Matrix(torch.cat([edges[:1], *indptr]), torch.cat(indices), torch.cat(values)), ptr


def mixed_graphs() -> list[Matrix]:
    """100 graphs of 0 to 50 nodes, a large, a dense and a compressed one."""
    sizes = [0, 1, 2, 0, *np.random.default_rng(1).integers(0, 51, 96)]
    matrices = [small_graph(int(nodes), seed) for seed, nodes in enumerate(sizes)]
    pairs = torch.combinations(torch.arange(60)).T
    dense = pb.Graph.from_edge_index(pairs, 60, torch.rand(pairs.shape[1], generator=torch.Generator().manual_seed(2)))
    matrices.insert(20, matrix_of(random_graph(3000, 20_000)))
    matrices.insert(50, matrix_of(dense))
    matrices.insert(70, matrix_of(with_copies(random_graph(20, 80), 6)))
    return matrices


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


def set_threads(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)


class Inputs(NamedTuple):
    x: Tensor
    z_bar: Tensor
    alpha: Tensor  # (G, K+1, d)
    recurrence: Recurrence
    weights: Tensor  # alpha of the recurrence, (K+1, d)

    def of(self, g: int, ptr: Tensor) -> Inputs:
        """The inputs of one graph."""
        rows = slice(int(ptr[g]), int(ptr[g + 1]))
        return self._replace(x=self.x[rows].clone(), z_bar=self.z_bar[rows].clone(), alpha=self.alpha[g].clone())


def draw_inputs(ptr: Tensor, width: int, dtype: torch.dtype) -> Inputs:
    """Signals whose size differs from graph to graph, some of them zero in a channel or constant in all of them."""
    graphs, nodes = len(ptr) - 1, int(ptr[-1])
    graph = torch.repeat_interleave(torch.arange(graphs), ptr.diff())
    x = torch.relu(torch.randn(nodes, width, dtype=torch.float64))
    x[graph % 7 == 3] = 1
    x[graph % 5 == 1, 0] = 0
    x *= 10.0 ** torch.randint(-9, 10, (graphs, 1))[graph]
    numbers = Recurrence(torch.rand(width, dtype=dtype) + 0.5, *torch.randn(3, K, width, dtype=dtype).unbind())
    return Inputs(
        x.to(dtype),
        torch.randn(nodes, width, dtype=dtype),
        torch.randn(graphs, K + 1, width, dtype=dtype),
        numbers,
        torch.randn(K + 1, width, dtype=dtype),
    )


class Results(NamedTuple):
    """What the kernels return; numbers of a graph first, then rows of signals, then vectors, then sums over graphs."""

    numbers: list[Tensor]
    signals: list[Tensor]
    vectors: list[Tensor]
    sums: list[Tensor]


def results(kernels: NativeKernels, inputs: Inputs) -> Results:
    x, z_bar, alpha, numbers, weights = inputs
    peak = kernels.peak(x)
    basis = kernels.optimal_basis(x, peak, K, last_gamma=True)
    Px = torch.empty_like(x)
    kernels.operator.product(x, Px, torch.get_num_threads())
    z = kernels.combine(basis.vectors, alpha)
    x_bar, alpha_bar = kernels.optimal_adjoint(basis, alpha, z_bar)
    signal_x_bar, _ = kernels.optimal_adjoint(basis, alpha, z_bar, signal=True)
    y, h = kernels.recurrence(x, weights, numbers, keep=True)
    assert h is not None
    assert torch.equal(y, kernels.recurrence(x, weights, numbers, keep=False)[0])
    y_bar, weights_bar, bars = kernels.recurrence_adjoint(h, weights, numbers, z_bar)
    return Results(
        [peak, *basis[1:], alpha_bar],
        [Px, z, x_bar, signal_x_bar, y, y_bar],
        [kernels.standard_layout(basis.vectors), kernels.standard_layout(h)],
        [weights_bar, *bars],
    )


@pytest.mark.parametrize("width", [1, 3, 64, 100])
@pytest.mark.parametrize("isa", ISAS)
def test_a_graph_has_the_same_bits_alone_and_in_a_batch(
    width: int, isa: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrices = mixed_graphs()
    whole, ptr = block_diagonal(matrices)
    inputs = draw_inputs(ptr, width, dtype)
    batch = NativeKernels(whole.operator(dtype, isa, ptr))
    assert batch.operator.is_compressed()
    set_threads(monkeypatch, 1)
    together = results(batch, inputs)
    set_threads(monkeypatch, 2)
    for one, two in zip(together, results(batch, inputs), strict=True):
        assert all(map(torch.equal, one, two))
    sums = [torch.zeros_like(total, dtype=torch.float64) for total in together.sums]
    for g, matrix in enumerate(matrices):
        set_threads(monkeypatch, 1 + g % 2)
        alone = results(NativeKernels(matrix.operator(dtype, isa)), inputs.of(g, ptr))
        rows = slice(int(ptr[g]), int(ptr[g + 1]))
        for numbers, expected in zip(together.numbers, alone.numbers, strict=True):
            assert torch.equal(numbers[g], expected)
        for signal, expected in zip(together.signals, alone.signals, strict=True):
            assert torch.equal(signal[rows], expected)
        for vectors, expected in zip(together.vectors, alone.vectors, strict=True):
            assert torch.equal(vectors[:, rows], expected)
        for total, part in zip(sums, alone.sums, strict=True):
            total += part
    eps = torch.finfo(dtype).eps
    for total, expected in zip(together.sums, sums, strict=True):
        assert torch.isfinite(total).all()
        torch.testing.assert_close(
            total.double(), expected, rtol=1e3 * eps, atol=1e2 * eps * float(expected.abs().max())
        )


def test_coefficients_of_all_graphs(dtype: torch.dtype) -> None:
    """One alpha for all graphs is the same as a copy of it for each graph."""
    matrices = [small_graph(nodes, nodes) for nodes in (5, 0, 17, 1, 30)]
    whole, ptr = block_diagonal(matrices)
    inputs = draw_inputs(ptr, 40, dtype)
    kernels = NativeKernels(whole.operator(dtype, module.best_isa(), ptr))
    basis = kernels.optimal_basis(inputs.x, kernels.peak(inputs.x), K, last_gamma=False)
    shared = inputs.alpha[0]
    copies = shared.expand(len(matrices), -1, -1).contiguous()
    assert torch.equal(kernels.combine(basis.vectors, shared), kernels.combine(basis.vectors, copies))
    for got, expected in zip(
        kernels.optimal_adjoint(basis, shared, inputs.z_bar),
        kernels.optimal_adjoint(basis, copies, inputs.z_bar),
        strict=True,
    ):
        assert torch.equal(got, expected)


def test_ranks_are_those_of_each_graph(dtype: torch.dtype) -> None:
    """A constant signal on a cycle is an eigenvector; the rank is at most the number of nodes, and 0 for no signal."""
    ring = torch.arange(12)
    cycle = matrix_of(pb.Graph.from_edge_index(torch.stack([ring, (ring + 1) % 12]), 12))
    path = matrix_of(pb.Graph.from_edge_index([[0, 1], [1, 2]], 3))
    whole, ptr = block_diagonal([cycle, EMPTY, path, small_graph(1, 0), small_graph(40, 1)])
    kernels = NativeKernels(whole.operator(dtype, module.best_isa(), ptr))
    x = torch.rand(len(whole.indptr) - 1, 2, dtype=dtype)
    x[:12] = 1
    x[15, 1] = 0
    basis = kernels.optimal_basis(x, kernels.peak(x), K, last_gamma=False)
    assert basis.rank.tolist() == [[1, 1], [0, 0], [3, 3], [1, 0], [K + 1, K + 1]]
    assert basis.gamma.shape == basis.sqrt_beta.shape == (5, K + 1, 2)


@pytest.mark.parametrize("graphs", [0, 1, 3])
def test_batches_without_nodes(graphs: int, dtype: torch.dtype) -> None:
    kernels = NativeKernels(EMPTY.operator(dtype, module.best_isa(), torch.zeros(graphs + 1, dtype=torch.int64)))
    found = results(kernels, draw_inputs(torch.zeros(graphs + 1, dtype=torch.int64), 3, dtype))
    assert [len(numbers) for numbers in found.numbers] == [graphs] * 5
    for total in found.sums:
        assert (total == 0).all()


def test_a_batch_of_one_graph_has_a_leading_axis(dtype: torch.dtype) -> None:
    matrix = small_graph(30, 0)
    kernels = NativeKernels(matrix.operator(dtype, module.best_isa(), torch.tensor([0, 30])))
    assert kernels.operator.num_graphs() == 1
    assert matrix.operator(dtype, module.best_isa()).num_graphs() is None
    x = torch.randn(30, 2, dtype=dtype)
    assert kernels.peak(x).shape == (1, 2)


def test_an_operator_checks_ptr() -> None:
    whole, ptr = block_diagonal([small_graph(4, 0), small_graph(5, 1)])
    for malformed, message in (
        ([0, 4], "ptr must end at the number of nodes, 9, not at 4"),
        ([0, 4, 10], "ptr must end at the number of nodes, 9, not at 10"),
        ([1, 4, 9], "ptr must start at 0"),
        ([0, 10, 4, 9], "ptr must not decrease"),
        ([0, -1, 9], "ptr must not decrease"),
        ([], "ptr must be a vector"),
        ([[0, 9]], "ptr must be a vector"),
        ([0, 2, 9], r"indices joins node 0 of graph 0, which has the nodes from 0 to 1, with node \d"),
    ):
        with pytest.raises(ValueError, match=message):
            whole.operator(torch.float64, "plain", torch.tensor(malformed, dtype=torch.int64))
    with pytest.raises(TypeError):
        whole.operator(torch.float64, "plain", ptr.int())


def test_a_batch_rejects_arrays_of_a_single_graph(dtype: torch.dtype) -> None:
    whole, ptr = block_diagonal([small_graph(4, 0), small_graph(5, 1)])
    kernels = NativeKernels(whole.operator(dtype, module.best_isa(), ptr))
    x = torch.randn(9, 3, dtype=dtype)
    basis = kernels.optimal_basis(x, kernels.peak(x), K, last_gamma=False)
    alpha = torch.randn(K + 1, 3, dtype=dtype)
    for call in (
        lambda: kernels.operator.peak(x, torch.zeros(3, dtype=torch.float64), 1),
        lambda: kernels.optimal_basis(x, torch.ones(3, dtype=torch.float64), K, last_gamma=False),
        lambda: kernels.combine(basis.vectors, alpha.expand(3, -1, -1).contiguous()),
        lambda: kernels.optimal_adjoint(OptimalBasis(basis[0], basis[1][0], *basis[2:]), alpha, x),
    ):
        with pytest.raises(ValueError, match="wrong shape"):
            call()


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("width", [0, 1, 3, 8, 13, 64, 100])
def test_edge_dots(width: int, isa: str, index: torch.dtype, dtype: torch.dtype) -> None:
    """Every nonzero receives the inner product of the rows that it joins, with any number of threads."""
    whole, ptr = block_diagonal([small_graph(20, 0), EMPTY, matrix_of(random_graph(600, 9000)), small_graph(7, 1)])
    whole = Matrix(whole.indptr.to(index), whole.indices.to(index), whole.values)
    u, v = torch.randn(2, whole.nodes, width, dtype=dtype).unbind()
    before = torch.randn(len(whole.indices), dtype=torch.float64)
    rows = torch.repeat_interleave(torch.arange(whole.nodes), whole.indptr.long().diff())
    expected = before + (u.double()[rows] * v.double()[whole.indices.long()]).sum(1)
    first = None
    for batch in (None, ptr):
        operator = whole.operator(dtype, isa, batch)
        for threads in (1, 2):
            out = before.clone()
            operator.edge_dots(u, v, out, threads)
            torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
            first = out if first is None else first
            assert torch.equal(out, first)
