"""The differentiable filters: gradients compared with autograd, stability, and memory kept for the backward pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import dense, graphs_with_signals, kernels_of, random_graph
from hypothesis import given
from torch import Tensor

import polybasis as pb
from polybasis.krylov import optimal_filter, recurrence_filter
from polybasis.krylov.reference_kernels import ReferenceKernels


def pseudo_code(P: Tensor, x: Tensor, alpha: Tensor) -> Tensor:
    """OptBasisFiltering as in the paper's appendix, on a dense matrix, for autograd to differentiate."""
    v = x / torch.linalg.vector_norm(x, dim=0)
    before = torch.zeros_like(v)
    z = alpha[0] * v
    for k in range(1, len(alpha)):
        w = P @ v
        w = w - (w * v).sum(0) * v - (w * before).sum(0) * before
        v, before = w / torch.linalg.vector_norm(w, dim=0), v
        z = z + alpha[k] * v
    return z


@pytest.mark.parametrize("seed", range(6))
def test_gradient_of_the_optimal_filter_agrees_with_autograd(seed: int) -> None:
    graph = random_graph(40, 120, seed)
    x = torch.randn(40, 3, dtype=torch.float64, requires_grad=True)
    alpha = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    z_bar = torch.randn(40, 3, dtype=torch.float64)
    z, expected = optimal_filter(graph, x, alpha), pseudo_code(dense(graph), x, alpha)
    torch.testing.assert_close(z, expected, rtol=1e-9, atol=1e-9)
    for got, autograd in zip(
        torch.autograd.grad(z, (x, alpha), z_bar), torch.autograd.grad(expected, (x, alpha), z_bar), strict=True
    ):
        torch.testing.assert_close(got, autograd, rtol=1e-8, atol=1e-8)


def orthogonalised(P: Tensor, x: Tensor, alpha: Tensor) -> Tensor:
    """As above, but every vector is orthogonalised twice against all earlier ones; autograd through this is stable."""
    V = [x / torch.linalg.vector_norm(x, dim=0)]
    for _ in range(1, len(alpha)):
        w = P @ V[-1]
        for _ in range(2):
            for v in V:
                w = w - (w * v).sum(0) * v
        V.append(w / torch.linalg.vector_norm(w, dim=0))
    return torch.einsum("kd,knd->nd", alpha, torch.stack(V))


def dense_graph(kind: str) -> pb.Graph:
    rng = np.random.default_rng(0)
    if kind == "bipartite":
        rows, columns = np.nonzero(rng.random((80, 80)) < 0.8)
        return pb.Graph.from_edge_index(np.stack([rows, columns + 80]), 160)
    upper = np.triu(rng.random((300, 300)) < float(kind) / 300, 1)
    return pb.Graph.from_edge_index(np.stack(np.nonzero(upper)), 300)


@pytest.mark.parametrize("K", [10, 15, 20, 64])
@pytest.mark.parametrize("kind", ["8", "60", "100", "150", "bipartite"])
@pytest.mark.parametrize("kernels", ["native", "reference"])
def test_gradient_is_stable_on_dense_graphs(kernels: str, kind: str, K: int) -> None:
    """The largest eigenvalue of a dense graph is 1; the others lie within ±2/sqrt(degree). Its eigenvector converges in
    a few steps, and a three-term adjoint then amplifies rounding errors along it by sqrt(degree) per step."""
    graph = dense_graph(kind)
    N = graph.num_nodes
    x = torch.randn(N, 3).double().requires_grad_()
    alpha = torch.randn(K + 1, 3).double().requires_grad_()
    z_bar = torch.randn(N, 3).double()
    exact = torch.autograd.grad(orthogonalised(dense(graph), x, alpha), (x, alpha), z_bar)
    for dtype, most in ((torch.float32, 1e-3), (torch.float64, 1e-8)):
        signal, weights = x.detach().to(dtype), alpha.detach().to(dtype)
        use = kernels_of(graph, signal) if kernels == "native" else ReferenceKernels(graph.matrix(dtype))
        basis = use.optimal_basis(signal, use.peak(signal), K, last_gamma=False)
        for got, expected in zip(use.optimal_adjoint(basis, weights, z_bar.to(dtype)), exact, strict=True):
            assert (got - expected).abs().max() <= most * expected.abs().max()


