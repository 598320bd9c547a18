"""The statistics behind the curves of a report agree with scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_recall_curve,
    precision_recall_fscore_support,
    roc_auc_score,
    roc_curve,
)

from polybasis.report.outcomes import ClassScores, Decisions, Reliability, confusion, largest_pooled, thinned


def test_outcomes_of_thresholds_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    positive = rng.random(300) < 0.2
    scores = np.round(rng.random(300) + 0.3 * positive, 2)  # with ties
    found = Decisions(scores, positive)
    rates, recalls, thresholds = roc_curve(positive, scores, drop_intermediate=False)
    np.testing.assert_allclose(found.false_positive_rate, rates[1:])
    np.testing.assert_allclose(found.recall, recalls[1:])
    np.testing.assert_allclose(found.thresholds, thresholds[1:])
    precision, _, _ = precision_recall_curve(positive, scores)
    np.testing.assert_allclose(found.precision[::-1], precision[:-1])
    assert found.flagged[-1] == 300
    assert found.roc_auc == pytest.approx(roc_auc_score(positive, scores))
    assert found.average_precision == pytest.approx(average_precision_score(positive, scores))


def test_the_index_of_a_threshold_counts_the_nodes_from_it_on() -> None:
    found = Decisions(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, False, True, False]))
    for threshold, flagged in ((0.9, 1), (0.6, 1), (0.5, 3), (0.2, 3), (0.0, 4)):
        assert found.flagged[found.at(threshold)] == flagged
    assert found.at(0.95) == -1


def test_a_thinned_curve_stays_close_to_the_curve() -> None:
    x = np.linspace(0, 1, 5000)
    y = np.minimum(1, 30 * x)  # steep, then flat
    kept = thinned(x, y, 100)
    assert len(kept) <= 100
    assert (kept[0], kept[-1]) == (0, 4999)
    assert np.abs(np.interp(x, x[kept], y[kept]) - y).max() < 0.03
    assert thinned(x[:50], y[:50], 100).tolist() == list(range(50))
    assert thinned(np.zeros(200), np.zeros(200), 100).tolist() == [0]  # a point


def test_bins_of_the_calibration_plot_hold_all_nodes() -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.random(1000) ** 2
    found = Reliability.of(probabilities, rng.random(1000) < probabilities)
    assert found.counts.tolist() == [100] * 10
    assert found.predicted.mean() == pytest.approx(probabilities.mean())  # equal numbers in all bins
    assert abs(found.predicted - found.observed).max() < 0.15  # three standard errors of a bin of 100
    assert (found.low < found.observed + 1e-12).all()
    assert (found.high > found.observed - 1e-12).all()
    assert ((found.low >= -1e-12) & (found.high <= 1 + 1e-12)).all()


def test_the_interval_of_a_share_covers_it_as_often_as_it_should() -> None:
    rng = np.random.default_rng(1)
    covered = []
    for share in (0.02, 0.2, 0.5, 0.97):
        found = [Reliability.of(np.full(80, share), rng.random(80) < share) for _ in range(100)]
        covered += [(part.low <= share) & (share <= part.high) for part in found]
    assert 0.88 < np.mean(covered) <= 1  # bins of 8 nodes, on which the interval is coarse


def test_confusion_and_scores_of_classes_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    actual, predicted = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    np.testing.assert_array_equal(confusion(actual, predicted, 5), confusion_matrix(actual, predicted, labels=range(5)))
    columns = np.arange(5)
    found = ClassScores.of(actual[:, None] == columns, predicted[:, None] == columns)
    expected = precision_recall_fscore_support(actual, predicted, labels=range(5), zero_division=np.nan)
    np.testing.assert_allclose(found.precision, expected[0])
    np.testing.assert_allclose(found.recall, expected[1])
    np.testing.assert_allclose(found.f1, expected[2])
    np.testing.assert_array_equal(found.support, expected[3])
    assert np.isnan(found.recall[4])


def test_small_classes_are_pooled_without_losing_nodes() -> None:
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 50, (7, 7))
    kept, pooled = largest_pooled(counts, 3)
    sizes = counts.sum(axis=1)
    assert set(kept) == set(np.argsort(-sizes, kind="stable")[:3])
    np.testing.assert_array_equal(pooled[:3, :3], counts[np.ix_(kept, kept)])
    np.testing.assert_array_equal(pooled[:3].sum(axis=1), sizes[kept])
    assert pooled.sum() == counts.sum()
