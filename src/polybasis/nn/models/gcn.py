"""GCN."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class GCNLayer(FeatureLinear):
    r"""A graph convolution :math:`\tilde P X W + b` with self-loops, equivalent to PyG's ``GCNConv``."""

    def reset_parameters(self) -> None:
        torch.nn.init.xavier_uniform_(self.weight)
        torch.nn.init.zeros_(self.bias)

    def propagate(self, x: Features, graph: Graph) -> Tensor:
        """Returns the convolved features, (N, out_features)."""
        bias, self_loops = self.bias, graph.with_self_loops()
        return self_loops.propagate(super().forward(x) - bias) + bias


class GCN(Model):
    r"""Two graph convolutions (Kipf and Welling, 2017).

    .. math:: Y = \tilde P\, \mathrm{ReLU}(\tilde P X W_0 + b_0)\, W_1 + b_1

    Args:
        in_channels: The number of features.
        hidden_channels: The number of hidden channels.
        out_channels: The number of classes.
        dropout: The dropout probability before each layer.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> GCN(5, 8, 2)(torch.rand(3, 5), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
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
