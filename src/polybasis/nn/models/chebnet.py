"""ChebNet."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class ChebLayer(torch.nn.Module):
    r""":math:`\sum_k T_k(-P)\, X \Theta_k + b`: PyG's ChebConv with its largest eigenvalue 2. By Clenshaw's rule the K
    products are on the output's width instead of the input's."""

    def __init__(self, in_channels: int, out_channels: int, K: int) -> None:
        super().__init__()
        self.lin = FeatureLinear(in_channels, (K + 1) * out_channels, bias=False)
        self.bias = torch.nn.Parameter(torch.empty(out_channels))
        self.K = K
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for block in self.lin.weight.chunk(self.K + 1):
            torch.nn.init.xavier_uniform_(block)
        torch.nn.init.zeros_(self.bias)

    def forward(self, x: Features, graph: Graph) -> Tensor:
        parts = list(self.lin(x).chunk(self.K + 1, dim=1))
        after = after2 = torch.zeros_like(parts[0])  # b_{k+1}, b_{k+2}
        for part in parts[:0:-1]:
            after, after2 = part - 2 * (graph @ after) - after2, after
        return parts[0] - graph @ after - after2 + self.bias


class ChebNet(Model):
    """Two Chebyshev convolutions (Defferrard et al., 2016).

    Args:
        in_channels, hidden_channels, out_channels: features, hidden width, classes.
        K: degree of the filters.
        dropout: rate before each layer.
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
