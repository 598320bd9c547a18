"""Models that were trained from different initial weights and classify together."""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from typing import Any

import torch
from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.models.model import Model


class Ensemble(Model):
    r"""The mean probability of several models.

    .. math:: Y = \log \frac{1}{M} \sum_m \mathrm{softmax}(Y_m)

    Args:
        models: two or more models of one kind, with the same features and classes.
    """

    def __init__(self, models: Iterable[Model]) -> None:
        parts = list(models)
        first = parts[0]
        super().__init__(first.in_channels, first.hidden_channels, first.out_channels, first.num_nodes)
        self.models = torch.nn.ModuleList(parts)

    def forward(self, x: Features, graph: Graph) -> Tensor:
        return self.logits(*self.precompute(x, graph))

    def precompute(self, x: Features, graph: Graph) -> tuple[Any, ...]:
        first = self.models[0]
        assert isinstance(first, Model)
        return first.precompute(x, graph)

    def logits(self, *inputs: Any) -> Tensor:
        scores = torch.stack([model.logits(*inputs) for model in self.models])  # type: ignore[operator]
        return scores.log_softmax(dim=2).logsumexp(dim=0) - log(len(self.models))

    def __repr__(self) -> str:
        return f"Ensemble({len(self.models)} x {self.models[0]!r})"
