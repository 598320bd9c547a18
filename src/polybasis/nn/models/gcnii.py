"""GCNII."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class GCNII(Model):
    """Deep graph convolutions with initial residual and identity mapping (Chen et al., 2020), by PyG's ``GCN2Conv``.

    Args:
        in_channels: The number of features.
        hidden_channels: The number of hidden channels.
        out_channels: The number of classes.
        layers: The number of convolutions.
        alpha: The strength of the initial residual connection.
        theta: The strength of the identity mapping, which decays with depth.
        dropout: The dropout probability before each layer.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> GCNII(5, 8, 2)(torch.rand(3, 5), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        layers: int = 8,
        alpha: float = 0.1,
        theta: float = 0.5,
        dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        from torch_geometric.nn import GCN2Conv

        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.first, self.last = (
            FeatureLinear(in_channels, hidden_channels),
            FeatureLinear(hidden_channels, out_channels),
        )
        self.convs = torch.nn.ModuleList(
            GCN2Conv(hidden_channels, alpha, theta, layer, normalize=False) for layer in range(1, layers + 1)
        )
        self.dropout = dropout

    def forward(self, x: Features, graph: Graph) -> Tensor:
        matrix = graph.with_self_loops().matrix(torch.float32)
        start = hidden = self.first(dropout(x, self.dropout, self.training)).relu()
        for conv in self.convs:
            hidden = conv(dropout(hidden, self.dropout, self.training), start, matrix).relu()
        return self.last(dropout(hidden, self.dropout, self.training))
