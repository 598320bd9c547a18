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
from polybasis.data.pickles import integers, load_arrays
from polybasis.foreign_files import errors_naming, read_text, regular_file


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
        matrix: Any = found.astype(np.float32)
        dense: NDArray[np.float32] = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        return dense

    tx, allx, ty, ally = (numbers(part) for part in ("tx", "allx", "ty", "ally"))
    path = folder / f"ind.{name}.test.index"
    with errors_naming(path, "not a list of nodes"):
        order = np.array(read_text(path).split(), dtype=np.int64)
    known = len(allx)
    count = int(order.max()) + 1 - known if len(order) else 0
    if len(order) != len(tx) or len(np.unique(order)) != len(order) or order.min() != known or count > 2 * len(tx):
        raise ValueError(f"{path}: expected {len(tx)} different nodes from {known} on")
    if len(tx) != len(ty) or known != len(ally) or tx.shape[1] != allx.shape[1] or ty.shape[1] != ally.shape[1]:
        raise ValueError(f"{folder / f'ind.{name}.allx'}: the other files have another number of nodes or features")
    x = np.zeros((known + count, allx.shape[1]), dtype=np.float32)
    one_hot = np.zeros((known + count, ally.shape[1]), dtype=np.float32)
    x[:known], x[order], one_hot[:known], one_hot[order] = allx, tx, ally, ty
    if not np.isfinite(x).all():
        raise ValueError(f"{folder / f'ind.{name}.allx'} or .tx: a feature is not finite")
    path = folder / f"ind.{name}.graph"
    edges = _edges(path)
    masks = read_splits(folder, name, len(x))
    with errors_naming(path, "not a graph of these nodes"):
        return make_dataset(
            name, torch.from_numpy(edges), torch.from_numpy(x), torch.from_numpy(one_hot.argmax(axis=1)),
            fixed_splits=fixed_masks(*masks),
        )  # fmt: skip


def _edges(path: Path) -> NDArray[np.int64]:
    """Pairs of nodes, (2, E), from a dictionary of neighbours."""
    graph: Any = load_arrays(path)
    if not isinstance(graph, dict) or not all(type(neighbours) is list for neighbours in graph.values()):
        raise ValueError(f"{path}: expected a dictionary with a list of neighbours for each node")
    degrees = [len(neighbours) for neighbours in graph.values()]
    if sum(degrees) > regular_file(path):  # a neighbour takes at least a byte, unless the lists are the same object
        raise ValueError(f"{path}: {sum(degrees):,} neighbours, more than the file can hold")
    with errors_naming(path, "expected numbers of nodes"):
        sources = np.repeat(integers(list(graph)), degrees)
        targets = integers([node for neighbours in graph.values() for node in neighbours])
    return np.stack([sources, targets])
