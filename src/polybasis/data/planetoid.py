"""The citation graphs of Planetoid (Yang et al., 2016) from their published files, with the splits of Geom-GCN.

The files are pickles; :mod:`polybasis.data.pickles` reads them without running code. Nodes, edges and classes are those
of PyTorch Geometric's ``Planetoid``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polybasis.data.dataset import NodeDataset, fixed_masks, make_dataset
from polybasis.data.geom_gcn import MAX_FEATURES, read_splits
from polybasis.data.pickles import load_arrays
from polybasis.foreign_files import read_text


def planetoid(name: str, folder: Path) -> NodeDataset:
    """Reads Cora, CiteSeer or PubMed.

    The files list the test nodes last and in the order of ``test.index``. Some test nodes of CiteSeer are missing from
    the files; they have no features and the first class.

    Args:
        name: ``cora``, ``citeseer`` or ``pubmed``.
        folder: folder of ``ind.<name>.*`` and of the splits.

    Raises:
        ValueError: if a file is damaged; the message gives the file.
    """

    def numbers(part: str) -> NDArray[np.float32]:
        path = folder / f"ind.{name}.{part}"
        found = load_arrays(path)
        shape: tuple[int, ...] = getattr(found, "shape", ())
        if len(shape) != 2 or shape[0] * shape[1] > MAX_FEATURES:
            raise ValueError(f"{path}: expected a matrix of at most {MAX_FEATURES:,} numbers")
        dense = found if isinstance(found, np.ndarray) else found.toarray()
        return dense.astype(np.float32)

    tx, allx, ty, ally = (numbers(part) for part in ("tx", "allx", "ty", "ally"))
    path = folder / f"ind.{name}.test.index"
    try:
        order = np.array(read_text(path).split(), dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path}: not a list of nodes ({error})") from error
    known = len(allx)
    count = int(order.max()) + 1 - known if len(order) else 0
    if len(order) != len(tx) or len(np.unique(order)) != len(order) or order.min() != known or count > 2 * len(tx):
        raise ValueError(f"{path}: expected {len(tx)} different nodes from {known} on")
    if len(tx) != len(ty) or known != len(ally) or tx.shape[1] != allx.shape[1] or ty.shape[1] != ally.shape[1]:
        raise ValueError(f"{folder}: the features and classes of {name} have different sizes")
    x = np.zeros((known + count, allx.shape[1]), dtype=np.float32)
    one_hot = np.zeros((known + count, ally.shape[1]), dtype=np.float32)
    x[:known], x[order], one_hot[:known], one_hot[order] = allx, tx, ally, ty
    edges = _edges(folder / f"ind.{name}.graph")
    masks = read_splits(folder, name, len(x))
    return make_dataset(
        name, torch.from_numpy(edges), torch.from_numpy(x), torch.from_numpy(one_hot.argmax(axis=1)),
        fixed_splits=fixed_masks(*masks),
    )  # fmt: skip


def _edges(path: Path) -> NDArray[np.int64]:
    """Pairs of nodes, (2, E), from a dictionary of neighbours."""
    graph: Any = load_arrays(path)
    if not isinstance(graph, dict) or not all(isinstance(neighbours, list) for neighbours in graph.values()):
        raise ValueError(f"{path}: expected a dictionary with a list of neighbours for each node")
    try:
        sources = np.repeat(np.array(list(graph), dtype=np.int64), [len(neighbours) for neighbours in graph.values()])
        targets = np.array([node for neighbours in graph.values() for node in neighbours], dtype=np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path}: nodes must be numbers ({error})") from error
    return np.stack([sources, targets])
