"""A model that is told the classes of its training nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from polybasis.features import Features, SparseFeatures, hstack
from polybasis.graph import Graph
from polybasis.nn.models.model import Model


class LabelReuse(Model):
    r"""A model with one more feature for each class: 1 for a training node of that class, 0 for all other nodes.

    In evaluation every training node's class is shown, so that scores of training nodes say nothing. In training a node
    that sees its own class would learn nothing else, so in each step some training nodes are shown, and the others are
    learned from (masked label prediction, Shi et al., 2021). The classes are part of the model's state.

    Args:
        model: takes the features and, behind them, one for each class.
        share: probability that a training node is shown.
        num_nodes: of the only graph that this model can serve.
    """

    known: Tensor

    def __init__(self, model: Model, share: float, num_nodes: int) -> None:
        features = model.in_channels - model.out_channels
        super().__init__(features, model.hidden_channels, model.out_channels, num_nodes)
        self.model, self.share = model, share
        self.register_buffer("known", torch.full((num_nodes,), -1))
        self._labelled: tuple[SparseFeatures, Features] | None = None  # features, and those with all that is known
        self._hidden = torch.zeros(0, dtype=torch.bool)  # of the training nodes, those that are learned from

    def tell(self, nodes: Tensor, y: Tensor) -> None:
        """Takes the classes of the training nodes from those of all nodes.

        Args:
            nodes: in ascending order, as in a :class:`~polybasis.data.splits.Split`.
            y: (num_nodes,), known for these nodes.
        """
        if not (nodes.diff() > 0).all() or not (y[nodes] >= 0).all():
            raise ValueError("training nodes have to be in ascending order, with classes that are known")
        self.known.fill_(-1)
        self.known[nodes] = y[nodes]
        self._labelled = None

    def forward(self, x: Features, graph: Graph) -> Tensor:
        if len(x) != len(self.known):
            raise ValueError(
                f"x has {len(x)} nodes; a model with labels serves only the graph that it was trained on, of "
                f"{len(self.known)} nodes"
            )
        scores: Tensor = self.model(self._shown(x) if self.training else self._with_known(x), graph)
        return scores

    def loss(self, scores: Tensor, y: Tensor) -> Tensor:
        """The model's own, on the training nodes that were not shown."""
        return self.model.loss(scores[self._hidden], y[self._hidden])

    def _load_from_state_dict(self, *state: Any) -> None:
        super()._load_from_state_dict(*state)
        self._labelled = None

    def _with_known(self, x: Features) -> Features:
        if self._labelled is not None and self._labelled[0] is x:
            return self._labelled[1]
        labelled = hstack(x, one_hot(self.known + 1, self.out_channels + 1)[:, 1:].float())
        if isinstance(x, SparseFeatures):  # whose values do not change
            self._labelled = x, labelled
        return labelled

    def _shown(self, x: Features) -> Features:
        nodes = (self.known >= 0).nonzero()[:, 0]
        if len(nodes) == 0:
            raise ValueError("the model has not been told any classes; call tell first")
        self._hidden = torch.rand(len(nodes)) >= self.share
        if not self._hidden.any():
            self._hidden.fill_(True)
        labelled = self._with_known(x)
        if not isinstance(labelled, SparseFeatures):
            labelled[nodes[self._hidden], self.in_channels :] = 0
            return labelled
        ends = labelled.row_lengths().cumsum(0) - 1  # a node's class is the last of its features
        values = labelled.values.clone()
        values[ends[nodes[self._hidden]]] = 0
        return labelled.with_values(values)

    def __repr__(self) -> str:
        return f"LabelReuse({self.model!r}, {self.share})"
