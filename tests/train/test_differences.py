"""Intervals of differences agree with SciPy's tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polybasis.train.results import Difference, holm, paired_difference, welch_difference


def results(scores: Any, first: int = 0) -> list[dict[str, Any]]:
    """Results with the given test scores from 0 to 1."""
    common = {"dataset": "chameleon", "protocol": "per-class"}
    return [{**common, "split": first + i, "test_score": float(score)} for i, score in enumerate(scores)]


@pytest.mark.parametrize("count", [2, 3, 20])
def test_paired_interval_is_that_of_the_paired_t_test(count: int) -> None:
    rng = np.random.default_rng(count)
    a, b = rng.random((2, count))
    found = paired_difference(results(a), results(b)[::-1])
    expected = stats.ttest_rel(a, b)
    low, high = expected.confidence_interval(0.95)
    assert found.mean == pytest.approx(100 * (a - b).mean())
    assert (found.mean - found.ci95, found.mean + found.ci95) == pytest.approx((100 * low, 100 * high))
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.splits == count


@pytest.mark.parametrize(("n_a", "n_b"), [(2, 2), (20, 20), (10, 20), (3, 40)])
def test_welch_interval_is_that_of_the_unequal_variance_t_test(n_a: int, n_b: int) -> None:
    rng = np.random.default_rng(n_a + n_b)
    a, b = 71 + rng.standard_normal(n_a), 70 + 3 * rng.standard_normal(n_b)
    found = welch_difference(a.mean(), stats.sem(a), n_a, b.mean(), stats.sem(b), n_b)
    expected = stats.ttest_ind(a, b, equal_var=False)
    assert (found.mean - found.ci95, found.mean + found.ci95) == pytest.approx(expected.confidence_interval(0.95))
    assert found.p_value == pytest.approx(expected.pvalue)


@given(st.floats(-10, 10), st.floats(0, 10))
def test_a_verdict_needs_an_interval_that_excludes_zero(mean: float, ci95: float) -> None:
    verdict = Difference(mean, ci95, 1.0, 20).verdict
    assert verdict == ("above" if mean > ci95 else "below" if mean < -ci95 else "agrees")
    assert Difference(-mean, ci95, 1.0, 20).verdict == {"above": "below", "below": "above"}.get(verdict, verdict)


def test_one_split_has_no_interval() -> None:
    assert paired_difference(results([0.9]), results([0.1])).verdict == "agrees"
    assert welch_difference(90, 0, 1, 10, 1, 20).verdict == "agrees"


def test_results_on_other_splits_raise() -> None:
    with pytest.raises(ValueError, match=r"same splits; 2 splits have no partner, for example .*, 0\)"):
        paired_difference(results([0.5, 0.6]), results([0.5, 0.6], first=1))
    with pytest.raises(ValueError, match="same splits"):
        paired_difference([], [])
    with pytest.raises(ValueError, match="two results on"):
        paired_difference(results([0.5]) * 2, results([0.5]))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_the_order_and_is_between_the_p_values_and_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    order = np.argsort(p_values, kind="stable")
    assert all(np.diff(np.array(adjusted)[order]) >= 0)
    for p, q in zip(p_values, adjusted, strict=True):
        assert p <= q <= min(1.0, len(p_values) * p + 1.0 * (q == max(adjusted)))
