"""GCN."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class GCNLayer(FeatureLinear):
    r""":math:`\tilde P X W + b` with self-loops: PyG's GCNConv on the engine's product."""

    def reset_parameters(self) -> None:
        torch.nn.init.xavier_uniform_(self.weight)
        torch.nn.init.zeros_(self.bias)

    def propagate(self, x: Features, graph: Graph) -> Tensor:
        bias, self_loops = self.bias, graph.with_self_loops()
        return self_loops @ (super().forward(x) - bias) + bias


class GCN(Model):
    """Two graph convolutions (Kipf and Welling, 2017).

    Args:
        in_channels, hidden_channels, out_channels: features, hidden width, classes.
        dropout: rate before each layer.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.first, self.last = GCNLayer(in_channels, hidden_channels), GCNLayer(hidden_channels, out_channels)
        self.dropout = dropout

    def forward(self, x: Features, graph: Graph) -> Tensor:
        hidden = self.first.propagate(dropout(x, self.dropout, self.training), graph).relu()
        return self.last.propagate(dropout(hidden, self.dropout, self.training), graph)
