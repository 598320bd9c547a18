"""The catalogue of data sets: their files, loaders and split protocols.

This module imports neither torch nor PyTorch Geometric until a data set is loaded, so the command line can list names
quickly.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polybasis.files import lock_for

if TYPE_CHECKING:
    from polybasis.data.dataset import Metric, NodeDataset


@dataclass(frozen=True)
class Entry:
    """A data set of the catalogue.

    Attributes:
        folder: folder of its raw files, relative to the data root.
        files: files that exist if the data set is installed.
        source: where to get the files.
        protocol: the split protocol that published results use.
        read: loads the data set from the data root.
    """

    folder: str
    files: tuple[str, ...]
    source: str
    protocol: str
    read: Callable[[Path], NodeDataset]


def data_root(root: str | Path | None = None) -> Path:
    """The folder of all data sets: the argument, else ``$POLYBASIS_DATA``, else a folder in the user's cache."""
    if root is not None:
        return Path(root)
    if os.environ.get("POLYBASIS_DATA"):
        return Path(os.environ["POLYBASIS_DATA"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polybasis"


def missing_files(name: str, root: str | Path | None = None) -> list[Path]:
    """The raw files of a data set that are not installed."""
    entry = CATALOGUE[name]
    places = [data_root(root) / entry.folder / file for file in entry.files]
    return [place for place in places if not place.exists()]


def is_installed(name: str, root: str | Path | None = None) -> bool:
    """Whether the raw files of a data set are installed."""
    return not missing_files(name, root)


def unknown_dataset(name: str) -> ValueError:
    """The error for a name that is not in the catalogue."""
    return ValueError(f"unknown data set {name!r}; expected one of {', '.join(CATALOGUE)}")


def load(name: str, root: str | Path | None = None) -> NodeDataset:
    """Loads a data set by name. PyG and OGB download missing files if they can.

    Args:
        name: one of ``CATALOGUE``.
        root: the folder of all data sets; see :func:`data_root`.

    Raises:
        ValueError: for an unknown name.
        FileNotFoundError: if the files are not installed and cannot be downloaded; the message gives the files, the
            folder and the source.
    """
    if name not in CATALOGUE:
        raise unknown_dataset(name)
    entry, folder = CATALOGUE[name], data_root(root)
    try:
        if not entry.files:
            dataset = entry.read(folder)
        else:
            # PyG and OGB write processed files, which other processes must not read before they are complete.
            with lock_for(folder / Path(entry.folder).parts[0]):
                dataset = entry.read(folder)
    except Exception as error:
        if is_installed(name, root):
            raise
        raise FileNotFoundError(
            f"{name} is not installed: expected {' and '.join(entry.files)} in {folder / entry.folder}; "
            f"get it from {entry.source}"
        ) from error
    return replace(dataset, protocol=entry.protocol, identity=name)


# ---- data sets from PyTorch Geometric ------------------------------------------------------------------------------


def _pyg(
    name: str, kind: str, root: Path, *arguments: str, row_normalized: bool = False, metric: Metric = "accuracy"
) -> NodeDataset:
    """Loads a data set with one of PyG's classes."""
    from torch_geometric import datasets

    from polybasis.data.dataset import fixed_masks, make_dataset

    options = {"split": "geom-gcn"} if kind == "Planetoid" else {}
    data: Any = getattr(datasets, kind)(str(root), *arguments, **options)[0]
    splits = fixed_masks(data.train_mask, data.val_mask, data.test_mask) if "train_mask" in data else []
    return make_dataset(
        name, data.edge_index, data.x, data.y, row_normalized=row_normalized, metric=metric, fixed_splits=splits
    )


def _wikipedia(name: str) -> Entry:
    return Entry(
        f"wikipedia/{name}/geom_gcn/raw",
        ("out1_node_feature_label.txt", "out1_graph_edges.txt"),
        "github.com/graphdml-uiuc-jlu/geom-gcn, new_data/",
        "per-class",
        lambda root: _pyg(name, "WikipediaNetwork", root / "wikipedia", name, row_normalized=True),
    )


def _planetoid(name: str, spelled: str) -> Entry:
    return Entry(
        f"planetoid/{spelled}/geom-gcn/raw",
        (f"ind.{name}.allx", f"ind.{name}.graph"),
        "github.com/kimiyoung/planetoid, data/",
        "per-class",
        lambda root: _pyg(name, "Planetoid", root / "planetoid", spelled),
    )


def _webkb(name: str) -> Entry:
    return Entry(
        f"webkb/{name}/raw",
        ("out1_node_feature_label.txt", "out1_graph_edges.txt"),
        "github.com/bingzhewei/geom-gcn, new_data/",
        "per-class",
        lambda root: _pyg(name, "WebKB", root / "webkb", name, row_normalized=True),
    )


def _heterophilous(name: str, metric: Metric) -> Entry:
    file = name.replace("-", "_")
    return Entry(
        f"heterophilous/{file}/raw",
        (f"{file}.npz",),
        "github.com/yandex-research/heterophilous-graphs, data/",
        "fixed",
        lambda root: _pyg(name, "HeterophilousGraphDataset", root / "heterophilous", name, metric=metric),
    )


def _linkx(name: str, metric: Metric = "accuracy", protocol: str = "linkx", more: tuple[str, ...] = ()) -> Entry:
    return Entry(
        f"linkx/{name}/raw",
        ("data.mat", *more),
        "github.com/CUAI/Non-Homophily-Large-Scale, data/",
        protocol,
        lambda root: _pyg(name, "LINKXDataset", root / "linkx", name, metric=metric),
    )


# ---- data sets without a class in PyTorch Geometric ----------------------------------------------------------------


def _deduplicated(name: str) -> Entry:
    def read(root: Path) -> NodeDataset:
        from polybasis.data.published_files import filtered_wikipedia

        return filtered_wikipedia(f"{name}-filtered", root / "heterophilous_filtered")

    source = "github.com/yandex-research/heterophilous-graphs, data/"
    return Entry("heterophilous_filtered", (f"{name}_filtered.npz",), source, "fixed", read)


def _published(name: str, files: tuple[str, ...]) -> Entry:
    folder = f"linkx/{name}/raw"

    def read(root: Path) -> NodeDataset:
        from polybasis.data import published_files

        reader: Callable[[Path], NodeDataset] = getattr(published_files, name.replace("-", "_"))
        return reader(root / folder)

    source = "github.com/CUAI/Non-Homophily-Large-Scale, data/ and the links in its README"
    return Entry(folder, files, source, "linkx", read)


def _csbm(root: Path) -> NodeDataset:
    from polybasis.data.block_model import csbm

    return csbm()


# ---- data sets from OGB --------------------------------------------------------------------------------------------


def _ogb(name: str, protocol: str = "fixed") -> Entry:
    folder = "ogbn_arxiv" if name == "arxiv-year" else name.replace("-", "_")
    raw = ("data.npz",) if name == "ogbn-papers100M" else ("edge.csv.gz", "node-feat.csv.gz")
    return Entry(f"ogb/{folder}/raw", raw, "ogb.stanford.edu", protocol, lambda root: _read_ogb(name, root / "ogb"))


def _read_ogb(name: str, root: Path) -> NodeDataset:
    try:
        from ogb.nodeproppred import NodePropPredDataset
    except ImportError as error:
        raise ImportError(f"{name} needs OGB; install it with: pip install 'polybasis[ogb]'") from error
    import torch

    from polybasis.data.dataset import fixed_masks, make_dataset
    from polybasis.data.published_files import by_quantiles

    source = NodePropPredDataset("ogbn-arxiv" if name == "arxiv-year" else name, root=str(root))
    raw, label = source[0]
    edge_index, x = torch.from_numpy(raw["edge_index"]), torch.from_numpy(raw["node_feat"])
    if name == "arxiv-year":
        return make_dataset(name, edge_index, x, by_quantiles(torch.from_numpy(raw["node_year"]).flatten(), 5))
    y = torch.from_numpy(label).flatten().nan_to_num(nan=-1).long()
    split = source.get_idx_split()
    masks = [torch.zeros(len(y), 1, dtype=torch.bool) for _ in range(3)]
    for mask, part in zip(masks, ("train", "valid", "test"), strict=True):
        mask[torch.from_numpy(split[part])] = True
    return make_dataset(name, edge_index, x, y, fixed_splits=fixed_masks(*masks))


CATALOGUE: dict[str, Entry] = {
    **{name: _wikipedia(name) for name in ("chameleon", "squirrel")},
    "actor": Entry(
        "actor/raw",
        ("out1_node_feature_label.txt", "out1_graph_edges.txt"),
        "github.com/graphdml-uiuc-jlu/geom-gcn, new_data/film/",
        "per-class",
        lambda root: _pyg("actor", "Actor", root / "actor", row_normalized=True),
    ),
    **{name: _planetoid(name, s) for name, s in (("cora", "Cora"), ("citeseer", "CiteSeer"), ("pubmed", "PubMed"))},
    **{name: _webkb(name) for name in ("texas", "cornell", "wisconsin")},
    **{f"{name}-filtered": _deduplicated(name) for name in ("chameleon", "squirrel")},
    **{name: _heterophilous(name, "accuracy") for name in ("roman-empire", "amazon-ratings")},
    **{name: _heterophilous(name, "roc-auc") for name in ("minesweeper", "tolokers", "questions")},
    "penn94": _linkx("penn94", protocol="fixed", more=("fb100-Penn94-splits.npy",)),
    **{name: _linkx(name) for name in ("reed98", "amherst41", "cornell5", "johnshopkins55")},
    "genius": _linkx("genius", metric="roc-auc"),
    "twitch-gamers": _published("twitch-gamers", ("twitch-gamer_feat.csv", "twitch-gamer_edges.csv")),
    "pokec": _published("pokec", ("pokec.mat",)),
    "wiki": _published("wiki", ("wiki_edges2M.pt", "wiki_features2M.pt", "wiki_views2M.pt")),
    "arxiv-year": _ogb("arxiv-year", protocol="linkx"),
    **{name: _ogb(name) for name in ("ogbn-arxiv", "ogbn-products", "ogbn-papers100M")},
    "csbm": Entry("", (), "generated", "per-class", _csbm),
}
