"""Properties of the optimal basis, each with its source."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import dense, graphs_with_signals, random_graph
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import polybasis as pb
from polybasis import native
from polybasis.krylov.rank import RankTolerance, stopping_error

K = 6


def defect(basis: pb.OptimalBasis) -> float:
    """max |VᵀV - I|, where I is truncated at the rank of each channel."""
    V = basis.vectors.double()
    gram = torch.einsum("jnd,knd->djk", V, V)
    steps = torch.arange(len(V))
    identity = torch.diag_embed((steps < basis.rank.unsqueeze(-1)).double())
    return float((gram - identity).abs().max())


def tridiagonal(basis: pb.OptimalBasis, channel: int) -> Tensor:
    off_diagonal = basis.sqrt_beta[1:, channel]
    return basis.gamma[:, channel].diag() + off_diagonal.diag(1) + off_diagonal.diag(-1)


@given(graphs_with_signals())
def test_orthonormal(case: tuple[pb.Graph, Tensor]) -> None:
    """Condition 1 of the paper's optimal vector basis, at any rank."""
    basis = pb.optimal_basis(*case, K)
    assert defect(basis) <= 1e-12
    for channel, rank in enumerate(basis.rank):
        assert torch.equal(basis.vectors[rank:, :, channel], torch.zeros_like(basis.vectors[rank:, :, channel]))


@given(graphs_with_signals())
def test_spans_the_krylov_space(case: tuple[pb.Graph, Tensor]) -> None:
    """Condition 2: every P^k x lies in the span of v_0 .. v_k."""
    graph, x = case
    basis = pb.optimal_basis(graph, x, K)
    power = x
    for k in range(K + 1):
        V = basis.vectors[: k + 1]
        projected = torch.einsum("jnd,jmd,md->nd", V, V, power)
        torch.testing.assert_close(projected, power, rtol=1e-9, atol=1e-9)
        power = graph @ power


@given(graphs_with_signals())
def test_three_terms_are_enough(case: tuple[pb.Graph, Tensor]) -> None:
    """Proposition "only two subtractions": P v_k = β_{k+1} v_{k+1} + γ_k v_k + β_k v_{k-1}; that is P V = V T with a
    residual in the last column only."""
    graph, x = case
    basis = pb.optimal_basis(graph, x, K)
    P = dense(graph)
    for channel in range(x.shape[1]):
        V = basis.vectors[:, :, channel].T
        difference = P @ V - V @ tridiagonal(basis, channel)
        assert difference[:, :-1].abs().max() <= 1e-12
        if V.shape[1] and basis.rank[channel] <= K:
            assert difference.abs().max() <= 1e-12


@given(graphs_with_signals())
def test_the_norm_of_the_residual_is_the_projection_onto_the_previous_vector(case: tuple[pb.Graph, Tensor]) -> None:
    """The paper's lemma: ‖v⊥_k‖ = <P v_k, v_{k-1}>."""
    graph, x = case
    basis = pb.optimal_basis(graph, x, K)
    for k in range(1, K + 1):
        projection = ((graph @ basis.vectors[k]) * basis.vectors[k - 1]).sum(0)
        torch.testing.assert_close(projection, basis.sqrt_beta[k], rtol=1e-12, atol=1e-12)


