"""GCNII."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polybasis.custom_op import has_values
from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class GCNII(Model):
    """Deep graph convolutions with initial residual and identity mapping (Chen et al., 2020), using PyG's ``GCN2Conv``.

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
        looped = graph.with_self_loops()
        start = hidden = self.first(dropout(x, self.dropout, self.training)).relu()
        for conv in self.convs:
            hidden = _convolved(conv, dropout(hidden, self.dropout, self.training), start, looped).relu()
        return self.last(dropout(hidden, self.dropout, self.training))


def _convolved(conv: Any, x: Tensor, start: Tensor, graph: Graph) -> Tensor:
    """Applies PyG's layer, or its formula where torch cannot multiply by a sparse matrix: in compilers and transforms.

    Args:
        conv: A ``GCN2Conv`` without normalisation.
        x, start: The hidden and the initial signal, (N, d).
        graph: The graph with self-loops, N nodes.
    """
    if has_values() and x.dtype in (torch.float32, torch.float64):
        found: Tensor = conv(x, start, graph.derived(Graph.matrix, x.dtype))
        return found
    mixed = (1 - conv.alpha) * graph.propagate(x) + conv.alpha * start
    return torch.addmm(mixed, mixed, conv.weight1, beta=1 - conv.beta, alpha=conv.beta)
