"""LINK and LINKX: models with weights for each node."""

from __future__ import annotations

from torch import Tensor

from polybasis.features import Features, SparseFeatures, as_dense
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear
from polybasis.nn.models.model import Inputs, Model, Precomputed


def _required(num_nodes: int | None, model: str) -> int:
    if num_nodes is None:
        raise ValueError(f"{model} has weights for each node; pass num_nodes")
    return num_nodes


def _adjacency_rows(graph: Graph) -> SparseFeatures:
    return SparseFeatures(graph.adjacency())


class LINK(Model):
    """Logistic regression on the rows of the adjacency matrix (Zheleva and Getoor, 2009).

    Args:
        in_channels, hidden_channels: unused.
        out_channels: number of classes.
        num_nodes: number of nodes.
    """

    transductive = True

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, num_nodes: int | None = None) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.lin = FeatureLinear(_required(num_nodes, "link"), out_channels)

    @property
    def output_bias(self) -> Tensor:
        return self.lin.bias

    def forward(self, x: Inputs, graph: Graph) -> Tensor:
        return self.lin(*self.precompute(x, graph).values)

    def precompute(self, x: Inputs, graph: Graph) -> Precomputed:
        """The adjacency matrix."""
        return x if isinstance(x, Precomputed) else Precomputed((graph.derived(_adjacency_rows),))


class LINKX(Model):
    """MLPs on features and on adjacency rows, then a joint MLP (Lim et al., 2021); wraps PyG's LINKX.

    Args:
        in_channels, hidden_channels, out_channels: number of features, hidden width, number of classes.
        layers: depth of the joint MLP.
        edge_layers, node_layers: depth of the MLPs on adjacency rows and on features.
        dropout: dropout rate in the joint MLP.
        num_nodes: number of nodes.
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

        self.net = pyg.LINKX(
            _required(num_nodes, "linkx"),
            in_channels,
            hidden_channels,
            out_channels,
            layers,
            edge_layers,
            node_layers,
            dropout,
        )

    @property
    def output_bias(self) -> Tensor:
        bias: Tensor = self.net.final_mlp.lins[-1].bias
        return bias

    def forward(self, x: Features, graph: Graph) -> Tensor:
        scores: Tensor = self.net(as_dense(x), graph.derived(Graph.edge_index))
        return scores
