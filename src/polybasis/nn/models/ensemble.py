"""Ensembles of models trained from different initial weights."""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from polybasis.graph import Graph
from polybasis.nn.models.model import Inputs, Model

Link = Literal["softmax", "sigmoid", "identity"]


class Ensemble(Model):
    r"""The mean prediction of several models: of probabilities, or of outputs with the identity as link.

    .. math:: Y = \log \frac{1}{M} \sum_m \mathrm{softmax}(Y_m)

    Args:
        models: two or more models of the same class, with the same features and classes.
        link: the function from outputs to predictions.
    """

    def __init__(self, models: Iterable[Model], link: Link = "softmax") -> None:
        parts = list(models)
        first = parts[0]
        super().__init__(first.in_channels, first.hidden_channels, first.out_channels, first.num_nodes)
        self.models = torch.nn.ModuleList(parts)
        self.transductive, self.link = first.transductive, link

    def forward(self, x: Inputs, graph: Graph) -> Tensor:
        inputs = self.precompute(x, graph)
        scores = torch.stack([model(inputs, graph) for model in self.models])
        if self.link == "identity":
            return scores.mean(dim=0)
        if self.link == "sigmoid":  # logarithms of p and of 1 - p
            shares = torch.stack([logsigmoid(scores), logsigmoid(-scores)]).logsumexp(dim=1)
            return shares[0] - shares[1]
        return scores.log_softmax(dim=2).logsumexp(dim=0) - log(len(self.models))

    def precompute(self, x: Inputs, graph: Graph) -> Inputs:
        first = self.models[0]
        assert isinstance(first, Model)
        return first.precompute(x, graph)

    def __repr__(self) -> str:
        return f"Ensemble({len(self.models)} x {self.models[0]!r})"
