"""The catalogue of data sets: which exist, which are installed, and how to load one by name.

This module imports neither torch nor PyTorch Geometric until a data set is loaded, so the command line can list names
quickly.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from polybasis.data.descriptions import DESCRIPTIONS
from polybasis.data.entries import CAMPUSES, ENTRIES, LINKX_CAMPUSES, read_campus
from polybasis.files import lock_for

if TYPE_CHECKING:
    from polybasis.data.dataset import NodeDataset

CATALOGUE = {name: replace(entry, description=DESCRIPTIONS[name]) for name, entry in ENTRIES.items()}


def data_root(root: str | Path | None = None) -> Path:
    """Returns the folder of data sets: the argument, else ``$POLYBASIS_DATA``, else a folder in the user's cache.

    Args:
        root: the folder, if it is given.

    >>> import polybasis as pb
    >>> pb.data.data_root("downloads").name
    'downloads'
    """
    if root is not None:
        return Path(root)
    if os.environ.get("POLYBASIS_DATA"):
        return Path(os.environ["POLYBASIS_DATA"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polybasis"


def raw_files(name: str, root: str | Path | None = None) -> list[Path]:
    """The raw files of a data set: those that are installed, else those to install."""
    return CATALOGUE[name].raw_files(data_root(root))


def missing_files(name: str, root: str | Path | None = None) -> list[Path]:
    """The raw files of a data set that are not installed."""
    return [place for place in raw_files(name, root) if not place.exists()]


def is_installed(name: str, root: str | Path | None = None) -> bool:
    """Whether the raw files of a data set are installed."""
    return not missing_files(name, root)


def unknown_dataset(name: str) -> ValueError:
    """The error for a name that is not in the catalogue, with the name or the path that may have been meant."""
    path = Path(name)
    if any(character in name for character in (".", "/", os.sep)) and not path.exists():
        beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        similar = difflib.get_close_matches(path.name, beside, n=1)
        hint = f"; did you mean {path.with_name(similar[0])}?" if similar else ""
        return ValueError(f"{name} does not exist and is not a data set{hint}")
    close = difflib.get_close_matches(name, CATALOGUE, n=1, cutoff=0.75)
    if close:
        return ValueError(f"unknown data set {name!r}; did you mean {close[0]!r}? polybasis datasets lists all names")
    names = ", ".join(known for known in CATALOGUE if known not in CAMPUSES)
    return ValueError(f"unknown data set {name!r}; expected one of {names}, or a campus such as {CAMPUSES[0]}")


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

    >>> import polybasis as pb
    >>> data = pb.data.load("csbm")
    >>> data.graph.num_nodes, data.classes
    (1000, (0, 1))
    """
    if name not in CATALOGUE:
        raise unknown_dataset(name)
    return replace(_load(name, data_root(root), CATALOGUE[name].read), identity=name)


def _load(name: str, folder: Path, read: Callable[[Path], NodeDataset]) -> NodeDataset:
    entry = CATALOGUE[name]
    try:
        if not entry.files:
            dataset = read(folder)
        else:
            # Other processes must not read downloads, or OGB's processed files, before they are complete.
            with lock_for(folder / Path(entry.folder).parts[0]):
                dataset = read(folder)
    except Exception as error:
        if is_installed(name, folder):
            if isinstance(error, OSError | ImportError) or str(folder) in str(error):
                raise
            files = entry.raw_files(folder)
            where = files[0] if len(files) == 1 else folder / entry.folder
            raise ValueError(f"{where}: cannot read {name} ({error or type(error).__name__})") from error
        raise FileNotFoundError(
            f"{name} is not installed: expected {' and '.join(entry.files)} in {folder / entry.folder}; "
            f"get it from {entry.source}"
        ) from error
    return replace(dataset, protocol=entry.protocol)


def load_campus(name: str, root: str | Path | None = None) -> NodeDataset:
    """Loads a campus of facebook100 with features that have the same meaning at every campus.

    :func:`load` returns one-hot codes of majors, dormitories and high schools, whose number and meaning differ between
    campuses. A model trained on the features of this function can be applied to other campuses; see
    :func:`polybasis.data.facebook100.shared_features`.

    Args:
        name: one of ``CAMPUSES`` or ``LINKX_CAMPUSES``.
        root: the folder of all data sets; see :func:`data_root`.

    Raises:
        ValueError: for another name, or if a file is damaged.
        FileNotFoundError: if the files are not installed; see :func:`load`.
    """
    if name not in (*CAMPUSES, *LINKX_CAMPUSES):
        raise ValueError(f"{name!r} is not a campus; expected one of {', '.join((*CAMPUSES, *LINKX_CAMPUSES))}")
    return _load(name, data_root(root), lambda folder: read_campus(name, folder, shared=True))
