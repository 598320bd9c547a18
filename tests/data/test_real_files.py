"""Real files, where they are installed: the statistics of the catalogue, and PyTorch Geometric's own readers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
import torch_geometric.datasets

import polybasis as pb
from polybasis.data.catalogue import CATALOGUE, is_installed, load, load_campus, raw_files
from polybasis.data.entries import CAMPUSES
from polybasis.data.facebook100 import SHARED_FEATURES
from polybasis.features import SparseFeatures, as_dense

MEASURED = [name for name, entry in CATALOGUE.items() if entry.description.measured and entry.files]


def copied(name: str, source: Path, target: Path) -> Path:
    """A copy of the raw files of a data set; skips the test if they are not there."""
    if not is_installed(name, source):
        pytest.skip(f"{CATALOGUE[name].folder} is not in the data folder")
    folder = CATALOGUE[name].folder
    if folder in ("facebook100", "heterophilous_filtered"):  # folders of several data sets
        for file in raw_files(name, source):
            (target / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target / folder)
    else:
        shutil.copytree(source / folder, target / folder)
    return target


@pytest.mark.parametrize("name", MEASURED)
def test_real_files(name: str, data_root: Path, tmp_path: Path) -> None:
    """The statistics of the catalogue are those of the loaded data."""
    data, about = load(name, copied(name, data_root, tmp_path)), CATALOGUE[name].description
    assert (data.graph.num_nodes, data.graph.num_edges) == (about.nodes, about.edges)
    assert (data.num_features, data.num_classes) == (about.features, about.classes)
    assert pb.data.edge_homophily(data) == pytest.approx(about.homophily, abs=6e-4)
    if name in ("chameleon", "actor", "citeseer", "coauthor-cs", "brown11"):
        assert isinstance(data.x, SparseFeatures)
    if name in ("chameleon", "actor"):  # row-normalised; a node without words stays zero
        sums = as_dense(data.x).sum(1)
        assert ((sums - 1).abs() < 1e-5).logical_or(sums == 0).all()
    assert data.protocol == CATALOGUE[name].protocol
    assert all(len(part) > 0 for part in data.split())
    if name == "johnshopkins55":
        assert int((data.y < 0).sum()) == 418


PYG = {
    "amazon-computers": ("Amazon", "amazon", "Computers"),
    "coauthor-cs": ("Coauthor", "coauthor", "CS"),
    "dblp": ("CitationFull", "citation_full", "DBLP"),
    "cora-ml": ("CitationFull", "citation_full", "Cora_ML"),
    "blogcatalog": ("AttributedGraphDataset", "attributed", "BlogCatalog"),
    "johnshopkins55": ("LINKXDataset", "linkx", "johnshopkins55"),
}


@pytest.mark.parametrize("name", PYG)
def test_real_files_are_read_as_by_pyg(name: str, data_root: Path, tmp_path: Path) -> None:
    kind, folder, spelled = PYG[name]
    root = copied(name, data_root, tmp_path)
    theirs, ours = getattr(torch_geometric.datasets, kind)(str(root / folder), spelled)[0], load(name, root)
    assert torch.equal(as_dense(ours.x), theirs.x)
    # PyG subtracts 1 from the classes of AttributedGraphDataset, also in copies that count from 0.
    assert torch.equal(ours.y, theirs.y - min(0, int(theirs.y.min())) if name == "blogcatalog" else theirs.y)
    expected = pb.Graph.from_edge_index(theirs.edge_index, len(theirs.y), directed=False)
    assert torch.equal(ours.graph.indptr, expected.indptr)
    assert torch.equal(ours.graph.indices, expected.indices)


def test_campuses_share_features(data_root: Path, tmp_path: Path) -> None:
    """One status and one year for each user; the years 2005 to 2009 are frequent at every campus."""
    installed = [name for name in CAMPUSES if is_installed(name, data_root)]
    if not installed:
        pytest.skip("facebook100 is not in the data folder")
    for name in installed:
        x = as_dense(load_campus(name, copied(name, data_root, tmp_path)).x)
        assert x.shape[1] == len(SHARED_FEATURES)
        assert (x[:, :7].sum(1) == 1).all()  # one status
        assert (x[:, 7:19].sum(1) == 1).all()  # one year
        known = x[:, SHARED_FEATURES.index("year 2005") : SHARED_FEATURES.index("year 2009") + 1]
        assert (known.mean(0) > 0.01).all()
