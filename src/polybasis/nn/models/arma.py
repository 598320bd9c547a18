"""ARMA."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class ARMALayer(torch.nn.Module):
    r"""The mean of ``stacks`` recursions :math:`X_{t+1} = \mathrm{act}(P X_t W_t + \mathrm{drop}(X) V_t + b_t)`: PyG's
    ARMAConv, with all stacks side by side in one product."""

    def __init__(self, in_channels: int, out_channels: int, stacks: int, layers: int, drop: float, act: bool) -> None:
        super().__init__()
        width = stacks * out_channels
        self.stacks, self.out_channels, self.drop, self.act = stacks, out_channels, drop, act
        self.init = FeatureLinear(in_channels, width, bias=False)
        self.roots = torch.nn.ModuleList(FeatureLinear(in_channels, width) for _ in range(layers))
        self.weights = torch.nn.ParameterList(
            torch.empty(stacks, out_channels, out_channels) for _ in range(layers - 1)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for lin in (self.init, *self.roots):
            for block in lin.weight.chunk(self.stacks):
                torch.nn.init.xavier_uniform_(block)
        for root in self.roots:
            torch.nn.init.zeros_(root.bias)  # type: ignore[arg-type]
        for weight in self.weights:
            for block in weight:
                torch.nn.init.xavier_uniform_(block)

    def forward(self, x: Features, graph: Graph) -> Tensor:
        hidden = self.init(x)
        for t, root in enumerate(self.roots):
            if t > 0:
                parts = hidden.view(-1, self.stacks, self.out_channels)
                hidden = torch.einsum("nsi,sio->nso", parts, self.weights[t - 1]).flatten(1)
            hidden = graph @ hidden + root(dropout(x, self.drop, self.training))
            hidden = hidden.relu() if self.act else hidden
        return hidden.view(-1, self.stacks, self.out_channels).mean(dim=1)


class ARMA(Model):
    """Two auto-regressive moving-average convolutions (Bianchi et al., 2021).

    Args:
        in_channels, hidden_channels, out_channels: features, hidden width, classes.
        stacks, layers: parallel recursions and their depth.
        dropout: rate before each convolution.
        skip_dropout: rate on the features that enter each step of a recursion.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        stacks: int = 1,
        layers: int = 1,
        dropout: float = 0.5,
        skip_dropout: float = 0.0,
        num_nodes: int | None = None,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.first = ARMALayer(in_channels, hidden_channels, stacks, layers, skip_dropout, act=True)
        self.last = ARMALayer(hidden_channels, out_channels, stacks, layers, skip_dropout, act=False)
        self.dropout = dropout

    def forward(self, x: Features, graph: Graph) -> Tensor:
        hidden: Tensor = self.first(dropout(x, self.dropout, self.training), graph).relu()
        logits: Tensor = self.last(dropout(hidden, self.dropout, self.training), graph)
        return logits
