"""Several copies of a model that start from different weights and classify together."""

from __future__ import annotations

from collections.abc import Iterable
from math import log

import torch
from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.models.model import Model


class Ensemble(Model):
    r"""Models of one kind, each trained alone; their mean probability decides.

    .. math:: Y = \log \frac{1}{M} \sum_m \mathrm{softmax}(Y_m)

    Args:
        members: two models or more, with the same features and classes.
    """

    def __init__(self, members: Iterable[Model]) -> None:
        models = list(members)
        first = models[0]
        super().__init__(first.in_channels, first.hidden_channels, first.out_channels, first.num_nodes)
        self.members = torch.nn.ModuleList(models)

    def forward(self, x: Features, graph: Graph) -> Tensor:
        scores = torch.stack([member(x, graph) for member in self.members])
        return scores.log_softmax(dim=2).logsumexp(dim=0) - log(len(self.members))

    def __repr__(self) -> str:
        return f"Ensemble({len(self.members)} x {self.members[0]!r})"
