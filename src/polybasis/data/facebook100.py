"""Social networks of American campuses in 2005, facebook100 (Traud et al., 2012); the classes are genders.

Each user has seven codes, 0 where nothing is known: status, gender, major, minor, dormitory, year of graduation and
high school. Status, gender and year have the same meaning at every campus. The same code of a major, minor or dormitory
has a different meaning at every campus. High school codes are common to all campuses, but there are about 14,000 of
them at 30 campuses, and most occur at only a few.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from polybasis.data.dataset import Masks, NodeDataset, fixed_masks, make_dataset
from polybasis.data.matlab import read_matlab
from polybasis.data.pickles import integers, load_arrays
from polybasis.foreign_files import errors_naming, integers_of, regular_file

STATUS, GENDER, MAJOR, MINOR, DORM, YEAR, HIGH_SCHOOL = range(7)  # columns of local_info
STATUSES = range(1, 7)  # fewer than one user in a thousand has another code
YEARS = range(2001, 2011)
MAX_SPLITS = 100
SHARED_FEATURES = (
    *(f"status {code}" for code in STATUSES),
    "status other or unknown",
    *(f"year {year}" for year in YEARS),
    "year other",
    "year unknown",
    *(f"{column} known" for column in ("major", "minor", "dorm", "high school")),
)


def facebook100(name: str, path: Path, *, splits: Path | None = None, shared: bool = False) -> NodeDataset:
    """Reads the network of a campus.

    Args:
        name: name of the data set.
        path: the ``.mat`` file, which contains the adjacency matrix A and local_info: the codes of each user.
        splits: file of the splits of penn94.
        shared: use the features of :func:`shared_features`, which mean the same at every campus, instead of one-hot
            codes of all columns except the gender, as in LINKX (Lim et al., 2021).

    Raises:
        ValueError: if a file is damaged.
    """
    adjacency, info = read_matlab(path, "A", "local_info")
    if (
        not sp.issparse(adjacency)
        or sp.issparse(info)
        or info.ndim != 2
        or info.shape[1] != 7
        or adjacency.shape != 2 * info.shape[:1]
    ):
        raise ValueError(
            f"{path}: expected a square sparse matrix A and a row of seven codes (local_info) for each node"
        )
    edges = adjacency.tocoo()
    codes = integers_of(path, info)
    pairs = np.stack([edges.row, edges.col]).astype(np.int64)
    masks = None if splits is None else _penn94_splits(splits, len(codes))
    with errors_naming(path, "not a graph with genders"):
        return make_dataset(
            name,
            torch.from_numpy(pairs),
            torch.from_numpy(shared_features(codes)) if shared else _one_hot(codes),
            torch.from_numpy(codes[:, GENDER] - 1),
            fixed_splits=masks,
        )


def shared_features(codes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Features with the same columns, ``SHARED_FEATURES``, at every campus.

    They are one-hot codes of the status and of the year of graduation, and whether major, minor, dormitory and high
    school are known.

    Args:
        codes: the codes of each user, (N, 7).

    Returns:
        Features of 0 and 1, (N, len(SHARED_FEATURES)).

    >>> shared_features(np.array([[1, 2, 302, 0, 128, 2007, 50009]])).sum()
    np.float32(5.0)
    """
    status, year = codes[:, [STATUS]], codes[:, [YEAR]]
    columns = [
        status == np.array(STATUSES),
        ~np.isin(status, STATUSES),
        year == np.array(YEARS),
        ~np.isin(year, (0, *YEARS)),
        year == 0,
        codes[:, [MAJOR, MINOR, DORM, HIGH_SCHOOL]] != 0,
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)


def _one_hot(codes: NDArray[np.int64]) -> sp.csr_array:
    """One-hot codes of every column except the gender, in the order of the columns and codes."""
    width, places = 0, []
    for column in range(codes.shape[1]):
        if column != GENDER:
            values, code = np.unique(codes[:, column], return_inverse=True)
            places.append(width + code.reshape(-1))
            width += len(values)
    indices = np.stack(places, axis=1)
    offsets = np.arange(len(codes) + 1) * indices.shape[1]
    return sp.csr_array((np.ones(indices.size, np.float32), indices.reshape(-1), offsets), shape=(len(codes), width))


def _penn94_splits(path: Path, nodes: int) -> list[Masks]:
    regular_file(path)
    with path.open("rb") as file:
        with errors_naming(path, "not a NumPy array, or damaged"):
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
        splits = load_arrays(path, file)
    found = []
    with errors_naming(path, "expected lists of nodes for train, valid and test"):
        if type(splits) is not list or len(splits) > MAX_SPLITS:
            raise ValueError(f"not a list of at most {MAX_SPLITS} splits")
        for split in splits:
            masks = torch.zeros(3, nodes, dtype=torch.bool)
            for mask, part in zip(masks, ("train", "valid", "test"), strict=True):
                here = integers(split[part])
                if len(here) and (here.min() < 0 or here.max() >= nodes):
                    raise ValueError(f"a node is outside 0 .. {nodes - 1}")
                mask[torch.from_numpy(here)] = True
            found += fixed_masks(*masks)
    return found
