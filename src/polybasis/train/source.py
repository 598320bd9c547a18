"""Where data comes from: a named data set, tables, a graph folder or a store. Opened when needed, once a process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from polybasis.data.catalogue import CATALOGUE, load
from polybasis.data.dataset import NodeDataset
from polybasis.store.basis_store import BasisStore, open_store
from polybasis.store.graph_folder import GraphFolder

Data = NodeDataset | BasisStore


@dataclass(frozen=True)
class NamedSource:
    """A data set of the catalogue.

    Attributes:
        name: its name.
        root: the folder of all data sets; see :func:`polybasis.data.data_root`.
    """

    name: str
    root: str | None = None

    def open(self) -> Data:
        """The data set, in memory."""
        return _named(self.name, self.root)

    @property
    def protocol(self) -> str:
        """The split protocol of the data set."""
        return CATALOGUE[self.name].protocol

    @property
    def identity(self) -> str:
        """Names the contents."""
        return self.name


@dataclass(frozen=True)
class FolderSource:
    """A graph folder or a store."""

    path: Path

    def open(self) -> Data:
        """The data set of a graph folder, in memory; or the store, mapped."""
        return _folder(self.path)

    @property
    def name(self) -> str:
        """Name of the data set."""
        return self.open().name

    @property
    def protocol(self) -> str:
        """The split protocol of the data set."""
        return self.open().protocol

    @property
    def identity(self) -> str:
        """Names the contents."""
        return self.open().fingerprint


@dataclass(frozen=True)
class TableSource:
    """The user's own files; see :func:`polybasis.data.read_tables`."""

    edges: Path
    features: Path | None = None
    labels: Path | None = None

    def open(self) -> Data:
        """The data set, in memory."""
        return self._data

    @cached_property
    def _data(self) -> NodeDataset:
        from polybasis.data.tables import read_tables

        return read_tables(self.edges, self.features, self.labels)

    @property
    def name(self) -> str:
        """Name of the data set."""
        return self.edges.stem

    @property
    def protocol(self) -> str:
        """The split protocol of the data set."""
        return "stratified"

    @property
    def identity(self) -> str:
        """Names the contents."""
        return self._data.fingerprint


Source = NamedSource | FolderSource | TableSource


def find_source(text: str, root: str | None = None) -> NamedSource | FolderSource:
    """The source that a user names.

    Args:
        text: the name of a data set, a graph folder or a store.
        root: the folder of all data sets.

    Raises:
        ValueError: if it is none of them.
    """
    folder = Path(text)
    if (folder / "store.json").exists() or (folder / "graph.json").exists():
        return FolderSource(folder)
    if text in CATALOGUE:
        return NamedSource(text, root)
    kind = "a folder, but neither a graph folder nor a store" if folder.is_dir() else "not a data set or a folder"
    raise ValueError(f"{text} is {kind}; `polybasis datasets` lists data sets")


@lru_cache(maxsize=2)
def _named(name: str, root: str | None) -> NodeDataset:
    return load(name, root)


@lru_cache(maxsize=2)
def _folder(path: Path) -> Data:
    return open_store(path) if (path / "store.json").exists() else GraphFolder.open(path).load()
