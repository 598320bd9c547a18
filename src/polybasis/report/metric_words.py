"""Metrics, their values and thresholds in words."""

from __future__ import annotations

from collections.abc import Sequence

from polybasis.data.metrics import Metric, metric_name, value_text
from polybasis.train.assessment import Estimate
from polybasis.train.threshold import Threshold

MEANINGS: dict[Metric, str] = {
    "accuracy": "the fraction of nodes whose class is predicted correctly",
    "balanced_accuracy": "the fraction of nodes predicted correctly, averaged over the classes",
    "f1": "the harmonic mean of precision and recall",
    "roc_auc": "the probability that a random node with the label ranks above one without it; 0.5 is a random ranking",
    "average_precision": "the mean precision over all recalls; a random ranking scores the fraction of positive nodes",
    "log_loss": "the mean negative log likelihood, before calibration",
    "rmse": "the root mean squared error in the units of the target; large errors weigh more",
    "mae": "the mean error in the units of the target",
    "r2": "the fraction of the variance of the target that is explained",
}


def metric_heading(metric: Metric) -> str:
    """The name of a metric at the start of a line."""
    name = metric_name(metric)
    return name[:1].upper() + name[1:]


def metric_meaning(metric: Metric, classes: Sequence[str]) -> str:
    """What a metric is.

    Args:
        metric: the metric.
        classes: the classes, if the target is one of several.
    """
    if metric == "roc_auc" and len(classes) == 2:
        return f"the probability that a random node of class {classes[1]} ranks above one of class {classes[0]}"
    if metric == "f1" and len(classes) > 2:
        return "the harmonic mean of precision and recall, averaged over the classes"
    return MEANINGS.get(metric, metric_name(metric))


def estimate_texts(metric: Metric, estimate: Estimate, sign: str = "") -> tuple[str, str]:
    """A value of a metric, and its interval if it has a length."""
    value, low, high = (value_text(metric, v, sign) for v in (estimate.value, estimate.low, estimate.high))
    return value, "" if low == high else f"{low} to {high}"


def threshold_reason(threshold: Threshold) -> str:
    """How a threshold was chosen.

    >>> threshold_reason(Threshold(value=0.3, criterion="cost", level=10.0, precision=0.4, recall=0.9))
    'chosen on the validation nodes to minimise cost (false alarm 1, miss 10)'
    """
    if threshold.criterion == "cost":
        aim = f"to minimise cost (false alarm 1, miss {threshold.level:.4g})"
    else:
        aim = f"for a {threshold.criterion} of at least {threshold.level:.4g}"
    return f"chosen on the validation nodes {aim}"
