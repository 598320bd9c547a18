"""Explainers of PyTorch Geometric find the edges that a filter depends on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.explain import Explainer, GNNExplainer

import polybasis as pb

# Nodes 0 to 4 form a path; node 5 and 6 are a component of their own.
PATH = torch.tensor([[0, 1, 2, 3, 5], [1, 2, 3, 4, 6]])
EDGES = torch.cat([PATH, PATH.flip(0)], dim=1)


class Net(torch.nn.Module):
    """A user's own network."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pb.nn.PolyConv(3, K=1, basis="monomial")
        torch.nn.init.ones_(self.conv.alpha)
        self.lin = torch.nn.Linear(3, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        scores: Tensor = self.lin(self.conv(x, edge_index, edge_weight))
        return scores


def own_model(name: str) -> torch.nn.Module:
    model = pb.nn.MODELS[name](3, 8, 2, **({} if name == "gcn" else {"K": 1}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.rand_like(parameter))  # filters start as the identity
    return model.eval()


@pytest.mark.parametrize("name", ["own", "optbasisgnn", "favardgnn", "gpr-gnn", "gcn"])
def test_only_edges_within_reach_are_important(name: str) -> None:
    """With degree 1, node 0 depends on its edge to node 1, and through degrees on edge (1, 2), but on no other."""
    model = Net().eval() if name == "own" else own_model(name)
    explainer = Explainer(
        pb.nn.Explainable(model),
        algorithm=GNNExplainer(epochs=60, lr=0.1),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    mask = explainer(torch.rand(7, 3), EDGES, index=0).edge_mask
    near = (EDGES == 0).any(0)
    assert (mask[near] > 0).all()
    if name != "optbasisgnn":  # its basis depends on all nodes
        far = (EDGES >= 5).all(0) if name == "gcn" else (EDGES >= 3).any(0) & (EDGES >= 2).all(0)
        assert (mask[far] == 0).all()


def test_masks_are_cleared() -> None:
    net = pb.nn.Explainable(Net().eval())
    x = torch.rand(7, 3)
    before = net(x, EDGES)
    Explainer(
        net,
        algorithm=GNNExplainer(epochs=2),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )(x, EDGES, index=0)
    torch.testing.assert_close(net(x, EDGES), before)
