"""Every basis: values, coordinates on T, the recurrence on the graph, and weight functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import torch
from conftest import dense, graphs_with_signals, random_graph
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import polybasis as pb
from polybasis.bases import (
    Bernstein,
    Chebyshev,
    ChebyshevInterpolation,
    Favard,
    Jacobi,
    Legendre,
    Monomial,
    PolynomialBasis,
    named_basis,
)

K = 7
MU = torch.linspace(-1, 1, 41, dtype=torch.float64)


def favard(channels: int | None = None, degree: int = K) -> Favard:
    shape = () if channels is None else (channels,)
    generator = torch.Generator().manual_seed(1)
    gamma = torch.rand(degree, *shape, generator=generator, dtype=torch.float64) - 0.5
    return Favard(gamma, torch.rand(degree + 1, *shape, generator=generator, dtype=torch.float64) + 0.3)


FIXED = [
    Monomial(),
    Chebyshev(),
    ChebyshevInterpolation(),
    Bernstein(K),
    Jacobi(0.5, 0.25),
    Jacobi(-1.0, 0.5),
    Legendre(),
    favard(),
]


def ids(basis: object) -> str:
    return repr(basis)


def jacobi_by_sum(k: int, a: float, b: float, mu: np.ndarray) -> np.ndarray:
    """The explicit sum, which also holds for exponents that SciPy does not support."""

    def binom(n: float, r: int) -> float:
        return math.prod((n - i) / (i + 1) for i in range(r))

    terms = [binom(k + a, k - s) * binom(k + b, s) * (mu - 1) ** s * (mu + 1) ** (k - s) for s in range(k + 1)]
    return sum(terms) / 2**k


@pytest.mark.parametrize(
    ("basis", "oracle"),
    [
        (Monomial(), lambda k, mu: mu**k),
        (Chebyshev(), scipy.special.eval_chebyt),
        (Legendre(), scipy.special.eval_legendre),
        *((Jacobi(a, b), lambda k, mu, a=a, b=b: scipy.special.eval_jacobi(k, a, b, mu))
          for a, b in [(0.0, 0.0), (1.5, 0.25), (0.25, 1.5), (-0.5, -0.5), (2.0, -0.25), (-0.75, 0.25)]),
        (Jacobi(-1.0, 0.5), lambda k, mu: jacobi_by_sum(k, -1.0, 0.5, mu)),
        (Bernstein(K), lambda k, mu: scipy.special.binom(K, k) * (1 - mu) ** k * (1 + mu) ** (K - k) / 2**K),
    ],
    ids=lambda value: repr(value) if isinstance(value, PolynomialBasis) else "",
)  # fmt: skip
def test_values_agree_with_scipy(basis: PolynomialBasis, oracle: object) -> None:
    values = basis.evaluate(MU, K)
    for k in range(K + 1):
        np.testing.assert_allclose(values[k], oracle(k, MU.numpy()), rtol=1e-10, atol=1e-10)  # type: ignore[operator]


def test_interpolation_reproduces_its_targets_at_the_points() -> None:
    basis = ChebyshevInterpolation()
    torch.testing.assert_close(basis.evaluate(basis.points(K), K), torch.eye(K + 1, dtype=torch.float64))
    targets = torch.randn(K + 1, dtype=torch.float64)
    by_numpy = np.polynomial.chebyshev.Chebyshev.interpolate(
        lambda mu: np.interp(mu, basis.points(K).flip(0).numpy(), targets.flip(0).numpy()), K
    )
    np.testing.assert_allclose(targets @ basis.evaluate(MU, K), by_numpy(MU.numpy()), atol=1e-12)


@pytest.mark.parametrize("basis", FIXED, ids=ids)
def test_constant_is_one(basis: PolynomialBasis) -> None:
    one = basis.constant(K) @ basis.evaluate(MU, K)
    torch.testing.assert_close(one, torch.ones_like(one))


@pytest.mark.parametrize("basis", FIXED, ids=ids)
def test_to_chebyshev_is_the_same_polynomial(basis: PolynomialBasis) -> None:
    values = Chebyshev().evaluate(MU, K).T @ basis.to_chebyshev(K)
    torch.testing.assert_close(values.T, basis.evaluate(MU, K), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("basis", FIXED, ids=ids)
@pytest.mark.parametrize("degree", [0, 1, 2])
def test_low_degrees(basis: PolynomialBasis, degree: int) -> None:
    if isinstance(basis, Bernstein):
        basis = Bernstein(degree)
    assert basis.evaluate(MU, degree).shape == (degree + 1, len(MU))
    assert basis.to_chebyshev(degree).shape == (degree + 1, degree + 1)


def by_eigendecomposition(graph: pb.Graph, x: Tensor, basis: PolynomialBasis) -> Tensor:
    """g_k(P) x for all k, (K+1, N, d), from the eigenvalues and eigenvectors of the dense P."""
    eigenvalues, U = torch.linalg.eigh(dense(graph))
    return torch.einsum("ni,ki,id->knd", U, basis.evaluate(eigenvalues, K), U.T @ x)


@given(graphs_with_signals(), st.sampled_from(FIXED))
def test_through_T_equals_the_eigendecomposition_and_the_recurrence(
    case: tuple[pb.Graph, Tensor], basis: PolynomialBasis
) -> None:
    """p(P) x = |x| V p(T) e_0 for every polynomial of degree at most K, at any rank."""
    graph, x = case
    optimal = pb.optimal_basis(graph, x, K)
    expected = by_eigendecomposition(graph, x, basis)
    scale = max(1.0, float(expected.abs().max()))
    through_t = torch.einsum("jnd,jkd->knd", optimal.vectors, optimal.coordinates(basis))
    torch.testing.assert_close(through_t / scale, expected / scale, rtol=0, atol=1e-10)
    conv = pb.nn.PolyConv(x.shape[1], K, basis).double()
    for k in range(K + 1):
        with torch.no_grad():
            conv.alpha.zero_()
            conv.alpha[k] = 1
            on_graph = conv(x, graph)
        torch.testing.assert_close(on_graph / scale, expected[k] / scale, rtol=0, atol=1e-10)


def test_coordinates_of_a_learnable_basis_with_channels() -> None:
    graph = random_graph(60, 200)
    x, basis = torch.randn(60, 4, dtype=torch.float64), favard(4)
    optimal = pb.optimal_basis(graph, x, K)
    through_t = torch.einsum("jnd,jkd->knd", optimal.vectors, optimal.coordinates(basis))
    conv = pb.nn.FavardConv(4, K).double()
    with torch.no_grad():
        conv.gamma.copy_(basis.gamma)
        conv.sqrt_beta.copy_(basis.sqrt_beta)
        for k in range(K + 1):
            conv.alpha.zero_()
            conv.alpha[k] = 1
            torch.testing.assert_close(conv(x, graph), through_t[k], rtol=1e-9, atol=1e-9)
    values = basis.evaluate(MU, K)
    assert values.shape == (K + 1, len(MU), 4)
    torch.testing.assert_close(values[..., 2], Favard(basis.gamma[:, 2], basis.sqrt_beta[:, 2]).evaluate(MU, K))


def test_the_optimal_basis_is_a_favard_basis() -> None:
    """v_k = p_k(P) x, where the polynomials p_k have the γ and √β of the optimal basis and p_0 = 1/|x|."""
    graph = random_graph(60, 200)
    x = torch.randn(60, 3, dtype=torch.float64)
    optimal = pb.optimal_basis(graph, x, K)
    basis = Favard(optimal.gamma, optimal.sqrt_beta)
    identity = torch.eye(K + 1, dtype=torch.float64).unsqueeze(-1).expand(-1, -1, 3)
    torch.testing.assert_close(optimal.coordinates(basis), identity, rtol=1e-8, atol=1e-8)
    conv = pb.nn.FavardConv(3, K).double()
    with torch.no_grad():
        conv.gamma.copy_(optimal.gamma[:K])
        conv.sqrt_beta.copy_(optimal.sqrt_beta)
        conv.alpha.copy_(torch.eye(K + 1)[4].unsqueeze(-1).expand(-1, 3))
        torch.testing.assert_close(conv(x, graph), optimal.vectors[4], rtol=1e-7, atol=1e-7)


# ---- weight functions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [None, 3])
def test_favards_theorem(channels: int | None) -> None:
    """For any γ and √β > 0 the polynomials are orthonormal with respect to a weight function of mass β_0. Their
    products are integrated by the Gauss quadrature of the Jacobi matrix."""
    basis = favard(channels)
    nodes, weights = basis.weight_function()
    torch.testing.assert_close(weights.sum(0), basis.sqrt_beta[0] ** 2)
    for c in range(channels or 1):
        one = basis if channels is None else Favard(basis.gamma[:, c], basis.sqrt_beta[:, c])
        mu, w = (nodes, weights) if channels is None else (nodes[:, c], weights[:, c])
        values = one.evaluate(mu, K - 1)
        gram = torch.einsum("i,ji,ki->jk", w, values, values)
        torch.testing.assert_close(gram, torch.eye(K, dtype=torch.float64), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("basis", "oracle"),
    [
        (Chebyshev(), lambda n: scipy.special.roots_chebyt(n)),
        (Legendre(), lambda n: scipy.special.roots_legendre(n)),
        (Jacobi(0.5, -0.25), lambda n: scipy.special.roots_jacobi(n, 0.5, -0.25)),
        (Jacobi(-0.5, 2.0), lambda n: scipy.special.roots_jacobi(n, -0.5, 2.0)),
    ],
    ids=["Chebyshev", "Legendre", "Jacobi(0.5, -0.25)", "Jacobi(-0.5, 2)"],
)
def test_weight_functions_agree_with_scipy(basis: Jacobi, oracle: object) -> None:
    nodes, weights = basis.weight_function(6)
    expected_nodes, expected_weights = oracle(6)  # type: ignore[operator]
    np.testing.assert_allclose(nodes, np.sort(expected_nodes), atol=1e-12)
    np.testing.assert_allclose(weights, np.asarray(expected_weights)[np.argsort(expected_nodes)], atol=1e-12)


@pytest.mark.parametrize("basis", [Monomial(), Jacobi(-1.0, 0.5)], ids=ids)
def test_no_weight_function(basis: Monomial) -> None:
    with pytest.raises(ValueError, match="not orthogonal with respect to a positive weight function"):
        basis.weight_function(4)


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"use Bernstein\(3\)"):
        Bernstein(5).evaluate(MU, 3)
    with pytest.raises(ValueError, match="K is 9"):
        favard().evaluate(MU, 9)
    with pytest.raises(ValueError, match="not positive"):
        Favard(torch.zeros(2), torch.tensor([1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match=r"expected \(K, d\) and \(K\+1, d\)"):
        Favard(torch.zeros(5), torch.ones(3))
    with pytest.raises(ValueError, match="basis is 'chebychev'"):
        named_basis("chebychev", 3)
    with pytest.raises(ValueError, match="finite"):
        Jacobi(float("nan"), 0)
    with pytest.raises(ValueError, match="no recurrence"):
        Jacobi(-1.0, -1.0).recurrence(4)


@given(seed=st.integers(0, 999), K=st.integers(1, 12), spread=st.floats(0.1, 4))
def test_canonical_moments_keep_the_support_in_the_interval(seed: int, K: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    moments = torch.sigmoid(spread * torch.randn(2 * K, 3, generator=generator, dtype=torch.float64))
    nodes, weights = pb.bases.Favard.from_moments(moments).weight_function()
    assert (nodes.abs() <= 1 + 1e-12).all()
    torch.testing.assert_close(weights.sum(0), torch.ones(3, dtype=torch.float64))


def test_canonical_moments_of_known_weights() -> None:
    """The odd moments of the uniform weight are 1/2 and moment 2k is k/(2k+1) (Dette and Studden, 1997)."""
    K = 6
    moments = torch.tensor([0.5 if j % 2 else (j // 2) / (j + 1) for j in range(1, 2 * K + 1)], dtype=torch.float64)
    basis = pb.bases.Favard.from_moments(moments)
    points, weights = np.polynomial.legendre.leggauss(K + 1)
    values = basis.evaluate(torch.from_numpy(points), K)
    gram = values * torch.from_numpy(weights / 2) @ values.T
    torch.testing.assert_close(gram, torch.eye(K + 1, dtype=torch.float64), atol=1e-12, rtol=0)
    for bad in (torch.tensor([0.5]), torch.tensor([0.0, 0.5]), torch.tensor([0.5, 1.0])):
        with pytest.raises(ValueError, match="moments"):
            pb.bases.Favard.from_moments(bad)
