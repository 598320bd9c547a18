"""The native kernels against the torch reference on every available instruction set, and their argument checks."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
import torch
from conftest import dense, random_graph, with_copies
from hypothesis import given
from hypothesis import strategies as st

import polybasis as pb
from polybasis import native
from polybasis.krylov.native_kernels import NativeKernels
from polybasis.krylov.reference_kernels import ReferenceKernels
from polybasis.matrix import native_operator
from polybasis.recurrence import Recurrence

module: Any = native.kernels()
if module is None:
    pytest.skip("polybasis was built without its native kernels", allow_module_level=True)

ISAS = ["plain", "avx2", "avx512"][: ["plain", "avx2", "avx512"].index(module.best_isa()) + 1]
WIDTHS = [1, 2, 3, 5, 8, 16, 31, 33, 63, 64, 130]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-11}


def close(got: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    scale = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(got / scale, expected / scale, rtol=0, atol=TOLERANCE[dtype])


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest) -> str:
    return request.param


def alike_graph(nodes: int, groups: int) -> pb.Graph:
    """Every node has most of the 40 common neighbours of its group."""
    random = torch.Generator().manual_seed(5)
    common = torch.randint(nodes, (groups, 40), generator=random)
    chosen = common[torch.arange(nodes) % groups]
    kept = torch.rand(chosen.shape, generator=random) < 0.95
    source = torch.arange(nodes).unsqueeze(1).expand_as(chosen)
    return pb.Graph.from_edge_index(torch.stack([source[kept], chosen[kept]]), nodes)


@pytest.fixture(params=["plain", "twins", "alike"])
def graph(request: pytest.FixtureRequest) -> pb.Graph:
    """900 nodes: random, in groups of 6 with the same neighbours, or in groups of 90 with nearly the same ones."""
    if request.param == "alike":
        return alike_graph(900, 10)
    return random_graph(900, 6000) if request.param == "plain" else with_copies(random_graph(150, 600), 6)


def both(graph: pb.Graph, dtype: torch.dtype, isa: str) -> tuple[NativeKernels, ReferenceKernels]:
    operator = native_operator(graph.indptr, graph.indices, graph.values(dtype), isa=isa)
    return NativeKernels(operator), ReferenceKernels(graph.matrix(dtype))


@pytest.mark.parametrize("width", WIDTHS)
def test_optimal_basis_and_its_gradient(graph: pb.Graph, width: int, dtype: torch.dtype, isa: str) -> None:
    K = 5
    fast, reference = both(graph, dtype, isa)
    x = torch.relu(torch.randn(900, width, dtype=dtype))
    alpha, z_bar = torch.randn(K + 1, width, dtype=dtype), torch.randn(900, width, dtype=dtype)
    ours = fast.optimal_basis(x, fast.peak(x), K, last_gamma=True)
    theirs = reference.optimal_basis(x, reference.peak(x), K, last_gamma=True)
    assert torch.equal(ours.rank, theirs.rank)
    close(fast.standard_layout(ours.vectors), theirs.vectors, dtype)
    for got, expected in zip(ours[1:3], theirs[1:3], strict=True):
        close(got, expected, dtype)
    close(fast.combine(ours.vectors, alpha), reference.combine(theirs.vectors, alpha), dtype)
    for got, expected in zip(
        fast.optimal_adjoint(ours, alpha, z_bar), reference.optimal_adjoint(theirs, alpha, z_bar), strict=True
    ):
        close(got, expected, dtype)


def filtered(P: torch.Tensor, x: torch.Tensor, alpha: torch.Tensor, signal: bool) -> torch.Tensor:
    """The optimal filter by Gram-Schmidt in differentiable torch operations, on a dense matrix."""
    norm = x.norm(dim=0)
    vectors = [x / norm]
    while len(vectors) < len(alpha):
        w = P @ vectors[-1]
        for v in 2 * vectors:
            w = w - (w * v).sum(0) * v
        vectors.append(w / w.norm(dim=0))
    z = sum(weight * v for weight, v in zip(alpha, vectors, strict=True))
    assert isinstance(z, torch.Tensor)
    return norm * z if signal else z


@pytest.mark.parametrize("K", [0, 1, 2, 5])
@pytest.mark.parametrize("signal", [False, True], ids=["unit", "signal"])
def test_scales_of_the_optimal_filter(K: int, signal: bool, dtype: torch.dtype, isa: str) -> None:
    """z = sum_k alpha_k v_k, or |x| times that: the gradients agree with automatic differentiation in float64."""
    graph, width = random_graph(80, 400), 40
    fast, _ = both(graph, dtype, isa)
    scale = 10.0 ** torch.randint(-5, 6, (width,))
    x = (scale * torch.randn(80, width, dtype=torch.float64)).to(dtype)
    alpha, z_bar = torch.randn(K + 1, width, dtype=dtype), torch.randn(80, width, dtype=dtype)
    basis = fast.optimal_basis(x, fast.peak(x), K, last_gamma=False)
    norm = basis.sqrt_beta[0] if signal else torch.ones(width, dtype=torch.float64)
    scaled = (alpha * norm).to(dtype)
    z = fast.combine(basis.vectors, scaled)
    x_bar, alpha_bar = fast.optimal_adjoint(basis, scaled, z_bar, signal=signal)
    exact_x, exact_alpha = x.double().requires_grad_(), alpha.double().requires_grad_()
    exact = filtered(dense(graph), exact_x, exact_alpha, signal)
    exact_x_bar, exact_alpha_bar = torch.autograd.grad(exact, (exact_x, exact_alpha), z_bar.double())
    atol = {torch.float32: 2e-5, torch.float64: 1e-10}[dtype]
    for got, expected in ((z, exact), (x_bar, exact_x_bar), (alpha_bar * norm, exact_alpha_bar)):
        size = expected.detach().abs().amax(0).clamp(min=1e-300)  # channels differ by ten orders of magnitude
        torch.testing.assert_close(got.double() / size, expected.detach() / size, rtol=0, atol=atol)


@pytest.mark.skipif("avx512" not in ISAS, reason="this processor has no AVX-512 to compare AVX2 with")
@pytest.mark.parametrize("width", WIDTHS)
def test_instruction_sets_are_bit_identical(graph: pb.Graph, width: int, dtype: torch.dtype) -> None:
    """Results do not depend on the width of the vector registers."""
    K = 5
    x, z_bar = torch.relu(torch.randn(900, width, dtype=dtype)), torch.randn(900, width, dtype=dtype)
    alpha = torch.randn(K + 1, width, dtype=dtype)
    numbers = Recurrence(torch.rand(width, dtype=dtype) + 0.5, *torch.randn(3, K, width, dtype=dtype).unbind())

    def made(isa: str) -> list[torch.Tensor]:
        kernels, _ = both(graph, dtype, isa)
        basis = kernels.optimal_basis(x, kernels.peak(x), K, last_gamma=True)
        z, h = kernels.recurrence(x, alpha, numbers, keep=True)
        assert h is not None
        x_bar, alpha_bar, bars = kernels.recurrence_adjoint(h, alpha, numbers, z_bar)
        learned = [*kernels.optimal_adjoint(basis, alpha, z_bar)]
        learned += kernels.optimal_adjoint(basis, alpha, z_bar, signal=True)
        edges = torch.zeros(len(graph.indices), dtype=torch.float64)
        kernels.operator.edge_dots(x, z_bar, edges, 1)
        return [*basis, kernels.combine(basis.vectors, alpha), *learned, z, h, x_bar, alpha_bar, *bars, edges]

    for narrow, wide in zip(made("avx2"), made("avx512"), strict=True):
        assert torch.equal(narrow, wide)


@pytest.mark.parametrize("width", WIDTHS)
def test_recurrence_and_its_gradient(graph: pb.Graph, width: int, dtype: torch.dtype, isa: str) -> None:
    K = 4
    fast, reference = both(graph, dtype, isa)
    x, z_bar = torch.randn(900, width, dtype=dtype), torch.randn(900, width, dtype=dtype)
    alpha = torch.randn(K + 1, width, dtype=dtype)
    numbers = Recurrence(torch.rand(width, dtype=dtype) + 0.5, *torch.randn(3, K, width, dtype=dtype).unbind())
    z, h = fast.recurrence(x, alpha, numbers, keep=True)
    expected_z, expected_h = reference.recurrence(x, alpha, numbers, keep=True)
    assert h is not None
    assert expected_h is not None
    close(z, expected_z, dtype)
    close(fast.standard_layout(h), expected_h, dtype)
    rolling, nothing = fast.recurrence(x, alpha, numbers, keep=False)
    assert nothing is None
    assert torch.equal(rolling, z)
    x_bar, alpha_bar, bars = fast.recurrence_adjoint(h, alpha, numbers, z_bar)
    expected_x_bar, expected_alpha_bar, expected_bars = reference.recurrence_adjoint(expected_h, alpha, numbers, z_bar)
    close(x_bar, expected_x_bar, dtype)
    close(alpha_bar, expected_alpha_bar, dtype)
    for got, expected in zip(bars, expected_bars, strict=True):
        close(got, expected, dtype)


def test_last_gamma_is_zero_unless_requested(dtype: torch.dtype) -> None:
    graph, K = random_graph(50, 200), 3
    operator = native_operator(graph.indptr, graph.indices, graph.values(dtype))
    assert operator is not None
    fast = NativeKernels(operator)
    x = torch.randn(50, 3 * operator.panel_width(), dtype=dtype)
    assert (fast.optimal_basis(x, fast.peak(x), K, last_gamma=False).gamma[K] == 0).all()


@given(
    nodes=st.integers(1, 60),
    edges=st.integers(0, 200),
    copies=st.integers(1, 4),
    width=st.integers(1, 100),
    K=st.integers(0, 9),
    double=st.booleans(),
    wide=st.booleans(),
    seed=st.integers(0, 999),
)
def test_random_sizes(
    nodes: int, edges: int, copies: int, width: int, K: int, double: bool, wide: bool, seed: int
) -> None:
    """Every kernel and index type is finite and agrees with the reference for any sizes."""
    dtype = torch.float64 if double else torch.float32
    graph = with_copies(random_graph(nodes, edges, seed), copies)
    nodes = graph.num_nodes
    index = torch.int64 if wide else torch.int32
    operator = native_operator(graph.indptr.to(index), graph.indices.to(index), graph.values(dtype))
    fast, reference = NativeKernels(operator), ReferenceKernels(graph.matrix(dtype))
    x = torch.randn(nodes, width, dtype=dtype)
    close(fast.peak(x), reference.peak(x), torch.float64)
    basis = fast.optimal_basis(x, fast.peak(x), K, last_gamma=bool(seed % 2))
    alpha = torch.randn(K + 1, width, dtype=dtype)
    z = fast.combine(basis.vectors, alpha)
    close(z, reference.combine(fast.standard_layout(basis.vectors), alpha), dtype)
    for bar in fast.optimal_adjoint(basis, alpha, z):
        assert torch.isfinite(bar).all()
    numbers = Recurrence(torch.ones(width, dtype=dtype), *torch.rand(3, K, width, dtype=dtype).unbind())
    z, h = fast.recurrence(x, alpha, numbers, keep=True)
    assert h is not None
    close(z, reference.recurrence(x, alpha, numbers, keep=False)[0], dtype)
    close(
        fast.recurrence_adjoint(h, alpha, numbers, z)[0],
        reference.recurrence_adjoint(fast.standard_layout(h), alpha, numbers, z)[0],
        dtype,
    )


def with_weights(graph: pb.Graph) -> pb.Graph:
    """The same edges with random weights."""
    row = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.indptr.diff())
    once = row < graph.indices
    edges = torch.stack([row[once], graph.indices[once].long()])
    weights = torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(6)) + 0.1
    return pb.Graph.from_edge_index(edges, graph.num_nodes, weights)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_are_compressed_where_that_saves_work(dtype: torch.dtype, threads: int) -> None:
    alike = alike_graph(900, 10)
    expected = (
        (random_graph(300, 2000), False),
        (with_copies(random_graph(100, 600), 3), True),
        (alike, True),
        (with_weights(alike), False),
    )
    for graph, compressed in expected:
        operator = native_operator(graph.indptr, graph.indices, graph.values(dtype))
        assert operator.is_compressed() == compressed
        assert (operator.num_row_deltas() > 0) == (graph is alike)
        x = torch.randn(graph.num_nodes, 71, dtype=dtype)
        y = torch.empty_like(x)
        operator.product(x, y, threads)
        close(y, (dense(graph) @ x.double()).to(dtype), dtype)


def around_a_hub(leaves: int) -> pb.Graph:
    """Node 0 has 40 neighbours and many leaves; the last 300 nodes have nearly all of the 40 neighbours."""
    random = torch.Generator().manual_seed(7)
    common = torch.arange(1, 41)
    later = torch.arange(41 + leaves, 41 + leaves + 300)
    kept = torch.rand(len(later), 40, generator=random) < 0.95
    others = torch.stack([later.unsqueeze(1).expand(-1, 40)[kept], common.expand(len(later), 40)[kept]])
    hub = torch.cat([common, torch.arange(41, 41 + leaves)])
    return pb.Graph.from_edge_index(torch.cat([torch.stack([torch.zeros_like(hub), hub]), others], 1), 341 + leaves)


@pytest.mark.parametrize("leaves", [10, 20_000])
def test_row_deltas_do_not_cost_accuracy(leaves: int, dtype: torch.dtype) -> None:
    graph = around_a_hub(leaves)
    operator = native_operator(graph.indptr, graph.indices, graph.values(dtype))
    assert operator.num_row_deltas() > 100
    x = torch.rand(graph.num_nodes, 3, generator=torch.Generator().manual_seed(8)).to(dtype)
    y = torch.empty_like(x)
    operator.product(x, y, 1)
    later, expected = y[-300:], (graph.matrix(torch.float64) @ x.double())[-300:]
    assert ((later - expected).abs() / expected).max() < 32 * torch.finfo(dtype).eps  # row by row, all terms positive


def test_an_operator_accepts_values_that_are_not_finite() -> None:
    graph = alike_graph(300, 5)
    values = graph.values(torch.float32)
    values[:2] = torch.nan
    operator = native_operator(graph.indptr, graph.indices, values)
    x = torch.ones(300, 2)
    y = torch.empty_like(x)
    operator.product(x, y, 1)
    assert y[0].isnan().all()
    operator.product(x[:, :0], y[:, :0].contiguous(), 2)


@pytest.mark.parametrize("row", [[1.0, 2, 3, 4, 5, 6, 7, 8] * 8, [1.0] * 32 + [0.0] * 32], ids=["values", "columns"])
def test_rows_of_an_asymmetric_matrix_are_not_compressed(row: list[float]) -> None:
    matrix = torch.tensor(row).repeat(64, 1).to_sparse_csr()
    indptr, indices = matrix.crow_indices().int(), matrix.col_indices().int()
    operator = native_operator(indptr, indices, matrix.values())
    assert not operator.is_compressed()
    x, y = torch.randn(64, 3), torch.empty(64, 3)
    operator.product(x, y, 1)
    close(y, matrix.to_dense() @ x, torch.float32)


def test_an_operator_checks_its_arrays() -> None:
    def make(indptr: list[int], indices: list[int], values: list[float], isa: str = "plain") -> Any:
        return module.OperatorF64I64(
            np.array(indptr, dtype=np.int64), np.array(indices, dtype=np.int64), np.array(values), isa
        )

    for arguments, message in (
        (([0, 1], [1], [1.0]), "indices has a node out of range"),
        (([0, 1], [-1], [1.0]), "indices has a node out of range"),
        (([0, 2, 1], [0], [1.0]), "indptr must not decrease"),
        (([1, 1], [0], [1.0]), "indptr must start at 0"),
        (([0, 5], [0], [1.0]), "indices has the wrong shape"),
        (([0, 1], [0], [1.0, 2.0]), "values has the wrong shape"),
        (([], [], []), "indptr must be a vector"),
        (([0, 1], [0], [1.0], "sse9"), "isa must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            make(*arguments)


def test_kernels_reject_arrays_of_wrong_shapes() -> None:
    graph = random_graph(10, 20)
    operator: Any = graph.operator(torch.float64, torch.device("cpu")).native
    signal = torch.zeros(10, 3, dtype=torch.float64)
    for call in (
        lambda: operator.product(signal, torch.zeros(10, 4, dtype=torch.float64), 1),
        lambda: operator.product(signal[:9], torch.zeros(9, 3, dtype=torch.float64), 1),
        lambda: operator.peak(signal, torch.zeros(2, dtype=torch.float64), 1),
        lambda: operator.combine(signal[None], torch.zeros(2, 3, dtype=torch.float64), signal, 1),
        lambda: operator.combine(torch.zeros(0, 10, 3, dtype=torch.float64), signal[:0], signal, 1),
    ):
        with pytest.raises(ValueError, match=r"shape|row|vector|channels"):
            call()
    with pytest.raises(TypeError):
        operator.product(signal.float(), signal, 1)
    with pytest.raises(TypeError):
        operator.product(signal.T, signal, 1)


def test_torch_replaces_missing_kernels_with_one_warning() -> None:
    script = """
        import sys, warnings
        sys.modules["polybasis._native"] = None
        import torch, polybasis as pb
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # building a graph is fast without the kernels
            graph = pb.Graph.from_edge_index(torch.randint(0, 50, (2, 200)), directed=False)
        conv = pb.nn.OptBasisConv(4, K=3)
        x = torch.rand(graph.num_nodes, 4, requires_grad=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(3):
                conv(x, graph).sum().backward()
        said = [str(w.message) for w in seen if "native kernels" in str(w.message)]
        assert len(said) == 1 and "C++ compiler" in said[0], said
        assert torch.isfinite(x.grad).all()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
