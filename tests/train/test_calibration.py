"""Calibrated probabilities and thresholds, against scikit-learn and against known probabilities."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import polybasis as pb
from polybasis.checksums import read_document, write_document
from polybasis.data.metrics import TargetKind, score
from polybasis.train import Config, TrainedModel, fit
from polybasis.train.calibration import Calibration, fit_calibration, log_odds
from polybasis.train.threshold import Threshold, choose_threshold

TARGETS: list[tuple[TargetKind, int]] = [("classification", 2), ("classification", 4), ("multi-label", 3)]


def sample(target: TargetKind, outputs: int, nodes: int = 4000, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits, and outcomes with exactly the probabilities that the logits say."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(nodes, outputs, generator=generator)
    if target == "multi-label":
        return logits, (torch.rand(nodes, outputs, generator=generator) < logits.sigmoid()).long()
    return logits, logits.softmax(1).multinomial(1, generator=generator)[:, 0]


def log_loss(probabilities: Tensor, y: Tensor, target: TargetKind) -> float:
    p = probabilities.double()
    return score("log_loss", target, p.logit() if target == "multi-label" else p.log(), y)


# ---- temperature ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "outputs"), TARGETS)
@pytest.mark.parametrize("factor", [0.3, 1.0, 5.0])
def test_the_temperature_undoes_a_factor_of_the_logits(target: TargetKind, outputs: int, factor: float) -> None:
    logits, y = sample(target, outputs)
    found = fit_calibration(factor * logits, y, target, "temperature")
    assert found.temperature == pytest.approx(factor, rel=0.08)
    expected = logits.sigmoid() if target == "multi-label" else logits.softmax(1)
    torch.testing.assert_close(found(factor * logits), expected, atol=0.03, rtol=0)


def test_the_temperature_never_changes_the_most_probable_class() -> None:
    logits = torch.randn(500, 5, generator=torch.Generator().manual_seed(1))
    for temperature in (0.02, 0.5, 3.0, 50.0):
        probabilities = Calibration("classification", "temperature", temperature)(logits)
        assert torch.equal(probabilities.argmax(1), logits.argmax(1))
        torch.testing.assert_close(probabilities.sum(1), torch.ones(500))


def test_perfectly_separated_nodes_have_a_finite_temperature() -> None:
    logits = torch.tensor([[3.0, 0.0], [0.0, 3.0]] * 20)
    found = fit_calibration(logits, torch.tensor([0, 1] * 20), "classification")
    assert 0 < found.temperature < 1
    assert found(logits).isfinite().all()


# ---- isotonic regression -------------------------------------------------------------------------------------------


def test_isotonic_curves_are_those_of_scikit_learn() -> None:
    isotonic = pytest.importorskip("sklearn.isotonic", reason="scikit-learn is the oracle of this test")
    logits, y = sample("classification", 2, nodes=600)
    logits = (2 * logits).round() / 2  # with ties
    found = fit_calibration(logits, y, "classification", "isotonic")
    odds = log_odds(logits, "classification")[:, 0]
    oracle = isotonic.IsotonicRegression(y_min=1 / 602, y_max=601 / 602, out_of_bounds="clip").fit(odds, y)
    elsewhere = torch.linspace(-12, 12, 301)
    pairs = torch.stack([torch.zeros_like(elsewhere), elsewhere], dim=1)
    np.testing.assert_allclose(found(pairs)[:, 1], oracle.predict(elsewhere), atol=1e-6)


@pytest.mark.parametrize(("target", "outputs"), TARGETS)
def test_isotonic_regression_corrects_what_a_temperature_cannot(target: TargetKind, outputs: int) -> None:
    """A shift of the logits, as class weights cause it, on nodes that the calibration has not seen."""
    shift = torch.linspace(0, 3, outputs) if target == "classification" else torch.full((outputs,), 2.0)
    logits, y = sample(target, outputs)
    fresh, truth = sample(target, outputs, seed=1)
    found = fit_calibration(logits + shift, y, target)
    assert found.method == "isotonic"
    temperature = fit_calibration(logits + shift, y, target, "temperature")
    losses = [log_loss(each(fresh + shift), truth, target) for each in (found, temperature)]
    assert losses[0] < losses[1] - 0.05
    if target == "classification":
        torch.testing.assert_close(found(fresh + shift).sum(1), torch.ones(len(fresh)))


@pytest.mark.parametrize(("target", "outputs"), TARGETS)
def test_the_simpler_method_is_chosen_where_it_suffices(target: TargetKind, outputs: int) -> None:
    for nodes in (150, 2000):
        logits, y = sample(target, outputs, nodes)
        assert fit_calibration(3 * logits, y, target).method == "temperature"


# ---- thresholds ----------------------------------------------------------------------------------------------------


def scores_of(seed: int, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    positive = rng.random(200) < 0.2
    probabilities = 1 / (1 + np.exp(-(rng.standard_normal(200) + 1.5 * positive - 1)))
    return (probabilities.round(1) if ties else probabilities).astype(np.float32), positive


def counts(probabilities: np.ndarray, positive: np.ndarray, value: float) -> tuple[int, int, int]:
    predicted = probabilities >= value
    return int((predicted & positive).sum()), int((predicted & ~positive).sum()), int((~predicted & positive).sum())


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_thresholds_are_the_best_of_all(seed: int, ties: bool) -> None:
    probabilities, positive = scores_of(seed, ties)
    every = [counts(probabilities, positive, value) for value in np.unique(probabilities)]
    precise = choose_threshold(probabilities, positive, precision=0.6)
    hits, false, missed = counts(probabilities, positive, precise.value)
    assert precise.precision == pytest.approx(hits / (hits + false))
    assert precise.precision >= 0.6
    assert precise.recall == pytest.approx(hits / (hits + missed))
    assert hits == max(h for h, f, _ in every if h / (h + f) >= 0.6)
    complete = choose_threshold(probabilities, positive, recall=0.8)
    hits, false, missed = counts(probabilities, positive, complete.value)
    assert hits / (hits + missed) >= 0.8
    assert complete.precision == pytest.approx(max(h / (h + f) for h, f, m in every if h / (h + m) >= 0.8))
    cheap = choose_threshold(probabilities, positive, cost=(1, 5))
    hits, false, missed = counts(probabilities, positive, cheap.value)
    assert false + 5 * missed == min(f + 5 * m for _, f, m in every)
    assert cheap.level == 5


def test_no_node_is_positive_if_false_positives_cost_too_much() -> None:
    probabilities, positive = np.array([0.9, 0.5, 1.0]), np.array([True, False, False])
    assert counts(probabilities, positive, choose_threshold(probabilities, positive, cost=(100, 1)).value)[:2] == (0, 0)


def test_impossible_thresholds_are_refused() -> None:
    probabilities, positive = np.array([0.9, 0.5, 0.2]), np.array([False, True, False])
    with pytest.raises(ValueError, match=r"no threshold has precision 0.9 on the validation nodes; the highest is 0.5"):
        choose_threshold(probabilities, positive, precision=0.9)
    with pytest.raises(ValueError, match=r"recall is 1.5; expected a number above 0, at most 1"):
        choose_threshold(probabilities, positive, recall=1.5)
    with pytest.raises(ValueError, match="got precision, recall; pass one of precision, recall and cost"):
        choose_threshold(probabilities, positive, precision=0.5, recall=0.5)
    with pytest.raises(ValueError, match="no validation node is positive"):
        choose_threshold(probabilities, np.zeros(3), recall=0.5)


# ---- saved models --------------------------------------------------------------------------------------------------

DATA = replace(pb.data.csbm(nodes=900, features=12, seed=1), classes=("no", "yes"))
SPLIT = DATA.split("stratified")


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    config = Config.of("mlp", hidden=8, epochs=20)
    return TrainedModel.of(config, fit(config, DATA, SPLIT))


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_a_saved_model_keeps_its_calibration_and_threshold(method: Any, trained: TrainedModel, tmp_path: Path) -> None:
    calibrated = trained.calibrated(DATA, SPLIT.val, method).with_threshold(DATA, SPLIT.val, recall=0.95)
    calibrated.save(tmp_path)
    loaded = TrainedModel.load(tmp_path)
    assert (loaded.calibration, loaded.threshold) == (calibrated.calibration, calibrated.threshold)
    probabilities = loaded.predict_proba(DATA)
    assert np.array_equal(probabilities, calibrated.predict_proba(DATA))
    assert np.array_equal(loaded.predict_proba(DATA, calibrated=False), trained.predict_proba(DATA))
    assert not np.allclose(probabilities, trained.predict_proba(DATA), atol=1e-3)
    predicted = loaded.predict(DATA)
    assert loaded.threshold is not None
    assert np.array_equal(predicted == "yes", probabilities[:, 1] >= loaded.threshold.value)
    found = (predicted == "yes")[SPLIT.val] & (DATA.y[SPLIT.val] == 1).numpy()
    assert loaded.threshold.recall == pytest.approx(found.sum() / int((DATA.y[SPLIT.val] == 1).sum()))
    assert loaded.threshold.recall >= 0.95
    assert np.array_equal(trained.predict(DATA), np.array(["no", "yes"])[trained.predict_proba(DATA).argmax(1)])


def test_models_that_cannot_have_a_threshold_say_so(trained: TrainedModel) -> None:
    three = replace(trained, classes=("a", "b", "c"))
    with pytest.raises(ValueError, match="a threshold applies to two classes; the model is for 3 classes"):
        three.with_threshold(DATA, SPLIT.val, recall=0.5)
    with pytest.raises(ValueError, match="calibration applies to classes and labels, not to regression"):
        replace(trained, target="regression").calibrated(DATA, SPLIT.val)
    with pytest.raises(ValueError, match="method is 'auto'; expected 'temperature', 'isotonic' or None"):
        trained.calibrated(DATA, SPLIT.val, "auto")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there are no validation nodes to calibrate on"):
        trained.calibrated(DATA, SPLIT.val[:0])


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("calibration", {"temperature": -1}),
        ("calibration", {"temperature": "hot"}),
        ("calibration", {"method": "magic"}),
        ("calibration", {"curves": []}),
        ("calibration", {"curves": [{"scores": [1, 0], "probabilities": [0.1, 0.2]}]}),
        ("calibration", {"curves": [{"scores": [0, 1], "probabilities": [0.1, 1.2]}]}),
        ("calibration", {"curves": 3}),
        ("threshold", {"value": -1}),
        ("threshold", {"unknown": 1}),
        ("threshold", {"value": None}),
    ],
)
def test_damaged_calibrations_are_refused_in_one_line(
    key: str, change: dict[str, Any], trained: TrainedModel, tmp_path: Path
) -> None:
    trained.calibrated(DATA, SPLIT.val, "isotonic").with_threshold(DATA, SPLIT.val, recall=0.5).save(tmp_path)
    document = read_document(tmp_path / "model.json", sealed=lambda _: True)
    document[key] |= change
    write_document(tmp_path / "model.json", {k: v for k, v in document.items() if k != "checksum"})
    with pytest.raises(ValueError, match="does not contain a readable model") as caught:
        TrainedModel.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_documents_are_plain(trained: TrainedModel) -> None:
    calibration = fit_calibration(*sample("classification", 4, 300), "classification", "isotonic")
    assert Calibration.from_dict(json.loads(json.dumps(calibration.to_dict())), 4) == calibration
    threshold = choose_threshold(*scores_of(0, False), recall=0.5)
    assert Threshold.from_dict(json.loads(json.dumps(threshold.to_dict()))) == threshold
