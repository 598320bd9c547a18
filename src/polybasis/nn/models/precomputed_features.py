"""Models that propagate the features once and then train an MLP on them: SIGN, GBP and NDLS."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from polybasis.features import as_dense
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.mlp import MLP
from polybasis.nn.models.model import Inputs, Model, Precomputed


class SIGN(Model):
    """A linear layer for each of X, PX, .., P^K X, and a final layer that combines them (Frasca et al., 2020).

    Args:
        in_channels: number of features.
        hidden_channels: hidden width of each hop.
        out_channels: number of classes.
        K: number of hops.
        dropout: dropout rate before every layer.

    >>> import torch, polybasis as pb
    >>> from polybasis.nn.models import SIGN
    >>> model = SIGN(8, 16, 3, K=2)
    >>> model(torch.rand(5, 8), pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 3,
        dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.lins = torch.nn.ModuleList(FeatureLinear(in_channels, hidden_channels) for _ in range(K + 1))
        self.last = FeatureLinear((K + 1) * hidden_channels, out_channels)
        self.dropout = dropout

    def forward(self, x: Inputs, graph: Graph) -> Tensor:
        (hops,) = self.precompute(x, graph).values
        parts = [lin(dropout(hop, self.dropout, self.training)) for lin, hop in zip(self.lins, hops, strict=True)]
        return self.last(dropout(torch.cat(parts, dim=1).relu(), self.dropout, self.training))

    def precompute(self, x: Inputs, graph: Graph) -> Precomputed:
        """Computes X, PX, ..., P^K X, (K+1, N, in_channels)."""
        if isinstance(x, Precomputed):
            return x
        hops = [as_dense(x)]
        for _ in self.lins[1:]:
            hops.append(graph.with_self_loops().propagate(hops[-1]))
        return Precomputed((torch.stack(hops),))


class PropagatedMLP(MLP):
    """An MLP on propagated features."""

    @abstractmethod
    def propagate(self, x: Tensor, graph: Graph) -> Tensor:
        """Computes the input of the MLP, (N, in_channels).

        Args:
            x: features, (N, in_channels), dense.
            graph: the graph with self-loops, N nodes.
        """

    def forward(self, x: Inputs, graph: Graph) -> Tensor:
        (propagated,) = self.precompute(x, graph).values
        return super().forward(propagated, graph)

    def precompute(self, x: Inputs, graph: Graph) -> Precomputed:
        """Computes the propagated features."""
        if isinstance(x, Precomputed):
            return x
        with torch.no_grad():
            return Precomputed((self.propagate(as_dense(x), graph.with_self_loops()),))


class GBP(PropagatedMLP):
    r"""Generalised PageRank :math:`\sum_k \alpha(1-\alpha)^k (D^{r-1} A D^{-r})^k X` with an MLP (Chen et al., 2020).

    The propagation is exact; the paper approximates it with random walks and push operations.

    Args:
        in_channels: number of features.
        hidden_channels: hidden width.
        out_channels: number of classes.
        K: number of hops.
        alpha: stopping probability.
        r: exponent of the normalisation; 1/2 is the symmetric normalisation.
        layers: number of layers of the MLP.
        dropout: dropout rate of the MLP.
        num_nodes: unused.

    >>> import torch, polybasis as pb
    >>> from polybasis.nn.models import GBP
    >>> model = GBP(8, 16, 3, K=2)
    >>> model(torch.rand(5, 8), pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 4,
        alpha: float = 0.1,
        r: float = 0.5,
        layers: int = 2,
        dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        MLP.__init__(self, in_channels, hidden_channels, out_channels, layers, dropout, num_nodes)
        self.K, self.alpha, self.r = K, alpha, r

    def propagate(self, x: Tensor, graph: Graph) -> Tensor:
        # D^{r-1} A D^{-r} = D^{r-1/2} P D^{1/2-r}
        shift = graph.derived(_degree).to(x).unsqueeze(1) ** (self.r - 0.5)
        hop = x / shift
        total = self.alpha * hop
        for k in range(1, self.K + 1):
            hop = graph.propagate(hop)
            total = total + self.alpha * (1 - self.alpha) ** k * hop
        return shift * total


class NDLS(PropagatedMLP):
    r"""Node-dependent local smoothing followed by an MLP (Zhang et al., 2021).

    A node is smoothed until it is within ``epsilon`` of the stationary state,
    :math:`K(v) = \min\{k : \|(P^\infty X)_v - (P^k X)_v\| < \epsilon\}`; its features are the mean over these steps.

    Args:
        in_channels: number of features.
        hidden_channels: hidden width.
        out_channels: number of classes.
        K: maximum number of steps.
        epsilon: distance to the stationary state, relative to the largest initial distance.
        layers: number of layers of the MLP.
        dropout: dropout rate of the MLP.
        num_nodes: unused.

    >>> import torch, polybasis as pb
    >>> from polybasis.nn.models import NDLS
    >>> model = NDLS(8, 16, 3, K=2)
    >>> model(torch.rand(5, 8), pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 20,
        epsilon: float = 0.05,
        layers: int = 2,
        dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        MLP.__init__(self, in_channels, hidden_channels, out_channels, layers, dropout, num_nodes)
        self.K, self.epsilon = K, epsilon

    def propagate(self, x: Tensor, graph: Graph) -> Tensor:
        stationary = graph.stationary(x)
        limit = self.epsilon * (x - stationary).norm(dim=1).max()
        hop, total = x, x
        steps = torch.ones(x.shape[0], 1, dtype=x.dtype)
        going = (x - stationary).norm(dim=1, keepdim=True) >= limit
        for _ in range(self.K):
            hop = graph.propagate(hop)
            total = total + going * hop
            steps = steps + going
            going = going & ((hop - stationary).norm(dim=1, keepdim=True) >= limit)
        return total / steps


def _degree(graph: Graph) -> Tensor:
    return torch.from_numpy(graph.degree())
