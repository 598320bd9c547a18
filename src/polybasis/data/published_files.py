"""Data sets read from the files that their authors published, without PyTorch Geometric and its processed files.

The split files of the LINKX repository are Python pickles; only those of penn94 are read, see
:mod:`polybasis.data.facebook100`. For other sets of that repository, this package draws random 50/25/25 splits.
"""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from polybasis.data.dataset import NodeDataset, fixed_masks, make_dataset
from polybasis.data.matlab import read_matlab
from polybasis.data.metrics import Metric
from polybasis.foreign_files import errors_naming, integers_of, read_arrays, regular_file


def heterophilous(name: str, path: Path, *, row_normalized: bool = False, metric: Metric = "accuracy") -> NodeDataset:
    """Reads a graph of Platonov et al. (2023): a heterophilous graph, or chameleon or squirrel without duplicate nodes.

    Args:
        name: name of the data set.
        path: the ``.npz`` file.
        row_normalized, metric: see :func:`polybasis.data.dataset.make_dataset`.

    Raises:
        ValueError: if the file is damaged.
    """
    x, y, edges, *masks = read_arrays(
        path, "node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks"
    )
    if x.ndim != 2 or y.shape != x.shape[:1] or edges.ndim != 2 or any(mask.shape[1:] != y.shape for mask in masks):
        raise ValueError(f"{path}: the shapes of the arrays do not match")
    if y.dtype.kind not in "iu" or edges.dtype.kind not in "iu":
        raise ValueError(f"{path}: edges of {edges.dtype}, classes of {y.dtype}; expected integers")
    columns = (torch.from_numpy(mask.T.astype(bool)) for mask in masks)
    with errors_naming(path, "not a graph with features and classes"):
        return make_dataset(
            name,
            torch.from_numpy(edges.T.astype(np.int64)),
            torch.from_numpy(x.astype(np.float32)),
            torch.from_numpy(y.astype(np.int64)),
            row_normalized=row_normalized,
            metric=metric,
            fixed_splits=fixed_masks(*columns),
        )


def genius(folder: Path) -> NodeDataset:
    """Reads genius, whose classes say which accounts were marked as gone (Lim and Benson, 2021).

    Args:
        folder: folder of ``data.mat``, which contains edge_index, node_feat and label.
    """
    return _in_one_mat("genius", folder / "data.mat", metric="roc_auc")


def _in_one_mat(name: str, path: Path, metric: Metric = "accuracy") -> NodeDataset:
    edge_index, x, y = read_matlab(path, "edge_index", "node_feat", "label")
    if sp.issparse(edge_index) or sp.issparse(x) or sp.issparse(y) or x.ndim != 2 or y.size != len(x):
        raise ValueError(f"{path}: expected dense node_feat and a label for each of its rows")
    with errors_naming(path, "not a graph with features and labels"):
        return make_dataset(
            name,
            torch.from_numpy(integers_of(path, edge_index)),
            torch.from_numpy(x.astype(np.float32)),
            torch.from_numpy(integers_of(path, y)).flatten(),
            metric=metric,
        )


def twitch_gamers(folder: Path) -> NodeDataset:
    """Reads twitch-gamers, with standardised features; the class is whether a channel has explicit content.

    Args:
        folder: folder of ``twitch-gamer_feat.csv`` and ``twitch-gamer_edges.csv``.
    """
    path = folder / "twitch-gamer_feat.csv"
    regular_file(path)
    with errors_naming(path, "not a table of channels"):
        with path.open(newline="", encoding="utf-8") as file:
            rows = sorted(csv.DictReader(file), key=lambda row: int(row["numeric_id"]))
        languages = {language: i for i, language in enumerate(dict.fromkeys(row["language"] for row in rows))}
        columns = [
            [float(row["views"]) for row in rows],
            [float(row["life_time"]) for row in rows],
            [float(row["created_at"].replace("-", "")) for row in rows],
            [float(row["updated_at"].replace("-", "")) for row in rows],
            [float(row["dead_account"]) for row in rows],
            [float(languages[row["language"]]) for row in rows],
            [float(row["affiliate"]) for row in rows],
        ]
        x = torch.tensor(columns, dtype=torch.float64).T
        x = (x - x.mean(0)) / x.std(0, correction=0).clamp(min=1e-12)
        if not torch.isfinite(x).all():
            raise ValueError("a feature is not finite")
        y = torch.tensor([int(row["mature"]) for row in rows])
    path = folder / "twitch-gamer_edges.csv"
    regular_file(path)
    with errors_naming(path, "expected two nodes in each line"):
        edges = np.loadtxt(path, dtype=np.int64, delimiter=",", skiprows=1, ndmin=2)
        return make_dataset("twitch-gamers", torch.from_numpy(edges.T.copy()), x, y)


def pokec(folder: Path) -> NodeDataset:
    """Reads pokec, a social network whose classes are the genders of its users.

    Args:
        folder: folder of ``pokec.mat``, which contains edge_index, node_feat and label.
    """
    return _in_one_mat("pokec", folder / "pokec.mat")


def wiki(folder: Path) -> NodeDataset:
    """Reads wiki, whose five classes are ranges of page views of Wikipedia articles.

    Args:
        folder: folder of ``wiki_{edges,features,views}2M.pt``, which are plain tensors.
    """

    def tensor(part: str) -> Tensor:
        path = folder / f"wiki_{part}2M.pt"
        size = regular_file(path)
        with errors_naming(path, "not a tensor, or damaged"):
            if zipfile.is_zipfile(path):  # a compressed storage would be unpacked before it can be checked
                with zipfile.ZipFile(path) as archive:
                    if any(entry.file_size > size for entry in archive.infolist()):
                        raise ValueError("an entry claims more bytes than the file has")
            loaded = torch.load(path, weights_only=True, map_location="cpu")
            # Other classes and layouts, and strides of 0, can describe a tensor that is larger than its file.
            if type(loaded) is not Tensor or loaded.layout != torch.strided or loaded.is_complex():
                raise ValueError(f"{type(loaded).__name__}; expected a tensor of real numbers")
            if loaded.numel() * loaded.element_size() > size:
                raise ValueError(f"{loaded.numel():,} numbers, more than the file can hold")
            return loaded

    edges, x, y = (tensor(part) for part in ("edges", "features", "views"))
    with errors_naming(folder / "wiki_edges2M.pt", "not the edges of a graph with these features and views"):
        return make_dataset("wiki", edges.T if edges.shape[0] != 2 else edges, x, y.flatten())


def by_quantiles(value: Tensor, classes: int) -> Tensor:
    """Divides values into classes of about equal size, as arxiv-year does with years; equal values share a class.

    Args:
        value: one number for each node, (N,).
        classes: number of classes.

    Returns:
        Class indices, (N,), which increase with the values.
    """
    borders = torch.quantile(value.double(), torch.arange(1, classes, dtype=torch.float64) / classes)
    return torch.bucketize(value.double(), torch.unique(borders), right=True)
