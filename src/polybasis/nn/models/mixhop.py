"""MixHop."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polybasis.features import Features, as_dense
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class MixHop(Model):
    """Convolutions that mix powers of the adjacency matrix (Abu-El-Haija et al., 2019), using PyG's ``MixHopConv``.

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
        edges, weight = graph.derived(_normalized, hidden.dtype)
        for conv in self.convs:
            hidden = _convolved(conv, dropout(hidden, self.dropout, self.training), edges, weight).relu()
        return self.last(dropout(hidden, self.dropout, self.training))


def _convolved(conv: Any, x: Tensor, edges: Tensor, weight: Tensor) -> Tensor:
    """Applies PyG's layer with weights that are already normalised; PyG would normalise them at every call.

    Args:
        conv: A ``MixHopConv``.
        x: The signal, (N, in_channels).
        edges, weight: The edges with self-loops and their normalised weights.
    """
    parts = [conv.lins[0](x)]
    for lin in conv.lins[1:]:
        x = conv.propagate(edges, x=x, edge_weight=weight)
        parts.append(lin(x))
    bias: Tensor = conv.bias
    return torch.cat([parts[power] for power in conv.powers], dim=-1) + bias


def _normalized(graph: Graph, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    weight = None if graph.weight is None else graph.weight.to(dtype)
    edges, weight = gcn_norm(graph.edge_index(), weight, graph.num_nodes, dtype=dtype)
    return edges, weight
