"""ARMA."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class ARMALayer(torch.nn.Module):
    r"""An ARMA convolution, equivalent to PyG's ``ARMAConv``: the mean of several parallel recursions.

    .. math:: X_{t+1} = \mathrm{act}(P X_t W_t + \mathrm{dropout}(X)\, V_t + b_t)

    All recursions share one product with P per step.

    Args:
        in_channels: The number of input channels.
        out_channels: The number of output channels.
        stacks: The number of parallel recursions.
        layers: The number of steps of each recursion.
        drop: The dropout probability of the skip connection.
        act: Apply a ReLU after each step.
    """

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
        """Draws new weights and sets the biases to 0."""
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
            hidden = graph.propagate(hidden) + root(dropout(x, self.drop, self.training))
            hidden = hidden.relu() if self.act else hidden
        return hidden.view(-1, self.stacks, self.out_channels).mean(dim=1)


class ARMA(Model):
    """Two auto-regressive moving-average convolutions (Bianchi et al., 2021).

    Args:
        in_channels: The number of features.
        hidden_channels: The number of hidden channels.
        out_channels: The number of classes.
        stacks: The number of parallel recursions.
        layers: The number of steps of each recursion.
        dropout: The dropout probability before each convolution.
        skip_dropout: The dropout probability of the skip connections.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> ARMA(5, 8, 2, stacks=2)(torch.rand(3, 5), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
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

    @property
    def output_bias(self) -> Tensor:
        bias: Tensor = self.last.roots[-1].bias  # type: ignore[assignment]
        return bias.view(self.last.stacks, self.out_channels)

    def forward(self, x: Features, graph: Graph) -> Tensor:
        hidden: Tensor = self.first(dropout(x, self.dropout, self.training), graph).relu()
        logits: Tensor = self.last(dropout(hidden, self.dropout, self.training), graph)
        return logits
