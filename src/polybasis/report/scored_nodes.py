"""What a model predicts for labelled nodes, next to what is true of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.data import metrics
from polybasis.data.metrics import Metric
from polybasis.report.outcomes import FloatArray, IntArray
from polybasis.train.assessment import Estimate
from polybasis.train.bootstrap import bootstrap
from polybasis.train.evaluation import class_order
from polybasis.train.source import Data
from polybasis.train.trained_model import TrainedModel

MOST_NUMBERS = 100_000_000  # that are resampled for one interval
FEWEST_RESAMPLES, RESAMPLES = 200, 500


@dataclass(frozen=True, eq=False)
class ScoredNodes:
    """Outputs of a model for labelled nodes.

    Attributes:
        trained: the model.
        where: the nodes in words, such as "test nodes".
        all_outputs: logits or values, (n, outputs), in the order of the model's classes.
        columns: the outputs that are scored: all, but for several labels only those that the data has.
        y: targets as indices of the model's classes, (n,); labels, (n, labels); or numbers, (n,).
        names: the classes or labels.
    """

    trained: TrainedModel
    where: str
    all_outputs: Tensor
    columns: Tensor
    y: Tensor
    names: tuple[str, ...]

    @classmethod
    def of(cls, trained: TrainedModel, data: Data, nodes: Tensor, where: str, outputs: Tensor) -> ScoredNodes:
        """The outputs of a model for some nodes of its own data or of other data.

        Args:
            trained: the model.
            data: the data.
            nodes: the nodes, (n,).
            where: the nodes in words.
            outputs: outputs of the model for these nodes, (n, outputs).

        Raises:
            ValueError: if the data has a class that the model does not know.
        """
        y, names, every = data.y[nodes], [str(name) for name in trained.classes], torch.arange(outputs.shape[1])
        if trained.target == "regression":
            return cls(trained, where, outputs, every, y, ())
        order = class_order(trained, data)
        if trained.target == "multi-label":
            return cls(trained, where, outputs, order, y, tuple(names[i] for i in order.tolist()))
        return cls(trained, where, outputs, every, order[y], tuple(names))

    @property
    def outputs(self) -> Tensor:
        """The outputs that are scored, (n, classes or labels), or (n, 1)."""
        return self.all_outputs[:, self.columns]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def is_binary(self) -> bool:
        """Whether the target is one of two classes."""
        return self.trained.target == "classification" and len(self.names) == 2

    def score(self, metric: Metric) -> float:
        """A score."""
        return metrics.score(metric, self.trained.target, self.outputs, self.y)

    def estimate(self, metric: Metric) -> Estimate:
        """A score with its bootstrap interval, from fewer resamples if there are many nodes and classes."""
        resamples = int(np.clip(MOST_NUMBERS // max(self.outputs.numel(), 1), FEWEST_RESAMPLES, RESAMPLES))
        drawn = bootstrap({"model": self.outputs}, self.y, metric, self.trained.target, resamples)["model"]
        return Estimate.of(self.score(metric), drawn)

    @cached_property
    def uncalibrated(self) -> FloatArray:
        """Probabilities before calibration, (n, classes or labels)."""
        return np.asarray(
            self.trained.probabilities(self.all_outputs, calibrated=False)[:, self.columns].double().numpy()
        )

    @cached_property
    def probabilities(self) -> FloatArray:
        """Probabilities, calibrated if the model has a calibration, (n, classes or labels)."""
        return np.asarray(self.trained.probabilities(self.all_outputs)[:, self.columns].double().numpy())

    @cached_property
    def actual(self) -> NDArray[np.bool_]:
        """Whether each node has each class or label, (n, classes or labels)."""
        y = self.y.numpy()
        return np.asarray(y > 0 if y.ndim == 2 else y[:, None] == np.arange(len(self.names)))

    @cached_property
    def predicted(self) -> NDArray[np.bool_]:
        """Whether each node is predicted to have each class or label, (n, classes or labels)."""
        if self.trained.target == "multi-label":
            return np.asarray(self.probabilities > 0.5)
        return np.asarray(self.predicted_class[:, None] == np.arange(len(self.names)))

    @cached_property
    def predicted_class(self) -> IntArray:
        """The index of the predicted class, (n,); a threshold of the model applies."""
        threshold = self.trained.threshold
        probabilities = self.probabilities.astype(np.float32)
        if threshold is None:
            return np.asarray(probabilities.argmax(axis=1))
        return (probabilities[:, 1] >= threshold.value).astype(np.int64)
