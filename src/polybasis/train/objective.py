r"""The objective of a training run: its loss, the start of the output bias, and the metric of its scores.

With weights :math:`w_i`, the product of a node's sample weight and its class weight, the loss is

.. math:: L = \sum_i w_i\, \ell(f_i, y_i) \Big/ \sum_i w_i

where :math:`\ell` is the cross entropy of a class, the mean binary cross entropy of labels, or the squared or Huber
loss of the standardised number :math:`(y_i - c) / s`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, huber_loss

from polybasis.data import metrics
from polybasis.data.dataset import LabelledNodes
from polybasis.data.metrics import Metric, TargetKind
from polybasis.graph import Graph
from polybasis.nn.models.model import Model
from polybasis.train.config import Config
from polybasis.train.config_sections import LossConfig

HUBER = 1.345  # 95% efficiency for Gaussian residuals of unit variance (Huber, 1964)
NORMAL_MAD = 1.4826  # standard deviation of a Gaussian in median absolute deviations


def scoring_metric(config: Config, data: LabelledNodes) -> Metric:
    """The metric of validation and test scores: that of the configuration, or else that of the data set."""
    return config.stopping.metric or data.metric


@dataclass(frozen=True, eq=False)
class Objective:
    """The loss and the metric of a target.

    Attributes:
        y: target of every node; see :mod:`polybasis.data.targets`.
        target: its kind.
        outputs: number of outputs of a model.
        metric: metric of scores.
        class_weight: weight of each class, (classes,), or of the absence and presence of each label, (2, labels).
        sample_weight: weight of each node, (N,).
        huber: use the Huber loss for regression.
        center, scale: the numbers c and s that standardise the target of a regression.
    """

    y: Tensor
    target: TargetKind
    outputs: int
    metric: Metric
    class_weight: Tensor | None = None
    sample_weight: Tensor | None = None
    huber: bool = False
    center: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, config: Config, data: LabelledNodes, train: Tensor) -> Objective:
        """The objective of a configuration; weights and scales are those of the training nodes.

        Args:
            config: the configuration.
            data: all nodes with their targets.
            train: the training nodes.

        Raises:
            ValueError: if the metric or the class weights do not apply to the target.
        """
        loss, target = config.loss, data.target
        metric = scoring_metric(config, data)
        metrics.check_metric(metric, target)
        if config.label_reuse is not None and target != "classification":
            raise ValueError(f"label_reuse applies to classification only; the target of {data.name} is {target}")
        objective = cls(data.y, target, data.num_outputs, metric, sample_weight=_sample_weight(data, train))
        if target == "regression":
            center, scale = _standardisation(data.y[train].double(), loss)
            objective = replace(objective, huber=loss.regression_loss == "huber", center=center, scale=scale)
        if loss.class_weight is None:
            return objective
        return replace(objective, class_weight=_class_weight(objective, loss, data, train))

    @cached_property
    def _standardised(self) -> Tensor:
        return ((self.y.double() - self.center) / self.scale).float()

    @property
    def weighted(self) -> bool:
        """Whether nodes have different weights."""
        return self.class_weight is not None or self.sample_weight is not None

    def loss(self, outputs: Tensor, nodes: Tensor) -> Tensor:
        """The mean loss of some nodes.

        Args:
            outputs: outputs of a model for the nodes, (n, outputs).
            nodes: the nodes, (n,).
        """
        if self.target == "classification" and not self.weighted:
            return cross_entropy(outputs, self.y[nodes])
        return self.summed_loss(outputs, nodes) / self.total_weight(nodes)

    def summed_loss(self, outputs: Tensor, nodes: Tensor) -> Tensor:
        """The weighted sum of the losses of some nodes; arguments as for :meth:`loss`."""
        if self.target == "classification" and not self.weighted:
            return cross_entropy(outputs, self.y[nodes].to(outputs.device), reduction="sum")
        if self.target == "regression":
            values, y = outputs.flatten(), self._standardised[nodes].to(outputs)
            losses = huber_loss(values, y, reduction="none", delta=HUBER) if self.huber else (values - y).square()
        elif self.target == "multi-label":
            y = self.y[nodes].to(outputs)
            losses = binary_cross_entropy_with_logits(outputs, y, reduction="none") / outputs.shape[1]
        else:
            losses = cross_entropy(outputs, self.y[nodes].to(outputs.device), reduction="none")
        return (losses * self.weights(nodes).to(outputs)).sum()

    def total_weight(self, nodes: Tensor) -> float:
        """The sum of the weights of some nodes; 1 if all are 0."""
        if not self.weighted:
            return float(len(nodes))
        weights = self.weights(nodes)
        return float(weights.sum() / (weights.shape[1] if weights.ndim == 2 else 1)) or 1.0

    def weights(self, nodes: Tensor) -> Tensor:
        """The weights of some nodes, (n,), or of each of their labels, (n, labels)."""
        y = self.y[nodes]
        if self.class_weight is None:
            weights = torch.ones(y.shape)
        elif y.ndim == 2:
            weights = torch.where(y > 0, self.class_weight[1], self.class_weight[0])
        else:
            weights = self.class_weight[y]
        if self.sample_weight is None:
            return weights
        sample_weight = self.sample_weight[nodes]
        return weights * (sample_weight.unsqueeze(1) if y.ndim == 2 else sample_weight)

    def score(self, outputs: Tensor, nodes: Tensor) -> float:
        """The metric of some nodes, without weights; arguments as for :meth:`loss`."""
        return metrics.score(self.metric, self.target, self.in_units(outputs), self.y[nodes])

    def in_units(self, outputs: Tensor) -> Tensor:
        """Outputs in the units of the target; logits do not change."""
        return self.center + self.scale * outputs.double() if self.target == "regression" else outputs

    def log_prior(self, nodes: Tensor) -> Tensor:
        """The constant output with the lowest loss on some nodes, (outputs,).

        It is the logarithm of the weighted class frequencies, or the logit of the weighted frequency of each label. A
        class or label without nodes, or with all of them, counts as half a node. For regression, it is 0.
        """
        if self.target == "regression":
            return torch.zeros(1)
        y, weights = self.y[nodes], self.weights(nodes).double()
        half = 0.5 / len(nodes)
        if self.target == "multi-label":
            share = (weights * y).sum(dim=0) / weights.sum(dim=0)
            return share.clamp(half, 1 - half).logit().float()
        totals = torch.zeros(self.outputs, dtype=torch.float64).index_add_(0, y, weights)
        return (totals / totals.sum()).clamp(min=half).log().float()

    def start_output_bias(self, model: Model, train: Tensor, graph: Graph | None = None) -> None:
        """Initialises the output bias of a new model to the prior of the training nodes, if the model has such a bias.

        A filter that follows the bias b changes it to :math:`s_i b` at node i. In this case, b is chosen so that the
        mean prediction over the training nodes equals the prior, as far as the filter permits.

        Args:
            model: the model.
            train: the training nodes.
            graph: the graph; not needed for models on a precomputed basis.
        """
        if model.output_bias is None:
            return
        prior = self.log_prior(train)
        with torch.no_grad():
            response = None if graph is None else model.bias_response(graph)
            start = prior if response is None else self._bias_before_filter(prior, response[train].double())
            model.output_bias.copy_(start)

    def _bias_before_filter(self, prior: Tensor, response: Tensor) -> Tensor:
        """Solves for the bias by fixed-point iterations on the logits of the mean prediction."""
        mean = response.mean(dim=0)
        first = bias = prior.double() / mean
        for _ in range(20):
            outputs = response * bias
            if self.target == "multi-label":
                found = outputs.sigmoid().mean(dim=0).logit()
            else:
                found = outputs.softmax(dim=1).mean(dim=0).log()
            bias = bias + (prior - found) / mean
        return torch.where(bias.isfinite() & (bias.abs() <= 2 * first.abs()), bias, first)


def _sample_weight(data: LabelledNodes, train: Tensor) -> Tensor | None:
    weight = data.sample_weight
    if weight is None:
        return None
    if weight.shape != data.y.shape[:1]:
        raise ValueError(f"sample_weight has shape {tuple(weight.shape)}; expected ({len(data.y)},), one for each node")
    nodes = data.labelled
    wrong = nodes[~(weight[nodes].isfinite() & (weight[nodes] >= 0))]
    if len(wrong):
        value = float(weight[wrong[0]])
        raise ValueError(f"sample_weight of node {int(wrong[0])} is {value}; expected a non-negative number")
    if not weight[train].sum() > 0:
        raise ValueError("sample_weight is 0 for all training nodes; expected a positive weight for some of them")
    return weight.float()


def _standardisation(y: Tensor, loss: LossConfig) -> tuple[float, float]:
    """Mean and standard deviation; for the Huber loss median and median absolute deviation, which outliers leave."""
    center, scale = y.mean(), y.std(correction=0)
    if loss.regression_loss == "huber":
        center = y.median()
        deviation = NORMAL_MAD * (y - center).abs().median()
        scale = deviation if deviation > 0 else scale
    return float(center), float(scale) or 1.0


def _class_weight(objective: Objective, loss: LossConfig, data: LabelledNodes, train: Tensor) -> Tensor:
    """Weights by name, or n / (classes * n_c) as in scikit-learn, with nodes counted by their sample weights."""
    given, y = loss.class_weight, data.y[train]
    if data.target == "regression" or (isinstance(given, dict) and data.target == "multi-label"):
        raise ValueError(f"class_weight is {given!r}, which does not apply to {data.target}")
    if isinstance(given, dict):
        names = [str(name) for name in data.classes]
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"class_weight has the class {unknown[0]!r}; expected {', '.join(names)}")
        return torch.tensor([float(given.get(name, 1.0)) for name in names])
    nodes = torch.ones(len(train)) if objective.sample_weight is None else objective.sample_weight[train]
    if data.target == "multi-label":
        present = nodes.double() @ y.double()
        counts = torch.stack([nodes.sum() - present, present])
    else:
        counts = torch.zeros(data.num_outputs, dtype=torch.float64).index_add_(0, y, nodes.double())
    return torch.where(counts > 0, nodes.sum() / (len(counts) * counts), 1.0).float()
