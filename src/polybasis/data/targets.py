"""Targets of nodes: one of several classes, several labels at once, or a number.

The kind of a target follows from its tensor:

==============  ==============================  ==========================
kind            ``y``                           unknown
==============  ==============================  ==========================
classification  (N,), integers: class indices   -1
multi-label     (N, labels), 0 or 1             a row of -1 or NaN
regression      (N,), floating point            NaN
==============  ==============================  ==========================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

from torch import Tensor

from polybasis.data.metrics import Metric, TargetKind

if TYPE_CHECKING:
    from polybasis.data.dataset import LabelledNodes

BALANCED = 0.4  # the smallest class of a balanced target has this part of an equal share: 20% of two classes


def target_kind(y: Tensor) -> TargetKind:
    """The kind of a target.

    >>> import torch
    >>> target_kind(torch.tensor([0.5, 2.0]))
    'regression'
    """
    if y.ndim == 2:
        return "multi-label"
    return "regression" if y.is_floating_point() else "classification"


def as_task(name: str) -> TargetKind:
    """The kind of target with a name; ``multilabel`` is another spelling of ``multi-label``.

    Raises:
        ValueError: for an unknown name.
    """
    task = "multi-label" if name == "multilabel" else name
    if task not in get_args(TargetKind):
        raise ValueError(f"task is {name!r}; expected one of {', '.join(get_args(TargetKind))}")
    return cast(TargetKind, task)


def is_known(y: Tensor) -> Tensor:
    """Whether the target of each node is known, boolean, (N,)."""
    kind = target_kind(y)
    if kind == "multi-label":
        return (y >= 0).all(dim=1)
    return ~y.isnan() if kind == "regression" else y >= 0


def check_target(y: Tensor) -> None:
    """Checks that multi-label and regression targets are valid; classes may be any integers from -1.

    Raises:
        ValueError: for infinite values, labels other than 0 and 1, or nodes of which only some labels are known.
    """
    kind, known = target_kind(y), is_known(y)
    if kind == "regression" and y.isinf().any():
        raise ValueError(f"the target of node {int(y.isinf().nonzero()[0])} is infinite; use NaN if it is unknown")
    if kind == "multi-label":
        wrong = known & ((y != 0) & (y != 1)).any(dim=1) | ~known & (y >= 0).any(dim=1)
        if wrong.any():
            node = int(wrong.nonzero()[0])
            raise ValueError(f"node {node} has the labels {y[node].tolist()}; expected 0 or 1, or all -1 if unknown")


def default_metric(y: Tensor, classes: int) -> Metric:
    """Returns the default metric for a target, depending on its balance.

    If one of two classes has less than 20% of the nodes, the metric is ``roc_auc``. Unlike accuracy, it does not
    reward predicting a single class. Unlike ``average_precision``, it does not depend on the fraction of positive nodes
    and varies less between samples with few of them. With more classes, the metric is ``balanced_accuracy`` if the
    smallest class has less than 40% of an equal share.

    Args:
        y: the target of every node.
        classes: number of classes or labels.

    >>> import torch
    >>> default_metric(torch.tensor([0] * 98 + [1] * 2), 2)
    'roc_auc'
    """
    kind = target_kind(y)
    if kind != "classification":
        return "roc_auc" if kind == "multi-label" else "rmse"
    counts = y[y >= 0].bincount(minlength=classes)
    if classes < 2 or int(counts.min()) * classes >= BALANCED * int(counts.sum()):
        return "accuracy"
    return "roc_auc" if classes == 2 else "balanced_accuracy"


def metric_reason(data: LabelledNodes) -> str:
    """Why :func:`default_metric` chose the metric of a data set, as a clause.

    >>> import polybasis as pb
    >>> metric_reason(pb.data.csbm(nodes=100, features=5))
    'because the classes are about equally frequent'
    """
    if data.target == "regression":
        return "because the target is a number"
    if data.target == "multi-label":
        return "because a node may have several labels"
    counts = data.y[data.y >= 0].bincount(minlength=data.num_classes)
    if default_metric(data.y, data.num_classes) == "accuracy":
        return "because the classes are about equally frequent"
    share, rarest = float(counts.min() / counts.sum()), str(data.classes[int(counts.argmin())])
    return f"because only {100 * share:.2g}% of the labelled nodes are of class {rarest!r}"
