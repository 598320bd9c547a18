"""Node features, dense or sparse, and the transforms applied to them before training.

Bags of words have thousands of columns and few nonzeros. If they stay sparse, the first linear layer and its dropout
take time proportional to the number of nonzeros.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from polybasis import native

MAX_DENSITY = 0.2  # fraction of nonzeros up to which sparse products are faster
FeatureTransform = Literal["row-normalize", "binarize"]


class _Pattern:
    """The sparsity pattern of a CSR matrix."""

    def __init__(self, indptr: Any, indices: Any, shape: tuple[int, int]) -> None:
        self.indptr, self.indices = (torch.from_numpy(part.astype(np.int32)) for part in (indptr, indices))
        self.shape = shape
        module = native.module or native.kernels()  # warns if the kernels are missing
        self._native = (
            None if module is None else module.Pattern(self.indptr, self.indices, shape[1], module.best_isa())
        )

    def product(self, values: Tensor, x: Tensor) -> Tensor:
        """Multiplies the matrix with these values by x."""
        if self._native is None or x.dtype != values.dtype:
            return self.matrix(values).to(x.dtype) @ x
        y = torch.empty(self.shape[0], x.shape[1], dtype=values.dtype)
        self._native.product(values, x, y, torch.get_num_threads())
        return y

    def matrix(self, values: Tensor) -> Tensor:
        """The matrix as a torch sparse CSR tensor."""
        return torch.sparse_csr_tensor(self.indptr, self.indices, values, self.shape, check_invariants=False)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.indptr.numpy(), self.indices.numpy(), self.shape

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]


class SparseFeatures:
    """A sparse feature matrix in CSR format, with the pattern of its transpose.

    Args:
        matrix: anything SciPy's ``csr_array`` takes, shape (N, F).

    Attributes:
        shape: (N, F).
        values: the nonzeros in row order; do not modify in place.
    """

    def __init__(self, matrix: Any) -> None:
        csr = sp.csr_array(matrix, dtype=np.float32)
        csr.sum_duplicates()
        order = sp.csr_array((np.arange(csr.nnz), csr.indices, csr.indptr), shape=csr.shape).T.tocsr()
        self.shape: tuple[int, int] = (int(csr.shape[0]), int(csr.shape[1]))
        self.values = torch.from_numpy(csr.data)
        self._rows = _Pattern(csr.indptr, csr.indices, self.shape)
        self._columns = _Pattern(order.indptr, order.indices, self.shape[::-1])
        self._column_order = torch.from_numpy(order.data)  # indices into `values` in column order
        self._column_values: Tensor | None = None  # the values in column order, computed on first use

    def with_values(self, values: Tensor) -> SparseFeatures:
        """A matrix with the same pattern and the given values."""
        other = object.__new__(SparseFeatures)
        other.__dict__.update(self.__dict__, values=values, _column_values=None)
        return other

    def row_lengths(self) -> Tensor:
        """Number of nonzeros in each row, (N,)."""
        return self._rows.indptr.diff()

    def __matmul__(self, weight: Tensor) -> Tensor:
        """X W without autograd."""
        return self._rows.product(self.values, weight)

    def transposed_product(self, y: Tensor) -> Tensor:
        """The transpose of X times y, without autograd."""
        if self._column_values is None:
            self._column_values = self.values[self._column_order]
        return self._columns.product(self._column_values, y)

    def to_dense(self) -> Tensor:
        """The matrix as a dense tensor."""
        return self._rows.matrix(self.values).to_dense()

    def to_scipy(self) -> Any:
        """The matrix as a SciPy sparse array that shares its memory."""
        indices, indptr = self._rows.indices.numpy(), self._rows.indptr.numpy()
        return sp.csr_array((self.values.numpy(), indices, indptr), shape=self.shape)

    def __getitem__(self, rows: Tensor) -> SparseFeatures:
        """The given rows."""
        return SparseFeatures(self.to_scipy()[rows.numpy()])

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"SparseFeatures(shape={self.shape}, nonzeros={len(self.values)})"


Features = Tensor | SparseFeatures


def as_features(x: Tensor) -> Features:
    """``x`` as :class:`SparseFeatures` if it is wide and sparse enough for that to be faster, else unchanged."""
    nonzeros = int(torch.count_nonzero(x))
    if x.numel() == 0 or nonzeros > MAX_DENSITY * x.numel() or x.shape[1] < 64:
        return x
    return SparseFeatures(sp.csr_array(x.numpy()))


def as_dense(x: Features) -> Tensor:
    """``x`` as a dense tensor."""
    return x.to_dense() if isinstance(x, SparseFeatures) else x


def transform_features(x: Features, transform: FeatureTransform | None) -> Features:
    """Applies a feature transform; None leaves the features unchanged."""
    if transform is None:
        return x
    return row_normalize(x) if transform == "row-normalize" else binarize(x)


def row_normalize(x: Features) -> Features:
    """Divides each row by its sum where the sum exceeds 1."""
    if not isinstance(x, SparseFeatures):
        return x / x.sum(dim=1, keepdim=True).clamp(min=1)
    sums = (x @ torch.ones(x.shape[1], 1))[:, 0].clamp(min=1)
    return x.with_values(x.values / sums.repeat_interleave(x.row_lengths()))


def binarize(x: Features) -> Features:
    """Replaces every nonzero with 1."""
    return x.with_values((x.values != 0).float()) if isinstance(x, SparseFeatures) else (x != 0).float()


def hstack(x: Features, more: Tensor) -> Features:
    """The columns of ``x`` followed by those of ``more``; sparse if ``x`` is."""
    if not isinstance(x, SparseFeatures):
        return torch.cat([x, more], dim=1)
    return SparseFeatures(sp.hstack([x.to_scipy(), sp.csr_array(more.numpy())]))
