"""OptBasisGNN as the paper's pseudo-code has it, on PyTorch Geometric's message passing and dense features.

What `polybasis bench` compares the engine with. Not part of the package: it keeps one message for every edge and
channel, orthogonalises once, and normalises with a clamp, as the appendix does.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm


class OptBasisFilter(MessagePassing):
    """z = sum_k alpha_k v_k, with P v as messages along edges."""

    def __init__(self, channels: int, K: int) -> None:
        super().__init__(aggr="add")
        self.alpha = torch.nn.Parameter(torch.zeros(K + 1, channels))
        with torch.no_grad():
            self.alpha[0] = 1

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        v = x / torch.linalg.vector_norm(x, dim=0).clamp(min=1e-8)
        before = torch.zeros_like(v)
        z = self.alpha[0] * v
        for alpha in self.alpha[1:]:
            w = self.propagate(edge_index, x=v, weight=weight)
            w = w - torch.einsum("nd,nd->d", w, v) * v - torch.einsum("nd,nd->d", w, before) * before
            v, before = w / torch.linalg.vector_norm(w, dim=0).clamp(min=1e-8), v
            z = z + alpha * v
        return z

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        return weight.unsqueeze(-1) * x_j


def normalised(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Both directions of every edge with the symmetric normalisation, as PyG computes it."""
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1).unique(dim=1)
    both = both[:, both[0] != both[1]]
    return gcn_norm(both, num_nodes=num_nodes, add_self_loops=False)


class OptBasisGNN(torch.nn.Module):
    """Linear, filter, linear, on dense features, with the dropouts of the published settings."""

    def __init__(self, features: int, hidden: int, classes: int, K: int, dropout: float, dropout2: float) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(features, hidden), torch.nn.Linear(hidden, classes)
        self.filter = OptBasisFilter(hidden, K)
        self.dropout, self.dropout2 = torch.nn.Dropout(dropout), torch.nn.Dropout(dropout2)

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        signal = self.dropout2(torch.relu(self.first(self.dropout(x))))
        signal = signal + 1e-5 * torch.rand_like(signal)  # the published code's guard against zero signals
        return self.last(self.dropout(self.filter(signal, edge_index, weight)))
