"""The data sets by name: where they lie, how they are loaded, which splits they are used with."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch_geometric import datasets as pyg

from polybasis.data import published_files
from polybasis.data.csbm import csbm
from polybasis.data.dataset import Metric, NodeDataset, fixed_masks, make_dataset
from polybasis.files import one_at_a_time


@dataclass(frozen=True)
class Entry:
    """A data set of the catalogue.

    Attributes:
        folder: of its raw files, below the data root.
        files: some of them, enough to tell whether they are there.
        source: where they come from.
        protocol: the splits that published figures use.
        read: the loader, given the data root.
    """

    folder: str
    files: tuple[str, ...]
    source: str
    protocol: str
    read: Callable[[Path], NodeDataset]


def data_root(root: str | Path | None = None) -> Path:
    """The folder of all data sets: the argument, else POLYBASIS_DATA, else a folder in the user's cache."""
    if root is not None:
        return Path(root)
    if os.environ.get("POLYBASIS_DATA"):
        return Path(os.environ["POLYBASIS_DATA"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polybasis"


def missing_files(name: str, root: str | Path | None = None) -> list[Path]:
    """The raw files of a data set that are not there."""
    entry = CATALOGUE[name]
    places = [data_root(root) / entry.folder / file for file in entry.files]
    return [place for place in places if not place.exists()]


def present(name: str, root: str | Path | None = None) -> bool:
    """Whether a data set's raw files are there."""
    return not missing_files(name, root)


def load(name: str, root: str | Path | None = None) -> NodeDataset:
    """A data set by name; PyG and OGB download what they can where there is a network.

    Args:
        name: one of ``CATALOGUE``.
        root: the folder of all data sets; see :func:`data_root`.

    Raises:
        ValueError: for a name that is not in the catalogue.
        FileNotFoundError: where the files are not there and cannot be downloaded, with the file, folder and source.
    """
    if name not in CATALOGUE:
        raise ValueError(f"there is no data set {name!r}; expected one of {', '.join(CATALOGUE)}")
    entry = CATALOGUE[name]
    try:
        if not entry.files:
            return entry.read(data_root(root))
        # PyG and OGB write beside the raw files what another process must find whole.
        with one_at_a_time(data_root(root) / Path(entry.folder).parts[0]):
            return entry.read(data_root(root))
    except Exception as error:
        if present(name, root):
            raise
        missing = data_root(root) / entry.folder
        raise FileNotFoundError(
            f"{name} is not there: expected {' and '.join(entry.files)} in {missing}; get it from {entry.source}"
        ) from error


# ---- PyTorch Geometric's sets --------------------------------------------------------------------------------------


def _from_pyg(name: str, data: Any, *, row_normalise: bool = False, metric: Metric = "accuracy") -> NodeDataset:
    given = "train_mask" in data
    splits = fixed_masks(data.train_mask, data.val_mask, data.test_mask) if given else []
    return make_dataset(
        name, data.edge_index, data.x, data.y, row_normalise=row_normalise, metric=metric, fixed_splits=splits
    )


def _wikipedia(name: str) -> Entry:
    return Entry(
        f"wikipedia/{name}/geom_gcn/raw",
        ("out1_node_feature_label.txt", "out1_graph_edges.txt"),
        "github.com/graphdml-uiuc-jlu/geom-gcn, new_data/",
        "per-class",
        lambda root: _from_pyg(name, pyg.WikipediaNetwork(str(root / "wikipedia"), name)[0], row_normalise=True),
    )


def _planetoid(name: str, spelled: str) -> Entry:
    return Entry(
        f"planetoid/{spelled}/geom-gcn/raw",
        (f"ind.{name}.allx", f"ind.{name}.graph"),
        "github.com/kimiyoung/planetoid, data/",
        "per-class",
        lambda root: _from_pyg(name, pyg.Planetoid(str(root / "planetoid"), spelled, split="geom-gcn")[0]),
    )


def _webkb(name: str) -> Entry:
    return Entry(
        f"webkb/{name}/raw",
        ("out1_node_feature_label.txt", "out1_graph_edges.txt"),
        "github.com/bingzhewei/geom-gcn, new_data/",
        "per-class",
        lambda root: _from_pyg(name, pyg.WebKB(str(root / "webkb"), name)[0], row_normalise=True),
    )


def _heterophilous(name: str, metric: Metric) -> Entry:
    file = name.replace("-", "_")
    return Entry(
        f"heterophilous/{file}/raw",
        (f"{file}.npz",),
        "github.com/yandex-research/heterophilous-graphs, data/",
        "fixed",
        lambda root: _from_pyg(
            name, pyg.HeterophilousGraphDataset(str(root / "heterophilous"), name)[0], metric=metric
        ),
    )


def _filtered(name: str) -> Entry:
    return Entry(
        "heterophilous_filtered",
        (f"{name}_filtered.npz",),
        "github.com/yandex-research/heterophilous-graphs, data/",
        "fixed",
        lambda root: published_files.filtered_wikipedia(f"{name}-filtered", root / "heterophilous_filtered"),
    )


def _linkx(name: str, metric: Metric = "accuracy", protocol: str = "linkx") -> Entry:
    return Entry(
        f"linkx/{name}/raw",
        ("data.mat",),
        "github.com/CUAI/Non-Homophily-Large-Scale, data/",
        protocol,
        lambda root: _from_pyg(name, pyg.LINKXDataset(str(root / "linkx"), name)[0], metric=metric),
    )


def _published(name: str, files: tuple[str, ...], read: Callable[[Path], NodeDataset]) -> Entry:
    folder = f"linkx/{name}/raw"
    source = "github.com/CUAI/Non-Homophily-Large-Scale, data/ and the links in its README"
    return Entry(folder, files, source, "linkx", lambda root: read(root / folder))


# ---- OGB's sets ----------------------------------------------------------------------------------------------------


def _ogb(name: str, protocol: str = "fixed") -> Entry:
    folder = "ogbn_arxiv" if name == "arxiv-year" else name.replace("-", "_")
    raw = ("data.npz",) if name == "ogbn-papers100M" else ("edge.csv.gz", "node-feat.csv.gz")
    return Entry(f"ogb/{folder}/raw", raw, "ogb.stanford.edu", protocol, lambda root: _read_ogb(name, root / "ogb"))


def _read_ogb(name: str, root: Path) -> NodeDataset:
    try:
        from ogb.nodeproppred import NodePropPredDataset
    except ImportError as error:
        raise ImportError(f"{name} needs OGB; install it with: pip install 'polybasis[ogb]'") from error
    source = NodePropPredDataset("ogbn-arxiv" if name == "arxiv-year" else name, root=str(root))
    raw, label = source[0]
    y = torch.from_numpy(label).flatten().nan_to_num(nan=-1).long()
    if name == "arxiv-year":
        y = published_files.by_quantiles(torch.from_numpy(raw["node_year"]).flatten(), 5)
        return make_dataset(name, torch.from_numpy(raw["edge_index"]), torch.from_numpy(raw["node_feat"]), y)
    split = source.get_idx_split()
    masks = [torch.zeros(len(y), 1, dtype=torch.bool) for _ in range(3)]
    for mask, part in zip(masks, ("train", "valid", "test"), strict=True):
        mask[torch.from_numpy(split[part])] = True
    return make_dataset(
        name,
        torch.from_numpy(raw["edge_index"]),
        torch.from_numpy(raw["node_feat"]),
        y,
        fixed_splits=fixed_masks(*masks),
    )


CATALOGUE: dict[str, Entry] = {
    **{name: _wikipedia(name) for name in ("chameleon", "squirrel")},
    "actor": Entry(
        "actor/raw",
        ("out1_node_feature_label.txt", "out1_graph_edges.txt"),
        "github.com/graphdml-uiuc-jlu/geom-gcn, new_data/film/",
        "per-class",
        lambda root: _from_pyg("actor", pyg.Actor(str(root / "actor"))[0], row_normalise=True),
    ),
    **{name: _planetoid(name, s) for name, s in (("cora", "Cora"), ("citeseer", "CiteSeer"), ("pubmed", "PubMed"))},
    **{name: _webkb(name) for name in ("texas", "cornell", "wisconsin")},
    **{f"{name}-filtered": _filtered(name) for name in ("chameleon", "squirrel")},
    **{name: _heterophilous(name, "accuracy") for name in ("roman-empire", "amazon-ratings")},
    **{name: _heterophilous(name, "roc-auc") for name in ("minesweeper", "tolokers", "questions")},
    "penn94": _linkx("penn94", protocol="fixed"),
    **{name: _linkx(name) for name in ("reed98", "amherst41", "cornell5", "johnshopkins55")},
    "genius": Entry(
        "linkx/genius/raw",
        ("genius.mat",),
        "github.com/CUAI/Non-Homophily-Large-Scale, data/",
        "linkx",
        lambda root: _from_pyg("genius", pyg.LINKXDataset(str(root / "linkx"), "genius")[0], metric="roc-auc"),
    ),
    "twitch-gamers": _published(
        "twitch-gamers", ("twitch-gamer_feat.csv", "twitch-gamer_edges.csv"), published_files.twitch_gamers
    ),
    "pokec": _published("pokec", ("pokec.mat",), published_files.pokec),
    "wiki": _published("wiki", ("wiki_edges2M.pt", "wiki_features2M.pt", "wiki_views2M.pt"), published_files.wiki),
    "arxiv-year": _ogb("arxiv-year", protocol="linkx"),
    **{name: _ogb(name) for name in ("ogbn-arxiv", "ogbn-products", "ogbn-papers100M")},
    "csbm": Entry("", (), "made here", "per-class", lambda root: csbm()),
}
