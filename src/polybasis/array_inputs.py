"""Features, targets and masks as users have them: NumPy, torch, SciPy sparse, pandas and polars.

pandas and polars are recognised by the methods of their objects and never imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.features import Features, SparseFeatures, as_features


def to_features(X: Any, nodes: int) -> Features:
    """Features of all nodes, (nodes, F), in float32.

    Raises:
        ValueError: for a wrong shape, or for values that are missing, not finite or not numbers.
    """
    x = X if isinstance(X, Tensor | SparseFeatures) or sp.issparse(X) else torch.from_numpy(_numbers(X))
    if len(x.shape) != 2 or x.shape[0] != nodes:
        raise ValueError(f"X has shape {tuple(x.shape)}; expected ({nodes}, F), one row for each node")
    if isinstance(x, SparseFeatures):
        return x
    if isinstance(x, Tensor):
        if not torch.isfinite(x).all():
            node, feature = (~torch.isfinite(x)).nonzero()[0].tolist()
            raise ValueError(f"X[{node}, {feature}] is {float(x[node, feature])}; features must be finite")
        return as_features(x.float())
    matrix = sp.csr_array(x, dtype=np.float32)
    wrong = ~np.isfinite(matrix.data)
    if wrong.any():
        place = int(wrong.argmax())
        node = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
        value = f"X[{node}, {matrix.indices[place]}] is {matrix.data[place]}"
        raise ValueError(f"{value}; features must be finite")
    return as_features(matrix)


def _numbers(X: Any) -> NDArray[Any]:
    values = np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X)
    if values.dtype == object:  # pandas has objects for columns with pd.NA, and for columns of several types
        filled = [np.nan if is_missing(value) else value for value in values.ravel()]
        try:
            values = np.array(filled, dtype=np.float64).reshape(values.shape)
        except (TypeError, ValueError):
            wrong = next(value for value in filled if not isinstance(value, int | float | np.number | np.bool_))
            raise ValueError(f"X has the value {wrong!r}; expected numbers: encode categories first") from None
    if values.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {values.dtype}; expected real numbers: encode categories first")
    return np.require(values, requirements=["C", "W"])


def to_list(y: Any, nodes: int) -> list[Any]:
    """Targets of all nodes as Python objects, with None for missing ones.

    Raises:
        ValueError: if there is not one value for each node.
    """
    values = y.detach().tolist() if isinstance(y, Tensor) else y.to_list() if hasattr(y, "to_list") else y
    values = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if len(values) != nodes:
        raise ValueError(f"y has {len(values)} entries; expected {nodes}, one for each node")
    if any(isinstance(value, list | tuple | np.ndarray) for value in values):
        raise ValueError("y has several columns; expected one value for each node")
    return [None if is_missing(value) else value for value in values]


def to_mask(mask: Any, nodes: int, name: str) -> Tensor:
    """A boolean mask of nodes, (nodes,), from such a mask or from the indices of the nodes.

    Raises:
        ValueError: for a mask of the wrong shape, and for indices that are out of range or repeated.
    """
    values = np.asarray(mask.to_numpy() if hasattr(mask, "to_numpy") else mask)
    if values.dtype == object and all(isinstance(value, bool | np.bool_) for value in values.ravel()):
        values = values.astype(np.bool_)
    if values.dtype == np.bool_:
        if values.shape != (nodes,):
            raise ValueError(f"{name} has shape {values.shape}; expected ({nodes},)")
        return torch.from_numpy(np.array(values))
    if values.ndim != 1 or (values.dtype.kind not in "iu" and values.size):
        raise ValueError(
            f"{name} has dtype {values.dtype} and shape {values.shape}; expected booleans, ({nodes},), or node indices"
        )
    indices, counts = np.unique(values.astype(np.int64), return_counts=True)
    if (counts > 1).any():
        repeated = indices[counts.argmax()]
        raise ValueError(f"{name} has node {repeated} more than once; if it is a mask, convert it to booleans")
    if len(indices) and (indices[0] < 0 or indices[-1] >= nodes):
        wrong = indices[0] if indices[0] < 0 else indices[-1]
        raise ValueError(f"{name} has node {wrong}; expected nodes from 0 to {nodes - 1}")
    return torch.zeros(nodes, dtype=torch.bool).index_fill(0, torch.from_numpy(indices), True)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, ``pd.NA`` or ``pd.NaT``."""
    try:
        return value is None or bool(value != value)  # NaN differs from itself
    except (TypeError, ValueError):  # pd.NA has no truth value, and arrays are not missing
        return not isinstance(value, np.ndarray | list)
