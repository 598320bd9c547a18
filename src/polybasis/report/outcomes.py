"""Statistics of predictions and outcomes: thresholds, calibration and confusion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BINS = 10
Z95 = 1.959964  # 97.5% quantile of the normal distribution


class Decisions:
    """The outcomes of all thresholds on a score, from the strictest to the most permissive.

    Args:
        scores: scores, (n,).
        positive: whether each node is positive, (n,).

    Attributes:
        thresholds: the distinct scores in descending order, (t,).
        flagged, hits: numbers of nodes and of positive nodes from each threshold on, (t,).
        nodes, positives: numbers of all nodes and of all positive nodes.
    """

    def __init__(self, scores: FloatArray, positive: NDArray[np.bool_]) -> None:
        values, group = np.unique(-scores, return_inverse=True)
        self.thresholds: FloatArray = -values
        self.flagged: IntArray = np.cumsum(np.bincount(group))
        self.hits: IntArray = np.cumsum(np.bincount(group, weights=positive)).astype(np.int64)
        self.nodes, self.positives = len(scores), int(positive.sum())

    @property
    def precision(self) -> FloatArray:
        """Share of positive nodes among those from each threshold on, (t,)."""
        return np.asarray(self.hits / self.flagged)

    @property
    def recall(self) -> FloatArray:
        """Share of the positive nodes from each threshold on, (t,)."""
        return np.asarray(self.hits / max(self.positives, 1))

    @property
    def false_positive_rate(self) -> FloatArray:
        """Share of the negative nodes from each threshold on, (t,)."""
        return np.asarray((self.flagged - self.hits) / max(self.nodes - self.positives, 1))

    @property
    def roc_auc(self) -> float:
        """The area under the ROC curve."""
        x, y = (np.concatenate([[0.0], values]) for values in (self.false_positive_rate, self.recall))
        return float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum())

    @property
    def average_precision(self) -> float:
        """The mean precision over recalls."""
        return float((np.diff(self.recall, prepend=0.0) * self.precision).sum())

    def at(self, threshold: float) -> int:
        """The index of the last threshold that is not below a given one; -1 if it flags no node."""
        return int((self.thresholds >= threshold).sum()) - 1


def thinned(x: FloatArray, y: FloatArray, count: int) -> IntArray:
    """At most ``count`` indices of a curve, the ends included, about evenly spaced along its length.

    Args:
        x, y: the curve, (n,), on axes of comparable length.
        count: number of indices.
    """
    if len(x) <= count:
        return np.arange(len(x))
    length = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    return np.unique(np.searchsorted(length, np.linspace(0, length[-1], count)).clip(0, len(x) - 1))


@dataclass(frozen=True)
class Reliability:
    """Predicted probabilities and observed shares in bins with equal numbers of nodes.

    Attributes:
        predicted: mean probability in each bin.
        observed: share of positive outcomes.
        low, high: Wilson's 95% interval of that share.
        counts: numbers of nodes.
    """

    predicted: FloatArray
    observed: FloatArray
    low: FloatArray
    high: FloatArray
    counts: IntArray

    @classmethod
    def of(cls, probabilities: FloatArray, outcomes: NDArray[np.bool_]) -> Reliability:
        """Divides nodes into up to ten bins by their probability."""
        order = np.argsort(probabilities, kind="stable")
        parts = [part for part in np.array_split(order, BINS) if len(part)]
        counts = np.array([len(part) for part in parts])
        observed = np.array([outcomes[part].mean() for part in parts])
        low, high = wilson_interval(observed, counts)
        return cls(np.array([probabilities[part].mean() for part in parts]), observed, low, high, counts)


def wilson_interval(share: FloatArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Wilson's 95% interval of a share of some number of nodes (Wilson, 1927)."""
    weight = Z95**2 / counts
    centre = (share + weight / 2) / (1 + weight)
    reach = np.sqrt(weight * (share * (1 - share) + weight / 4)) / (1 + weight)
    return centre - reach, centre + reach


@dataclass(frozen=True)
class ClassScores:
    """Scores of each class or label, (classes,); NaN where they are undefined.

    Attributes:
        precision: share of the nodes predicted to be of the class that are.
        recall: share of the nodes of the class that are predicted to be.
        f1: harmonic mean of the two.
        support: number of nodes of the class.
    """

    precision: FloatArray
    recall: FloatArray
    f1: FloatArray
    support: IntArray

    @classmethod
    def of(cls, actual: NDArray[np.bool_], predicted: NDArray[np.bool_]) -> ClassScores:
        """Compares outcomes and predictions, (n, classes) each."""
        hits, support, found = (actual & predicted).sum(axis=0), actual.sum(axis=0), predicted.sum(axis=0)
        with np.errstate(invalid="ignore"):
            return cls(hits / found, hits / support, 2 * hits / (support + found), support)


def confusion(actual: IntArray, predicted: IntArray, classes: int) -> IntArray:
    """Numbers of nodes by class (rows) and predicted class (columns), (classes, classes)."""
    return np.bincount(classes * actual + predicted, minlength=classes**2).reshape(classes, classes)


def largest_pooled(counts: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """A confusion matrix of the largest classes, with all others pooled in a last row and column.

    Args:
        counts: a confusion matrix.
        most: largest number of classes that are kept.

    Returns:
        The indices of the classes that are kept, ascending, and the matrix, which has one more row and column.
    """
    kept = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:most])
    group = np.full(len(counts), len(kept))
    group[kept] = np.arange(len(kept))
    pooled = np.zeros((len(kept) + 1, len(kept) + 1), dtype=np.int64)
    np.add.at(pooled, (group[:, None], group[None, :]), counts)
    return kept, pooled
