"""An MLP, then a filter on the class scores: APPNP, GPR-GNN, BernNet, ChebNetII."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases import PolynomialBasis, named_basis
from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model
from polybasis.nn.poly_conv import PolyConv


class SharedFilter(PolyConv):
    """A filter whose coefficients all channels share.

    Args:
        channels, K, basis: as of :class:`PolyConv`.
        start: the coefficients at the start, (K+1,).
        nonnegative: take the positive part of the coefficients, so that the response is what the basis makes of it.
        learned: whether the coefficients are trained.
    """

    def __init__(
        self,
        channels: int,
        K: int,
        basis: PolynomialBasis,
        start: Tensor,
        nonnegative: bool = False,
        learned: bool = True,
    ) -> None:
        self._start = start.float().unsqueeze(-1)
        super().__init__(channels, K, basis)
        self.nonnegative = nonnegative
        self.alpha.requires_grad_(learned)

    def reset_parameters(self) -> None:
        self._cached_graph = None
        self.alpha.data = self._start.clone()

    def coefficients(self) -> Tensor:
        alpha = self.alpha.relu() if self.nonnegative else self.alpha
        return alpha.expand(-1, self.channels)


class DecoupledGNN(Model):
    """Two linear layers, then one filter on the class scores.

    Args:
        in_channels, hidden_channels, out_channels: features, hidden width, classes.
        conv: the filter.
        dropout: rate before each linear layer.
        filter_dropout: rate on the scores that enter the filter.
        self_loops: filter the graph with self-loops added.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_nodes: int | None,
        conv: PolyConv,
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

    def forward(self, x: Features, graph: Graph) -> Tensor:
        hidden = self.first(dropout(x, self.dropout, self.training)).relu()
        scores = self.last(dropout(hidden, self.dropout, self.training))
        scores = dropout(scores, self.filter_dropout, self.training)
        filtered: Tensor = self.conv(scores, graph.with_self_loops() if self.self_loops else graph)
        return filtered

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, K={self.conv.K})"


def pagerank(K: int, alpha: float) -> Tensor:
    r"""Personalised PageRank cut off at K: :math:`\alpha (1-\alpha)^k`, and :math:`(1-\alpha)^K` for the last."""
    weights = alpha * (1 - alpha) ** torch.arange(K + 1, dtype=torch.float64)
    weights[K] = (1 - alpha) ** K
    return weights


class APPNP(DecoupledGNN):
    """Personalised PageRank of an MLP's scores (Gasteiger et al., 2019).

    Args:
        in_channels, hidden_channels, out_channels: features, hidden width, classes.
        K: number of steps, the degree of the filter.
        alpha: probability of returning.
        dropout: rate before each linear layer.
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
    """A learned filter in monomials, started from personalised PageRank (Chien et al., 2021).

    Args:
        in_channels, hidden_channels, out_channels: features, hidden width, classes.
        K: degree of the filter.
        alpha: probability of returning at the start.
        dropout: rate before each linear layer.
        filter_dropout: rate on the scores that enter the filter.
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
    """A filter with non-negative Bernstein coefficients (He et al., 2021).

    Args:
        in_channels, hidden_channels, out_channels: features, hidden width, classes.
        K: degree of the filter.
        dropout: rate before each linear layer.
        filter_dropout: rate on the scores that enter the filter.
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
    """A filter given by non-negative values at the Chebyshev points (He et al., 2022).

    Args:
        in_channels, hidden_channels, out_channels: features, hidden width, classes.
        K: degree of the filter.
        dropout: rate before each linear layer.
        filter_dropout: rate on the scores that enter the filter.
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
