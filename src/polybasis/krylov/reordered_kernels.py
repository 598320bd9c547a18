"""Native kernels on reordered nodes.

A product with P on a signal larger than the caches spends most of its time reading rows from memory. If neighbouring
nodes have nearby indices, most of these reads hit the caches. The nodes of a large graph are therefore reordered once;
every call permutes its signal on entry and its result on exit.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from polybasis.krylov.basis import OptimalBasis
from polybasis.krylov.native_kernels import BufferPool, NativeKernels
from polybasis.matrix import native_operator
from polybasis.recurrence import Recurrence


class Reordering:
    """A cache-friendly order of the nodes of a graph and the kernels that use it, both computed on first use.

    Args:
        operator: The native operator of the graph.
        indptr, indices: Its pattern in CSR format.
        dtype: The data type of its values.
    """

    def __init__(self, operator: Any, indptr: Tensor, indices: Tensor, dtype: torch.dtype) -> None:
        self._operator = operator
        self._indptr, self._indices, self._dtype = indptr, indices, dtype

    @property
    def rows_saved(self) -> float:
        """The estimated number of rows per node that a product need not read from memory; 0 if no order is better."""
        return self._order[0]

    @functools.cached_property
    def kernels(self) -> ReorderedKernels:
        """The kernels on the reordered nodes."""
        return self.kernels_in(self._order[1])

    def kernels_in(self, order: Tensor) -> ReorderedKernels:
        """Returns the kernels with node ``order[i]`` as node i."""
        indptr, indices = torch.empty_like(self._indptr), torch.empty_like(self._indices)
        values = torch.empty(len(indices), dtype=self._dtype)
        self._operator.permute(order, indptr, indices, values)
        return ReorderedKernels(native_operator(indptr, indices, values), order)

    @functools.cached_property
    def _order(self) -> tuple[float, Tensor]:
        order = torch.empty(len(self._indptr) - 1, dtype=self._indices.dtype)
        rows_saved: float = self._operator.locality_order(order)
        return rows_saved, order


class ReorderedKernels:
    """Kernels that take and return signals in the order of the graph and store bases in the new order.

    Args:
        operator: The native operator of the reordered graph.
        order: (N,), in the operator's index type; node ``order[i]`` has become node i.
    """

    def __init__(self, operator: Any, order: Tensor) -> None:
        self._operator = operator
        self._order = order
        self._inverse = torch.empty_like(order)
        self._inverse[order.long()] = torch.arange(len(order), dtype=order.dtype)
        self._buffers = BufferPool()
        self._inner = NativeKernels(operator, self._buffers)

    def peak(self, x: Tensor) -> Tensor:
        return self._inner.peak(x)  # does not depend on the order

    def optimal_basis(self, x: Tensor, peak: Tensor, K: int, *, last_gamma: bool) -> OptimalBasis:
        return self._inner.optimal_basis(self._permute(x), peak, K, last_gamma=last_gamma)

    def standard_layout(self, vectors: Tensor) -> Tensor:
        return self._inner.standard_layout(vectors).index_select(1, self._inverse)

    def combine(self, vectors: Tensor, alpha: Tensor) -> Tensor:
        return self._permute_back(self._inner.combine(vectors, alpha))

    def optimal_adjoint(
        self, basis: OptimalBasis, alpha: Tensor, z_bar: Tensor, *, signal: bool = False
    ) -> tuple[Tensor, Tensor]:
        x_bar, alpha_bar = self._inner.optimal_adjoint(basis, alpha, self._permute(z_bar), signal=signal)
        return self._permute_back(x_bar), alpha_bar

    def recurrence(
        self, x: Tensor, alpha: Tensor, recurrence: Recurrence, *, keep: bool
    ) -> tuple[Tensor, Tensor | None]:
        z, h = self._inner.recurrence(self._permute(x), alpha, recurrence, keep=keep)
        return self._permute_back(z), h

    def recurrence_adjoint(
        self, h: Tensor, alpha: Tensor, recurrence: Recurrence, z_bar: Tensor
    ) -> tuple[Tensor, Tensor, Recurrence]:
        x_bar, alpha_bar, bars = self._inner.recurrence_adjoint(h, alpha, recurrence, self._permute(z_bar))
        return self._permute_back(x_bar), alpha_bar, bars

    def _permute(self, x: Tensor) -> Tensor:
        return self._take(x, self._order, self._buffers.empty(*x.shape, dtype=x.dtype))

    def _permute_back(self, z: Tensor) -> Tensor:
        return self._take(z, self._inverse, torch.empty_like(z))

    def _take(self, x: Tensor, order: Tensor, rows: Tensor) -> Tensor:
        self._operator.take(x, order, rows, torch.get_num_threads())
        return rows
