"""Models that filter the class scores of an MLP: APPNP, GPR-GNN, BernNet, ChebNetII."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases import PolynomialBasis, named_basis
from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model
from polybasis.nn.poly_conv import FixedBasisLayer


class SharedFilter(FixedBasisLayer):
    """A filter with the same coefficients for all channels.

    Args:
        channels: The number of channels.
        K: The degree.
        basis: The polynomial basis.
        initial: The initial coefficients, (K+1,).
        nonnegative: Apply a ReLU to the coefficients.
        learned: Train the coefficients.
    """

    def __init__(
        self,
        channels: int,
        K: int,
        basis: PolynomialBasis,
        initial: Tensor,
        nonnegative: bool = False,
        learned: bool = True,
    ) -> None:
        super().__init__(channels, K, basis)
        self.nonnegative = nonnegative
        self._initial = initial.to(torch.get_default_dtype()).unsqueeze(-1)
        self.alpha = torch.nn.Parameter(self._initial.clone(), requires_grad=learned)

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.alpha.copy_(self._initial)

    def coefficients(self) -> Tensor:
        alpha = self.alpha.relu() if self.nonnegative else self.alpha
        return alpha.expand(-1, self.channels)


class DecoupledGNN(Model):
    r"""Two linear layers followed by a filter on the class scores.

    .. math:: Y = \mathrm{filter}(\mathrm{ReLU}(X W_0 + b_0)\, W_1 + b_1)

    Args:
        in_channels: The number of features.
        hidden_channels: The number of hidden channels.
        out_channels: The number of classes.
        num_nodes: Unused.
        conv: The filter layer.
        dropout: The dropout probability before each linear layer.
        filter_dropout: The dropout probability before the filter.
        self_loops: Add self-loops to the graph.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_nodes: int | None,
        conv: FixedBasisLayer,
        dropout: float,
        filter_dropout: float,
        self_loops: bool,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.first, self.last = (
            FeatureLinear(in_channels, hidden_channels),
            FeatureLinear(hidden_channels, out_channels),
        )
        self.conv = conv
        self.dropout, self.filter_dropout, self.self_loops = dropout, filter_dropout, self_loops

    def bias_response(self, graph: Graph) -> Tensor:
        ones = torch.ones(graph.num_nodes, self.out_channels)
        response: Tensor = self.conv(ones, graph.with_self_loops() if self.self_loops else graph)
        return response

    def forward(self, x: Features, graph: Graph) -> Tensor:
        hidden = self.first(dropout(x, self.dropout, self.training)).relu()
        scores = self.last(dropout(hidden, self.dropout, self.training))
        scores = dropout(scores, self.filter_dropout, self.training)
        filtered: Tensor = self.conv(scores, graph.with_self_loops() if self.self_loops else graph)
        return filtered

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, K={self.conv.K})"


def pagerank(K: int, alpha: float) -> Tensor:
    r"""Returns the coefficients of K steps of personalised PageRank.

    .. math:: \theta_k = \alpha (1-\alpha)^k \text{ for } k < K, \qquad \theta_K = (1-\alpha)^K

    Args:
        K: The number of steps.
        alpha: The teleport probability.

    Returns:
        (K+1,), float64.

    >>> pagerank(2, 0.5)
    tensor([0.5000, 0.2500, 0.2500], dtype=torch.float64)
    """
    weights = alpha * (1 - alpha) ** torch.arange(K + 1, dtype=torch.float64)
    weights[K] = (1 - alpha) ** K
    return weights


class APPNP(DecoupledGNN):
    """Personalised PageRank of the scores of an MLP (Gasteiger et al., 2019).

    Args:
        in_channels: The number of features.
        hidden_channels: The number of hidden channels.
        out_channels: The number of classes.
        K: The number of steps, which is the degree of the filter.
        alpha: The teleport probability.
        dropout: The dropout probability before each linear layer.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> APPNP(5, 8, 2, K=3)(torch.rand(3, 5), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 10,
        alpha: float = 0.1,
        dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        conv = SharedFilter(out_channels, K, named_basis("monomial", K), pagerank(K, alpha), learned=False)
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes, conv, dropout, 0.0, self_loops=True)


class GPRGNN(DecoupledGNN):
    """A learned filter in the monomial basis, initialised with personalised PageRank (Chien et al., 2021).

    Args:
        in_channels: The number of features.
        hidden_channels: The number of hidden channels.
        out_channels: The number of classes.
        K: The degree of the filter.
        alpha: The initial teleport probability.
        dropout: The dropout probability before each linear layer.
        filter_dropout: The dropout probability before the filter.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> GPRGNN(5, 8, 2, K=3)(torch.rand(3, 5), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 10,
        alpha: float = 0.1,
        dropout: float = 0.5,
        filter_dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        conv = SharedFilter(out_channels, K, named_basis("monomial", K), pagerank(K, alpha))
        super().__init__(
            in_channels, hidden_channels, out_channels, num_nodes, conv, dropout, filter_dropout, self_loops=True
        )


class BernNet(DecoupledGNN):
    """A learned filter with non-negative Bernstein coefficients (He et al., 2021).

    Args:
        in_channels: The number of features.
        hidden_channels: The number of hidden channels.
        out_channels: The number of classes.
        K: The degree of the filter.
        dropout: The dropout probability before each linear layer.
        filter_dropout: The dropout probability before the filter.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> BernNet(5, 8, 2, K=3)(torch.rand(3, 5), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 10,
        dropout: float = 0.5,
        filter_dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        conv = SharedFilter(out_channels, K, named_basis("bernstein", K), torch.ones(K + 1), nonnegative=True)
        super().__init__(
            in_channels, hidden_channels, out_channels, num_nodes, conv, dropout, filter_dropout, self_loops=False
        )


class ChebNetII(DecoupledGNN):
    """A filter with learned non-negative responses at the Chebyshev points (He et al., 2022).

    Args:
        in_channels: The number of features.
        hidden_channels: The number of hidden channels.
        out_channels: The number of classes.
        K: The degree of the filter.
        dropout: The dropout probability before each linear layer.
        filter_dropout: The dropout probability before the filter.
        num_nodes: Unused.

    >>> import torch, polybasis as pb
    >>> ChebNetII(5, 8, 2, K=3)(torch.rand(3, 5), pb.Graph.from_edge_index([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 10,
        dropout: float = 0.5,
        filter_dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        basis = named_basis("chebyshev-interpolation", K)
        conv = SharedFilter(out_channels, K, basis, torch.ones(K + 1), nonnegative=True)
        super().__init__(
            in_channels, hidden_channels, out_channels, num_nodes, conv, dropout, filter_dropout, self_loops=False
        )
