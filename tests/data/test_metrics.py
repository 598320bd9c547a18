"""Metrics agree with scikit-learn, and have a finite value where scikit-learn's are undefined."""

from __future__ import annotations

import math
import warnings
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from polybasis.data.metrics import METRICS, Metric, TargetKind, as_metric, check_metric, score, sign

oracle = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the oracle of this test")


def classification(seed: int, classes: int) -> tuple[Tensor, Tensor]:
    """Random logits; some seeds have ties, some have no node of the last class."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(120, classes, generator=generator)
    if seed % 2:
        logits = (2 * logits).round() / 2
    y = torch.randint(classes - (classes > 2 and seed % 3 == 0), (120,), generator=generator)
    return logits, y


def multi_label(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(90, 4, generator=generator)
    if seed % 2:
        logits = logits.round()
    return logits, (torch.rand(90, 4, generator=generator) < torch.tensor([0.5, 0.1, 0.9, 0.3])).long()


def one_vs_rest(function: object, logits: Tensor, y: Tensor) -> float:
    shares, present = logits.softmax(1).numpy(), np.unique(y)
    assert callable(function)
    return float(np.mean([function(y.numpy() == c, shares[:, c]) for c in present]))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_metrics_of_classes(seed: int, classes: int) -> None:
    logits, y = classification(seed, classes)
    shares, predicted = logits.softmax(1).numpy(), logits.argmax(1).numpy()
    if classes == 2:
        roc_auc = oracle.roc_auc_score(y, shares[:, 1])
        average_precision = oracle.average_precision_score(y, shares[:, 1])
    else:
        roc_auc = one_vs_rest(oracle.roc_auc_score, logits, y)
        average_precision = one_vs_rest(oracle.average_precision_score, logits, y)
    with warnings.catch_warnings():  # scikit-learn warns of predicted classes without nodes
        warnings.simplefilter("ignore", UserWarning)
        expected = {
            "accuracy": oracle.accuracy_score(y, predicted),
            "balanced_accuracy": oracle.balanced_accuracy_score(y, predicted),
            "f1": oracle.f1_score(y, predicted, average="binary" if classes == 2 else "macro", zero_division=0),
            "roc_auc": roc_auc,
            "average_precision": average_precision,
            "log_loss": oracle.log_loss(y, logits.double().softmax(1), labels=range(classes)),
        }
    found = {name: score(name, "classification", logits, y) for name in expected}  # type: ignore[arg-type]
    assert found == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("seed", range(6))
def test_metrics_of_labels(seed: int) -> None:
    logits, y = multi_label(seed)
    shares = logits.double().sigmoid().numpy()
    expected = {
        "f1": oracle.f1_score(y, (logits > 0).long(), average="micro"),
        "roc_auc": oracle.roc_auc_score(y, shares, average="macro"),
        "average_precision": oracle.average_precision_score(y, shares, average="macro"),
        "log_loss": np.mean([oracle.log_loss(y[:, i], shares[:, i]) for i in range(4)]),
    }
    found = {name: score(name, "multi-label", logits, y) for name in expected}  # type: ignore[arg-type]
    assert found == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("seed", range(4))
def test_metrics_of_numbers(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    y = 1e4 + 30 * torch.randn(80, generator=generator)
    values = y.unsqueeze(1) + 10 * torch.randn(80, 1, generator=generator)
    expected = {
        "rmse": oracle.root_mean_squared_error(y, values),
        "mae": oracle.mean_absolute_error(y, values),
        "r2": oracle.r2_score(y, values),
    }
    found = {name: score(name, "regression", values, y) for name in expected}  # type: ignore[arg-type]
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("outcome", [0, 1])
@pytest.mark.parametrize("target", ["classification", "multi-label"])
def test_nodes_with_one_outcome_have_the_score_of_a_constant_prediction(outcome: int, target: TargetKind) -> None:
    logits = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    y = torch.full((20,) if target == "classification" else (20, 2), outcome)
    assert score("roc_auc", target, logits, y) == 0.5
    assert score("average_precision", target, logits, y) == outcome
    for name in METRICS:
        if target in METRICS[name].targets:
            assert math.isfinite(score(name, target, logits, y))


def test_r2_of_constant_values_is_that_of_scikit_learn() -> None:
    y = torch.ones(5)
    assert score("r2", "regression", y, y) == oracle.r2_score(y, y) == 1
    assert score("r2", "regression", y + 1, y) == oracle.r2_score(y, y + 1) == 0


@pytest.mark.parametrize("metric", get_args(Metric))
def test_the_sign_says_what_is_better(metric: Metric) -> None:
    """A correct prediction is better than a wrong one."""
    target = METRICS[metric].targets[0]
    y = torch.tensor([0, 1, 1, 0, 1])
    if target == "regression":
        right, wrong = y.float(), 1 - y.float()
        y = y.float()
    else:
        right = 4.0 * torch.nn.functional.one_hot(y, 2)
        wrong = -right
    assert sign(metric) * score(metric, target, right, y) > sign(metric) * score(metric, target, wrong, y)


def test_metrics_that_do_not_apply_are_refused() -> None:
    with pytest.raises(ValueError, match="metric is 'rmse', which does not apply to classification; expected one of"):
        check_metric("rmse", "classification")
    with pytest.raises(ValueError, match=r"does not apply to regression; expected one of rmse, mae, r2$"):
        check_metric("roc_auc", "regression")
    with pytest.raises(ValueError, match="metric is 'auc'; expected one of accuracy, balanced_accuracy, f1"):
        as_metric("auc")