def test_training_in_float32_agrees_with_float64() -> None:
    """The losses after sixty steps agree."""
    graph = dense_graph("100")
    target = torch.randn(graph.num_nodes, 8, dtype=torch.float64)
    losses = []
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(1)
        linear, conv = torch.nn.Linear(16, 8).to(dtype), pb.nn.OptBasisConv(8, K=15).to(dtype)
        x = torch.randn(graph.num_nodes, 16, generator=torch.Generator().manual_seed(2)).to(dtype)
        optimizer = torch.optim.Adam([*linear.parameters(), *conv.parameters()], lr=0.02)
        for _ in range(60):
            optimizer.zero_grad()
            loss = (conv(torch.relu(linear(x)), graph) - target.to(dtype)).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(float(loss.detach()))
    assert abs(losses[0] - losses[1]) <= 0.02 * losses[1]


@pytest.mark.parametrize(
    ("dtype", "nodes", "weight", "K"),
    [(torch.float64, 30, 1e-12, 40), (torch.float64, 60, 1e-6, 80), (torch.float32, 100, 1e-4, 120)],
)
def test_gradient_is_finite_after_many_small_residuals(dtype: torch.dtype, nodes: int, weight: float, K: int) -> None:
    """A path with heavy self-loops: every residual is as small as an edge weight, and the basis ends before K."""
    loops, path = np.stack([np.arange(nodes)] * 2), np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    weights = np.concatenate([np.linspace(1, 2, nodes), np.full(nodes - 1, weight)])
    graph = pb.Graph.from_edge_index(np.concatenate([loops, path], 1), nodes, weights, self_loops="keep")
    x = torch.zeros(nodes, 1, dtype=dtype)
    x[0] = 1
    x.requires_grad_()
    alpha = torch.randn(K + 1, 1).to(dtype).requires_grad_()
    for numbers in torch.autograd.grad(optimal_filter(graph, x, alpha).square().sum(), (x, alpha)):
        assert torch.isfinite(numbers).all()


@pytest.mark.parametrize("K", [0, 1, 2, 5])
def test_optimal_filter_passes_gradcheck(K: int) -> None:
    graph = random_graph(25, 60)
    x = torch.randn(25, 3, dtype=torch.float64, requires_grad=True)
    alpha = torch.randn(K + 1, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, alpha: optimal_filter(graph, x, alpha), (x, alpha))


