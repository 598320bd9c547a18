"""Graphs in the text files of Geom-GCN (Pei et al., 2020): chameleon, squirrel, actor and WebKB."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.data.dataset import NodeDataset, fixed_masks, make_dataset, refuse_classes
from polybasis.foreign_files import errors_naming, read_arrays, read_text

MAX_FEATURES = 1 << 25  # numbers in a dense matrix: 128 MiB, twice as many as any of these data sets has
MAX_FILE = 1 << 30
SPLITS = 10


def geom_gcn(name: str, folder: Path) -> NodeDataset:
    """Reads a graph with row-normalised features and ten splits.

    Args:
        name: name of the data set; the features of ``actor`` are lists of words, those of other sets are 0 and 1.
        folder: folder of ``out1_node_feature_label.txt``, ``out1_graph_edges.txt`` and the splits.

    Raises:
        ValueError: if a file is damaged; the message gives the file.
    """
    path = folder / "out1_node_feature_label.txt"
    rows = [line.split("\t") for line in read_text(path, MAX_FILE).splitlines()[1:]]
    with errors_naming(path, "expected node, features and class in each line"):
        nodes, words, labels = zip(*rows, strict=True)
        number = np.array(nodes, dtype=np.int64)
        y = np.array(labels, dtype=np.int64)
        x = _listed(number, words) if name == "actor" else read_numbers(",", words).astype(np.float32)
        if not np.isfinite(x).all():
            raise ValueError("a feature is not finite")
        refuse_classes(int(y.min()), int(y.max()), len(y))
    if name == "actor":
        y[number] = y.copy()
    path = folder / "out1_graph_edges.txt"
    with errors_naming(path, "expected two nodes in each line"):
        edges = read_numbers("\t", read_text(path, MAX_FILE).splitlines()[1:])
        if edges.dtype.kind not in "iu" or edges.shape[1:] != (2,):
            raise ValueError("not two integers")
    masks = read_splits(folder, "film" if name == "actor" else name, len(x))
    with errors_naming(path, "not a graph of these nodes"):
        return make_dataset(
            name, torch.from_numpy(edges.T.astype(np.int64)), torch.from_numpy(x), torch.from_numpy(y),
            row_normalized=True, fixed_splits=fixed_masks(*masks),
        )  # fmt: skip


def read_splits(folder: Path, stem: str, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """The ten splits of a data set: training, validation and test masks, each (nodes, 10)."""
    columns: list[list[Tensor]] = [[], [], []]
    for number in range(SPLITS):
        path = folder / f"{stem}_split_0.6_0.2_{number}.npz"
        for column, mask in zip(columns, read_arrays(path, "train_mask", "val_mask", "test_mask"), strict=True):
            if mask.shape != (nodes,):
                raise ValueError(f"{path}: masks of shape {mask.shape}; expected ({nodes},)")
            column.append(torch.from_numpy(mask.astype(bool)))
    train, val, test = (torch.stack(column, dim=1) for column in columns)
    return train, val, test


def read_numbers(separator: str, lines: Any) -> NDArray[Any]:
    """Lines with the same number of numbers, as a matrix."""
    table = pyarrow.csv.read_csv(
        io.BytesIO("\n".join(lines).encode()),
        pyarrow.csv.ReadOptions(autogenerate_column_names=True, block_size=1 << 24),
        pyarrow.csv.ParseOptions(delimiter=separator, quote_char=False, ignore_empty_lines=False),
    )
    if table.num_rows != len(lines):
        raise ValueError(f"{table.num_rows} of {len(lines)} lines have numbers")
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def _listed(nodes: NDArray[np.int64], words: Any) -> NDArray[np.float32]:
    """Features that are 1 for the listed words and 0 for others."""
    if not np.array_equal(np.sort(nodes), np.arange(len(nodes))):
        raise ValueError("the nodes are not numbered from 0 without gaps")
    lists = [np.array(line.split(","), dtype=np.int64) for line in words]
    columns = np.concatenate(lists)
    width = int(columns.max()) + 1
    if columns.min() < 0 or len(nodes) * width > MAX_FEATURES:
        raise ValueError(f"feature {width - 1} is out of range")
    x = np.zeros((len(nodes), width), dtype=np.float32)
    x[np.repeat(nodes, [len(line) for line in lists]), columns] = 1
    return x
