"""Early stopping when a class has few validation nodes, so that the score of a single epoch is noisy."""

from __future__ import annotations

from torch import Tensor

from polybasis.data.metrics import Metric, has_both_outcomes
from polybasis.train.config_sections import EarlyStopping
from polybasis.train.objective import Objective

FEWEST = 20  # validation nodes of the rarer of two classes, for a score that can tell epochs apart
COMPARES_CLASSES: tuple[Metric, ...] = ("roc_auc", "average_precision", "f1", "balanced_accuracy")
DECAY = 0.9
LEAST_GAIN = 1e-3  # of the moving average, to count as an improvement


def rarer_class(y: Tensor) -> tuple[int, int]:
    """The rarer of two classes and its number of nodes.

    >>> import torch
    >>> rarer_class(torch.tensor([0, 0, 1, 0]))
    (1, 1)
    """
    counts = y.bincount(minlength=2)
    rarer = int(counts[1] <= counts[0])
    return rarer, int(counts[rarer])


def is_noisy(objective: Objective, nodes: Tensor) -> bool:
    """Whether the metric compares two classes, one of which has fewer than 20 of the nodes."""
    two = objective.target == "classification" and objective.outputs == 2
    return two and objective.metric in COMPARES_CLASSES and rarer_class(objective.y[nodes])[1] < FEWEST


def smoothed(average: float, score: float) -> float:
    """The next value of the exponential moving average of a score from 0 to 1.

    The average starts at 0, so that a lucky score of one of the first epochs, before the model has learned anything,
    does not win. The loss is no substitute: with very few positive nodes, it is often lowest at the start, where all
    predictions are the base rate.

    Args:
        average: the value after the last epoch, 0 before the first.
        score: the score of this epoch.
    """
    return DECAY * average + (1 - DECAY) * score


def is_perfect_ranking(metric: Metric, score: float) -> bool:
    """Whether all positive nodes are ranked before all others, so that no later epoch can be better."""
    return metric in ("roc_auc", "average_precision") and score >= 1


def stopping_warning(configured: EarlyStopping, objective: Objective, val: Tensor, names: tuple[object, ...]) -> str:
    """Returns a warning if the score of a single epoch is too noisy for early stopping, or else an empty string.

    Args:
        configured: ``early_stopping`` of the configuration.
        objective: the loss and the metric.
        val: the validation nodes.
        names: the classes or labels.
    """
    if configured != "score":
        return ""
    metric, y = objective.metric, objective.y[val]
    if metric in ("roc_auc", "average_precision") and not has_both_outcomes(y):
        return (
            f"all validation nodes have the same class; {metric} is constant on them and cannot compare epochs: "
            "choose other validation nodes, or early_stopping='loss'"
        )
    if is_noisy(objective, val):
        rarer, count = rarer_class(y)
        nodes = "node is" if count == 1 else "nodes are"
        return (
            f"only {count} validation {nodes} of class {str(names[rarer])!r}; with fewer than {FEWEST}, {metric} "
            "is noisy, so early stopping uses its moving average over epochs"
        )
    return ""
