"""Scores of a saved model on labelled nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from polybasis.data import metrics
from polybasis.data.metrics import Metric
from polybasis.train.source import Data, Source
from polybasis.train.trained_model import TrainedModel

LABELS: tuple[Metric, ...] = ("average_precision", "f1", "log_loss")
REGRESSION: tuple[Metric, ...] = ("rmse", "mae", "r2")


def evaluate(trained: TrainedModel, source: Source, more: Sequence[Metric] = ()) -> list[dict[str, Any]]:
    """Scores a model on the labelled nodes of a source.

    Args:
        trained: the model.
        source: the data. If the model was trained on it, or on a store built from it, training, validation and test
            nodes are scored separately.
        more: additional metrics.

    Returns:
        One row for each set of nodes: ``nodes``, ``count``, and scores. For classes, these are ``accuracy``, the
        metrics of the data and of the model, and ``cross entropy``; for labels and numbers, the metrics that apply.

    Raises:
        ValueError: if the model cannot be applied to the data, or no node has a known target.

    >>> import polybasis as pb
    >>> data = pb.data.load("csbm")
    >>> config, split = pb.train.Config.of("optbasisgnn", K=3, epochs=20), data.split()
    >>> trained = pb.train.TrainedModel.of(config, pb.train.fit(config, data, split))
    >>> [row["nodes"] for row in pb.train.evaluate(trained, pb.train.Source.named("csbm"))]
    ['labelled']
    """
    data = source.open()
    check_labelled(trained, data)
    for name in more:
        metrics.check_metric(name, trained.target)
    order = class_order(trained, data)
    split = trained.split_of(data)
    if split is not None:
        parts = {"training": split.train, "validation": split.val, "test": split.test}
    else:
        parts = {"labelled": data.labelled}
    outputs = trained.logits(data, data.labelled)
    rows = []
    for part, nodes in parts.items():
        if len(nodes) == 0:
            continue
        found = outputs[torch.searchsorted(data.labelled, nodes)]
        rows.append({"nodes": part, "count": len(nodes), **_scores(trained, data, found, nodes, order, more)})
    return rows


def check_labelled(trained: TrainedModel, data: Data) -> None:
    """Checks that data has targets of the model's kind.

    Raises:
        ValueError: if no node has a known target, or the target is of another kind.
    """
    if not len(data.labelled):
        raise ValueError(f"{data.name} has no labelled nodes to score")
    if data.target != trained.target:
        raise ValueError(f"the target of {data.name} is {data.target}; the model was trained for {trained.target}")


def class_order(trained: TrainedModel, data: Data) -> Tensor:
    """The model's output for each class or label of the data, (classes,).

    A class may have different indices in the data and in the model, which may also have more classes. Classes are
    compared as text: those from tables are text, those from arrays may be integers.

    Raises:
        ValueError: if the data has a class that the model does not know.
    """
    index = {str(value): i for i, value in enumerate(trained.classes)}
    unknown = [value for value in data.classes if str(value) not in index]
    if unknown:
        raise ValueError(f"{data.name} has the class {unknown[0]!r}, which is not one of the model's classes")
    return torch.tensor([index[str(value)] for value in data.classes], dtype=torch.long)


def _scores(
    trained: TrainedModel, data: Data, outputs: Tensor, nodes: Tensor, order: Tensor, more: Sequence[Metric]
) -> dict[str, float]:
    y = data.y[nodes]
    if trained.target == "regression":
        return {name: metrics.score(name, "regression", outputs, y) for name in dict.fromkeys((*REGRESSION, *more))}
    names = dict.fromkeys((data.metric, trained.metric, *more))
    if trained.target == "multi-label":
        ours = outputs[:, order]
        return {name: metrics.score(name, "multi-label", ours, y) for name in dict.fromkeys((*names, *LABELS))}
    y = order[y]  # the model may predict a class that the data does not have
    scores = {name: metrics.score(name, "classification", outputs, y) for name in dict.fromkeys(("accuracy", *names))}
    return scores | {"cross entropy": float(torch.nn.functional.cross_entropy(outputs, y))}
