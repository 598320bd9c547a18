"""Figures of the scores of a model: curves of two classes, calibration, confusion and training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from polybasis.report.figures import figure

FloatArray = NDArray[np.float64]
BINS = 10


class Decisions:
    """The outcomes of all thresholds on a score, from the strictest to the most permissive.

    Args:
        scores: scores, (n,).
        positive: whether each node is positive, (n,).

    Attributes:
        thresholds: the distinct scores in descending order, (t,).
        precision, recall, false_positive_rate, flagged: of the nodes from each threshold on, (t,).
    """

    def __init__(self, scores: FloatArray, positive: NDArray[np.bool_]) -> None:
        values, group = np.unique(-scores, return_inverse=True)
        hits = np.cumsum(np.bincount(group, weights=positive))
        predicted = np.cumsum(np.bincount(group))
        self.thresholds: FloatArray = -values
        self.precision, self.recall = hits / predicted, hits / max(positive.sum(), 1)
        self.false_positive_rate = (predicted - hits) / max((~positive).sum(), 1)
        self.flagged = predicted / len(scores)


def draw_decisions(found: Decisions, share: float) -> Figure:
    """Draws the ROC curve and the precision-recall curve.

    Args:
        found: the outcomes of all thresholds.
        share: share of positive nodes, the precision of a random ranking.
    """
    with figure(columns=2, width=8, height=3.4) as (drawn, (roc, pr)):
        roc.plot([0, *found.false_positive_rate], [0, *found.recall])
        roc.plot([0, 1], [0, 1], color="0.6", linestyle="--")
        roc.set(xlabel="false positive rate", ylabel="recall", title="ROC curve")
        pr.step([0, *found.recall], [found.precision[0], *found.precision], where="pre")
        pr.axhline(share, color="0.6", linestyle="--")
        pr.set(xlabel="recall", ylabel="precision", title="Precision and recall", ylim=(0, 1.03))
    return drawn


def reliability(probabilities: FloatArray, outcomes: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Mean probability and share of positive outcomes in up to ten bins with equal numbers of nodes."""
    order = np.argsort(probabilities, kind="stable")
    parts = [part for part in np.array_split(order, BINS) if len(part)]
    return np.array([probabilities[p].mean() for p in parts]), np.array([outcomes[p].mean() for p in parts])


def draw_calibration(curves: Mapping[str, tuple[FloatArray, FloatArray]]) -> Figure:
    """Draws predicted probabilities against observed shares.

    Args:
        curves: results of :func:`reliability` by name.
    """
    with figure(width=8, height=3.6) as (drawn, ax):
        top = max(float(max(x.max(), y.max())) for x, y in curves.values()) * 1.05 or 1.0
        ax.plot([0, top], [0, top], color="0.6", linestyle="--")
        for name, (predicted, observed) in curves.items():
            ax.plot(predicted, observed, marker="o", markersize=4, label=name)
        ax.set(xlabel="mean predicted probability", ylabel="observed share")
        ax.legend()
    return drawn


def draw_values(predicted: FloatArray, actual: FloatArray) -> Figure:
    """Draws predicted against actual numbers."""
    with figure(width=8, height=3.6) as (drawn, ax):
        ax.scatter(actual, predicted, s=5, alpha=0.4, rasterized=True)
        ends = [min(actual.min(), predicted.min()), max(actual.max(), predicted.max())]
        ax.plot(ends, ends, color="0.6", linestyle="--")
        ax.set(xlabel="actual", ylabel="predicted")
    return drawn


def draw_history(history: Sequence[Sequence[float]], metric: str) -> Figure:
    """Draws the training loss and the validation score.

    Args:
        history: epoch, training loss and validation score, of some epochs.
        metric: metric of the score.
    """
    epochs, losses, scores = np.asarray(history, dtype=np.float64).T
    with figure(columns=2, width=8, height=3) as (drawn, (left, right)):
        left.plot(epochs + 1, losses)
        left.set(xlabel="epoch", ylabel="training loss")
        right.plot(epochs + 1, scores, color="C1")
        right.set(xlabel="epoch", ylabel=f"validation {metric}")
    return drawn
