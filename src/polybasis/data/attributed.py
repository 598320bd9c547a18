"""Graphs in the files of PANE (Yang et al., 2020), which PyTorch Geometric calls ``AttributedGraphDataset``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from polybasis.data.dataset import NodeDataset, make_dataset, refuse_classes
from polybasis.data.geom_gcn import MAX_FILE, read_numbers
from polybasis.foreign_files import errors_naming, read_sparse, read_text


def attributed(name: str, folder: Path) -> NodeDataset:
    """Reads a graph with one class for each node.

    Args:
        name: name of the data set.
        folder: folder of ``attrs.npz`` (a sparse matrix), ``edgelist.txt`` (two nodes in each line) and ``labels.txt``
            (a node and its class in each line). Classes count from 1 in the files of PANE, and from 0 in some copies.

    Raises:
        ValueError: if a file is damaged; the message gives the file.
    """
    x = read_sparse(folder / "attrs.npz")
    edges = _pairs(folder / "edgelist.txt", " ", "two nodes")
    if edges.size and (edges.min() < 0 or edges.max() >= x.shape[0]):
        raise ValueError(f"{folder / 'edgelist.txt'}: expected nodes from 0 to {x.shape[0] - 1}")
    path = folder / "labels.txt"
    node, y = _pairs(path, "\t", "a node and its class").T
    if not np.array_equal(node, np.arange(x.shape[0])):
        raise ValueError(f"{path}: expected the nodes 0 to {x.shape[0] - 1} in order")
    first = int(y.min()) if len(y) else 0
    if first not in (0, 1):
        raise ValueError(f"{path}: the first class is {first}; expected 0 or 1")
    with errors_naming(path, "not classes of these nodes"):
        refuse_classes(0, int(y.max(initial=first)) - first, len(y))
    return make_dataset(name, torch.from_numpy(edges.T.copy()), x, torch.from_numpy(y - first))


def _pairs(path: Path, separator: str, expected: str) -> NDArray[np.int64]:
    """Two integers in each line, (lines, 2)."""
    lines = read_text(path, MAX_FILE).splitlines()
    with errors_naming(path, f"expected {expected} in each line"):
        pairs = read_numbers(separator, lines)
        if pairs.dtype.kind not in "iu" or pairs.shape[1] != 2:
            raise ValueError(f"{pairs.shape[1]} columns of {pairs.dtype}")
    return pairs.astype(np.int64)
