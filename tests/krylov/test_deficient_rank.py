"""Kernels on signals whose Krylov space ends before degree K, against dense oracles in float64.

The spectral oracle gives the rank and the space: a signal x spans the projections E_i x onto the eigenspaces of P. The
Lanczos oracle stops at that rank, and autograd differentiates it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from conftest import dense, random_graph
from torch import Tensor

import polybasis as pb
from polybasis import native
from polybasis.krylov.kernels import Kernels
from polybasis.krylov.native_kernels import NativeKernels
from polybasis.krylov.reference_kernels import ReferenceKernels

K = 9
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-10}


def path(n: int) -> pb.Graph:
    return pb.Graph.from_edge_index(np.stack([np.arange(n - 1), np.arange(1, n)]))


def star(n: int) -> pb.Graph:
    return pb.Graph.from_edge_index(np.stack([np.zeros(n - 1, int), np.arange(1, n)]))


def bipartite(m: int, n: int) -> pb.Graph:
    left, right = np.meshgrid(np.arange(m), np.arange(m, m + n))
    return pb.Graph.from_edge_index(np.stack([left.ravel(), right.ravel()]))


def two_cycles() -> pb.Graph:
    """Cycles of 8 and 12 nodes, and an isolated node."""
    first, second = np.arange(8), np.arange(12)
    pairs = [np.stack([first, (first + 1) % 8]), np.stack([second, (second + 1) % 12]) + 8]
    return pb.Graph.from_edge_index(np.concatenate(pairs, axis=1), 21)


def node(graph: pb.Graph, *nodes: int) -> Tensor:
    x = torch.zeros(graph.num_nodes, dtype=torch.float64)
    x[list(nodes)] = 1
    return x


def eigenvectors(graph: pb.Graph, *which: int) -> Tensor:
    """A signal in an invariant subspace: a sum of eigenvectors with different weights."""
    _, U = torch.linalg.eigh(dense(graph))
    return U[:, list(which)] @ torch.linspace(1, 2, len(which), dtype=torch.float64)


CASES: dict[str, tuple[pb.Graph, Callable[[pb.Graph], Tensor], int]] = {
    "path, end": (path(6), lambda g: node(g, 0), 6),
    "path, centre": (path(9), lambda g: node(g, 4), 5),
    "path, both ends": (path(8), lambda g: node(g, 0, 7), 4),
    "path, two nodes": (path(2), lambda g: node(g, 0), 2),
    "star, hub": (star(12), lambda g: node(g, 0), 2),
    "star, leaf": (star(12), lambda g: node(g, 3), 3),
    "star, all nodes": (star(12), lambda g: node(g, *range(12)), 2),
    "star, difference of leaves": (star(12), lambda g: node(g, 1) - node(g, 2), 1),
    "bipartite, node": (bipartite(4, 7), lambda g: node(g, 0), 3),
    "bipartite, side": (bipartite(4, 7), lambda g: node(g, 0, 1, 2, 3), 2),
    "bipartite, random": (bipartite(4, 7), lambda g: torch.linspace(-1, 2, 11, dtype=torch.float64) ** 2, 3),
    "cycle, node": (two_cycles(), lambda g: node(g, 0), 5),
    "cycles, both": (two_cycles(), lambda g: node(g, 0) + 2 * node(g, 8), 9),
    "isolated node": (two_cycles(), lambda g: node(g, 20), 1),
    "eigenvector": (random_graph(40, 120), lambda g: eigenvectors(g, 39), 1),
    "two eigenvectors": (random_graph(40, 120), lambda g: eigenvectors(g, 20, 39), 2),
    "five eigenvectors": (random_graph(40, 120), lambda g: eigenvectors(g, 0, 9, 20, 30, 39), 5),
    "zero": (path(6), lambda g: 0 * node(g, 0), 0),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[pb.Graph, Tensor, int]:
    graph, signal, rank = CASES[request.param]
    return graph, signal(graph), rank


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture(params=["reference", "native"])
def make_kernels(request: pytest.FixtureRequest) -> Callable[[pb.Graph, torch.dtype], Kernels]:
    if request.param == "reference":
        return lambda graph, dtype: ReferenceKernels(graph.matrix(dtype))
    if native.kernels() is None:
        pytest.skip("polybasis was built without its native kernels")
    return lambda graph, dtype: NativeKernels(graph.operator(dtype, torch.device("cpu")).native)


def spectral_components(graph: pb.Graph, x: Tensor) -> Tensor:
    """The nonzero projections E_i x onto the eigenspaces of P, normalised, (rank, N)."""
    eigenvalues, U = torch.linalg.eigh(dense(graph))
    groups = (torch.diff(eigenvalues, prepend=eigenvalues[:1]) > 1e-8).cumsum(0)
    parts = [U[:, groups == i] @ (U[:, groups == i].T @ x) for i in range(int(groups[-1]) + 1)]
    norms = [torch.linalg.vector_norm(part) for part in parts]
    kept = [part / norm for part, norm in zip(parts, norms, strict=True) if norm > 1e-8 * torch.linalg.vector_norm(x)]
    return torch.stack(kept) if kept else x.new_zeros(0, len(x))


def truncated_lanczos(P: Tensor, x: Tensor, alpha: Tensor, rank: int) -> Tensor:
    """z = sum_{k < rank} alpha_k v_k with full orthogonalisation, for autograd to differentiate."""
    V: list[Tensor] = []
    w = x
    for _ in range(rank):
        for _ in range(2):
            for v in V:
                w = w - (w @ v) * v
        V.append(w / torch.linalg.vector_norm(w))
        w = P @ V[-1]
    return alpha[:rank] @ torch.stack(V) if V else 0 * x


def test_cases_have_the_rank_that_they_claim(case: tuple[pb.Graph, Tensor, int]) -> None:
    graph, x, rank = case
    assert rank <= K
    assert len(spectral_components(graph, x)) == rank


def test_the_basis_spans_the_eigencomponents_of_the_signal(
    case: tuple[pb.Graph, Tensor, int], dtype: torch.dtype, make_kernels: Callable[[pb.Graph, torch.dtype], Kernels]
) -> None:
    graph, x, rank = case
    kernels, signal = make_kernels(graph, dtype), x.to(dtype).unsqueeze(1)
    basis = kernels.optimal_basis(signal, kernels.peak(signal), K, last_gamma=True)
    assert basis.rank.tolist() == [rank]
    V = kernels.standard_layout(basis.vectors)[..., 0].double()
    components = spectral_components(graph, x)
    torch.testing.assert_close(V.T @ V, components.T @ components, rtol=0, atol=TOLERANCE[dtype])
    assert not V[rank:].any()
    assert not basis.gamma[rank:].any()
    assert not basis.sqrt_beta[rank:].any()


def test_filter_and_gradient_are_those_of_the_truncated_process(
    case: tuple[pb.Graph, Tensor, int], dtype: torch.dtype, make_kernels: Callable[[pb.Graph, torch.dtype], Kernels]
) -> None:
    graph, x, rank = case
    random = torch.Generator().manual_seed(4)
    alpha = torch.randn(K + 1, generator=random, dtype=torch.float64)
    z_bar = torch.randn(len(x), generator=random, dtype=torch.float64)

    x, alpha = x.clone().requires_grad_(), alpha.requires_grad_()
    expected_z = truncated_lanczos(dense(graph), x, alpha, rank)
    expected = torch.autograd.grad(expected_z, (x, alpha), z_bar, allow_unused=True, materialize_grads=True)

    kernels = make_kernels(graph, dtype)
    signal, weights, bar = (t.detach().to(dtype).unsqueeze(1) for t in (x, alpha, z_bar))
    basis = kernels.optimal_basis(signal, kernels.peak(signal), K, last_gamma=False)
    z = kernels.combine(basis.vectors, weights)
    torch.testing.assert_close(z[:, 0].double(), expected_z.detach(), rtol=0, atol=TOLERANCE[dtype])
    for got, exact in zip(kernels.optimal_adjoint(basis, weights, bar), expected, strict=True):
        scale = max(1.0, float(exact.abs().max()))
        torch.testing.assert_close(got[:, 0].double() / scale, exact / scale, rtol=0, atol=TOLERANCE[dtype])


def test_channels_of_different_rank_do_not_affect_one_another(
    dtype: torch.dtype, make_kernels: Callable[[pb.Graph, torch.dtype], Kernels]
) -> None:
    graph = two_cycles()
    kernels = make_kernels(graph, dtype)
    columns = [node(graph, 0), node(graph, 20), 0 * node(graph, 0), node(graph, 0) + 2 * node(graph, 8)]
    x = torch.stack(columns, dim=1).to(dtype)
    alpha, z_bar = torch.randn(K + 1, 4).to(dtype), torch.randn(21, 4).to(dtype)

    def run(channels: slice) -> list[Tensor]:
        signal, weights, bar = (t[:, channels].contiguous() for t in (x, alpha, z_bar))
        basis = kernels.optimal_basis(signal, kernels.peak(signal), K, last_gamma=True)
        return [kernels.combine(basis.vectors, weights), *kernels.optimal_adjoint(basis, weights, bar), *basis[1:]]

    together, alone = run(slice(None)), [run(slice(i, i + 1)) for i in range(4)]
    assert together[-1].tolist() == [5, 1, 0, 9]
    for i, whole in enumerate(together):
        parts = torch.cat([each[i] for each in alone], dim=-1)
        torch.testing.assert_close(whole, parts, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
