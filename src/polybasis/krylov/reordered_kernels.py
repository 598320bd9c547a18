"""Native kernels on renumbered nodes.

Products of a signal that exceeds the caches spend most of their time on reads from memory. Where neighbours have
numbers near one another, the caches serve most of these reads. So a large graph's nodes are renumbered once; every call
then permutes its signal on entry and its result on exit.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from polybasis import native
from polybasis.krylov.kernels import Coefficients, Lanczos
from polybasis.krylov.native_kernels import NativeKernels
from polybasis.krylov.workspace import Workspace

SMALLEST = 32 << 20  # bytes of a panel of channels; the last-level cache holds smaller ones
LEAST_SAVED = 10  # rows read from memory, for each node and call; permuting costs about as much


class Reordering:
    """A better numbering of a graph's nodes, looked for when it is first needed, and the kernels on it.

    Args:
        operator: the graph's native operator.
        indptr, indices: its pattern.
        dtype: the type of its values.
    """

    def __init__(self, operator: Any, indptr: Tensor, indices: Tensor, dtype: torch.dtype) -> None:
        self._operator = operator
        self._indptr, self._indices, self._dtype = indptr, indices, dtype

    def pays(self, x: Tensor, K: int) -> bool:
        """Whether filters of degree K are faster with it on signals of this shape, permuting included."""
        panel = len(x) * min(x.shape[1], self._operator.panel_width()) * x.itemsize
        if panel < SMALLEST or K * len(self._indices) < LEAST_SAVED * len(x):  # saves less, whatever the order
            return False
        saved, _ = self._found
        return K * saved >= LEAST_SAVED

    @functools.cached_property
    def kernels(self) -> ReorderedKernels:
        """The kernels on the renumbered nodes."""
        _, order = self._found
        return self.kernels_in(order)

    def kernels_in(self, order: Tensor) -> ReorderedKernels:
        """The kernels with node ``order[i]`` as node i."""
        indptr, indices = torch.empty_like(self._indptr), torch.empty_like(self._indices)
        values = torch.empty(len(indices), dtype=self._dtype)
        self._operator.permute(order, indptr, indices, values)
        return ReorderedKernels(native.operator(indptr, indices, values), order)

    @functools.cached_property
    def _found(self) -> tuple[float, Tensor]:
        order = torch.empty(len(self._indptr) - 1, dtype=self._indices.dtype)
        saved: float = self._operator.locality_order(order)
        return saved, order


class ReorderedKernels:
    """Takes and returns signals in the graph's own order; bases stay in the order of the renumbered nodes.

    Args:
        operator: the native operator of the renumbered graph.
        order: (N,), of the operator's index type: entry i is the node that has become node i.
    """

    def __init__(self, operator: Any, order: Tensor) -> None:
        self._operator = operator
        self._order = order
        self._place = torch.empty_like(order)
        self._place[order.long()] = torch.arange(len(order), dtype=order.dtype)
        self._workspace = Workspace()
        self._inside = NativeKernels(operator, self._workspace)

    def peak(self, x: Tensor) -> Tensor:
        return self._inside.peak(x)  # the same in any order

    def optimal_basis(self, x: Tensor, peak: Tensor, K: int, *, last_gamma: bool) -> Lanczos:
        return self._inside.optimal_basis(self._enter(x), peak, K, last_gamma=last_gamma)

    def in_order(self, vectors: Tensor) -> Tensor:
        return self._inside.in_order(vectors).index_select(1, self._place)

    def combine(self, vectors: Tensor, alpha: Tensor) -> Tensor:
        return self._leave(self._inside.combine(vectors, alpha))

    def optimal_adjoint(self, basis: Lanczos, alpha: Tensor, z_bar: Tensor) -> tuple[Tensor, Tensor]:
        x_bar, alpha_bar = self._inside.optimal_adjoint(basis, alpha, self._enter(z_bar))
        return self._leave(x_bar), alpha_bar

    def recurrence(
        self, x: Tensor, alpha: Tensor, coefficients: Coefficients, *, keep: bool
    ) -> tuple[Tensor, Tensor | None]:
        z, h = self._inside.recurrence(self._enter(x), alpha, coefficients, keep=keep)
        return self._leave(z), h

    def recurrence_adjoint(
        self, h: Tensor, alpha: Tensor, coefficients: Coefficients, z_bar: Tensor
    ) -> tuple[Tensor, Tensor, Coefficients]:
        x_bar, alpha_bar, bars = self._inside.recurrence_adjoint(h, alpha, coefficients, self._enter(z_bar))
        return self._leave(x_bar), alpha_bar, bars

    def _enter(self, x: Tensor) -> Tensor:
        return self._take(x, self._order, self._workspace.empty(*x.shape, dtype=x.dtype))

    def _leave(self, z: Tensor) -> Tensor:
        return self._take(z, self._place, torch.empty_like(z))

    def _take(self, x: Tensor, order: Tensor, rows: Tensor) -> Tensor:
        self._operator.take(x, order, rows, torch.get_num_threads())
        return rows
