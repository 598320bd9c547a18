"""The paper's two models, OptBasisGNN and FavardGNN: linear layer, filter on the hidden channels, linear layer."""

from __future__ import annotations

from torch import Tensor

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.krylov.filters import Scale
from polybasis.nn.favard_conv import FavardConv, RecurrenceKind
from polybasis.nn.filter_layer import FilterLayer
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model
from polybasis.nn.optbasis_conv import OptBasisConv


class LinearFilterLinear(Model):
    r"""The common architecture of OptBasisGNN and FavardGNN.

    .. math:: X_0 = \mathrm{dropout}_2(\mathrm{ReLU}(\mathrm{dropout}(X)\, W_0 + b_0)), \qquad
              Y = \mathrm{dropout}(\mathrm{filter}(X_0))\, W_1 + b_1

    As in the published code, no ReLU follows the filter.

    Args:
        in_channels: The number of features.
        hidden_channels: The number of filter channels.
        out_channels: The number of classes.
        num_nodes: Unused.
        conv: The filter layer.
        dropout: The dropout probability before each linear layer.
        dropout2: The dropout probability before the filter.
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


class OptBasisGNN(LinearFilterLinear):
    r"""A filter in the optimal basis between two linear layers (Guo and Wei, 2023); see
    :class:`polybasis.nn.OptBasisConv`.

    .. math:: Y = \Big[\sum_{k=0}^{K} \alpha_{kl}\, v_{kl}\Big]_l W_1 + b_1, \qquad
              X_0 = \mathrm{ReLU}(X W_0 + b_0)

    Here :math:`v_{kl}` are the vectors of the optimal basis of channel l of :math:`X_0`.

    Args:
        in_channels: The number of features.
        hidden_channels: The number of filter channels.
        out_channels: The number of classes.
        K: The degree of the filters.
        dropout: The dropout probability before each linear layer.
        dropout2: The dropout probability before the filter.
        scale: The scale of the filter: ``"unit"`` as in the paper, or ``"signal"``, which makes predictions
            independent of the size of the graph; see :class:`polybasis.nn.OptBasisConv`.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> model = pb.nn.OptBasisGNN(1433, 64, 7, K=10)
    >>> model
    OptBasisGNN(1433, 64, 7, K=10)
    >>> model(torch.rand(3, 1433), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 7])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 10,
        dropout: float = 0.5,
        dropout2: float = 0.5,
        scale: Scale = "unit",
        num_nodes: int | None = None,
    ) -> None:
        conv = OptBasisConv(hidden_channels, K, scale)
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes, conv, dropout, dropout2)


class FavardGNN(LinearFilterLinear):
    r"""A filter in a learnable orthonormal basis between two linear layers (Guo and Wei, 2023); see
    :class:`polybasis.nn.FavardConv`.

    .. math:: Y = \Big[\sum_{k=0}^{K} \alpha_{kl}\, p_{kl}(P)\, X_{0,:l}\Big]_l W_1 + b_1, \qquad
              X_0 = \mathrm{ReLU}(X W_0 + b_0)

    Here :math:`p_{kl}` are the orthonormal polynomials of the learned recurrence of channel l.

    Args:
        in_channels: The number of features.
        hidden_channels: The number of filter channels.
        out_channels: The number of classes.
        K: The degree of the filters.
        dropout: The dropout probability before each linear layer.
        dropout2: The dropout probability before the filter.
        recurrence: The parametrisation of the recurrence, ``"free"`` as in the paper or ``"bounded"``; see
            :class:`polybasis.nn.FavardConv`.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> model = pb.nn.FavardGNN(1433, 64, 7, K=10)
    >>> model
    FavardGNN(1433, 64, 7, K=10)
    >>> model(torch.rand(3, 1433), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 7])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 10,
        dropout: float = 0.5,
        dropout2: float = 0.5,
        recurrence: RecurrenceKind = "free",
        num_nodes: int | None = None,
    ) -> None:
        conv = FavardConv(hidden_channels, K, recurrence=recurrence)
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes, conv, dropout, dropout2)
