"""The entries of the catalogue: which files a data set has and what reads them.

This module imports neither torch nor PyTorch Geometric until a data set is read.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polybasis.data.descriptions import UNDESCRIBED, Description

if TYPE_CHECKING:
    from polybasis.data.dataset import NodeDataset
    from polybasis.data.metrics import Metric


@dataclass(frozen=True)
class Entry:
    """A data set of the catalogue.

    Attributes:
        folder: folder of its raw files, relative to the data root.
        files: files that exist if the data set is installed.
        source: where to get the files.
        protocol: the split protocol that published results use.
        read: loads the data set from the data root.
        other_files: other places of ``files``, relative to the data root.
        description: task, paper and statistics.
    """

    folder: str
    files: tuple[str, ...]
    source: str
    protocol: str
    read: Callable[[Path], NodeDataset]
    other_files: tuple[str, ...] = ()
    description: Description = UNDESCRIBED

    def raw_files(self, root: Path) -> list[Path]:
        """The raw files in the data root: those that are installed, else those to install."""
        files = [root / self.folder / file for file in self.files]
        for i, other in enumerate(self.other_files):
            if not files[i].exists() and (root / other).exists():
                files[i] = root / other
        return files


# ---- data sets in the raw layout of PyTorch Geometric --------------------------------------------------------------

# The raw files are read here, not by PyG: PyG unpickles some of them, and loads whatever is in its folder `processed`.


def _download(kind: str, root: Path, raw: Path, attributes: dict[str, Any]) -> None:
    """Downloads the raw files with PyG's class if they are missing. Its constructor would load processed files."""
    if raw.is_dir():
        return
    from torch_geometric import datasets

    source: Any = getattr(datasets, kind).__new__(getattr(datasets, kind))
    for name, value in (("root", str(root)), *attributes.items()):
        setattr(source, name, value)
    raw.mkdir(parents=True)
    try:
        source.download()
    except BaseException:
        shutil.rmtree(raw)
        raise


def _geom_gcn(name: str, kind: str, folder: str, source: str, attributes: dict[str, Any]) -> Entry:
    def read(root: Path) -> NodeDataset:
        from polybasis.data.geom_gcn import geom_gcn

        _download(kind, root / Path(folder).parts[0], root / folder, attributes)
        return geom_gcn(name, root / folder)

    return Entry(folder, ("out1_node_feature_label.txt", "out1_graph_edges.txt"), source, "per-class", read)


def _wikipedia(name: str) -> Entry:
    source = "github.com/graphdml-uiuc-jlu/geom-gcn, new_data/"
    folder = f"wikipedia/{name}/geom_gcn/raw"
    return _geom_gcn(name, "WikipediaNetwork", folder, source, {"name": name, "geom_gcn_preprocess": True})


def _webkb(name: str) -> Entry:
    return _geom_gcn(name, "WebKB", f"webkb/{name}/raw", "github.com/bingzhewei/geom-gcn, new_data/", {"name": name})


def _planetoid(name: str, spelled: str) -> Entry:
    folder = f"planetoid/{spelled}/geom-gcn/raw"

    def read(root: Path) -> NodeDataset:
        from polybasis.data.planetoid import planetoid

        _download("Planetoid", root / "planetoid", root / folder, {"name": spelled, "split": "geom-gcn"})
        return planetoid(name, root / folder)

    files = (f"ind.{name}.allx", f"ind.{name}.graph")
    return Entry(folder, files, "github.com/kimiyoung/planetoid, data/", "per-class", read)


def _heterophilous(name: str, metric: Metric) -> Entry:
    file = name.replace("-", "_")
    folder = f"heterophilous/{file}/raw"

    def read(root: Path) -> NodeDataset:
        from polybasis.data.published_files import heterophilous

        _download("HeterophilousGraphDataset", root / "heterophilous", root / folder, {"name": file})
        return heterophilous(name, root / folder / f"{file}.npz", metric=metric)

    return Entry(folder, (f"{file}.npz",), "github.com/yandex-research/heterophilous-graphs, data/", "fixed", read)


