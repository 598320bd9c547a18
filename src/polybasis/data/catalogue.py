"""The catalogue of data sets: their files, loaders and split protocols.

This module imports neither torch nor PyTorch Geometric until a data set is loaded, so the command line can list names
quickly.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
        ValueError: if a file is damaged.
    """
    if name not in CATALOGUE:
        raise unknown_dataset(name)
    entry, folder = CATALOGUE[name], data_root(root)
    try:
        if not entry.files:
            dataset = entry.read(folder)
        else:
            # Other processes must not read downloads, or OGB's processed files, before they are complete.
            with lock_for(folder / Path(entry.folder).parts[0]):
                dataset = entry.read(folder)
    except Exception as error:
        if is_installed(name, root):
            if isinstance(error, OSError | ImportError) or str(folder) in str(error):
                raise
            raise ValueError(
                f"{folder / entry.folder}: cannot read {name} ({error or type(error).__name__})"
            ) from error
        raise FileNotFoundError(
            f"{name} is not installed: expected {' and '.join(entry.files)} in {folder / entry.folder}; "
            f"get it from {entry.source}"
        ) from error
    return replace(dataset, protocol=entry.protocol, identity=name)


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


def _linkx(name: str, protocol: str = "linkx", more: tuple[str, ...] = ()) -> Entry:
    folder = f"linkx/{name}/raw"

    def read(root: Path) -> NodeDataset:
        from polybasis.data.published_files import facebook100, genius

        _download("LINKXDataset", root / "linkx", root / folder, {"name": name})
        return genius(root / folder) if name == "genius" else facebook100(name, root / folder)

    return Entry(folder, ("data.mat", *more), "github.com/CUAI/Non-Homophily-Large-Scale, data/", protocol, read)


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

    # OGB caches arrays with torch.save. Loading only weights and arrays runs no code, whatever OGB passes to torch.
    with _weights_only(), torch.serialization.safe_globals(_array_types()):
        source = NodePropPredDataset("ogbn-arxiv" if name == "arxiv-year" else name, root=str(root))
        split = source.get_idx_split()
    raw, label = source[0]
    edge_index, x = torch.from_numpy(raw["edge_index"]), torch.from_numpy(raw["node_feat"])
    if name == "arxiv-year":
        return make_dataset(name, edge_index, x, by_quantiles(torch.from_numpy(raw["node_year"]).flatten(), 5))
    y = torch.from_numpy(label).flatten().nan_to_num(nan=-1).long()
    masks = [torch.zeros(len(y), 1, dtype=torch.bool) for _ in range(3)]
    for mask, part in zip(masks, ("train", "valid", "test"), strict=True):
        mask[torch.from_numpy(split[part])] = True
    return make_dataset(name, edge_index, x, y, fixed_splits=fixed_masks(*masks))


@contextmanager
def _weights_only() -> Iterator[None]:
    """Makes torch load weights only, even if it is asked for more."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _array_types() -> list[Any]:
    """What torch needs to load NumPy arrays of numbers."""
    import numpy as np

    dtypes = {type(np.dtype(name)) for name in ("bool", "int32", "int64", "float32", "float64")}
    return [np.ndarray, np.dtype, np.empty(0).__reduce__()[0], *dtypes]


CATALOGUE: dict[str, Entry] = {
    **{name: _wikipedia(name) for name in ("chameleon", "squirrel")},
    "actor": _geom_gcn("actor", "Actor", "actor/raw", "github.com/graphdml-uiuc-jlu/geom-gcn, new_data/film/", {}),
    **{name: _planetoid(name, s) for name, s in (("cora", "Cora"), ("citeseer", "CiteSeer"), ("pubmed", "PubMed"))},
    **{name: _webkb(name) for name in ("texas", "cornell", "wisconsin")},
    **{f"{name}-filtered": _deduplicated(name) for name in ("chameleon", "squirrel")},
    **{name: _heterophilous(name, "accuracy") for name in ("roman-empire", "amazon-ratings")},
    **{name: _heterophilous(name, "roc-auc") for name in ("minesweeper", "tolokers", "questions")},
    "penn94": _linkx("penn94", protocol="fixed", more=("fb100-Penn94-splits.npy",)),
    **{name: _linkx(name) for name in ("reed98", "amherst41", "cornell5", "johnshopkins55")},
    "genius": _linkx("genius"),
    "twitch-gamers": _published("twitch-gamers", ("twitch-gamer_feat.csv", "twitch-gamer_edges.csv")),
    "pokec": _published("pokec", ("pokec.mat",)),
    "wiki": _published("wiki", ("wiki_edges2M.pt", "wiki_features2M.pt", "wiki_views2M.pt")),
    "arxiv-year": _ogb("arxiv-year", protocol="linkx"),
    **{name: _ogb(name) for name in ("ogbn-arxiv", "ogbn-products", "ogbn-papers100M")},
    "csbm": Entry("", (), "generated", "per-class", _csbm),
}
