"""Several copies of a model that start from different weights and classify together."""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from polybasis.graph import Graph
from polybasis.nn.features import Features
from polybasis.nn.models.model import Model, Role


class Ensemble(Model):
    r"""Models of one kind, none of which learns from the others; their mean probability decides.

    .. math:: Y = \log \frac{1}{M} \sum_m \mathrm{softmax}(Y_m)

    Args:
        members: two models or more, with the same features and classes.
    """

    def __init__(self, members: Iterable[Model]) -> None:
        models = list(members)
        first = models[0]
        super().__init__(first.in_channels, first.hidden_channels, first.out_channels, first.num_nodes)
        self.members = torch.nn.ModuleList(models)

    def roles(self) -> dict[str, Role]:
        return {
            f"members.{number}.{name}": role
            for number, member in enumerate(self.members)
            for name, role in cast(Model, member).roles().items()
        }

    def forward(self, x: Features, graph: Graph) -> Tensor:
        """Scores of shape (N, out_channels); in training (N, out_channels, members), those of every member."""
        scores = torch.stack([member(x, graph) for member in self.members], dim=2)
        return scores if self.training else scores.log_softmax(dim=1).logsumexp(dim=2) - log(len(self.members))

    def loss(self, scores: Tensor, y: Tensor) -> Tensor:
        """The sum of the members' own losses."""
        members = scores.shape[2]
        return members * cross_entropy(scores, y[:, None].expand(-1, members))

    def __repr__(self) -> str:
        return f"Ensemble({len(self.members)} x {self.members[0]!r})"
