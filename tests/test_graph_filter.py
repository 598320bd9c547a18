"""The closed-form fit compared with dense least squares."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import dense, random_graph

import polybasis as pb
from polybasis.graph_filter import joint_basis


def powers(graph: pb.Graph, x: torch.Tensor, K: int) -> torch.Tensor:
    """The Chebyshev polynomials of P applied to x, with all signals stacked, (N d, K+1)."""
    P = dense(graph)
    columns = [x, P @ x]
    for _ in range(2, K + 1):
        columns.append(2 * P @ columns[-1] - columns[-2])
    return torch.stack([column.flatten() for column in columns[: K + 1]], dim=1)


@pytest.mark.parametrize("channels", [1, 4])
def test_the_fit_is_the_least_squares_solution(channels: int) -> None:
    graph, K = random_graph(80, 240), 6
    x, y = torch.randn(2, 80, channels, dtype=torch.float64)
    f = pb.GraphFilter(K).fit(graph, x, y)
    matrix = powers(graph, x, K)
    best = matrix @ torch.linalg.lstsq(matrix, y.flatten()).solution
    torch.testing.assert_close(f.transform(graph, x).flatten(), best, rtol=1e-8, atol=1e-8)
    assert f.mse_ == pytest.approx(float((best - y.flatten()).square().mean()))


def test_one_pair_is_v_transposed_y() -> None:
    graph = random_graph(60, 200)
    x, y = torch.randn(2, 60, 1, dtype=torch.float64)
    own = pb.optimal_basis(graph, x, 5)
    f = pb.GraphFilter(5).fit(graph, x, y)
    torch.testing.assert_close(f.coefficients_, torch.einsum("knd,nd->k", own.vectors, y))


def test_the_joint_basis_is_orthonormal_with_respect_to_all_signals() -> None:
    graph, K = random_graph(70, 250), 5
    x = torch.randn(70, 3, dtype=torch.float64)
    basis = joint_basis(pb.optimal_basis(graph, x, K))
    recurrence = basis.recurrence(K).per_channel(3)
    vectors = torch.stack(
        [
            pb.krylov.recurrence_filter(
                graph, x, torch.eye(K + 1, dtype=torch.float64)[:, [k]].expand(-1, 3), *recurrence
            )
            for k in range(K + 1)
        ]
    )
    gram = torch.einsum("jnd,knd->jk", vectors, vectors)
    torch.testing.assert_close(gram, torch.eye(K + 1, dtype=torch.float64), atol=1e-10, rtol=0)


def test_ridge_solves_the_penalised_problem() -> None:
    graph, K, ridge = random_graph(80, 240), 5, 0.03
    x, y = torch.randn(2, 80, 2, dtype=torch.float64)
    f = pb.GraphFilter(K, ridge=ridge).fit(graph, x, y)
    points, weights = np.polynomial.legendre.leggauss(K + 1)
    values = torch.from_numpy(np.polynomial.chebyshev.chebvander(points, K))
    matrix, energy = powers(graph, x, K), float(x.square().sum())
    normal = matrix.T @ matrix + ridge * energy * values.T @ (torch.from_numpy(weights / 2)[:, None] * values)
    solution = torch.linalg.solve(normal, matrix.T @ y.flatten())
    np.testing.assert_allclose(f.polynomial().coef, solution.numpy(), rtol=1e-7, atol=1e-9)


def test_a_filter_transfers_to_another_graph() -> None:
    here, there = random_graph(100, 400, seed=1), random_graph(50, 130, seed=2)
    truth = np.polynomial.Chebyshev([0.5, -1.0, 0.25])
    x = torch.randn(100, dtype=torch.float64)
    P = dense(here)
    f = pb.GraphFilter(K=2).fit(here, x, 0.5 * x - P @ x + 0.25 * (2 * P @ (P @ x) - x))
    np.testing.assert_allclose(f.polynomial().coef, truth.coef, atol=1e-9)
    mu = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(f.response(mu), truth(mu), atol=1e-9)
    z, P = torch.randn(50, 3), dense(there)
    expected = 0.5 * z.double() - P @ z.double() + 0.25 * (2 * P @ (P @ z.double()) - z.double())
    torch.testing.assert_close(f.transform(there, z), expected.float())


def test_signals_with_small_krylov_spaces() -> None:
    """The Krylov space of a star's hub has two dimensions, so the polynomial has two coefficients."""
    star = pb.Graph.from_edge_index([[0, 0, 0], [1, 2, 3]])
    x = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    f = pb.GraphFilter(K=8).fit(star, x, star @ x)
    assert len(f.coefficients_) == 2
    torch.testing.assert_close(f.transform(star, x), star @ x)


def test_integer_signals_are_filtered_in_float64() -> None:
    graph = random_graph(10, 30)
    x = torch.rand(10, dtype=torch.float64)
    f = pb.GraphFilter(1).fit(graph, x, 0.5 * x)
    torch.testing.assert_close(f.transform(graph, torch.arange(10)), 0.5 * torch.arange(10, dtype=torch.float64))


