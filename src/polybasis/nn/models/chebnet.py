"""ChebNet."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class ChebLayer(torch.nn.Module):
    r"""A Chebyshev convolution, equivalent to PyG's ``ChebConv`` with ``lambda_max=2``.

    .. math:: Y = \sum_{k=0}^{K} T_k(-P)\, X\, \Theta_k + b

    With Clenshaw's algorithm the K products with P have the width of the output instead of the input.

    Args:
        in_channels: The number of input channels.
        out_channels: The number of output channels.
        K: The degree.
    """

    def __init__(self, in_channels: int, out_channels: int, K: int) -> None:
        super().__init__()
        self.lin = FeatureLinear(in_channels, (K + 1) * out_channels, bias=False)
        self.bias = torch.nn.Parameter(torch.empty(out_channels))
        self.K = K
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights and sets the bias to 0."""
        for block in self.lin.weight.chunk(self.K + 1):
            torch.nn.init.xavier_uniform_(block)
        torch.nn.init.zeros_(self.bias)

    def forward(self, x: Features, graph: Graph) -> Tensor:
        parts = list(self.lin(x).chunk(self.K + 1, dim=1))
        b_next = b_next2 = torch.zeros_like(parts[0])  # b_{k+1}, b_{k+2}
        for part in parts[:0:-1]:
            b_next, b_next2 = part - 2 * graph.propagate(b_next) - b_next2, b_next
        return parts[0] - graph.propagate(b_next) - b_next2 + self.bias


class ChebNet(Model):
    """Two Chebyshev convolutions (Defferrard et al., 2016).

    Args:
        in_channels: The number of features.
        hidden_channels: The number of hidden channels.
        out_channels: The number of classes.
        K: The degree of the filters.
        dropout: The dropout probability before each layer.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> ChebNet(5, 8, 2, K=3)(torch.rand(3, 5), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 2,
        dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.first, self.last = ChebLayer(in_channels, hidden_channels, K), ChebLayer(hidden_channels, out_channels, K)
        self.dropout = dropout

    def forward(self, x: Features, graph: Graph) -> Tensor:
        hidden: Tensor = self.first(dropout(x, self.dropout, self.training), graph).relu()
        logits: Tensor = self.last(dropout(hidden, self.dropout, self.training), graph)
        return logits
