"""Node features, dense or sparse, and the transforms applied to them before training.

Bags of words have thousands of columns and few nonzeros. If they stay sparse, the first linear layer and its dropout
take time proportional to the number of nonzeros.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.utils._pytree import SequenceKey, register_pytree_node

from polybasis import native
from polybasis.custom_op import (
    CustomOp,
    has_values,
    is_transformed,
    looped_vmap,
    merge_channels,
    ordinary_tensors,
    split_channels,
)
from polybasis.matrix import rows_of

MAX_DENSITY = 0.2  # fraction of nonzeros up to which sparse products are faster
FeatureTransform = Literal["row-normalize", "binarize"]


class _Pattern:
    """The sparsity pattern of a CSR matrix."""

    def __init__(self, indptr: Tensor, indices: Tensor, shape: tuple[int, int]) -> None:
        self.indptr, self.indices, self.shape = indptr, indices, shape
        module = native.module or native.kernels()  # warns if the kernels are missing
        self._native = None if module is None else module.Pattern(indptr, indices, shape[1], module.best_isa())

    def product(self, values: Tensor, x: Tensor) -> Tensor:
        """Multiplies the matrix with these values by x."""
        if self._native is None or (values.dtype, x.dtype) != (torch.float32, torch.float32):
            return _csr_tensor(self.indptr, self.indices, values, self.shape).to(x.dtype) @ x
        y = torch.empty(self.shape[0], x.shape[1], dtype=values.dtype)
        self._native.product(values, x, y, torch.get_num_threads())
        return y


# Operators receive tensors, not the object they belong to. The patterns of features are found by their addresses for as
# long as the features live; a few others, such as the constants of an exported program, are kept.
_RECENT: OrderedDict[tuple[int, int, int], _Pattern] = OrderedDict()
_KNOWN: weakref.WeakValueDictionary[tuple[int, int, int], _Pattern] = weakref.WeakValueDictionary()
_MAX_RECENT = 4
_LOCK = threading.Lock()


def _pattern_of(indptr: Tensor, indices: Tensor, columns: int) -> _Pattern:
    key = (indptr.data_ptr(), indices.data_ptr(), columns)
    found = _KNOWN.get(key)
    if found is None or found.indptr.shape != indptr.shape or found.indices.shape != indices.shape:
        found = _Pattern(indptr, indices, (indptr.shape[0] - 1, columns))
        with _LOCK:
            _KNOWN[key] = _RECENT[key] = found
            while len(_RECENT) > _MAX_RECENT:
                _RECENT.popitem(last=False)
    return found


def _csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_csr_tensor(indptr, indices, values, shape, check_invariants=False)


class SparseFeatures:
    """A sparse feature matrix in CSR format, with its transpose; products with it differentiate in both factors.

    Args:
        matrix: anything SciPy's ``csr_array`` takes, shape (N, F).
        dtype: data type of the values.

    Attributes:
        shape: (N, F).
        values: the nonzeros in row order; do not modify in place.
    """

    def __init__(self, matrix: Any, dtype: torch.dtype = torch.float32) -> None:
        csr = sp.csr_array(matrix, dtype=np.float64 if dtype == torch.float64 else np.float32)
        csr.sum_duplicates()
        order = sp.csr_array((np.arange(csr.nnz), csr.indices, csr.indptr), shape=csr.shape).T.tocsr()
        self.shape: tuple[int, int] = (int(csr.shape[0]), int(csr.shape[1]))
        self.values = torch.from_numpy(csr.data)
        # indptr and indices of the matrix and of its transpose
        self._pattern = tuple(
            torch.from_numpy(part.astype(np.int32)) for part in (csr.indptr, csr.indices, order.indptr, order.indices)
        )
        self._column_order = torch.from_numpy(order.data)  # indices into `values` in column order
        self._column_values: Tensor | None = None  # the values in column order, computed on first use
        self._owned = self._known_patterns()

    @classmethod
    def _of(
        cls, shape: tuple[int, int], values: Tensor, pattern: tuple[Tensor, ...], order: Tensor, owned: Any = None
    ) -> SparseFeatures:
        features = cls.__new__(cls)
        features.shape, features.values, features._pattern, features._column_order = shape, values, pattern, order
        features._column_values, features._owned = None, owned
        return features

    def _known_patterns(self) -> Any:
        """Keeps the native patterns as long as the features."""
        indptr, indices, t_indptr, t_indices = self._pattern
        return _pattern_of(indptr, indices, self.shape[1]), _pattern_of(t_indptr, t_indices, self.shape[0])

    def with_values(self, values: Tensor) -> SparseFeatures:
        """A matrix with the same pattern and the given values."""
        return SparseFeatures._of(self.shape, values, self._pattern, self._column_order, self._owned)

    def to(self, dtype: torch.dtype) -> SparseFeatures:
        """The matrix with values of another data type."""
        return self if dtype == self.values.dtype else self.with_values(self.values.to(dtype))

    def row_lengths(self) -> Tensor:
        """Number of nonzeros in each row, (N,)."""
        return self._pattern[0].diff()

    def __matmul__(self, weight: Tensor) -> Tensor:
        """X W; see :meth:`product`."""
        return self.product(weight)

    def product(self, weight: Tensor) -> Tensor:
        """X W, in the data type of W; ``torch.compile`` supports this method but not ``@``."""
        indptr, indices, *transposed = self._pattern
        needed = torch.is_grad_enabled() or is_transformed()  # derivatives are products with the transpose
        column_values = self._values_by_column() if needed else None
        return cast(Tensor, sparse_product(indptr, indices, self.values, *transposed, column_values, weight))

    def transposed_product(self, y: Tensor) -> Tensor:
        """The transpose of X times y, in the data type of y."""
        *rows, indptr, indices = self._pattern
        return cast(Tensor, sparse_product(indptr, indices, self._values_by_column(), *rows, self.values, y))

    def _values_by_column(self) -> Tensor:
        if not has_values() or self.values.requires_grad:
            return self.values[self._column_order]
        if self._column_values is None:
            with ordinary_tensors():
                self._column_values = self.values[self._column_order]
        return self._column_values

    def to_dense(self) -> Tensor:
        """The matrix as a dense tensor."""
        indptr, indices, *_ = self._pattern
        places = rows_of(indptr, indices) * self.shape[1] + indices
        return self.values.new_zeros(self.shape).view(-1).index_put((places,), self.values).view(self.shape)

    def to_scipy(self) -> Any:
        """The matrix as a SciPy sparse array that shares its memory."""
        indptr, indices = (part.numpy() for part in self._pattern[:2])
        return sp.csr_array((self.values.detach().numpy(), indices, indptr), shape=self.shape)

    def __getitem__(self, rows: Tensor) -> SparseFeatures:
        """The given rows."""
        return SparseFeatures(self.to_scipy()[rows.numpy()], self.values.dtype)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_owned": None, "_column_values": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._owned = self._known_patterns()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"SparseFeatures(shape={self.shape}, nonzeros={len(self.values)})"


def _flatten(x: SparseFeatures) -> tuple[list[Tensor], tuple[int, int]]:
    return [x.values, x._column_order, *x._pattern], x.shape


def _flatten_with_keys(x: SparseFeatures) -> tuple[list[tuple[Any, Tensor]], tuple[int, int]]:
    tensors, shape = _flatten(x)
    return [(SequenceKey(i), tensor) for i, tensor in enumerate(tensors)], shape


def _unflatten(tensors: Iterable[Tensor], shape: tuple[int, int]) -> SparseFeatures:
    values, order, *pattern = tensors
    return SparseFeatures._of(shape, values, tuple(pattern), order)


# Arguments of exported programs and of torch.func are trees of tensors.
register_pytree_node(
    SparseFeatures,
    _flatten,
    _unflatten,
    serialized_type_name="polybasis.SparseFeatures",
    to_dumpable_context=list,
    from_dumpable_context=tuple,
    flatten_with_keys_fn=_flatten_with_keys,
)


# ---- the product as an operator ------------------------------------------------------------------------------------

Optional = Tensor | None


def _kernel(
    indptr: Tensor, indices: Tensor, values: Tensor, _indptr: Tensor, _indices: Tensor, _values: Optional, w: Tensor
) -> Tensor:
    pattern = _pattern_of(indptr, indices, w.shape[0])
    return pattern.product(values.detach().to(w.dtype).contiguous(), w.detach().contiguous())


def _fake(indptr: Tensor, *others: Any) -> Tensor:
    weight: Tensor = others[-1]
    return weight.new_empty(indptr.shape[0] - 1, weight.shape[1])


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)
    ctx.save_for_forward(*inputs)


def _backward(ctx: Any, y_bar: Tensor) -> tuple[Tensor | None, ...]:
    indptr, indices, values, t_indptr, t_indices, t_values, weight = ctx.saved_tensors
    values_bar = weight_bar = None
    if ctx.needs_input_grad[2]:
        values_bar = (y_bar[rows_of(indptr, indices)] * weight[indices.long()]).sum(1).to(values.dtype)
    if ctx.needs_input_grad[6]:
        weight_bar = sparse_product(t_indptr, t_indices, t_values, indptr, indices, values, y_bar)
    return None, None, values_bar, None, None, None, weight_bar


def _jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
    *matrix, weight = ctx.saved_tensors
    indptr, indices = matrix[:2]
    total: Tensor = weight.new_zeros(indptr.shape[0] - 1, weight.shape[1])
    if tangents[6] is not None:
        total = total + cast(Tensor, sparse_product(*matrix, tangents[6]))
    if tangents[2] is not None:
        products = tangents[2].to(weight.dtype).unsqueeze(1) * weight[indices.long()]
        total = total.index_add(0, rows_of(indptr, indices), products)
    return total


def _vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
    *matrix, weight = arguments
    if any(dim is not None for dim in in_dims[:6]):
        return cast(tuple[Any, Any], looped_vmap(sparse_product, info, in_dims, arguments))
    return split_channels(sparse_product(*matrix, merge_channels(weight, in_dims[6], info.batch_size)), info.batch_size)


# X W for a sparse X, in the data type of W. The transpose of X is needed for derivatives only, and its values are
# treated as constants: the gradient with respect to the values of X goes to those in row order.
sparse_product = CustomOp(
    "sparse_product(Tensor indptr, Tensor indices, Tensor values, Tensor t_indptr, Tensor t_indices, Tensor? t_values, "
    "Tensor weight) -> Tensor",
    _kernel,
    fake=_fake,
    setup_context=_setup,
    backward=_backward,
    jvp=_jvp,
    vmap=_vmap,
)


Features = Tensor | SparseFeatures


def as_features(x: Tensor | sp.csr_array) -> Features:
    """``x`` as :class:`SparseFeatures` if it is wide and sparse enough for that to be faster, else dense."""
    nonzeros, entries = (int(torch.count_nonzero(x)) if isinstance(x, Tensor) else x.nnz), x.shape[0] * x.shape[1]
    sparse = entries > 0 and nonzeros <= MAX_DENSITY * entries and x.shape[1] >= 64
    if isinstance(x, Tensor):
        return SparseFeatures(sp.csr_array(x.numpy()), x.dtype) if sparse else x
    return SparseFeatures(x) if sparse else torch.from_numpy(x.astype(np.float32).toarray())


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
    sums = (x @ x.values.new_ones(x.shape[1], 1))[:, 0].clamp(min=1)
    return x.with_values(x.values / sums.repeat_interleave(x.row_lengths()))


def binarize(x: Features) -> Features:
    """Replaces every nonzero with 1."""
    return x.with_values((x.values != 0).float()) if isinstance(x, SparseFeatures) else (x != 0).float()


def hstack(x: Features, more: Tensor) -> Features:
    """The columns of ``x`` followed by those of ``more``; sparse if ``x`` is."""
    if not isinstance(x, SparseFeatures):
        return torch.cat([x, more], dim=1)
    return SparseFeatures(sp.hstack([x.to_scipy(), sp.csr_array(more.numpy())]), x.values.dtype)
