"""Node features, dense or sparse, and the first layer on them.

Bags of words have thousands of columns and few nonzeros. Kept sparse, the first linear layer and the dropout before it
cost what the nonzeros cost. Dropout of a zero is a zero, so dropping nonzeros is the same operation.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from polybasis import native
from polybasis.nn.dropout import dropout as drop

DENSEST = 0.2  # share of nonzeros up to which sparse is faster


class _Pattern:
    """Where the nonzeros of a sparse matrix are, row by row."""

    def __init__(self, indptr: Any, indices: Any, shape: tuple[int, int]) -> None:
        self.indptr, self.indices = (torch.from_numpy(part.astype(np.int32)) for part in (indptr, indices))
        self.shape = shape
        self._native = native.pattern(self.indptr, self.indices, shape[1])

    def product(self, values: Tensor, x: Tensor) -> Tensor:
        """The product of the matrix with these values and x."""
        if self._native is None or x.dtype != values.dtype:
            return self.matrix(values).to(x.dtype) @ x
        y = torch.empty(self.shape[0], x.shape[1], dtype=values.dtype)
        self._native.product(values, x, y, torch.get_num_threads())
        return y

    def matrix(self, values: Tensor) -> Tensor:
        """As a torch sparse CSR tensor."""
        return torch.sparse_csr_tensor(self.indptr, self.indices, values, self.shape, check_invariants=False)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.indptr.numpy(), self.indices.numpy(), self.shape

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]


class SparseFeatures:
    """An N x F matrix in compressed rows, with the pattern of its transpose.

    Attributes:
        shape: (N, F).
        values: the nonzeros, row by row; not to be changed in place.
    """

    def __init__(self, matrix: Any) -> None:
        csr = sp.csr_array(matrix, dtype=np.float32)
        csr.sum_duplicates()
        order = sp.csr_array((np.arange(csr.nnz), csr.indices, csr.indptr), shape=csr.shape).T.tocsr()
        self.shape: tuple[int, int] = (int(csr.shape[0]), int(csr.shape[1]))
        self.values = torch.from_numpy(csr.data)
        self._rows = _Pattern(csr.indptr, csr.indices, self.shape)
        self._columns = _Pattern(order.indptr, order.indices, self.shape[::-1])
        self._by_column = torch.from_numpy(order.data)  # places in `values`, column by column
        self._in_columns: Tensor | None = None  # the values in that order, once they were needed

    def with_values(self, values: Tensor) -> SparseFeatures:
        """The same pattern with other numbers."""
        other = object.__new__(SparseFeatures)
        other.__dict__.update(self.__dict__, values=values, _in_columns=None)
        return other

    def row_lengths(self) -> Tensor:
        """Nonzeros of each row."""
        return self._rows.indptr.diff()

    def __matmul__(self, weight: Tensor) -> Tensor:
        """X W, outside autograd."""
        return self._rows.product(self.values, weight)

    def transposed_product(self, y: Tensor) -> Tensor:
        """The transpose of X times y, outside autograd."""
        if self._in_columns is None:
            self._in_columns = self.values[self._by_column]
        return self._columns.product(self._in_columns, y)

    def to_dense(self) -> Tensor:
        """As an ordinary tensor."""
        return self._rows.matrix(self.values).to_dense()

    def to_scipy(self) -> Any:
        """As SciPy's sparse array, with the same memory."""
        indices, indptr = self._rows.indices.numpy(), self._rows.indptr.numpy()
        return sp.csr_array((self.values.numpy(), indices, indptr), shape=self.shape)

    def __getitem__(self, rows: Tensor) -> SparseFeatures:
        """Some of the rows."""
        return SparseFeatures(self.to_scipy()[rows.numpy()])

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"SparseFeatures(shape={self.shape}, nonzeros={len(self.values)})"


Features = Tensor | SparseFeatures


def as_features(x: Tensor) -> Features:
    """Sparse where that is faster."""
    nonzeros = int(torch.count_nonzero(x))
    if x.numel() == 0 or nonzeros > DENSEST * x.numel() or x.shape[1] < 64:
        return x
    return SparseFeatures(sp.csr_array(x.numpy()))


def as_dense(x: Features) -> Tensor:
    """Dense, for the models that cannot do otherwise."""
    return x.to_dense() if isinstance(x, SparseFeatures) else x


def row_normalised(x: Features) -> Features:
    """Every node's features divided by their sum, where that is above 1."""
    if not isinstance(x, SparseFeatures):
        return x / x.sum(dim=1, keepdim=True).clamp(min=1)
    sums = (x @ torch.ones(x.shape[1], 1))[:, 0].clamp(min=1)
    return x.with_values(x.values / sums.repeat_interleave(x.row_lengths()))


def binary(x: Features) -> Features:
    """Every feature that a node has, whatever its size, as 1."""
    return x.with_values((x.values != 0).float()) if isinstance(x, SparseFeatures) else (x != 0).float()


def beside(x: Features, more: Tensor) -> Features:
    """The columns of both, sparse if the first are."""
    if not isinstance(x, SparseFeatures):
        return torch.cat([x, more], dim=1)
    return SparseFeatures(sp.hstack([x.to_scipy(), sp.csr_array(more.numpy())]))


def dropout(x: Features, p: float, training: bool) -> Features:
    """Dropout of features: each entry becomes 0 with probability p, the others are divided by 1 - p."""
    if isinstance(x, SparseFeatures):
        return x.with_values(drop(x.values, p, training)) if training and p > 0 else x
    return drop(x, p, training)


class FeatureLinear(torch.nn.Linear):
    """A linear layer that takes dense and sparse features."""

    def __call__(self, input: Features) -> Tensor:
        return cast(Tensor, super().__call__(input))

    def forward(self, input: Features) -> Tensor:
        if isinstance(input, SparseFeatures):
            product = cast(Tensor, _SparseProduct.apply(self.weight.t(), input))  # type: ignore[no-untyped-call]
            return product if self.bias is None else product + self.bias
        return super().forward(input)


class _SparseProduct(torch.autograd.Function):
    """X W for sparse X; the gradient to W is a product with the transpose, whose pattern is known."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: SparseFeatures) -> Tensor:
        ctx.x = x
        return x @ weight.contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, y_bar: Tensor) -> tuple[Tensor, None]:
        return ctx.x.transposed_product(y_bar.contiguous()), None
