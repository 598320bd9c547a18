"""Symmetric sparse matrices, as the kernels see a graph, and their products with signals."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from polybasis import native
from polybasis.custom_op import CustomOp, looped_vmap, merge_channels, split_channels

_OPERATORS = {
    (torch.float32, torch.int32): "OperatorF32I32",
    (torch.float32, torch.int64): "OperatorF32I64",
    (torch.float64, torch.int32): "OperatorF64I32",
    (torch.float64, torch.int64): "OperatorF64I64",
}


class Matrix(NamedTuple):
    """A symmetric matrix in CSR format.

    Attributes:
        indptr: (N+1,), int32 or int64.
        indices: The columns, of the same type; entries past ``indptr[N]`` are unused.
        values: The values in the order of ``indices``, float32 or float64; they may require gradients.
        ptr: The first row of each block of a block-diagonal matrix, followed by N, (G+1,), int64: a batch of G graphs,
            whose inner products are computed separately. None for a single graph.
    """

    indptr: Tensor
    indices: Tensor
    values: Tensor
    ptr: Tensor | None

    @property
    def rows(self) -> int:
        """The number of rows N."""
        return self.indptr.shape[0] - 1

    def to_sparse(self) -> Tensor:
        """Returns the matrix as a torch sparse CSR tensor."""
        used = int(self.indptr[-1])
        return torch.sparse_csr_tensor(
            self.indptr, self.indices[:used], self.values[:used], (self.rows, self.rows), check_invariants=False
        )

    def __matmul__(self, x: Tensor) -> Tensor:
        """Returns the product with a signal, (N, d), in the data type of the matrix; differentiable in both."""
        return cast(Tensor, product(*self, x))


def native_operator(
    indptr: Tensor, indices: Tensor, values: Tensor, ptr: Tensor | None = None, isa: str | None = None
) -> Any | None:
    """Creates the native operator of a matrix, or returns None without kernels for its data type and device.

    Args:
        indptr, indices, values, ptr: See :class:`Matrix`.
        isa: The instruction set, ``plain``, ``avx2`` or ``avx512``; by default the best of this processor.
    """
    name = _OPERATORS.get((values.dtype, indices.dtype))
    if name is None or values.device.type != "cpu":
        return None
    found = native.module or native.kernels()  # warns if they are missing
    return None if found is None else getattr(found, name)(indptr, indices, values, isa or found.best_isa(), ptr)


# ---- native operators ----------------------------------------------------------------------------------------------


class SparseOperator:
    """A matrix with its native operator, which is created on first use; the matrix must not change any more.

    Args:
        matrix: The matrix; gradients are ignored.
        lasting: Whether the matrix is used again and again, so that buffers may be kept for it.
    """

    def __init__(self, matrix: Matrix, lasting: bool = False) -> None:
        self.lasting = lasting
        used = int(matrix.indptr[-1])
        self.matrix = matrix._replace(
            indices=matrix.indices[:used].contiguous(), values=matrix.values.detach()[:used].contiguous()
        )
        self._lock = threading.Lock()
        self._native: Any | None = None
        self._sparse: Tensor | None = None

    @property
    def native(self) -> Any | None:
        """The native operator, or None if there is none for this data type and device."""
        if self._native is None:
            with self._lock:
                if self._native is None:
                    self._native = native_operator(*self.matrix)
        return self._native

    def __matmul__(self, x: Tensor) -> Tensor:
        """Returns the product with an (N, d) signal, outside autograd."""
        return self.product(x.contiguous())

    def product(self, x: Tensor) -> Tensor:
        """Returns the product with a contiguous (N, d) signal, outside autograd."""
        if x.numel() == 0:
            return x.clone()
        if self.native is not None:
            y = torch.empty_like(x)
            self.native.product(x, y, torch.get_num_threads())
            return y
        if self._sparse is None:
            self._sparse = self.matrix.to_sparse()
        return self._sparse @ x


# Operators receive tensors, not the object they belong to. The matrices of graphs are found by their address for as
# long as the graph lives; a few others, such as the constants of an exported program, are kept by last use.
_OWNED: weakref.WeakValueDictionary[tuple[Any, ...], SparseOperator] = weakref.WeakValueDictionary()
_RECENT: OrderedDict[tuple[Any, ...], tuple[Matrix, SparseOperator]] = OrderedDict()
_MAX_RECENT = 4
_RECENT_LOCK = threading.Lock()


def _address(matrix: Matrix) -> tuple[Any, ...]:
    return (
        matrix.values.dtype,
        matrix.indptr.data_ptr(),
        matrix.indices.data_ptr(),
        matrix.values.data_ptr(),
        0 if matrix.ptr is None else matrix.ptr.data_ptr(),
    )


def owned_operator(matrix: Matrix) -> SparseOperator:
    """Returns the operator of a matrix that will be used again; it is found by :func:`operator_for` while it lives."""
    operator = SparseOperator(matrix, lasting=True)
    _OWNED[_address(operator.matrix)] = operator
    return operator


def operator_for(matrix: Matrix) -> SparseOperator:
    """Returns the operator of a matrix, from a cache where possible."""
    address = _address(matrix)
    owned = _OWNED.get(address)
    if owned is not None and len(owned.matrix.values) == len(matrix.values):
        return owned
    version = 0 if matrix.values.is_inference() else matrix.values._version
    key = (*address, version)
    with _RECENT_LOCK:
        if key in _RECENT:
            _RECENT.move_to_end(key)
            return _RECENT[key][1]
    operator = SparseOperator(matrix)
    with _RECENT_LOCK:
        # The matrix is kept, so that no other tensor gets its address, but not what its values were computed from.
        _RECENT[key] = matrix._replace(values=matrix.values.detach()), operator
        while len(_RECENT) > _MAX_RECENT:
            _RECENT.popitem(last=False)
    return operator


# ---- operators -----------------------------------------------------------------------------------------------------

MATRIX_SCHEMA = "Tensor indptr, Tensor indices, Tensor values, Tensor? ptr"


def rows_of(indptr: Tensor, indices: Tensor) -> Tensor:
    """Returns the row of every entry of ``indices``; unused entries get row N-1."""
    places = torch.arange(indices.shape[0], device=indices.device)  # len() would fix a dynamic size
    rows = torch.searchsorted(indptr, places.to(indptr.dtype), right=True) - 1
    return rows.clamp(max=indptr.shape[0] - 2)


def _product_kernel(indptr: Tensor, indices: Tensor, values: Tensor, ptr: Tensor | None, x: Tensor) -> Tensor:
    return operator_for(Matrix(indptr, indices, values, ptr)).product(x.detach().contiguous())


def _save_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)
    ctx.save_for_forward(*inputs)


def _product_backward(ctx: Any, y_bar: Tensor) -> tuple[Tensor | None, ...]:
    indptr, indices, values, ptr, x = ctx.saved_tensors
    values_bar = edge_dots(indptr, indices, values, ptr, y_bar, x) if ctx.needs_input_grad[2] else None
    x_bar = product(indptr, indices, values, ptr, y_bar) if ctx.needs_input_grad[4] else None
    return None, None, values_bar, None, x_bar


def _product_jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
    indptr, indices, values, ptr, x = ctx.saved_tensors
    values_tangent, x_tangent = tangents[2], tangents[4]
    total = torch.zeros_like(x)
    if x_tangent is not None:
        total = total + cast(Tensor, product(indptr, indices, values, ptr, x_tangent))
    if values_tangent is not None:
        total = total + _gathered_product(indptr, indices, values_tangent, x)
    return total


def _product_vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
    *matrix, x = arguments
    if any(dim is not None for dim in in_dims[:4]):
        return cast(tuple[Any, Any], looped_vmap(product, info, in_dims, arguments))
    return split_channels(product(*matrix, merge_channels(x, in_dims[4], info.batch_size)), info.batch_size)


def _gathered_product(indptr: Tensor, indices: Tensor, values: Tensor, x: Tensor) -> Tensor:
    """Returns the product with a matrix that need not be symmetric; takes memory for every nonzero and channel."""
    rows = rows_of(indptr, indices)
    return torch.zeros_like(x).index_add(0, rows, values.unsqueeze(1) * x[indices.long()])


def _edge_dots_kernel(
    indptr: Tensor, indices: Tensor, values: Tensor, ptr: Tensor | None, u: Tensor, v: Tensor
) -> Tensor:
    operator = operator_for(Matrix(indptr, indices, values, ptr))
    dots = torch.zeros(len(indices), dtype=torch.float64, device=u.device)
    if operator.native is not None and u.numel():
        used = dots[: len(operator.matrix.indices)]
        operator.native.edge_dots(u.detach().contiguous(), v.detach().contiguous(), used, torch.get_num_threads())
    else:
        rows, columns = rows_of(indptr, indices), indices.long()
        for channel in range(u.shape[1]):
            dots += u[rows, channel].double() * v[columns, channel]
        dots[int(indptr[-1]) :] = 0
    return dots.to(values.dtype)


def _edge_dots_backward(ctx: Any, dots_bar: Tensor) -> tuple[Tensor | None, ...]:
    indptr, indices, _, _, u, v = ctx.saved_tensors
    rows, columns = rows_of(indptr, indices), indices.long()
    weight = dots_bar.unsqueeze(1)
    u_bar = torch.zeros_like(u).index_add(0, rows, weight * v[columns])
    v_bar = torch.zeros_like(v).index_add(0, columns, weight * u[rows])
    return None, None, None, None, u_bar, v_bar


def _edge_dots_jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
    *matrix, u, v = ctx.saved_tensors
    total = torch.zeros_like(matrix[2])
    if tangents[4] is not None:
        total = total + cast(Tensor, edge_dots(*matrix, tangents[4], v))
    if tangents[5] is not None:
        total = total + cast(Tensor, edge_dots(*matrix, u, tangents[5]))
    return total


def _edge_dots_vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
    return cast(tuple[Any, Any], looped_vmap(edge_dots, info, in_dims, arguments))


# P x. P is symmetric, so the gradient with respect to x is a product with P as well.
product = CustomOp(
    f"product({MATRIX_SCHEMA}, Tensor x) -> Tensor",
    _product_kernel,
    fake=lambda indptr, indices, values, ptr, x: torch.empty_like(x, memory_format=torch.contiguous_format),
    setup_context=_save_inputs,
    backward=_product_backward,
    jvp=_product_jvp,
    vmap=_product_vmap,
)

# <u_i, v_j> for every nonzero (i, j), in the data type of the values, which are used for that only.
edge_dots = CustomOp(
    f"edge_dots({MATRIX_SCHEMA}, Tensor u, Tensor v) -> Tensor",
    _edge_dots_kernel,
    fake=lambda indptr, indices, values, ptr, u, v: torch.empty_like(values),
    setup_context=_save_inputs,
    backward=_edge_dots_backward,
    jvp=_edge_dots_jvp,
    vmap=_edge_dots_vmap,
)
