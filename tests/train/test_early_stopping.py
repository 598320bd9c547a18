"""With few validation nodes of a class, early stopping goes by the moving average of the score."""

from __future__ import annotations

from collections.abc import Callable
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


Epochs = Callable[..., tuple[int, int]]


@pytest.fixture
def epochs(monkeypatch: pytest.MonkeyPatch) -> Epochs:
    """Trains with scripted validation scores; returns the number of epochs and the one that is kept."""

    def train(scores: list[float], positives: int, **values: Any) -> tuple[int, int]:
        script = iter(scores)
        monkeypatch.setattr(Objective, "score", lambda *_: next(script))
        data, split = with_positives(positives)
        changed = config(epochs=len(scores), **values)
        run, count = Run(changed, FullBatch(data, split, changed), seed=0), 0
        while not run.finished:
            run.train_epoch()
            count += 1
        assert run.progress is not None
        return count, run.progress.best_epoch

    return train


def last_maximum(values: Any) -> int:
    return len(values) - 1 - int(np.argmax(np.asarray(values)[::-1]))


RANDOM = np.random.default_rng(4).random(60).round(2).tolist()


def test_few_positive_nodes_are_scored_by_the_moving_average(epochs: Epochs) -> None:
    average = lfilter([0.1], [1, -0.9], RANDOM)
    assert epochs(RANDOM, 3) == (60, last_maximum(average))
    assert last_maximum(average) != last_maximum(RANDOM)


def test_enough_positive_nodes_are_scored_directly(epochs: Epochs) -> None:
    assert epochs(RANDOM, 20) == (60, last_maximum(RANDOM))


def test_a_lucky_start_does_not_end_training(epochs: Epochs) -> None:
    """The first epochs happen to rank the few positive nodes first; later the ranking is good."""
    lucky = [0.6, 1.0, 1.0, 0.4, 0.5, *([0.9] * 35)]
    assert epochs(lucky, 3, patience=20) == (40, 39)
    assert epochs(lucky, 20, patience=20) == (22, 2)


def test_patience_ends_a_plateau(epochs: Epochs) -> None:
    """A perfect ranking cannot improve; the average approaches it forever. Equal accuracies are improvements."""
    assert epochs([1.0] * 300, 20, patience=5) == (6, 5)
    count, kept = epochs([1.0] * 300, 3, patience=5)
    assert 40 < count == kept + 1 < 80
    assert epochs([1.0] * 50, 20, patience=5, metric="accuracy") == (50, 49)


def test_a_slow_improvement_is_not_a_plateau(epochs: Epochs) -> None:
    slow = (0.5 + 2e-4 * np.arange(300)).tolist()
    assert epochs(slow, 3, patience=20) == (300, 299)


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
        UserWarning, match="only 3 validation nodes are of class '1'; with fewer than 20, roc_auc is noisy"
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
