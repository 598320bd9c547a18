"""MixHop."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.features import Features, as_dense
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class MixHop(Model):
    """Convolutions that mix powers of the adjacency matrix (Abu-El-Haija et al., 2019), by PyG's ``MixHopConv``.

    Args:
        in_channels: The number of features.
        hidden_channels: The number of hidden channels per power.
        out_channels: The number of classes.
        powers: The number of powers, starting with the zeroth.
        layers: The number of convolutions.
        dropout: The dropout probability before each layer.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> MixHop(5, 8, 2)(torch.rand(3, 5), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        powers: int = 3,
        layers: int = 2,
        dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        from torch_geometric.nn import MixHopConv

        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        hops = list(range(powers))
        widths = [in_channels] + [powers * hidden_channels] * (layers - 1)
        self.convs = torch.nn.ModuleList(
            MixHopConv(width, hidden_channels, hops, add_self_loops=True) for width in widths
        )
        self.last = FeatureLinear(powers * hidden_channels, out_channels)
        self.dropout = dropout

    def forward(self, x: Features, graph: Graph) -> Tensor:
        hidden = as_dense(x)
        edges, weight = graph.edge_index(), None if graph.weight is None else graph.weight.float()
        for conv in self.convs:
            hidden = conv(dropout(hidden, self.dropout, self.training), edges, weight).relu()
        return self.last(dropout(hidden, self.dropout, self.training))
