"""Metrics and their values in words."""

from __future__ import annotations

from collections.abc import Sequence

from polybasis.data.metrics import Metric
from polybasis.train.assessment import Estimate

NAMES: dict[Metric, str] = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "log_loss": "log loss",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "r2": "R²",
}
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
IN_UNITS: tuple[Metric, ...] = ("rmse", "mae")


def metric_name(metric: Metric) -> str:
    """The name of a metric in a sentence."""
    return NAMES.get(metric, metric.replace("_", " "))


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


def value_text(metric: Metric, value: float, sign: str = "") -> str:
    """A value of a metric: shares with four decimals, errors with four significant digits.

    >>> value_text("accuracy", 0.5), value_text("rmse", 1234.56), value_text("roc_auc", 0.1, "+")
    ('0.5000', '1,235', '+0.1000')
    """
    return f"{value:{sign},.{'4g' if metric in IN_UNITS else '4f'}}"


def estimate_texts(metric: Metric, estimate: Estimate, sign: str = "") -> tuple[str, str]:
    """A value of a metric, and its interval if it has a length."""
    value, low, high = (value_text(metric, v, sign) for v in (estimate.value, estimate.low, estimate.high))
    return value, "" if low == high else f"{low} to {high}"
