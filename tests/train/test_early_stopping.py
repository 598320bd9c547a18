"""With few validation nodes of a class, early stopping goes by the moving average of the score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.signal import lfilter

import polybasis as pb
from polybasis.data.dataset import NodeDataset, Split
from polybasis.train import Config, fit
from polybasis.train.early_stopping import is_noisy
from polybasis.train.fitting import FullBatch, Run
from polybasis.train.objective import Objective

CSBM = pb.data.csbm(nodes=400, features=20, seed=5)


def with_positives(count: int) -> tuple[NodeDataset, Split]:
    """A graph with so many positive validation nodes, and twice as many positive training nodes."""
    positive, negative = (CSBM.y == 1).nonzero()[:, 0], (CSBM.y == 0).nonzero()[:, 0]
    y = torch.full((400,), -1)
    y[positive[: 3 * count]], y[negative] = 1, 0
    parts = [torch.cat([positive[:count], negative[:60]]), torch.cat([positive[count : 3 * count], negative[60:120]])]
    val, train = (part.sort().values for part in parts)
    return replace(CSBM, y=y, metric="roc_auc"), Split(train, val, negative[120:].sort().values)


def config(**values: Any) -> Config:
    return Config.of("optbasisgnn", **{"K": 2, "hidden": 8, "epochs": 40, "scale": "signal", **values})


def epochs_of(count: int, **values: Any) -> tuple[list[float], int]:
    """The validation scores of all epochs, and the epoch that is kept."""
    data, split = with_positives(count)
    run = Run(config(**values), FullBatch(data, split, config(**values)), seed=0)
    scores = []
    while not run.finished:
        progress = run.train_epoch()
        assert progress is not None
        scores.append(progress.val_score)
    return scores, progress.best_epoch


def last_maximum(values: Any) -> int:
    return len(values) - 1 - int(np.argmax(np.asarray(values)[::-1]))


def test_few_positive_nodes_are_scored_by_the_moving_average() -> None:
    scores, kept = epochs_of(3)
    average = lfilter([0.1], [1, -0.9], scores)
    assert kept == last_maximum(average)
    assert last_maximum(scores) != kept  # otherwise this test could not fail


def test_enough_positive_nodes_are_scored_directly() -> None:
    scores, kept = epochs_of(20)
    assert kept == last_maximum(scores)
    assert last_maximum(lfilter([0.1], [1, -0.9], scores)) != kept


@pytest.fixture
def lucky_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first epochs happen to rank the few positive nodes first; later the ranking is good."""
    scores: Iterator[float] = iter([0.6, 1.0, 1.0, 0.4, 0.5, *([0.9] * 100)])
    monkeypatch.setattr(Objective, "score", lambda *_: next(scores))


@pytest.mark.usefixtures("lucky_start")
def test_a_lucky_start_does_not_end_training() -> None:
    scores, kept = epochs_of(3, patience=20)
    assert len(scores) == 40
    assert kept == 39


def test_the_average_is_part_of_a_checkpoint(tmp_path: Path) -> None:
    data, split = with_positives(3)
    runs = [Run(config(), FullBatch(data, split, config()), seed=0)]
    for _ in range(15):
        runs[0].train_epoch()
    runs[0].save(tmp_path / "run.safetensors")
    runs.append(Run(config(), FullBatch(data, split, config()), 0, tmp_path / "run.safetensors"))
    for run in runs:
        while not run.finished:
            run.train_epoch()
    first, second = (run.progress for run in runs)
    assert first == second


def test_it_is_said_in_one_sentence() -> None:
    data, split = with_positives(3)
    with pytest.warns(
        UserWarning, match="only 3 validation nodes are of class '1'; with fewer than 20, roc_auc varies"
    ):
        fit(config(epochs=1), data, split)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [{"metric": "accuracy"}, {"early_stopping": "loss"}, {"early_stopping": "none"}])
def test_it_is_not_said_where_it_does_not_matter(values: dict[str, Any]) -> None:
    data, split = with_positives(3)
    fit(config(epochs=1, **values), data, split)


def test_it_applies_to_metrics_that_compare_two_classes() -> None:
    data, split = with_positives(3)

    def noisy(data: NodeDataset, metric: str) -> bool:
        return is_noisy(Objective.of(config(metric=metric), data, split.train), split.val)

    assert all(noisy(data, metric) for metric in ("roc_auc", "average_precision", "f1", "balanced_accuracy"))
    assert not any(noisy(data, metric) for metric in ("accuracy", "log_loss"))
    three = replace(data, y=torch.where(CSBM.x[:, 0] > 1, 2, data.y), classes=("a", "b", "c"))
    assert not noisy(three, "roc_auc")
