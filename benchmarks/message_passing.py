"""OptBasisGNN with PyTorch Geometric's message passing and dense features, following the paper's pseudocode.

`polybasis bench` compares polybasis with this implementation, which is not part of the package. It materialises one
message per edge and channel, orthogonalises once, and clamps norms, as in the paper's appendix.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm


class OptBasisFilter(MessagePassing):
    """The filter z = sum_k alpha_k v_k, with products P v by message passing."""

    def __init__(self, channels: int, K: int) -> None:
        super().__init__(aggr="add")
        self.alpha = torch.nn.Parameter(torch.zeros(K + 1, channels))
        with torch.no_grad():
            self.alpha[0] = 1

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        v = x / torch.linalg.vector_norm(x, dim=0).clamp(min=1e-8)
        previous = torch.zeros_like(v)
        z = self.alpha[0] * v
        for alpha in self.alpha[1:]:
            w = self.propagate(edge_index, x=v, weight=weight)
            w = w - torch.einsum("nd,nd->d", w, v) * v - torch.einsum("nd,nd->d", w, previous) * previous
            v, previous = w / torch.linalg.vector_norm(w, dim=0).clamp(min=1e-8), v
            z = z + alpha * v
        return z

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        return weight.unsqueeze(-1) * x_j


def normalised_adjacency(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Makes a graph undirected, without self-loops and duplicates, and normalises it symmetrically.

    Args:
        edge_index: (2, E).
        num_nodes: number of nodes.

    Returns:
        The edges in both directions, (2, E'), and their weights, (E',).
    """
    undirected = torch.cat([edge_index, edge_index.flip(0)], dim=1).unique(dim=1)
    undirected = undirected[:, undirected[0] != undirected[1]]
    return gcn_norm(undirected, num_nodes=num_nodes, add_self_loops=False)


class OptBasisGNN(torch.nn.Module):
    """A linear layer, the filter and a linear layer, with dropout as in the published code."""

    def __init__(self, features: int, hidden: int, classes: int, K: int, dropout: float, dropout2: float) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(features, hidden), torch.nn.Linear(hidden, classes)
        self.filter = OptBasisFilter(hidden, K)
        self.dropout, self.dropout2 = torch.nn.Dropout(dropout), torch.nn.Dropout(dropout2)

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        signal = self.dropout2(torch.relu(self.first(self.dropout(x))))
        signal = signal + 1e-5 * torch.rand_like(signal)  # as in the published code, against zero signals
        return self.last(self.dropout(self.filter(signal, edge_index, weight)))
