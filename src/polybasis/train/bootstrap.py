"""Scores of models on bootstrap resamples of some nodes (Efron, 1979).

Classes are resampled separately, so that every resample has nodes of all classes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.data import metrics
from polybasis.data.metrics import Metric, TargetKind

FloatArray = NDArray[np.float64]


def bootstrap(
    outputs: dict[str, Tensor], y: Tensor, metric: Metric, target: TargetKind, resamples: int = 1000, seed: int = 0
) -> dict[str, FloatArray]:
    """Scores several models on the same resamples, (resamples,) for each model.

    Args:
        outputs: outputs of each model, (n, outputs).
        y: targets of the nodes.
        metric, target: the metric and the kind of target.
        resamples: number of resamples.
        seed: random seed.
    """
    rng = np.random.default_rng(seed)
    strata = y.numpy() if target == "classification" else np.zeros(len(y))
    groups = [np.flatnonzero(strata == value) for value in np.unique(strata)]
    score_of = {name: _scorer(found, y, metric, target) for name, found in outputs.items()}
    drawn = {name: np.empty(resamples) for name in outputs}
    for i in range(resamples):
        nodes = np.concatenate([group[rng.integers(0, len(group), len(group))] for group in groups])
        for name, score in score_of.items():
            drawn[name][i] = score(nodes)
    return drawn


def _scorer(outputs: Tensor, y: Tensor, metric: Metric, target: TargetKind) -> Callable[[NDArray[np.int64]], float]:
    """The metric as a function of the nodes of a resample."""
    if metric in ("roc_auc", "average_precision"):
        rankings = [Ranking(*problem) for problem in metrics.binary_problems(outputs, y)]
        if rankings:

            def mean_area(nodes: NDArray[np.int64]) -> float:
                counts = np.bincount(nodes, minlength=len(y))
                return float(np.mean([getattr(ranking, metric)(counts) for ranking in rankings]))

            return mean_area

    def score(nodes: NDArray[np.int64]) -> float:
        chosen = torch.from_numpy(nodes)
        return metrics.score(metric, target, outputs[chosen], y[chosen])

    return score


class Ranking:
    """Nodes in the order of their scores, sorted once for all resamples.

    Args:
        scores: scores of the nodes, (n,).
        outcomes: their outcomes, 0 or 1, (n,).
    """

    def __init__(self, scores: Tensor, outcomes: Tensor) -> None:
        levels, self._level = np.unique(-scores.double().numpy(), return_inverse=True)
        self._levels, self._outcomes = len(levels), outcomes.double().numpy()

    def _counts(self, counts: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        """Numbers of positive and of all nodes at every level, the highest score first."""
        weights = (counts * self._outcomes, counts)
        positive, every = (np.bincount(self._level, weights=weight, minlength=self._levels) for weight in weights)
        return positive.astype(np.float64), every.astype(np.float64)

    def roc_auc(self, counts: NDArray[np.int64]) -> float:
        """The area under the ROC curve if node i occurs ``counts[i]`` times; 0.5 without both outcomes."""
        positive, every = self._counts(counts)
        negative, hits = every - positive, np.cumsum(positive)
        pairs = positive.sum() * negative.sum()
        return float(negative @ (hits - positive / 2) / pairs) if pairs else 0.5

    def average_precision(self, counts: NDArray[np.int64]) -> float:
        """The average precision if node i occurs ``counts[i]`` times; 0 without positive nodes."""
        positive, every = self._counts(counts)
        total = positive.sum()
        return float(positive @ (np.cumsum(positive) / np.maximum(np.cumsum(every), 1)) / total) if total else 0.0