def _gnn_benchmark(name: str, kind: str, spelled: str, stem: str) -> Entry:
    parent = {"Amazon": "amazon", "Coauthor": "coauthor", "CitationFull": "citation_full"}[kind]
    folder = f"{parent}/{spelled}/raw"

    def read(root: Path) -> NodeDataset:
        from polybasis.data.gnn_benchmark import gnn_benchmark

        pyg_name = spelled.lower() if kind == "Amazon" else spelled
        _download(kind, root / parent, root / folder, {"name": pyg_name})
        return gnn_benchmark(name, root / folder / f"{stem}.npz")

    repository = "abojchevski/graph2gauss, data/" if kind == "CitationFull" else "shchur/gnn-benchmark, data/npz/"
    return Entry(folder, (f"{stem}.npz",), f"github.com/{repository}", "random", read)


def _attributed(name: str) -> Entry:
    folder = f"attributed/{name}/raw"

    def read(root: Path) -> NodeDataset:
        from polybasis.data.attributed import attributed

        _download("AttributedGraphDataset", root / "attributed", root / folder, {"name": name})
        return attributed(name, root / folder)

    source = "github.com/AnryYang/PANE, or torch_geometric.datasets.AttributedGraphDataset"
    return Entry(folder, ("attrs.npz", "edgelist.txt", "labels.txt"), source, "random", read)


LINKX = "github.com/CUAI/Non-Homophily-Large-Scale, data/"


def _genius(root: Path) -> NodeDataset:
    from polybasis.data.published_files import genius

    _download("LINKXDataset", root / "linkx", root / "linkx/genius/raw", {"name": "genius"})
    return genius(root / "linkx/genius/raw")


# ---- campuses of facebook100 ---------------------------------------------------------------------------------------

# LINKX has five campuses, in folders of their own; others come as files of the archive of Traud et al.

_STEMS = (
    "Berkeley13", "Brown11", "Bucknell39", "Carnegie49", "Columbia2", "Hamilton46", "Maryland58", "Northeastern19",
    "Northwestern25", "Oberlin44", "Oklahoma97", "Rochester38", "Rutgers89", "Tufts18", "UC33", "UChicago30", "UConn91",
    "UCSD34", "UMass92", "UNC28", "USC35", "USFCA72", "Vassar85", "Vermont70", "Wake73", "Wesleyan43", "Williams40",
    "Wisconsin87",
)  # fmt: skip
_LINKX_STEMS = ("Penn94", "Reed98", "Amherst41", "Cornell5", "Johns Hopkins55")


def _campus_name(stem: str) -> str:
    """The name of the campus whose file in facebook100 is ``<stem>.mat``."""
    return stem.lower().replace(" ", "")


CAMPUSES = tuple(_campus_name(stem) for stem in _STEMS)
LINKX_CAMPUSES = tuple(_campus_name(stem) for stem in _LINKX_STEMS)


def _campus(stem: str) -> Entry:
    name = _campus_name(stem)
    splits = ("fb100-Penn94-splits.npy",) if name == "penn94" else ()
    archive, folder = (f"{stem}.mat", *splits), f"linkx/{name}/raw"

    def read(root: Path) -> NodeDataset:
        return read_campus(name, root)

    if name not in LINKX_CAMPUSES:
        return Entry("facebook100", archive, "github.com/sisaman/pyg-datasets", "linkx", read)
    others = tuple(f"facebook100/{file}" for file in archive)
    return Entry(folder, ("data.mat", *splits), LINKX, "fixed" if splits else "linkx", read, others)


def read_campus(name: str, root: Path, shared: bool = False) -> NodeDataset:
    """Reads a campus, with one-hot codes or with the features that all campuses share."""
    from polybasis.data.facebook100 import facebook100

    entry = ENTRIES[name]
    if name in LINKX_CAMPUSES and not entry.raw_files(root)[0].exists():
        _download("LINKXDataset", root / "linkx", root / entry.folder, {"name": name})
    path, *splits = entry.raw_files(root)
    return facebook100(name, path, splits=splits[0] if splits else None, shared=shared)