@given(graphs_with_signals())
def test_hessian_of_the_squared_loss_is_the_identity(case: tuple[pb.Graph, Tensor]) -> None:
    """The paper's definition of optimal: the Hessian of ½‖Σ α_k v_k - y‖² with respect to α is the identity."""
    graph, x = case
    basis = pb.optimal_basis(graph, x, K)
    target = torch.ones_like(x[:, 0])
    for channel in basis.rank.nonzero()[:, 0]:
        V = basis.vectors[: int(basis.rank[channel]), :, channel]

        def loss(alpha: Tensor, V: Tensor = V) -> Tensor:
            return 0.5 * ((alpha @ V - target) ** 2).sum()

        hessian = torch.autograd.functional.hessian(loss, torch.zeros(len(V), dtype=torch.float64))
        torch.testing.assert_close(hessian, torch.eye(len(V), dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_equals_gram_schmidt_on_polynomials_with_the_signals_weight_function(seed: int) -> None:
    """Wang and Zhang's "unreachable" algorithm, reached by a dense eigendecomposition: polynomials orthonormal with
    respect to the weight function f(μ_i) = (Uᵀx)_i², by Gram-Schmidt on their values at the eigenvalues."""
    graph = random_graph(12, 25, seed)
    x = torch.randn(12, 1, dtype=torch.float64)
    eigenvalues, U = torch.linalg.eigh(dense(graph))
    weight = (U.T @ x[:, 0]) ** 2
    polynomials: list[Tensor] = []
    for k in range(5):
        p = eigenvalues**k
        for _ in range(2):
            for q in polynomials:
                p = p - (weight * p * q).sum() * q
        polynomials.append(p / (weight * p * p).sum().sqrt())
    basis = pb.optimal_basis(graph, x, 4)
    for k, p in enumerate(polynomials):
        expected = U @ (p * (U.T @ x[:, 0]))
        torch.testing.assert_close(basis.vectors[k, :, 0], expected, rtol=1e-8, atol=1e-8)


@given(graphs_with_signals())
def test_weight_function_gives_the_moments_of_the_signal(case: tuple[pb.Graph, Tensor]) -> None:
    """Golub and Welsch: the quadrature of T is exact for <x, p(P) x> up to degree 2K+1."""
    graph, x = case
    nodes, weights = pb.optimal_basis(graph, x, 3).weight_function()
    power = x
    for degree in range(8):
        torch.testing.assert_close((weights * nodes**degree).sum(0), (x * power).sum(0), rtol=1e-9, atol=1e-9)
        power = graph @ power


# ---- rank ----------------------------------------------------------------------------------------------------------


def star(n: int) -> pb.Graph:
    return pb.Graph.from_edge_index(np.stack([np.zeros(n - 1, int), np.arange(1, n)]))


def path(n: int) -> pb.Graph:
    return pb.Graph.from_edge_index(np.stack([np.arange(n - 1), np.arange(1, n)]))


def complete(n: int) -> pb.Graph:
    return pb.Graph.from_edge_index(np.stack(np.triu_indices(n, 1)))


def bipartite(n: int) -> pb.Graph:
    left, right = np.meshgrid(np.arange(n), np.arange(n, 3 * n))
    return pb.Graph.from_edge_index(np.stack([left.ravel(), right.ravel()]))


def disconnected(n: int) -> pb.Graph:
    """Two complete graphs of different sizes and an isolated node."""
    parts = [np.stack(np.triu_indices(n, 1)), np.stack(np.triu_indices(2 * n, 1)) + n]
    return pb.Graph.from_edge_index(np.concatenate(parts, 1), 3 * n + 1)


def by_count(graph: pb.Graph, x: Tensor) -> int:
    """The rank in exact arithmetic: the number of eigenspaces onto which the signal has a nonzero projection."""
    eigenvalues, U = torch.linalg.eigh(dense(graph))
    energy = (U.T @ x.double()) ** 2
    distinct = 0
    start = 0
    for i in range(1, len(eigenvalues) + 1):
        if i == len(eigenvalues) or eigenvalues[i] - eigenvalues[i - 1] > 1e-8:
            distinct += int(energy[start:i].sum() > 1e-16 * energy.sum())
            start = i
    return distinct


FAMILIES = [star, path, complete, bipartite, disconnected]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("n", [3, 5, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rank_is_the_number_of_eigenspaces_of_the_signal(family: type, n: int, dtype: torch.dtype) -> None:
    graph = family(n)
    N, degree = graph.num_nodes, 8
    top = torch.linalg.eigh(dense(graph))[1][:, -1]
    one_node = torch.zeros(N, dtype=torch.float64)
    one_node[N // 2] = 1
    columns = [torch.randn(N, dtype=torch.float64), torch.ones(N, dtype=torch.float64), one_node, top, 0 * top]
    x = torch.stack(columns, 1).to(dtype).requires_grad_()

    basis = pb.optimal_basis(graph, x, degree)
    expected = [min(by_count(graph, x[:, c].detach()), degree + 1) for c in range(4)] + [0]
    if dtype == torch.float32:
        expected[3] = 1  # float32 cannot distinguish a rounded eigenvector from an exact one
    assert basis.rank.tolist() == expected
    assert defect(basis) <= (1e-5 if dtype == torch.float32 else 1e-12)

    z = pb.krylov.optimal_filter(graph, x, torch.ones(degree + 1, 5, dtype=dtype))
    z.square().sum().backward()
    assert torch.isfinite(z).all()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("nodes", [1, 2, 5, 9])
def test_degree_beyond_the_number_of_nodes(nodes: int, dtype: torch.dtype) -> None:
    graph = random_graph(nodes, 3 * nodes)
    basis = pb.optimal_basis(graph, torch.randn(nodes, 3, dtype=dtype), 20)
    assert basis.rank.max() <= nodes
    assert defect(basis) <= (1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("n", [100, 3000, 100_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_stars_end_at_three(n: int, dtype: torch.dtype) -> None:
    """The eigenvalues of a star are 1, 0 and -1, however many terms the sum at the hub has."""
    basis = pb.optimal_basis(star(n), torch.rand(n, 6, dtype=dtype), 6)
    assert basis.rank.tolist() == [3] * 6
    assert defect(basis) <= (1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("q", [4, 6, 10])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hypercubes_end_at_their_number_of_eigenvalues(q: int, dtype: torch.dtype) -> None:
    """A hypercube of dimension q has q + 1 eigenvalues; for smooth signals the residuals decay gradually."""
    nodes = np.arange(2**q)
    pairs = np.concatenate([np.stack([nodes, nodes ^ (1 << bit)]) for bit in range(q)], axis=1)
    i = torch.arange(2**q, dtype=torch.float64)
    signals = [torch.randn(2**q, dtype=torch.float64), torch.exp(-i / 10), i / 2**q]
    if dtype == torch.float64:  # decays so slowly that the last residuals are noise in float32
        signals.append(torch.sin(2 * torch.pi * 3 * i / 2**q))
    basis = pb.optimal_basis(pb.Graph.from_edge_index(pairs), torch.stack(signals, 1).to(dtype), 30)
    assert basis.rank.max() <= q + 1
    assert basis.rank[0] >= q
    assert defect(basis) <= (1e-5 if dtype == torch.float32 else 1e-12)


def test_heavy_self_loops_do_not_change_the_rank() -> None:
    """P -> a P + b has the same Krylov spaces; here P is close to the identity."""
    n = 300
    pairs = np.concatenate([np.stack([np.arange(n - 1), np.arange(1, n)]), np.stack([np.arange(n)] * 2)], axis=1)
    weight = np.concatenate([np.ones(n - 1), np.full(n, 1e3)])
    graph = pb.Graph.from_edge_index(pairs, edge_weight=weight, self_loops="keep")
    for dtype in (torch.float32, torch.float64):
        assert pb.optimal_basis(graph, torch.randn(n, 4, dtype=dtype), 8).rank.tolist() == [9] * 4


def identity_error(graph: pb.Graph, x: Tensor, K: int) -> float:
    """The largest error of ‖x‖ V T_k(T) e_0 as T_k(P) x over all k <= K, relative to ‖x‖."""
    basis = pb.optimal_basis(graph, x, K)
    through_T = torch.einsum("jnd,jkd->knd", basis.vectors.double(), basis.coordinates(pb.bases.Chebyshev()))
    mu, U = torch.linalg.eigh(dense(graph))
    angles = torch.arange(K + 1, dtype=torch.float64)[:, None] * torch.arccos(mu.clamp(-1, 1))
    exact = torch.einsum("nm,km,md->knd", U, torch.cos(angles), U.T @ x.double())
    return float((through_T - exact).abs().max() / torch.linalg.vector_norm(x.double(), dim=0).min())


@pytest.mark.parametrize("bridge", [1e-2, 1e-4, 3e-5, 1e-6, 1e-8])
def test_a_weak_bridge_does_not_end_a_basis(bridge: float) -> None:
    """Two cliques of five nodes: the residual at the bridge is as small as its weight but still matters."""
    clique = np.stack(np.triu_indices(5, 1))
    pairs = np.concatenate([clique, clique + 5, [[4], [5]]], axis=1)
    graph = pb.Graph.from_edge_index(pairs, edge_weight=[1.0] * 20 + [bridge])
    x = torch.zeros(10, 1, dtype=torch.float64)
    x[0] = 1
    assert identity_error(graph, x, 20) <= 1e-10


def test_identity_holds_on_a_tree_in_float32() -> None:
    """The residuals of a tree of twenty nodes decay far below 1e-3 before the basis ends."""
    errors = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        parents = [int(rng.integers(0, node)) for node in range(1, 20)]
        tree = pb.Graph.from_edge_index(np.stack([np.arange(1, 20), parents]))
        errors.append(identity_error(tree, torch.randn(20, 4), 40))
    assert max(errors) <= 1e-4


@given(graphs_with_signals(), st.integers(1, 6))
def test_stopping_error_is_a_bound(case: tuple[pb.Graph, Tensor], rank: int) -> None:
    """Truncating a basis changes no Chebyshev polynomial of degree at most 12 by more than the bound."""
    graph, x = case
    K = 12
    basis = pb.optimal_basis(graph, x, K)
    length = min(rank, K)
    norm = basis.sqrt_beta[length]
    T = basis.gamma[:length], basis.sqrt_beta[:length]
    bound = stopping_error(norm, *T, K)
    padded = [torch.cat([numbers, numbers.new_zeros(K + 1 - length, x.shape[1])]) for numbers in T]
    coordinates = pb.bases.Chebyshev().coordinates(*padded)[:length]
    mu, U = torch.linalg.eigh(dense(graph))
    angles = torch.arange(K + 1, dtype=torch.float64)[:, None] * torch.arccos(mu.clamp(-1, 1))
    exact = torch.einsum("nm,km,md->knd", U, torch.cos(angles), U.T @ x)
    error = torch.linalg.vector_norm(
        torch.einsum("jnd,jkd->knd", basis.vectors[:length], coordinates) - exact, dim=1
    ).amax(0)
    assert (error <= (bound + 1e-10) * basis.sqrt_beta[0] + 1e-10).all()


@pytest.mark.skipif(native.kernels() is None, reason="polybasis was built without its native kernels")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_native_and_reference_kernels_share_the_rank_tolerance(dtype: torch.dtype) -> None:
    module = native.kernels()
    assert module is not None
    assert module.rank_tolerance(dtype == torch.float32) == pytest.approx(tuple(RankTolerance.of(dtype)), rel=1e-15)


@pytest.mark.parametrize("step", [2, 3, 7, 11])
@pytest.mark.parametrize("n", [50, 80, 1000, 5000])
def test_orthonormal_for_striped_signals(n: int, step: int) -> None:
    """The rounding errors of regular signals do not average out, in particular on regular graphs."""
    x = (torch.arange(n) % step == 0).float()
    ramp = torch.arange(n) / n
    steps = (torch.arange(n) > n // 2).float() + 1
    signals = torch.stack([x, ramp, steps, x + ramp], 1)
    ring = pb.Graph.from_edge_index(np.stack([np.arange(n), (np.arange(n) + 1) % n]))
    for graph in (path(n), ring, random_graph(n, 4 * n)):
        for degree in (5, 20):
            assert defect(pb.optimal_basis(graph, signals, degree)) <= 1e-5


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_orthonormal_where_many_vectors_need_reorthogonalisation(dtype: torch.dtype, most: float) -> None:
    """At a high degree the extreme eigenvectors converge early, and rounding errors reintroduce them."""
    graph = random_graph(2000, 6000)
    x = torch.rand(2000, 70, dtype=dtype)
    degree = (dense(graph) != 0).sum(1)
    x[:, 3], x[:, 40] = degree.clamp(min=1).sqrt(), 0  # an eigenvector and a zero signal
    basis = pb.optimal_basis(graph, x, 100)
    assert defect(basis) <= most
    assert basis.rank.min() == 0
    assert basis.rank.max() == 101
    for channel, rank in enumerate(basis.rank):
        assert not basis.vectors[rank:, :, channel].any()


# ---- floating point ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-30, 1.0, 1e30, 1e160, 1e300])
def test_basis_does_not_depend_on_the_signals_scale(scale: float) -> None:
    graph = random_graph(200, 800)
    x = torch.rand(200, 3, dtype=torch.float64)
    plain, scaled = pb.optimal_basis(graph, x, 5), pb.optimal_basis(graph, x * scale, 5)
    torch.testing.assert_close(scaled.vectors, plain.vectors, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(scaled.sqrt_beta[0] / scale, plain.sqrt_beta[0], rtol=1e-12, atol=0)


@pytest.mark.parametrize("scale", [1e-45, 1e-40, 1e-36, 1e38])
def test_float32_near_the_limits_of_its_range(scale: float) -> None:
    graph = random_graph(200, 800)
    basis = pb.optimal_basis(graph, torch.rand(200, 3) * scale, 5)
    assert torch.isfinite(basis.vectors).all()
    assert defect(basis) <= 1e-5


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_signal_that_is_not_finite_is_rejected_with_the_position(value: float, dtype: torch.dtype) -> None:
    graph = random_graph(30, 60)
    x = torch.rand(30, 7, dtype=dtype)
    x[11, 5] = value
    for use in (
        lambda: pb.optimal_basis(graph, x, 3),
        lambda: pb.krylov.optimal_filter(graph, x, torch.ones(4, 7, dtype=dtype)),
        lambda: pb.nn.PolyConv(7, 3)(x, graph),
    ):
        with pytest.raises(ValueError, match=r"x\[11, 5\] is"):
            use()


def test_invalid_arguments_are_rejected() -> None:
    graph, x = random_graph(6, 9), torch.rand(6, 2)
    with pytest.raises(ValueError, match="K is -1"):
        pb.optimal_basis(graph, x, -1)
    with pytest.raises(ValueError, match=r"x has shape \(5, 2\)"):
        pb.optimal_basis(graph, x[:5], 3)
    with pytest.raises(TypeError, match="x is a list"):
        pb.optimal_basis(graph, [1.0] * 6, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="x is a list"):
        pb.optimal_basis(graph, [1.0], 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"alpha has shape \(4, 3\)"):
        pb.krylov.optimal_filter(graph, x, torch.ones(4, 3))


def test_results_do_not_depend_on_threads_or_other_channels() -> None:
    """The blocks of a sum do not depend on the number of threads, nor a channel on those in other panels."""
    graph = random_graph(20_000, 100_000)
    x = torch.rand(20_000, 64)
    threads = torch.get_num_threads()
    try:
        bases = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            bases.append(pb.optimal_basis(graph, x, 5).vectors)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(bases[0], bases[1])
    assert torch.equal(bases[0], bases[2])
    wide = pb.optimal_basis(graph, torch.cat([x, torch.rand(20_000, 64)], 1), 5).vectors[..., :64]
    assert torch.equal(wide, bases[0])


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (4, 0)])
def test_empty_signals(shape: tuple[int, int]) -> None:
    graph = pb.Graph.from_edge_index(np.zeros((2, 0), int), shape[0])
    assert pb.optimal_basis(graph, torch.ones(shape), 3).vectors.shape == (4, *shape)
    assert pb.krylov.optimal_filter(graph, torch.ones(shape), torch.ones(4, shape[1])).shape == shape


def test_bfloat16_is_computed_in_float32() -> None:
    graph, x = random_graph(40, 90), torch.rand(40, 4)
    half = pb.optimal_basis(graph, x.bfloat16(), 3)
    assert half.vectors.dtype == torch.bfloat16
    expected = pb.optimal_basis(graph, x.bfloat16().float(), 3).vectors.bfloat16()
    assert torch.equal(half.vectors, expected)
