"""LINK and LINKX: models with weights for each node."""

from __future__ import annotations

from torch import Tensor

from polybasis.features import Features, SparseFeatures
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear
from polybasis.nn.models.model import Inputs, Model, Precomputed


def required_nodes(num_nodes: int | None, model: str) -> int:
    """The number of nodes; raises ValueError if it is None."""
    if num_nodes is None:
        raise ValueError(f"{model} has weights for each node; pass num_nodes")
    return num_nodes


def adjacency_rows(graph: Graph) -> SparseFeatures:
    """The rows of the adjacency matrix as features of the nodes, (N, N)."""
    return SparseFeatures(graph.adjacency())


class LINK(Model):
    """Logistic regression on the rows of the adjacency matrix (Zheleva and Getoor, 2009).

    Args:
        in_channels: unused.
        hidden_channels: unused.
        out_channels: number of classes.
        num_nodes: number of nodes.

    >>> import torch, polybasis as pb
    >>> from polybasis.nn.models import LINK
    >>> model = LINK(8, 16, 3, num_nodes=5)
    >>> model(torch.rand(5, 8), pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])).shape
    torch.Size([5, 3])
    """

    transductive = True

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, num_nodes: int | None = None) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.lin = FeatureLinear(required_nodes(num_nodes, "link"), out_channels)

    @property
    def output_bias(self) -> Tensor:
        return self.lin.bias

    def forward(self, x: Inputs, graph: Graph) -> Tensor:
        return self.lin(*self.precompute(x, graph).values)

    def precompute(self, x: Inputs, graph: Graph) -> Precomputed:
        """Returns the adjacency matrix."""
        return x if isinstance(x, Precomputed) else Precomputed((graph.derived(adjacency_rows),))


class _RowLinear(FeatureLinear):
    """A linear layer on adjacency rows with the signature of PyG's, which gathers a message for every edge."""

    def __call__(self, rows: Features, edge_weight: None = None) -> Tensor:
        return super().__call__(rows)


class LINKX(Model):
    """MLPs on features and on adjacency rows, followed by a joint MLP (Lim et al., 2021).

    This is PyG's LINKX, except that the first layers multiply by sparse matrices.

    Args:
        in_channels: number of features.
        hidden_channels: hidden width.
        out_channels: number of classes.
        layers: depth of the joint MLP.
        edge_layers: depth of the MLP on adjacency rows.
        node_layers: depth of the MLP on features.
        dropout: dropout rate in the joint MLP.
        num_nodes: number of nodes.

    >>> import torch, polybasis as pb
    >>> from polybasis.nn.models import LINKX
    >>> model = LINKX(8, 16, 3, num_nodes=5)
    >>> model(torch.rand(5, 8), pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])).shape
    torch.Size([5, 3])
    """

    transductive = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        layers: int = 2,
        edge_layers: int = 1,
        node_layers: int = 1,
        dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        from torch_geometric import nn as pyg

        nodes = required_nodes(num_nodes, "linkx")
        self.net = pyg.LINKX(
            nodes,
            in_channels,
            hidden_channels,
            out_channels,
            layers,
            edge_layers,
            node_layers,
            dropout,
        )
        self.net.edge_lin = _RowLinear(nodes, hidden_channels)
        self.net.node_mlp.lins[0] = FeatureLinear(in_channels, hidden_channels)

    @property
    def output_bias(self) -> Tensor:
        bias: Tensor = self.net.final_mlp.lins[-1].bias
        return bias

    def forward(self, x: Features, graph: Graph) -> Tensor:
        scores: Tensor = self.net(x, graph.derived(adjacency_rows))
        return scores
