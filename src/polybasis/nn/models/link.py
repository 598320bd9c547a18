"""LINK and LINKX: models with a weight for each node."""

from __future__ import annotations

import torch_geometric.nn as pyg
from torch import Tensor

from polybasis.features import Features, SparseFeatures, as_dense
from polybasis.graph import Graph
from polybasis.nn.linear import FeatureLinear
from polybasis.nn.models.model import Model


def _required(num_nodes: int | None, model: str) -> int:
    if num_nodes is None:
        raise ValueError(f"{model} has a weight for each node: pass num_nodes")
    return num_nodes


class LINK(Model):
    """Logistic regression on the rows of the adjacency matrix (Zheleva and Getoor, 2009).

    Args:
        in_channels, hidden_channels, out_channels: not used, not used, classes.
        num_nodes: number of nodes.
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, num_nodes: int | None = None) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.lin = FeatureLinear(_required(num_nodes, "link"), out_channels)
        self._rows: tuple[Graph, SparseFeatures] | None = None

    def forward(self, x: Features, graph: Graph) -> Tensor:
        if self._rows is None or self._rows[0] is not graph:
            self._rows = (graph, SparseFeatures(graph.adjacency()))
        return self.lin(self._rows[1])


class LINKX(Model):
    """MLPs on features and adjacency rows, joined (Lim et al., 2021), by PyG's LINKX.

    Args:
        in_channels, hidden_channels, out_channels: features, hidden width, classes.
        layers: depth of the joint MLP.
        edge_layers, node_layers: depth of the MLPs on adjacency and features.
        dropout: rate in the joint MLP.
        num_nodes: number of nodes.
    """

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

    def forward(self, x: Features, graph: Graph) -> Tensor:
        scores: Tensor = self.net(as_dense(x), graph.edge_index())
        return scores