@pytest.mark.parametrize("K", [0, 1, 2, 5])
def test_recurrence_filter_passes_gradcheck(K: int) -> None:
    graph = random_graph(25, 60)
    x = torch.randn(25, 3, dtype=torch.float64, requires_grad=True)
    alpha = torch.randn(K + 1, 3, dtype=torch.float64, requires_grad=True)
    s = torch.rand(3, dtype=torch.float64, requires_grad=True)
    a, b, c = (torch.randn(K, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(lambda *inputs: recurrence_filter(graph, *inputs), (x, alpha, s, a, b, c))


@given(graphs_with_signals())
def test_gradient_is_finite_at_any_rank(case: tuple[pb.Graph, Tensor]) -> None:
    graph, x = case
    x.requires_grad_()
    alpha = torch.ones(8, x.shape[1], dtype=torch.float64, requires_grad=True)
    z = optimal_filter(graph, x, alpha)
    z.square().sum().backward()
    assert x.grad is not None
    assert alpha.grad is not None
    for numbers in (z, x.grad, alpha.grad):
        assert torch.isfinite(numbers).all()
    zero = (x == 0).all(0)
    assert torch.equal(x.grad[:, zero], torch.zeros_like(x.grad[:, zero]))


def test_gradient_of_the_reference_kernels_agrees_with_autograd() -> None:
    """Other devices use these kernels."""
    graph = random_graph(30, 70)
    kernels = ReferenceKernels(graph.matrix(torch.float64))
    x = torch.randn(30, 2, dtype=torch.float64, requires_grad=True)
    alpha = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    z = pseudo_code(dense(graph), x, alpha)
    z_bar = torch.randn_like(z)
    basis = kernels.optimal_basis(x.detach(), kernels.peak(x.detach()), 3, last_gamma=False)
    for got, autograd in zip(
        kernels.optimal_adjoint(basis, alpha.detach(), z_bar), torch.autograd.grad(z, (x, alpha), z_bar), strict=True
    ):
        torch.testing.assert_close(got, autograd, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [64, 65, 100, 200])
def test_channels_of_wide_signals_are_independent(width: int, dtype: torch.dtype) -> None:
    """Values, gradients and bases of a wide signal are those of its halves."""
    graph, K = random_graph(300, 1500), 4
    x = torch.randn(300, width, dtype=dtype, requires_grad=True)
    alpha = torch.randn(K + 1, width, dtype=dtype, requires_grad=True)
    numbers = [torch.rand(width, dtype=dtype) + 0.5, *torch.randn(3, K, width, dtype=dtype).unbind()]
    half = width // 2
    for use in (
        lambda here: optimal_filter(graph, x[:, here], alpha[:, here]),
        lambda here: recurrence_filter(graph, x[:, here], alpha[:, here], *(n[..., here] for n in numbers)),
        lambda here: pb.optimal_basis(graph, x[:, here], K).vectors[2] * x[:, here] * alpha[0, here],
        lambda here: (graph @ x[:, here]) * alpha[1, here],
    ):
        whole = use(slice(None))
        parts = torch.cat([use(slice(half)), use(slice(half, None))], dim=1)
        torch.testing.assert_close(whole, parts)
        for got, expected in zip(
            torch.autograd.grad(whole.sum(), (x, alpha)), torch.autograd.grad(parts.sum(), (x, alpha)), strict=True
        ):
            torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("K", [3, 10])
def test_only_the_basis_is_saved_for_the_backward_pass(K: int) -> None:
    """Besides its arguments, autograd saves (K+1) N d numbers, and nothing of the size of the edges."""
    graph = random_graph(500, 20_000)
    x = torch.randn(500, 8, requires_grad=True)
    alpha = torch.ones(K + 1, 8, requires_grad=True)
    numbers = [torch.ones(8, requires_grad=True)] + [torch.ones(K, 8, requires_grad=True) for _ in range(3)]
    for use in (lambda: optimal_filter(graph, x, alpha), lambda: recurrence_filter(graph, x, alpha, *numbers)):
        kept = []
        arguments = {t.data_ptr() for t in (x, *graph.operator(x.dtype, x.device).matrix[:3])}

        def pack(tensor: Tensor, kept: list[int] = kept, arguments: set[int] = arguments) -> Tensor:
            if tensor.data_ptr() not in arguments:
                kept.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            use()
        small = 6 * (K + 1) * 8
        assert sum(kept) <= (K + 1) * 500 * 8 + small


def test_a_filter_without_gradients_does_not_keep_its_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, x = random_graph(50, 200), torch.rand(50, 4)
    layer = pb.nn.FavardConv(4, 6)
    kernels = kernels_of(graph, x)
    kept, recurrence = [], kernels.recurrence
    monkeypatch.setattr(kernels, "recurrence", lambda *a, keep: (kept.append(keep), recurrence(*a, keep=keep))[1])
    layer(x, graph)
    with torch.no_grad():
        layer(x, graph)
    assert kept == [True, False]


def test_a_recurrence_with_zero_s_is_rejected() -> None:
    graph, one = random_graph(10, 20), torch.ones(1, 2)
    with pytest.raises(ValueError, match="s has an entry that is 0"):
        pb.krylov.recurrence_filter(graph, torch.rand(10, 2), torch.ones(2, 2), torch.tensor([1.0, 0.0]), one, one, one)


def test_a_recurrence_that_overflows_is_rejected() -> None:
    layer = pb.nn.FavardConv(2, K=30)
    with torch.no_grad():
        layer.sqrt_beta.fill_(0.01)
        layer.alpha.fill_(1)
    with pytest.raises(OverflowError, match="degree 30 exceeds the range"):
        layer(torch.rand(30, 2), random_graph(30, 90))


def test_coefficients_that_are_not_finite_are_rejected() -> None:
    graph, x = random_graph(30, 90), torch.rand(30, 2)
    alpha = torch.ones(4, 2)
    alpha[2, 1] = torch.nan
    with pytest.raises(ValueError, match=r"alpha\[2, 1\] is nan"):
        optimal_filter(graph, x, alpha)


@pytest.mark.parametrize("scale", [1e-37, 1e-30, 1.0, 1e30])
def test_gradient_of_tiny_and_huge_signals_is_finite(scale: float) -> None:
    graph = random_graph(30, 90)
    x = (torch.rand(30, 2) * scale).requires_grad_()
    optimal_filter(graph, x, torch.full((5, 2), 100.0)).square().sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_results_are_reproducible_to_the_bit() -> None:
    graph = random_graph(3000, 30_000)
    x = torch.rand(3000, 64)
    conv = pb.nn.OptBasisConv(64, K=10)
    results = []
    for _ in range(2):
        signal = x.clone().requires_grad_()
        z = conv(signal, graph)
        z.square().sum().backward()
        assert signal.grad is not None
        results.append((z.detach(), signal.grad))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
