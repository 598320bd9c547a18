"""Results: one JSON line for each finished job, their summary over splits, and differences between models."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from polybasis.data.metrics import METRICS, as_metric
from polybasis.files import read_lines

Result = dict[str, Any]


def read_results(path: Path) -> list[Result]:
    """The results in a file, one for each job; an empty list if the file does not exist."""
    return list({result["key"]: result for result in read_lines(path) if "key" in result}.values())


def summary(scores: list[float]) -> dict[str, float]:
    """Mean, standard deviation and half-width of the 95% confidence interval (Student's t)."""
    values = np.asarray(scores)
    if len(values) < 2:
        return {"mean": float(values.mean()), "std": 0.0, "ci95": 0.0}
    from scipy.stats import t

    std = float(values.std(ddof=1))
    return {
        "mean": float(values.mean()),
        "std": std,
        "ci95": float(t.ppf(0.975, len(values) - 1)) * std / len(values) ** 0.5,
    }


def summarize(results: list[Result]) -> list[dict[str, Any]]:
    """One row for each model, data, protocol and configuration; scores between 0 and 1 are in percent.

    ``mean``, ``std`` and ``ci95`` summarise the test scores; they are None if there are no test nodes.
    """
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        config = json.dumps(result["config"], sort_keys=True)
        data = str(result.get("data"))
        key = (result["model"], result["dataset"], result["preset"], result["protocol"], data, config)
        groups.setdefault(key, []).append(result)
    rows = []
    for (model, dataset, preset, *_), group in groups.items():
        metric = as_metric(group[0]["metric"])
        unit = 100 if METRICS[metric].is_share else 1
        scores = [unit * result["test_score"] for result in group if result["test_score"] is not None]
        rows.append(
            {
                "model": model,
                "dataset": dataset,
                "preset": preset,
                "metric": metric,
                "splits": len(group),
                "val": statistics.mean(unit * result["val_score"] for result in group),
                **(summary(scores) if scores else dict.fromkeys(("mean", "std", "ci95"))),
                "epochs": statistics.mean(result["epochs"] for result in group),
                "seconds": statistics.mean(result["seconds"] for result in group),
            }
        )
    return rows


Verdict = Literal["above", "agrees", "below"]


@dataclass(frozen=True)
class Difference:
    """A difference between two means with its 95% confidence interval.

    Attributes:
        mean: the difference, in percentage points.
        ci95: half-width of the interval; infinite if there are too few splits for one.
        p_value: two-sided p-value of the hypothesis that the means are equal.
        splits: number of splits on the smaller side.
    """

    mean: float
    ci95: float
    p_value: float
    splits: int

    @property
    def verdict(self) -> Verdict:
        """``above`` or ``below`` if the interval excludes zero, else ``agrees``."""
        if self.mean - self.ci95 > 0:
            return "above"
        return "below" if self.mean + self.ci95 < 0 else "agrees"

    def __str__(self) -> str:
        return f"{self.mean:+.2f}" + (f" ± {self.ci95:.2f}" if math.isfinite(self.ci95) else "")


def _difference(mean: float, error: float, freedom: float, splits: int) -> Difference:
    """A difference with Student's t interval, from its standard error and degrees of freedom."""
    from scipy.stats import t

    if freedom < 1:
        return Difference(mean, math.inf, 1.0, splits)
    if error == 0:
        return Difference(mean, 0.0, float(mean == 0), splits)
    return Difference(mean, float(t.ppf(0.975, freedom)) * error, 2 * float(t.sf(abs(mean) / error, freedom)), splits)


def paired_difference(results_a: Sequence[Result], results_b: Sequence[Result]) -> Difference:
    r"""The mean difference of two models' test scores on the same splits, a minus b, with Student's t interval.

    .. math:: \bar d \pm t_{0.975,\, n-1}\, s_d / \sqrt n, \qquad d_i = a_i - b_i

    Both models see the same training and test nodes on a split, so the differences vary less than the scores.

    Args:
        results_a, results_b: results of one model each, one per split, in any order.

    Returns:
        The difference in percentage points.

    Raises:
        ValueError: if the results are not of the same splits, repeat a split, or have no test score.
    """
    a, b = _by_split(results_a), _by_split(results_b)
    if a.keys() != b.keys() or not a:
        unmatched = sorted(a.keys() ^ b.keys())
        example = f", for example {unmatched[0]}" if unmatched else ""
        raise ValueError(f"expected results on the same splits; {len(unmatched)} splits have no partner{example}")
    differences = np.array([a[split] - b[split] for split in a])
    count = len(differences)
    error = float(differences.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0
    return _difference(float(differences.mean()), error, count - 1, count)


def _by_split(results: Sequence[Result]) -> dict[tuple[str, str, int], float]:
    """Test scores in percent by data set, protocol and split."""
    scores: dict[tuple[str, str, int], float] = {}
    for result in results:
        split = (result["dataset"], result["protocol"], result["split"])
        if split in scores:
            raise ValueError(f"two results on {split}; expected results of one model with one configuration")
        if result["test_score"] is None:
            raise ValueError(f"the result on {split} has no test score")
        scores[split] = 100 * result["test_score"]
    return scores


def welch_difference(
    mean_a: float, error_a: float, splits_a: int, mean_b: float, error_b: float, splits_b: int
) -> Difference:
    r"""The difference of two means on different splits, a minus b, with Welch's interval.

    .. math:: \bar a - \bar b \pm t_{0.975,\, \nu} \sqrt{e_a^2 + e_b^2}, \qquad
        \nu = \frac{(e_a^2 + e_b^2)^2}{e_a^4 / (n_a - 1) + e_b^4 / (n_b - 1)}

    Args:
        mean_a, mean_b: the means.
        error_a, error_b: their standard errors e.
        splits_a, splits_b: numbers n of splits.
    """
    splits = min(splits_a, splits_b)
    if splits < 2:
        return Difference(mean_a - mean_b, math.inf, 1.0, splits)
    a, b = error_a**2, error_b**2
    freedom = (a + b) ** 2 / (a**2 / (splits_a - 1) + b**2 / (splits_b - 1)) if a + b > 0 else splits_a + splits_b - 2
    return _difference(mean_a - mean_b, math.sqrt(a + b), freedom, splits)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusts p-values of several comparisons by Holm's method, which controls the chance of any false difference.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
