"""Data sets of the Open Graph Benchmark (Hu et al., 2020), read by OGB's own package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polybasis.data.dataset import NodeDataset, fixed_masks, make_dataset
from polybasis.data.published_files import by_quantiles


def read_ogb(name: str, root: Path) -> NodeDataset:
    """Reads a data set of OGB, or arxiv-year (Lim et al., 2021), with OGB's package.

    Args:
        name: name of the data set.
        root: OGB's folder.

    Raises:
        ImportError: if OGB's package is not installed.
    """
    try:
        from ogb.nodeproppred import NodePropPredDataset
    except ImportError as error:
        raise ImportError(f"{name} needs OGB; install it with: pip install 'polybasis[ogb]'") from error
    # OGB caches arrays with torch.save. Loading only weights and arrays runs no code, whatever OGB passes to torch.
    with _weights_only(), torch.serialization.safe_globals(_array_types()):
        source = NodePropPredDataset("ogbn-arxiv" if name == "arxiv-year" else name, root=str(root))
        split = source.get_idx_split()
    raw, label = source[0]
    edge_index, x = torch.from_numpy(raw["edge_index"]), torch.from_numpy(raw["node_feat"])
    if name == "arxiv-year":
        return make_dataset(name, edge_index, x, by_quantiles(torch.from_numpy(raw["node_year"]).flatten(), 5))
    y = torch.from_numpy(label).flatten().nan_to_num(nan=-1).long()
    masks = [torch.zeros(len(y), 1, dtype=torch.bool) for _ in range(3)]
    for mask, part in zip(masks, ("train", "valid", "test"), strict=True):
        mask[torch.from_numpy(split[part])] = True
    return make_dataset(name, edge_index, x, y, fixed_splits=fixed_masks(*masks))


@contextmanager
def _weights_only() -> Iterator[None]:
    """Makes torch load weights only, even if it is asked for more."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _array_types() -> list[Any]:
    """What torch needs to load NumPy arrays of numbers."""
    dtypes = {type(np.dtype(name)) for name in ("bool", "int32", "int64", "float32", "float64")}
    return [np.ndarray, np.dtype, np.empty(0).__reduce__()[0], *dtypes]
