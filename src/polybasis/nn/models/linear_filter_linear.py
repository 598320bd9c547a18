"""Linear layer, filter on the hidden channels, linear layer: the shape of the paper's two models."""

from __future__ import annotations

from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.filter_layer import FilterLayer
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model


class LinearFilterLinear(Model):
    r"""The architecture of FavardGNN and OptBasisGNN:

    .. math:: X_0 = \mathrm{drop}_2(\mathrm{ReLU}(\mathrm{drop}(X) W_0 + b_0)), \qquad
              Y = \mathrm{drop}(\mathrm{filter}(X_0)) W_1 + b_1

    without a ReLU after the filter, as in the published code.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_nodes: int | None,
        conv: FilterLayer,
        dropout: float,
        dropout2: float,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.first = FeatureLinear(in_channels, hidden_channels)
        self.conv = conv
        self.last = FeatureLinear(hidden_channels, out_channels)
        self.dropout, self.dropout2 = dropout, dropout2

    @property
    def deterministic(self) -> bool:
        return self.dropout == 0 and self.dropout2 == 0

    def forward(self, x: Features, graph: Graph) -> Tensor:
        signal = self.first(dropout(x, self.dropout, self.training)).relu()
        signal = dropout(signal, self.dropout2, self.training)
        return self.last(dropout(self.conv(signal, graph), self.dropout, self.training))

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, K={self.conv.K})"