# ---- data sets without a class in PyTorch Geometric ----------------------------------------------------------------


def _deduplicated(name: str) -> Entry:
    def read(root: Path) -> NodeDataset:
        from polybasis.data.published_files import heterophilous

        path = root / "heterophilous_filtered" / f"{name}_filtered.npz"
        return heterophilous(f"{name}-filtered", path, row_normalized=True)

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


def _mine_board(root: Path) -> NodeDataset:
    from polybasis.data.minesweeper import mine_board

    return mine_board()


# ---- data sets from OGB --------------------------------------------------------------------------------------------


def _ogb(name: str, protocol: str = "fixed") -> Entry:
    folder = "ogbn_arxiv" if name == "arxiv-year" else name.replace("-", "_")
    raw = ("data.npz",) if name == "ogbn-papers100M" else ("edge.csv.gz", "node-feat.csv.gz")

    def read(root: Path) -> NodeDataset:
        from polybasis.data.ogb import read_ogb

        return read_ogb(name, root / "ogb")

    return Entry(f"ogb/{folder}/raw", raw, "ogb.stanford.edu", protocol, read)


GNN_BENCHMARK = {  # PyG's class, folder and file
    "amazon-computers": ("Amazon", "Computers", "amazon_electronics_computers"),
    "amazon-photo": ("Amazon", "Photo", "amazon_electronics_photo"),
    "coauthor-cs": ("Coauthor", "CS", "ms_academic_cs"),
    "coauthor-physics": ("Coauthor", "Physics", "ms_academic_phy"),
    "dblp": ("CitationFull", "dblp", "dblp"),
    "cora-ml": ("CitationFull", "cora_ml", "cora_ml"),
    "cora-full": ("CitationFull", "cora", "cora"),
    "citeseer-full": ("CitationFull", "citeseer", "citeseer"),
    "pubmed-full": ("CitationFull", "pubmed", "pubmed"),
}

ENTRIES: dict[str, Entry] = {
    **{name: _wikipedia(name) for name in ("chameleon", "squirrel")},
    "actor": _geom_gcn("actor", "Actor", "actor/raw", "github.com/graphdml-uiuc-jlu/geom-gcn, new_data/film/", {}),
    **{name: _planetoid(name, s) for name, s in (("cora", "Cora"), ("citeseer", "CiteSeer"), ("pubmed", "PubMed"))},
    **{name: _webkb(name) for name in ("texas", "cornell", "wisconsin")},
    **{f"{name}-filtered": _deduplicated(name) for name in ("chameleon", "squirrel")},
    **{name: _heterophilous(name, "accuracy") for name in ("roman-empire", "amazon-ratings")},
    **{name: _heterophilous(name, "roc_auc") for name in ("minesweeper", "tolokers", "questions")},
    **{name: _gnn_benchmark(name, *place) for name, place in GNN_BENCHMARK.items()},
    "blogcatalog": _attributed("blogcatalog"),
    **{_campus_name(stem): _campus(stem) for stem in (*_LINKX_STEMS, *_STEMS)},
    "genius": Entry("linkx/genius/raw", ("data.mat",), LINKX, "linkx", _genius),
    "twitch-gamers": _published("twitch-gamers", ("twitch-gamer_feat.csv", "twitch-gamer_edges.csv")),
    "pokec": _published("pokec", ("pokec.mat",)),
    "wiki": _published("wiki", ("wiki_edges2M.pt", "wiki_features2M.pt", "wiki_views2M.pt")),
    "arxiv-year": _ogb("arxiv-year", protocol="linkx"),
    **{name: _ogb(name) for name in ("ogbn-arxiv", "ogbn-products", "ogbn-papers100M")},
    "csbm": Entry("", (), "generated", "per-class", _csbm),
    "mine-board": Entry("", (), "generated", "linkx", _mine_board),
}
