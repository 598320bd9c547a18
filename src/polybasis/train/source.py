"""Sources of data: named data sets, graph folders, stores and the user's own tables, opened on first use."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from polybasis.data.catalogue import CATALOGUE, load, unknown_dataset
from polybasis.data.dataset import NodeDataset
from polybasis.store.basis_store import BasisStore, open_store
from polybasis.store.graph_folder import GraphFolder

Data = NodeDataset | BasisStore


@dataclass(frozen=True)
class Source:
    """Data that a job trains on, opened once per process, on first use.

    Create one with :meth:`named`, :meth:`folder` or :meth:`tables`.

    Attributes:
        kind: the kind of source.
        name: name of the data set.
        protocol: its split protocol.
        identity: identifies the contents; two sources with the same identity have the same contents.
        open: returns the data: a data set in memory, or a store.

    >>> import polybasis as pb
    >>> source = pb.train.Source.named("csbm")
    >>> source.kind, source.protocol
    ('data set', 'per-class')
    """

    kind: Literal["data set", "graph folder", "store", "tables"]
    name: str
    protocol: str
    identity: str
    open: Callable[[], Data] = field(compare=False)

    @classmethod
    def named(cls, name: str, root: str | None = None) -> Source:
        """Creates a source from a named data set, which is loaded on first use.

        Args:
            name: its name.
            root: the folder of all data sets; see :func:`polybasis.data.data_root`.

        Raises:
            ValueError: for an unknown name.
        """
        if name not in CATALOGUE:
            raise unknown_dataset(name)
        root = root or os.environ.get("POLYBASIS_DATA")  # read here: it may not be set on another machine
        read = partial(_load, name, None if root is None else str(Path(root).absolute()))
        return cls("data set", name, CATALOGUE[name].protocol, name, read)

    @classmethod
    def folder(cls, path: str | Path) -> Source:
        """Creates a source from a graph folder or a store.

        Raises:
            FileNotFoundError, ValueError: if the folder is damaged or neither of the two.
        """
        path = Path(path).absolute()
        if (path / "store.json").exists():
            opened = partial(_open_store, path, _stamp(path / "basis.json"))
            store = opened()
            return cls("store", store.name, store.protocol, store.fingerprint, opened)
        graph = GraphFolder.open(path)
        loaded = partial(_load_folder, path, _stamp(path / "graph.json"))
        return cls("graph folder", graph.name, graph.protocol, graph.identity, loaded)

    @classmethod
    def tables(
        cls,
        edges: str | Path,
        features: str | Path | None = None,
        labels: str | Path | None = None,
        **options: Any,
    ) -> Source:
        """Creates a source from the user's own files, which are read immediately.

        Args:
            edges: as for :func:`polybasis.data.read_tables`.
            features: as for :func:`polybasis.data.read_tables`.
            labels: as for :func:`polybasis.data.read_tables`.
            options: further arguments of :func:`polybasis.data.read_tables`.

        Raises:
            FileNotFoundError, ValueError: if a file is missing or invalid; the message gives the file and the line.
        """
        files = [None if path is None else Path(path).absolute() for path in (edges, features, labels)]
        hashable = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
        read = partial(_read_tables, Path(edges).absolute(), *files[1:], _stamp(*files), **hashable)
        data = read()
        return cls("tables", data.name, data.protocol, data.fingerprint, read)


def _stamp(*files: Path | None) -> tuple[Any, ...]:
    """A cache key that changes when one of the files changes."""
    found = [file.stat() for file in files if file is not None and file.exists()]
    return tuple((status.st_mtime_ns, status.st_size) for status in found)


@lru_cache(maxsize=2)
def _load(name: str, root: str | None) -> NodeDataset:
    return load(name, root)


@lru_cache(maxsize=2)
def _open_store(path: Path, stamp: tuple[Any, ...]) -> BasisStore:
    return open_store(path)


@lru_cache(maxsize=2)
def _load_folder(path: Path, stamp: tuple[Any, ...]) -> NodeDataset:
    return GraphFolder.open(path).load()


@lru_cache(maxsize=1)
def _read_tables(
    edges: Path, features: Path | None, labels: Path | None, stamp: tuple[Any, ...], **options: Any
) -> NodeDataset:
    from polybasis.data.tables import read_tables

    return read_tables(edges, features, labels, **options)
