"""Ensembles of models trained from different initial weights."""

from __future__ import annotations

from collections.abc import Iterable
from math import log

import torch
from torch import Tensor

from polybasis.graph import Graph
from polybasis.nn.models.model import Inputs, Model


class Ensemble(Model):
    r"""The mean probability of several models.

    .. math:: Y = \log \frac{1}{M} \sum_m \mathrm{softmax}(Y_m)

    Args:
        models: two or more models of the same class, with the same features and classes.
    """

    def __init__(self, models: Iterable[Model]) -> None:
        parts = list(models)
        first = parts[0]
        super().__init__(first.in_channels, first.hidden_channels, first.out_channels, first.num_nodes)
        self.models = torch.nn.ModuleList(parts)
        self.transductive = first.transductive

    def forward(self, x: Inputs, graph: Graph) -> Tensor:
        inputs = self.precompute(x, graph)
        scores = torch.stack([model(inputs, graph) for model in self.models])
        return scores.log_softmax(dim=2).logsumexp(dim=0) - log(len(self.models))

    def precompute(self, x: Inputs, graph: Graph) -> Inputs:
        first = self.models[0]
        assert isinstance(first, Model)
        return first.precompute(x, graph)

    def __repr__(self) -> str:
        return f"Ensemble({len(self.models)} x {self.models[0]!r})"
