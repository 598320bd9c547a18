"""Data sets without a class in PyTorch Geometric, read from the files that their authors published.

The split files of the LINKX repository are Python pickles, which this package does not open; it draws random 50/25/25
splits instead.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import scipy.io
import torch
from torch import Tensor

from polybasis.data.dataset import NodeDataset, fixed_masks, make_dataset


def filtered_wikipedia(name: str, folder: Path) -> NodeDataset:
    """Reads chameleon or squirrel without duplicate nodes (Platonov et al., 2023).

    Args:
        name: ``chameleon-filtered`` or ``squirrel-filtered``.
        folder: folder of ``<name>_filtered.npz``.
    """
    with np.load(folder / f"{name.removesuffix('-filtered')}_filtered.npz") as file:
        arrays = {key: torch.from_numpy(file[key]) for key in file.files}
    masks = [arrays[f"{part}_masks"].T for part in ("train", "val", "test")]
    return make_dataset(
        name,
        arrays["edges"].T.long(),
        arrays["node_features"],
        arrays["node_labels"],
        row_normalized=True,
        fixed_splits=fixed_masks(*masks),
    )


def twitch_gamers(folder: Path) -> NodeDataset:
    """Reads twitch-gamers, with standardised features; the class is whether a channel has explicit content.

    Args:
        folder: folder of ``twitch-gamer_feat.csv`` and ``twitch-gamer_edges.csv``.
    """
    with (folder / "twitch-gamer_feat.csv").open(newline="") as file:
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
    y = torch.tensor([int(row["mature"]) for row in rows])
    edges = np.loadtxt(folder / "twitch-gamer_edges.csv", dtype=np.int64, delimiter=",", skiprows=1, ndmin=2)
    return make_dataset("twitch-gamers", torch.from_numpy(edges.T.copy()), x, y)


def pokec(folder: Path) -> NodeDataset:
    """Reads pokec, a social network whose classes are the genders of its users.

    Args:
        folder: folder of ``pokec.mat``, which contains edge_index, node_feat and label.
    """
    file = scipy.io.loadmat(folder / "pokec.mat")
    edge_index, x, y = (torch.from_numpy(np.asarray(file[key])) for key in ("edge_index", "node_feat", "label"))
    return make_dataset("pokec", edge_index.long(), x, y.flatten())


def wiki(folder: Path) -> NodeDataset:
    """Reads wiki, whose five classes are ranges of page views of Wikipedia articles.

    Args:
        folder: folder of ``wiki_{edges,features,views}2M.pt``, which are plain tensors.
    """

    def tensor(part: str) -> Tensor:
        loaded = torch.load(folder / f"wiki_{part}2M.pt", weights_only=True)
        assert isinstance(loaded, Tensor)
        return loaded

    edges = tensor("edges")
    return make_dataset(
        "wiki", edges.T if edges.shape[0] != 2 else edges, tensor("features"), tensor("views").flatten()
    )


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
