"""Where data comes from: a named data set, tables, a graph folder or a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

from polybasis.data.catalogue import CATALOGUE, load, unknown_dataset
from polybasis.data.dataset import NodeDataset
from polybasis.store.basis_store import BasisStore, open_store
from polybasis.store.graph_folder import GraphFolder

Data = NodeDataset | BasisStore


@dataclass(frozen=True)
class Source:
    """Data that a job trains on, opened when it is needed and once a process.

    Make one with :meth:`named`, :meth:`folder` or :meth:`tables`.

    Attributes:
        kind: what it is.
        name: name of the data set.
        protocol: its split protocol.
        identity: names the contents; two sources with the same identity have the same contents.
        open: returns the data: a data set in memory, or a store.
    """

    kind: Literal["data set", "graph folder", "store", "tables"]
    name: str
    protocol: str
    identity: str
    open: Callable[[], Data] = field(compare=False)

    @classmethod
    def named(cls, name: str, root: str | None = None) -> Source:
        """A data set of the catalogue, which is not loaded yet.

        Args:
            name: its name.
            root: the folder of all data sets; see :func:`polybasis.data.data_root`.

        Raises:
            ValueError: for an unknown name.
        """
        if name not in CATALOGUE:
            raise unknown_dataset(name)
        return cls("data set", name, CATALOGUE[name].protocol, name, partial(_load, name, root))

    @classmethod
    def folder(cls, path: Path) -> Source:
        """A graph folder or a store.

        Raises:
            FileNotFoundError, ValueError: if it is neither, or damaged.
        """
        if (path / "store.json").exists():
            store = _open_store(path)
            return cls("store", store.name, store.protocol, store.fingerprint, partial(_open_store, path))
        graph = GraphFolder.open(path)
        return cls("graph folder", graph.name, graph.protocol, graph.identity, partial(_load_folder, path))

    @classmethod
    def tables(cls, edges: Path, features: Path | None = None, labels: Path | None = None) -> Source:
        """The user's own files, which are read at once; see :func:`polybasis.data.read_tables`.

        Raises:
            FileNotFoundError, ValueError: if a file cannot be used; names file and line.
        """
        data = _read_tables(edges, features, labels)
        read = partial(_read_tables, edges, features, labels)
        return cls("tables", data.name, data.protocol, data.fingerprint, read)


_load = lru_cache(maxsize=2)(load)
_open_store = lru_cache(maxsize=2)(open_store)


@lru_cache(maxsize=2)
def _load_folder(path: Path) -> NodeDataset:
    return GraphFolder.open(path).load()


@lru_cache(maxsize=1)
def _read_tables(edges: Path, features: Path | None, labels: Path | None) -> NodeDataset:
    from polybasis.data.tables import read_tables

    return read_tables(edges, features, labels)
