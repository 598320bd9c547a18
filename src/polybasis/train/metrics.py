"""Scores from 0 to 1, higher is better."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_auroc, multiclass_accuracy

from polybasis.data.dataset import Metric


@torch.no_grad()
def score(metric: Metric, logits: Tensor, y: Tensor) -> float:
    """Accuracy, or the area under the ROC curve of two classes."""
    if metric == "roc-auc":
        return float(binary_auroc(logits.softmax(dim=1)[:, 1], y))
    return float(multiclass_accuracy(logits, y, num_classes=logits.shape[1], average="micro"))
