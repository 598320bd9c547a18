"""Metrics of predictions, by name, each for the targets it applies to.

=====================  ===================================================  ================
metric                 definition                                           better
=====================  ===================================================  ================
``accuracy``           fraction of nodes whose predicted class is correct   higher
``balanced_accuracy``  mean recall over the classes                         higher
``f1``                 F1 of the positive class; macro for several classes  higher
``roc_auc``            area under the ROC curve; one-vs-rest macro mean     higher
``average_precision``  area under the precision-recall curve; macro mean    higher
``log_loss``           mean negative log likelihood, unweighted             lower
``rmse``, ``mae``      root mean squared and mean absolute error            lower
``r2``                 coefficient of determination                         higher
=====================  ===================================================  ================

The positive class of two is the second. With several labels for each node, ``f1`` is the micro average, and ``roc_auc``
and ``average_precision`` are means over the labels.

Every metric has a finite value on any nodes. A class or label without positive or without negative nodes is left out of
the means of ``roc_auc`` and ``average_precision``; if all are left out, the value is that of a constant prediction: 0.5
for ``roc_auc``, the share of positive nodes for ``average_precision``. ``balanced_accuracy`` leaves out absent classes,
and macro ``f1`` leaves out classes that are neither present nor predicted.

This module imports torch on first use, so that the command line can list the names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, get_args

if TYPE_CHECKING:
    from torch import Tensor

Metric = Literal["accuracy", "balanced_accuracy", "f1", "roc_auc", "average_precision", "log_loss", "rmse", "mae", "r2"]
TargetKind = Literal["classification", "multi-label", "regression"]
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
IN_UNITS: tuple[Metric, ...] = ("rmse", "mae")
FORMER_NAMES = {"roc-auc": "roc_auc"}  # in files of earlier versions


def as_metric(name: str) -> Metric:
    """The metric with a name; names of earlier versions are accepted.

    Raises:
        ValueError: for an unknown name.

    >>> as_metric("roc-auc")
    'roc_auc'
    """
    name = FORMER_NAMES.get(name, name)
    if name not in get_args(Metric):
        raise ValueError(f"metric is {name!r}; expected one of {', '.join(get_args(Metric))}")
    return cast(Metric, name)


def metric_name(metric: Metric) -> str:
    """The name of a metric in a sentence."""
    return NAMES.get(metric, metric.replace("_", " "))


def value_text(metric: Metric, value: float, sign: str = "") -> str:
    """A value of a metric: shares with four decimals, errors with four significant digits.

    >>> value_text("accuracy", 0.5), value_text("rmse", 1234.56), value_text("roc_auc", 0.1, "+")
    ('0.5000', '1,235', '+0.1000')
    """
    return f"{value:{sign},.{'4g' if metric in IN_UNITS else '4f'}}"


def check_metric(metric: Metric, target: TargetKind) -> None:
    """Checks that a metric applies to a target.

    Raises:
        ValueError: if it does not; the message lists those that do.
    """
    as_metric(metric)
    if target not in METRICS[metric].targets:
        expected = ", ".join(name for name, definition in METRICS.items() if target in definition.targets)
        raise ValueError(f"metric is {metric!r}, which does not apply to {target}; expected one of {expected}")


def sign(metric: Metric) -> int:
    """1 if higher values of the metric are better, -1 if lower ones are."""
    return 1 if METRICS[metric].higher_is_better else -1


def score(metric: Metric, target: TargetKind, outputs: Tensor, y: Tensor) -> float:
    """The value of a metric.

    Args:
        metric: the metric, which must apply to the target; see :func:`check_metric`.
        target: the kind of target.
        outputs: logits, (n, classes or labels), or values in the units of the target, (n,) or (n, 1).
        y: class indices, (n,); labels, (n, labels), 0 or 1; or values, (n,).

    >>> import torch
    >>> score("accuracy", "classification", torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    0.5
    """
    return METRICS[metric].function(outputs.flatten() if target == "regression" else outputs, y)


def has_both_outcomes(y: Tensor) -> bool:
    """Whether nodes of at least two classes, or positive and negative nodes of at least one label, are present."""
    return bool((y.amax(dim=0) > y.amin(dim=0)).any())


@dataclass(frozen=True)
class _Definition:
    function: Callable[[Tensor, Tensor], float]
    targets: tuple[TargetKind, ...]
    higher_is_better: bool = True
    is_share: bool = True  # between 0 and 1, so that tables show it in percent


def _accuracy(logits: Tensor, y: Tensor) -> float:
    return float((logits.argmax(dim=1) == y).float().mean())


def _confusion(logits: Tensor, y: Tensor) -> Tensor:
    """Numbers of nodes by class and predicted class, (classes, classes)."""
    classes = logits.shape[1]
    return (classes * y + logits.argmax(dim=1)).bincount(minlength=classes**2).view(classes, classes).double()


def _balanced_accuracy(logits: Tensor, y: Tensor) -> float:
    confusion = _confusion(logits, y)
    nodes = confusion.sum(dim=1)
    return float((confusion.diagonal() / nodes)[nodes > 0].mean())


def _f1(logits: Tensor, y: Tensor) -> float:
    if y.ndim == 2:
        positive, predicted = y > 0, logits > 0
        total = int(positive.sum() + predicted.sum())
        return 2 * int((positive & predicted).sum()) / total if total else 0.0
    confusion = _confusion(logits, y)
    totals = confusion.sum(dim=0) + confusion.sum(dim=1)
    f1 = 2 * confusion.diagonal() / totals.clamp(min=1)
    return float(f1[1]) if len(f1) == 2 else float(f1[totals > 0].mean())


def binary_problems(logits: Tensor, y: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The binary problems of a target: probabilities and outcomes, (n,) each, where both outcomes occur.

    Args:
        logits: (n, classes or labels).
        y: class indices, (n,), or labels, (n, labels).
    """
    if y.ndim == 2:
        problems = list(zip(logits.sigmoid().unbind(1), y.long().unbind(1), strict=True))
    else:
        shares = logits.softmax(dim=1)
        classes = (1,) if logits.shape[1] == 2 else range(logits.shape[1])
        problems = [(shares[:, c], y if logits.shape[1] == 2 else (y == c).long()) for c in classes]
    return [(shares, outcome) for shares, outcome in problems if has_both_outcomes(outcome)]


def _roc_auc(logits: Tensor, y: Tensor) -> float:
    from torchmetrics.functional.classification import binary_auroc

    areas = [float(binary_auroc(*problem, validate_args=False)) for problem in binary_problems(logits, y)]
    return sum(areas) / len(areas) if areas else 0.5


def _average_precision(logits: Tensor, y: Tensor) -> float:
    from torchmetrics.functional.classification import binary_average_precision

    areas = [float(binary_average_precision(*problem, validate_args=False)) for problem in binary_problems(logits, y)]
    return sum(areas) / len(areas) if areas else float((y > 0).double().mean())


def _log_loss(logits: Tensor, y: Tensor) -> float:
    from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

    if y.ndim == 2:
        return float(binary_cross_entropy_with_logits(logits.double(), y.double()))
    return float(cross_entropy(logits.double(), y))


def _rmse(values: Tensor, y: Tensor) -> float:
    return float((values.double() - y.double()).square().mean().sqrt())


def _mae(values: Tensor, y: Tensor) -> float:
    return float((values.double() - y.double()).abs().mean())


def _r2(values: Tensor, y: Tensor) -> float:
    errors = float((values.double() - y.double()).square().sum())
    total = float((y.double() - y.double().mean()).square().sum())
    if total == 0:  # as in scikit-learn
        return float(errors == 0)
    return 1 - errors / total


_NODES: tuple[TargetKind, ...] = ("classification",)
_OUTCOMES: tuple[TargetKind, ...] = ("classification", "multi-label")
_VALUES: tuple[TargetKind, ...] = ("regression",)
METRICS: dict[Metric, _Definition] = {
    "accuracy": _Definition(_accuracy, _NODES),
    "balanced_accuracy": _Definition(_balanced_accuracy, _NODES),
    "f1": _Definition(_f1, _OUTCOMES),
    "roc_auc": _Definition(_roc_auc, _OUTCOMES),
    "average_precision": _Definition(_average_precision, _OUTCOMES),
    "log_loss": _Definition(_log_loss, _OUTCOMES, higher_is_better=False, is_share=False),
    "rmse": _Definition(_rmse, _VALUES, higher_is_better=False, is_share=False),
    "mae": _Definition(_mae, _VALUES, higher_is_better=False, is_share=False),
    "r2": _Definition(_r2, _VALUES, is_share=False),
}
