"""Label reuse: the classes of training nodes as additional features."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from polybasis.features import Features, SparseFeatures, hstack
from polybasis.graph import Graph
from polybasis.nn.models.model import Inputs, Model, Precomputed


class LabelReuse(Model):
    r"""Adds a feature for each class to a model: 1 for training nodes of that class, 0 for all other nodes.

    Each training step reveals the classes of a random subset of the training nodes as features and computes the loss on
    the other training nodes (masked label prediction, Shi et al., 2021). Evaluation reveals the classes of all training
    nodes, so scores on training nodes are meaningless. The classes are part of the model's state, and the model can
    only be applied to the graph it was trained on.

    Args:
        model: a model whose inputs are the features followed by one feature for each class.
        probability: probability that a training step reveals the class of a training node as a feature.
        num_nodes: number of nodes of the graph.
    """

    known: Tensor
    transductive = True

    def __init__(self, model: Model, probability: float, num_nodes: int) -> None:
        features = model.in_channels - model.out_channels
        super().__init__(features, model.hidden_channels, model.out_channels, num_nodes)
        self.model, self.probability = model, probability
        self.register_buffer("known", torch.full((num_nodes,), -1))

    def set_labels(self, nodes: Tensor, y: Tensor) -> None:
        """Sets the classes of the training nodes.

        Args:
            nodes: training nodes, ascending.
            y: classes of all nodes, (num_nodes,).

        Raises:
            ValueError: if the nodes are not ascending or one of their classes is unknown.
        """
        if not (nodes.diff() > 0).all() or not (y[nodes] >= 0).all():
            raise ValueError("training nodes must be ascending and have known classes")
        self.known.fill_(-1)
        self.known[nodes] = y[nodes]

    def forward(self, x: Inputs, graph: Graph) -> Tensor:
        (labelled,) = self.precompute(x, graph).values
        scores: Tensor = self.model(labelled, graph)
        return scores

    def precompute(self, x: Inputs, graph: Graph) -> Precomputed:
        """The features followed by the classes of all training nodes."""
        if isinstance(x, Precomputed):
            return x
        if len(x) != len(self.known):
            raise ValueError(
                f"x has {len(x)} nodes; a model with label reuse can only be applied to its training graph, which has "
                f"{len(self.known)}"
            )
        dtype = x.values.dtype if isinstance(x, SparseFeatures) else x.dtype
        return Precomputed((hstack(x, one_hot(self.known + 1, self.out_channels + 1)[:, 1:].to(dtype)),))

    def fit_features(self, x: Inputs, nodes: Tensor) -> None:
        (labelled,) = x.values if isinstance(x, Precomputed) else (x,)
        self.model.fit_features(labelled, nodes)

    @property
    def output_bias(self) -> Tensor | None:
        return self.model.output_bias

    def bias_response(self, graph: Graph) -> Tensor | None:
        return self.model.bias_response(graph)

    def training_loss(self, x: Inputs, graph: Graph, nodes: Tensor, loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Computes the loss of the training nodes whose classes are hidden in this step.

        Args:
            x: features, or the result of :meth:`precompute`.
            graph: the graph, N nodes.
            nodes: the training nodes.
            loss: the loss of the logits of some nodes, (n, classes), given the nodes, (n,).
        """
        (labelled,) = self.precompute(x, graph).values
        hidden = torch.rand(len(nodes)) >= self.probability
        if not hidden.any():
            hidden.fill_(True)
        learned = nodes[hidden]
        return loss(self.model(self._without(labelled, learned), graph)[learned], learned)

    def _without(self, x: Features, nodes: Tensor) -> Features:
        """The features with the classes of some training nodes removed."""
        if not isinstance(x, SparseFeatures):
            x = x.clone()
            x[nodes, self.in_channels :] = 0
            return x
        last = x.row_lengths().cumsum(0) - 1  # the class of a training node is the last nonzero of its row
        values = x.values.clone()
        values[last[nodes]] = 0
        return x.with_values(values)

    def __repr__(self) -> str:
        return f"LabelReuse({self.model!r}, {self.probability})"
