"""Scores of a saved model on labelled nodes."""

from __future__ import annotations

from typing import Any

import torch

from polybasis.train.job import Source
from polybasis.train.trained_model import TrainedModel


def evaluate(trained: TrainedModel, source: Source) -> list[dict[str, Any]]:
    """Scores a model on the labelled nodes of a source.

    Args:
        trained: the model.
        source: the data. If the model was trained on it, or on a store built from it, training, validation and test
            nodes are scored separately.

    Returns:
        One row for each set of nodes: ``nodes``, ``count``, ``accuracy``, the data's metric and ``cross entropy``.

    Raises:
        ValueError: if the model cannot be applied to the data, or no node has a known class.
    """
    data = source.open()
    if not len(data.labelled):
        raise ValueError(f"{data.name} has no labelled nodes to score")
    # Compare classes as text: classes from tables are text, classes from arrays are integers.
    index = {str(value): i for i, value in enumerate(trained.classes)}
    unknown = [value for value in data.classes if str(value) not in index]
    if unknown:
        raise ValueError(f"{data.name} has the class {unknown[0]!r}, which is not one of the model's classes")
    # A class may have different indices in the data and in the model, which may also have more classes.
    order = torch.tensor([index[str(value)] for value in data.classes])
    made = trained.provenance
    if made.get("data") == data.dataset_identity:
        split = data.split(made["protocol"], made["split"])
        parts = {"training": split.train, "validation": split.val, "test": split.test}
    else:
        parts = {"labelled": data.labelled}
    logits = trained.logits(data, data.labelled)
    rows = []
    for name, nodes in parts.items():
        if len(nodes) == 0:
            continue
        scores, y = logits[torch.searchsorted(data.labelled, nodes)], order[data.y[nodes]]
        row = {"nodes": name, "count": len(nodes), "accuracy": float((scores.argmax(1) == y).float().mean())}
        if data.metric != "accuracy":
            row[data.metric] = data.score(scores[:, order], nodes)
        row["cross entropy"] = float(torch.nn.functional.cross_entropy(scores, y))
        rows.append(row)
    return rows
