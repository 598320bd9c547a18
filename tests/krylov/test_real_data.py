"""Orthonormality on the data sets of the paper, with signals like those in training."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import Actor, Planetoid, WikipediaNetwork

import polybasis as pb

SETS = {
    "chameleon": ("wikipedia/chameleon", lambda root: WikipediaNetwork(root / "wikipedia", "chameleon")),
    "squirrel": ("wikipedia/squirrel", lambda root: WikipediaNetwork(root / "wikipedia", "squirrel")),
    "actor": ("actor", lambda root: Actor(root / "actor")),
    "citeseer": ("planetoid/CiteSeer", lambda root: Planetoid(root / "planetoid", "CiteSeer")),
    "pubmed": ("planetoid/PubMed", lambda root: Planetoid(root / "planetoid", "PubMed")),
}


@pytest.mark.parametrize("name", SETS)
def test_orthonormal_at_degree_20(name: str, data_root: Path, tmp_path: Path) -> None:
    folder, load = SETS[name]
    if not (data_root / folder).is_dir():
        pytest.skip(f"{folder} is not in the data folder")
    shutil.copytree(data_root / folder, tmp_path / folder)  # PyG writes next to the raw files
    data = load(tmp_path)[0]
    graph = pb.Graph.from_pyg(data)
    x = torch.relu(torch.nn.Linear(data.num_features, 64)(data.x)).detach()
    for dtype, most in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        basis = pb.optimal_basis(graph, x.to(dtype), 20)
        V = basis.vectors.double()
        gram = torch.einsum("jnd,knd->djk", V, V)
        identity = torch.diag_embed((torch.arange(21) < basis.rank.unsqueeze(-1)).double())
        assert (gram - identity).abs().max() <= most
