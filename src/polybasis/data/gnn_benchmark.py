"""Graphs in the ``.npz`` archives of Shchur et al. (2018) and Bojchevski and Günnemann (2018): Amazon, Coauthor, and
full citation graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from polybasis.data.dataset import NodeDataset, make_dataset
from polybasis.foreign_files import Archive, sparse_matrix


def gnn_benchmark(name: str, path: Path) -> NodeDataset:
    """Reads a graph with binary features. Nodes, edges, features and classes are those that PyTorch Geometric reads.

    Args:
        name: name of the data set.
        path: the ``.npz`` file: two sparse matrices, ``adj_*`` and ``attr_*``, and ``labels``.

    Raises:
        ValueError: if the file is damaged.
    """
    matrices = []
    with Archive(path) as archive:
        for part in ("adj", "attr"):
            indices = [archive.read(f"{part}_{array}", "iu") for array in ("indices", "indptr")]
            shape, data = archive.read(f"{part}_shape", "iu"), archive.read(f"{part}_data")
            matrices.append(sparse_matrix(path, "csr", shape, data, indices))
        y = archive.read("labels", "iu")
    adjacency, x = matrices
    if y.ndim != 1 or adjacency.shape != (len(y), len(y)) or x.shape[0] != len(y):
        raise ValueError(f"{path}: the shapes of the arrays do not match")
    x.sum_duplicates()
    x.data[x.data > 0] = 1  # weights of words (TF-IDF) in the citation graphs
    x.eliminate_zeros()
    edges = adjacency.tocoo()
    pairs = np.stack([edges.row, edges.col]).astype(np.int64)
    return make_dataset(name, torch.from_numpy(pairs), x, torch.from_numpy(y.astype(np.int64)))