def test_invalid_input_is_rejected() -> None:
    graph, x = random_graph(10, 20), torch.rand(10)
    with pytest.raises(ValueError, match="not been fitted"):
        pb.GraphFilter().response(0.5)
    with pytest.raises(ValueError, match="zero everywhere"):
        pb.GraphFilter().fit(graph, torch.zeros(10), x)
    with pytest.raises(ValueError, match="same shape for both"):
        pb.GraphFilter().fit(graph, x, torch.rand(10, 2))
    with pytest.raises(ValueError, match="not finite"):
        pb.GraphFilter().fit(graph, x, torch.full((10,), torch.nan))
    batch = pb.Graph.from_edge_index([[0, 2], [1, 3]], batch=torch.tensor([0, 0, 1, 1]))
    with pytest.raises(ValueError, match="graph is a batch of 2; GraphFilter fits a single graph"):
        pb.GraphFilter().fit(batch, x[:4], x[:4])
    with pytest.raises(ValueError, match="ridge"):
        pb.GraphFilter(ridge=-1).fit(graph, x, x)
    with pytest.raises(ValueError, match=r"x has shape \(9, 2, 2\)"):
        pb.GraphFilter().fit(graph, torch.rand(9, 2, 2), x)
    with pytest.raises(ValueError, match=r"y has shape \(9,\)"):
        pb.GraphFilter().fit(graph, x, torch.rand(9))
    with pytest.raises(TypeError, match="x is a list"):
        pb.GraphFilter().fit(graph, [1.0] * 10, x)
    with pytest.raises(ValueError, match="zero everywhere"):
        pb.GraphFilter().fit(graph, torch.zeros(10, 0), torch.zeros(10, 0))


def test_arrays_and_batches_are_fitted_like_columns() -> None:
    graph = random_graph(50, 150)
    x, y = torch.randn(2, 4, 50, 3, dtype=torch.float64)
    columns = [values.movedim(0, 1).reshape(50, 12) for values in (x, y)]
    expected = pb.GraphFilter(5).fit(graph, *columns)
    for arguments in ((x, y), (x.numpy(), y.numpy()), (x.numpy(), y)):
        found = pb.GraphFilter(5).fit(graph, *arguments)
        assert torch.equal(found.coefficients_, expected.coefficients_)
        assert found.mse_ == expected.mse_
    filtered = expected.transform(graph, x.numpy().astype(np.float32))
    assert isinstance(filtered, np.ndarray)
    assert filtered.dtype == np.float32
    np.testing.assert_allclose(filtered, expected.transform(graph, x), rtol=1e-5, atol=1e-5)


def test_the_spectral_density_has_the_moments_of_the_signals() -> None:
    graph, K = random_graph(70, 250), 4
    x = torch.randn(70, 3, dtype=torch.float64)
    nodes, shares = pb.GraphFilter(K).fit(graph, x, x).spectral_density()
    mu, U = torch.linalg.eigh(dense(graph))
    energy = (U.T @ x).square().sum(1)
    assert shares.sum() == pytest.approx(1)
    for power in range(2 * K + 2):
        assert shares @ nodes**power == pytest.approx(float(energy @ mu**power / energy.sum()), abs=1e-10)


def spectrum(mu: float, *others: float) -> tuple[pb.Graph, np.ndarray]:
    """Pairs of nodes with self-loops: each has the eigenvalues 1 and one that is given, in which the signal is."""
    pairs, weight, x = [], [], []
    for i, value in enumerate((mu, *others)):
        a, b = 2 * i, 2 * i + 1
        pairs += [(a, a), (b, b), (a, b)]
        weight += [(1 + value) / 2, (1 + value) / 2, (1 - value) / 2]
        x += [1.0, -1.0]
    return pb.Graph.from_edge_index(np.array(pairs).T, edge_weight=weight, self_loops="keep"), np.array(x)


def shaded(f: pb.GraphFilter) -> list[tuple[float, float]]:
    """The hatched parts of the spectrum in the plot of a filter."""
    ax = f.plot()
    (behind,) = [other for other in ax.figure.axes if other is not ax]
    hatched = [
        patch.get_extents().transformed(behind.transData.inverted()) for patch in behind.patches if patch.get_hatch()
    ]
    return [(box.x0, box.x1) for box in hatched]


def test_the_plot_shades_the_spectrum_without_energy() -> None:
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    graph, x = spectrum(*rng.uniform(-0.6, -0.2, 150), *rng.uniform(0.5, 0.8, 150))
    parts = shaded(pb.GraphFilter(K=12).fit(graph, x, x))
    assert len(parts) == 3
    np.testing.assert_allclose(parts, [(-1, -0.6), (-0.2, 0.5), (0.8, 1)], atol=0.06)


def test_the_plot_of_a_small_krylov_space_shades_all_but_the_eigenvalues() -> None:
    pytest.importorskip("matplotlib")
    graph, x = spectrum(-0.5, 0.25)
    parts = shaded(pb.GraphFilter(K=6).fit(graph, x, x))
    np.testing.assert_allclose(parts, [(-1, -0.5), (-0.5, 0.25), (0.25, 1)], atol=0.01)


def test_the_plot_has_a_legend_and_ignores_large_extrapolations() -> None:
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    graph, x = spectrum(*rng.uniform(0.2, 0.8, 200))
    f = pb.GraphFilter(K=8).fit(graph, x, pb.apply_response(graph, x, "band-pass"))
    ax = f.plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["response", "signal energy", "extrapolation"]
    assert np.abs(f.response(-1.0)) > 5
    assert np.abs(ax.get_ylim()).max() < 3
    assert f.plot(energy=False).get_legend() is None
