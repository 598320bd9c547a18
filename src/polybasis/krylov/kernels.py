"""The interface of the kernels, and the choice of the fastest kernels for a graph and a signal."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from polybasis.graph import Graph
from polybasis.krylov.basis import OptimalBasis
from polybasis.krylov.native_kernels import NativeKernels
from polybasis.krylov.reference_kernels import ReferenceKernels
from polybasis.krylov.reordered_kernels import Reordering
from polybasis.recurrence import Recurrence

MIN_PANEL_BYTES = 32 << 20  # smaller panels of channels fit into the last-level cache in any order of the nodes
MIN_ROWS_SAVED = 10  # reads from memory saved per node and call, below which permuting the signal does not pay


class Kernels(Protocol):
    r"""Forward and adjoint computations on one graph, outside autograd.

    Signals are contiguous (N, d) tensors in float32 or float64. An argument or result ``y_bar`` is the gradient
    :math:`\partial L / \partial y`. Arrays of K+1 vectors have an internal layout that depends on the kernels (panels
    of channels, permuted nodes); :meth:`standard_layout` converts it.
    """

    def peak(self, x: Tensor) -> Tensor:
        """Returns the largest absolute value of each channel, (d,), float64; infinity if a channel is not finite."""

    def optimal_basis(self, x: Tensor, peak: Tensor, K: int, *, last_gamma: bool) -> OptimalBasis:
        """Returns the optimal basis with ``vectors`` in the internal layout.

        Args:
            x: The signal, (N, d).
            peak: The result of :meth:`peak`, finite.
            K: The degree.
            last_gamma: Compute ``gamma[K]``, which takes one more product with P; otherwise it is 0.
        """

    def standard_layout(self, vectors: Tensor) -> Tensor:
        """Converts vectors from the internal layout to (K+1, N, d)."""

    def combine(self, vectors: Tensor, alpha: Tensor) -> Tensor:
        """Returns z = sum_k alpha_k v_k, (N, d), for vectors in the internal layout."""

    def optimal_adjoint(self, basis: OptimalBasis, alpha: Tensor, z_bar: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the gradients of z = sum_k alpha_k v_k with respect to x and alpha."""

    def recurrence(
        self, x: Tensor, alpha: Tensor, recurrence: Recurrence, *, keep: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Returns z = sum_k alpha_k h_k and, if ``keep`` is set, all h_k in the internal layout."""

    def recurrence_adjoint(
        self, h: Tensor, alpha: Tensor, recurrence: Recurrence, z_bar: Tensor
    ) -> tuple[Tensor, Tensor, Recurrence]:
        """Returns the gradients of z = sum_k alpha_k h_k with respect to x, alpha and the recurrence."""


@dataclass
class _Cached:
    """Kernels of one graph for one data type and device."""

    kernels: Kernels
    reordering: Reordering | None = None  # created by the first signal that is large enough


# Kernels hold no reference to their graph, so an entry disappears with its graph.
_CACHE: weakref.WeakKeyDictionary[Graph, dict[tuple[torch.dtype, torch.device], _Cached]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def kernels_for(graph: Graph, x: Tensor, K: int = 0) -> Kernels:
    """Returns the fastest kernels for signals of this data type, device and shape, created once per graph.

    Args:
        graph: The graph, N nodes.
        x: The signal, (N, d).
        K: The degree of a filter, or 0 if all basis vectors are returned to the caller: undoing the permutation of a
            whole basis takes longer than reordered nodes save.
    """
    key = x.dtype, x.device
    cached = _CACHE.get(graph, {}).get(key) or _create(graph, *key)
    kernels = cached.kernels
    if not isinstance(kernels, NativeKernels):
        return kernels
    panel_bytes = len(x) * min(x.shape[1], kernels.panel_width) * x.itemsize
    # A product reads at most one row per nonzero.
    if panel_bytes < MIN_PANEL_BYTES or K * len(graph.indices) < MIN_ROWS_SAVED * len(x):
        return kernels
    if cached.reordering is None:
        cached.reordering = Reordering(kernels.operator, graph.indptr, graph.indices, x.dtype)
    return cached.reordering.kernels if K * cached.reordering.rows_saved >= MIN_ROWS_SAVED else kernels


def clear_kernels(graph: Graph) -> None:
    """Drops the kernels of a graph and their pooled buffers."""
    with _LOCK:
        _CACHE.pop(graph, None)


def _create(graph: Graph, dtype: torch.dtype, device: torch.device) -> _Cached:
    with _LOCK:
        of_graph = _CACHE.setdefault(graph, {})
        if (dtype, device) not in of_graph:
            operator = graph.operator(dtype, device)
            of_graph[dtype, device] = _Cached(
                ReferenceKernels(graph.matrix(dtype, device)) if operator is None else NativeKernels(operator)
            )
        return of_graph[dtype, device]
