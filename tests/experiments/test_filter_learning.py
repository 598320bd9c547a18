"""The reduced problem is the full one, and the optimum is where the mathematics puts it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis.data.images import image_signals
from polybasis.experiments import filter_results
from polybasis.experiments.filter_learning import (
    BASES,
    CHANNELS,
    COMBINATIONS,
    JACOBI,
    WAYS,
    K,
    Learner,
    Settings,
    condition_numbers,
    learn,
    long_training,
    reduced,
    table_rows,
)
from polybasis.files import read_lines
from polybasis.responses import apply_response


def pictures(count: int = 3, side: int = 24) -> list[pb.data.ImageSignals]:
    """Smooth colours with an edge and some grain, as photographs have."""
    rng = np.random.default_rng(5)
    row, column = np.mgrid[0:side, 0:side] / side
    found = []
    for number in range(count):
        smooth = np.stack([np.sin(3 * row + c + number) + np.cos(5 * column * (c + 1)) for c in range(3)], axis=2)
        smooth[row + column > 1.2] *= -0.5
        pixels = 128 + 50 * smooth + 10 * rng.standard_normal(smooth.shape)
        found.append(image_signals(pixels.clip(0, 255).astype(np.uint8), f"picture {number}"))
    return found


def full_curve(basis: str, image: pb.data.ImageSignals, filters: tuple[str, ...], settings: Settings) -> list[float]:
    """The same training with the layers on the graph, a sample at a time."""
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
    groups = [{"params": [layer.alpha], "lr": settings.lr}, {"params": recurrence, "lr": settings.lr_recurrence}]
    adam = torch.optim.Adam(groups, weight_decay=settings.weight_decay)
    curve = []
    for _ in range(settings.epochs):
        adam.zero_grad()
        loss = (scale * layer(x, image.graph) - y).square().mean()
        loss.backward()
        adam.step()
        curve.append(float(loss.detach()))
    return curve


@pytest.mark.parametrize("basis", BASES)
def test_the_reduced_problem_has_the_loss_curve_of_the_full_one(basis: str) -> None:
    images, filters = pictures(), COMBINATIONS[:1]
    settings = Settings(epochs=40, tolerance=0)
    curves = learn(Learner(basis, reduced(images, filters)), settings).curves
    for sample, image in enumerate(images):
        np.testing.assert_allclose(curves[:, sample], full_curve(basis, image, filters[0], settings), rtol=1e-6)


def test_the_closed_form_is_the_least_there_is() -> None:
    images = pictures(1)
    problem = reduced(images)
    for row in table_rows(problem, Settings(epochs=60)):
        assert row["mse"] >= row["closed_form"]
    image = images[0]
    filters = COMBINATIONS[0]
    errors = []
    for channel, name in enumerate(filters):
        x = image.x[:, [channel]]
        errors.append(pb.GraphFilter(K).fit(image.graph, x, apply_response(image.graph, x, name)).mse_)
    assert float(problem.closed_form()[0]) == pytest.approx(np.mean(errors), rel=1e-6)


def test_the_optimal_basis_alone_has_condition_number_one() -> None:
    problem = reduced(pictures(1))
    assert torch.allclose(condition_numbers(Learner("optimal", problem)), torch.ones(4, dtype=torch.float64), atol=1e-6)
    for basis in BASES[1:]:
        assert (condition_numbers(Learner(basis, problem)) > 100).all()


def test_guarded_training_does_not_rise() -> None:
    """The way out rises by less than one percent, where the plain basis jumps, and ends lower."""
    problem = reduced(pictures(2))
    ways = {way.name: way for way in WAYS}
    plain = long_training(ways["favard"], problem, epochs=1500)
    ours = long_training(ways["favard, bounded, guarded"], problem, epochs=1500)
    assert (ours.largest_rise() < 0.01).all()
    assert (plain.largest_rise() > 0.1).any()
    assert float(ours.curves[-1].mean()) < float(plain.curves[-1].mean())


def test_shorter_trainings_do_not_replace_longer_ones(tmp_path: Path) -> None:
    problem = reduced(pictures(1))[[0]]
    filter_results.make_long(problem, tmp_path, 220, lambda _: None)
    filter_results.make_long(problem, tmp_path, 210, lambda _: None)
    rows = read_lines(tmp_path / filter_results.LONG)
    assert len(rows) == 2 * len(WAYS)
    filter_results.write_readme(tmp_path)
    assert "## 220 epochs" in (tmp_path / "README.md").read_text()


def test_images_of_different_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="pixels"):
        reduced([*pictures(1), *pictures(1, side=20)])


def test_a_sample_ends_when_its_loss_stands_still() -> None:
    problem = reduced(pictures(1))
    history = learn(Learner("optimal", problem), Settings(epochs=2000))
    for sample, epochs in enumerate(history.epochs.tolist()):
        curve = history.curves[:epochs, sample]
        assert abs(float(curve[-1] - curve[-2])) < 1e-4
        assert (curve.diff().abs()[:-1] >= 1e-4).all()
    assert len(set(history.epochs.tolist())) > 1
