"""MLP."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class MLP(Model):
    """A multilayer perceptron on the features, which ignores the graph.

    Args:
        in_channels: The number of features.
        hidden_channels: The number of hidden channels.
        out_channels: The number of classes.
        layers: The number of linear layers, at least 1.
        dropout: The dropout probability before each layer.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> MLP(5, 8, 2)(torch.rand(3, 5), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        layers: int = 2,
        dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        widths = [in_channels] + [hidden_channels] * (layers - 1) + [out_channels]
        self.lins = torch.nn.ModuleList(FeatureLinear(*pair) for pair in pairwise(widths))
        self.dropout = dropout

    @property
    def output_bias(self) -> Tensor:
        bias: Tensor = self.lins[-1].bias  # type: ignore[assignment]
        return bias

    def forward(self, x: Features, graph: Graph) -> Tensor:
        hidden: Tensor = self.lins[0](dropout(x, self.dropout, self.training))
        for lin in self.lins[1:]:
            hidden = lin(dropout(hidden.relu(), self.dropout, self.training))
        return hidden
