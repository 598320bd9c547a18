"""Training in Krylov coordinates agrees with training on the graph and never beats the closed form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import comb
from torch_geometric.utils import get_laplacian

import polybasis as pb
from polybasis.data.images import image_signals
from polybasis.experiments import filter_results, paper
from polybasis.experiments.filter_learning import (
    BASES,
    CHANNELS,
    COMBINATIONS,
    JACOBI,
    VARIANTS,
    WITHOUT_LOOPS,
    K,
    Learner,
    Optimization,
    build_problem,
    condition_numbers,
    learn,
    table_rows,
    train_variant,
)
from polybasis.files import read_lines
from polybasis.responses import apply_response

RESULTS = Path(__file__).parents[2] / "results" / "filter-learning"


def synthetic_images(count: int = 3, side: int = 24) -> list[pb.data.ImageSignals]:
    """Smooth colours with an edge and noise, similar to photographs."""
    rng = np.random.default_rng(5)
    row, column = np.mgrid[0:side, 0:side] / side
    images = []
    for number in range(count):
        smooth = np.stack([np.sin(3 * row + c + number) + np.cos(5 * column * (c + 1)) for c in range(3)], axis=2)
        smooth[row + column > 1.2] *= -0.5
        pixels = 128 + 50 * smooth + 10 * rng.standard_normal(smooth.shape)
        images.append(image_signals(pixels.clip(0, 255).astype(np.uint8), f"image {number}"))
    return images


def full_curve(
    basis: str, image: pb.data.ImageSignals, filters: tuple[str, ...], optimization: Optimization
) -> list[float]:
    """The loss curve of one sample, trained with filter layers on the graph."""
    x = image.x
    y = torch.stack([apply_response(image.graph, x, name)[:, c] for c, name in enumerate(filters)], dim=1)
    scale: torch.Tensor | float = 1.0
    if basis == "optimal":
        layer: torch.nn.Module = pb.nn.OptBasisConv(CHANNELS, K).double()
        scale = torch.linalg.vector_norm(x, dim=0)
    elif basis == "favard":
        layer = pb.nn.FavardConv(CHANNELS, K).double()
    else:
        polynomials = pb.bases.Jacobi(*JACOBI) if basis == "jacobi" else basis
        layer = pb.nn.PolyConv(CHANNELS, K, polynomials).double()
        if basis in ("bernstein", "chebyshev-interpolation"):
            layer.coefficients = layer.alpha.relu
    recurrence = [p for name, p in layer.named_parameters() if name != "alpha"]
    groups = [
        {"params": [layer.alpha], "lr": optimization.lr},
        {"params": recurrence, "lr": optimization.lr_recurrence},
    ]
    adam = torch.optim.Adam(groups, weight_decay=optimization.weight_decay)
    curve = []
    for _ in range(optimization.epochs):
        adam.zero_grad()
        loss = (scale * layer(x, image.graph) - y).square().mean()
        loss.backward()
        adam.step()
        curve.append(float(loss.detach()))
    return curve


@pytest.mark.parametrize("basis", BASES)
def test_krylov_coordinates_and_graph_give_the_same_loss_curve(basis: str) -> None:
    images, filters = synthetic_images(), COMBINATIONS[:1]
    optimization = Optimization(epochs=40, tolerance=0)
    curves = learn(Learner(basis, build_problem(images, filters)), optimization).curves
    for sample, image in enumerate(images):
        np.testing.assert_allclose(curves[:, sample], full_curve(basis, image, filters[0], optimization), rtol=1e-6)


def test_the_closed_form_is_a_lower_bound_and_equals_the_graph_filter() -> None:
    images = synthetic_images(1)
    problem = build_problem(images)
    for row in table_rows(problem, Optimization(epochs=60)):
        assert row["mse"] >= row["closed_form"]
    image = images[0]
    filters = COMBINATIONS[0]
    errors = []
    for channel, name in enumerate(filters):
        x = image.x[:, [channel]]
        errors.append(pb.GraphFilter(K).fit(image.graph, x, apply_response(image.graph, x, name)).mse_)
    assert float(problem.closed_form()[0]) == pytest.approx(np.mean(errors), rel=1e-6)


def test_only_the_optimal_basis_has_condition_number_one() -> None:
    problem = build_problem(synthetic_images(1))
    assert torch.allclose(condition_numbers(Learner("optimal", problem)), torch.ones(4, dtype=torch.float64), atol=1e-6)
    for basis in BASES[1:]:
        assert (condition_numbers(Learner(basis, problem)) > 100).all()


@pytest.mark.slow
def test_backtracking_bounds_the_rise_of_the_loss() -> None:
    """A bounded recurrence with backtracking rises by less than 1% and ends below the plain Favard basis."""
    problem = build_problem(synthetic_images(2))
    variants = {variant.name: variant for variant in VARIANTS}
    plain = train_variant(variants["favard"], problem, epochs=1500)
    ours = train_variant(variants["favard, bounded, backtracking"], problem, epochs=1500)
    assert (ours.largest_rise() < 0.01).all()
    assert (plain.largest_rise() > 0.1).any()
    assert float(ours.curves[-1].mean()) < float(plain.curves[-1].mean())


@pytest.mark.slow
def test_shorter_runs_do_not_replace_longer_ones(tmp_path: Path) -> None:
    problem = build_problem(synthetic_images(1))[[0]]
    filter_results.run_convergence(problem, tmp_path, 220, lambda _: None)
    filter_results.run_convergence(problem, tmp_path, 210, lambda _: None)
    rows = read_lines(tmp_path / filter_results.CONVERGENCE)
    assert len(rows) == 2 * len(VARIANTS)
    filter_results.write_readme(tmp_path)
    assert "## 220 epochs" in (tmp_path / "README.md").read_text()


def authors_curve(basis: str, x: torch.Tensor, y: torch.Tensor, side: int, epochs: int) -> list[float]:
    """The loss curve of the authors' layers ``ChebII`` and ``Bern``: dense polynomials of PyG's Laplacian."""
    row, column = np.divmod(np.arange(side * side), side)
    neighbours = (abs(row[:, None] - row) + abs(column[:, None] - column) == 1).nonzero()
    index, weight = get_laplacian(torch.tensor(np.array(neighbours)), normalization="sym", num_nodes=side * side)
    laplacian = torch.zeros(side * side, side * side, dtype=torch.float64)
    laplacian[index[0], index[1]] = weight.double()
    identity = torch.eye(side * side, dtype=torch.float64)
    if basis == "bernstein":
        powers = torch.linalg.matrix_power
        parts = [
            comb(K, k) / 2**K * powers(2 * identity - laplacian, K - k) @ powers(laplacian, k) @ x for k in range(K + 1)
        ]
    else:
        chebyshev = [x, (laplacian - identity) @ x]
        for _ in range(K - 1):
            chebyshev.append(2 * (laplacian - identity) @ chebyshev[-1] - chebyshev[-2])
        nodes = np.cos((np.arange(K + 1) + 0.5) * np.pi / (K + 1))
        parts = []
        for node in nodes:  # the Lagrange polynomial of a node, in Chebyshev polynomials
            values = np.cos(np.arange(K + 1) * np.arccos(node)) * 2 / (K + 1)
            parts.append(sum(v * t for v, t in zip(values, chebyshev, strict=True)) - values[0] / 2 * x)
    vectors, alpha = torch.stack(parts), torch.nn.Parameter(torch.ones(K + 1, CHANNELS, dtype=torch.float64))
    adam = torch.optim.Adam([alpha], lr=0.01, weight_decay=5e-4)
    curve = []
    for _ in range(epochs):
        adam.zero_grad()
        loss = (torch.einsum("knd,kd->nd", vectors, alpha.relu()) - y).square().mean()
        loss.backward()
        adam.step()
        curve.append(float(loss.detach()))
    return curve


@pytest.mark.parametrize("basis", WITHOUT_LOOPS)
def test_the_authors_operator_has_no_self_loops_but_the_targets_have(basis: str) -> None:
    side, filters = 12, COMBINATIONS[0]
    (image,) = synthetic_images(1, side=side)
    y = torch.stack([apply_response(image.graph, image.x, name)[:, c] for c, name in enumerate(filters)], dim=1)
    problem = build_problem([image], (filters,), learn_with_loops=False)
    curve = learn(Learner(basis, problem), Optimization(epochs=30, tolerance=0)).curves[:, 0]
    np.testing.assert_allclose(curve, authors_curve(basis, image.x, y, side, 30), rtol=1e-5)


def test_the_authors_colours_are_truncated_integers() -> None:
    """White, pure red and a green, by hand: truncated towards 0, with an offset of 64 for U and V."""
    pixels = np.array([[[255, 255, 255], [255, 0, 0], [10, 200, 90]]], dtype=np.uint8)
    x = image_signals(pixels, colours="integer-yuv").x
    assert x[0].tolist() == [127, 0, 0]
    assert x[1].tolist() == [-51, -38, 63]  # Y = -51.755, U = 64 - 37.513 = 26.487, V = 220.8, clamped to 127
    assert x[2].tolist() == [2, -21, -105]  # Y = 2.65, U = 64 - 20.01 = 43.99, V = 64 - 105.85 = -41.85


def test_the_committed_authors_operators_reproduce_the_paper() -> None:
    """Bernstein and Chebyshev interpolation without self-loops agree with the paper to three digits, and not with."""
    rows = read_lines(RESULTS / filter_results.AUTHORS)
    reported = paper.table("filter-learning")
    for basis in WITHOUT_LOOPS:
        means = {
            loops: np.mean([row["mse"] for row in rows if (row["basis"], row["self_loops"]) == (basis, loops)])
            for loops in (True, False)
        }
        assert means[False] == pytest.approx(reported[basis][0], abs=0.0005)
        assert abs(means[True] - reported[basis][0]) > 0.01


def test_images_of_different_sizes_raise() -> None:
    with pytest.raises(ValueError, match="pass images of the same size"):
        build_problem([*synthetic_images(1), *synthetic_images(1, side=20)])


def test_a_sample_stops_when_its_loss_changes_by_less_than_the_tolerance() -> None:
    problem = build_problem(synthetic_images(1))
    history = learn(Learner("optimal", problem), Optimization(epochs=2000))
    for sample, epochs in enumerate(history.epochs.tolist()):
        curve = history.curves[:epochs, sample]
        assert abs(float(curve[-1] - curve[-2])) < 1e-4
        assert (curve.diff().abs()[:-1] >= 1e-4).all()
    assert len(set(history.epochs.tolist())) > 1
