"""Optimal bases and polynomial filters of signals on a graph.

The filters are differentiable. For the backward pass they save their K+1 vectors, and nothing of the size of the edges.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from polybasis.graph import Graph
from polybasis.krylov.basis import OptimalBasis
from polybasis.krylov.kernels import Kernels
from polybasis.krylov.native_kernels import NativeKernels
from polybasis.krylov.reference_kernels import ReferenceKernels
from polybasis.krylov.reordered_kernels import Reordering
from polybasis.recurrence import Recurrence

MIN_PANEL_BYTES = 32 << 20  # smaller panels of channels fit into the last-level cache in any order of the nodes
MIN_ROWS_SAVED = 10  # reads from memory saved per node and call, below which permuting the signal does not pay


def optimal_basis(graph: Graph, x: Tensor, K: int) -> OptimalBasis:
    r"""Computes the optimal basis of every channel of a signal by the Lanczos process.

    .. math:: \sqrt{\beta_{k+1}}\, v_{k+1} = P v_k - \gamma_k v_k - \sqrt{\beta_k}\, v_{k-1}, \qquad v_0 = x / \|x\|

    The vectors are orthonormal to working precision, and a channel's basis ends where its Krylov space ends. The result
    is bit-identical for any number of threads. It is not differentiable; :func:`optimal_filter` is.

    Args:
        graph: The graph, N nodes.
        x: The signal, (N, d), finite. Types narrower than float32 are computed in float32.
        K: The degree; the basis has K+1 vectors.

    Returns:
        The basis, with ``vectors`` in the data type of ``x``.

    Raises:
        ValueError: If the signal is not finite or has the wrong shape.
        TypeError: If the signal is not a floating-point tensor.

    >>> import torch, polybasis as pb
    >>> star = pb.Graph.from_edge_index([[0, 0, 0], [1, 2, 3]])
    >>> b = pb.optimal_basis(star, torch.tensor([[1.0], [0.0], [0.0], [0.0]]), K=5)
    >>> b.rank  # the Krylov space of a star's hub has two dimensions
    tensor([2])
    """
    checked_degree(K)
    signal = checked_signal(graph, x).detach()
    if signal.numel() == 0:
        zeros = signal.new_zeros(K + 1, x.shape[1], dtype=torch.float64)
        rank = torch.zeros(x.shape[1], dtype=torch.int64, device=x.device)
        return OptimalBasis(x.new_zeros(K + 1, *x.shape), zeros, zeros.clone(), rank)
    kernels = kernels_for(graph, signal)
    basis = kernels.optimal_basis(signal, _finite_peak(kernels, signal), K, last_gamma=True)
    return basis._replace(vectors=kernels.standard_layout(basis.vectors).to(x.dtype))


def optimal_filter(graph: Graph, x: Tensor, alpha: Tensor) -> Tensor:
    r"""Filters every channel in its optimal basis (OptBasisFiltering in the paper).

    .. math:: z = \sum_{k=0}^{K} \alpha_k v_k

    Gradients flow to ``x``, through the basis, and to ``alpha``.

    Args:
        graph: The graph, N nodes.
        x: The signal, (N, d), finite. Types narrower than float32 are computed in float32.
        alpha: The coefficients, (K+1, d).

    Returns:
        The filtered signal, (N, d).

    Raises:
        ValueError: If an argument is not finite or has the wrong shape.
        TypeError: If the signal is not a floating-point tensor.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
    >>> x = torch.tensor([[3.0], [0.0], [4.0], [0.0]])
    >>> pb.krylov.optimal_filter(g, x, torch.tensor([[2.0], [0.0]])).flatten()  # 2 v_0 = 2 x / |x|
    tensor([1.2000, 0.0000, 1.6000, 0.0000])
    """
    signal = checked_signal(graph, x)
    _check_shape("alpha", alpha, (max(len(alpha), 1), x.shape[1]))
    if x.numel() == 0:
        return x * alpha.sum(0)
    _check_finite("alpha", alpha)
    kernels = kernels_for(graph, signal, len(alpha) - 1)
    filtered = cast(Tensor, _OptimalFilter.apply(signal, kernels, alpha.to(signal)))  # type: ignore[no-untyped-call]
    return filtered.to(x.dtype)


def recurrence_filter(graph: Graph, x: Tensor, alpha: Tensor, s: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    r"""Filters every channel by a three-term recurrence.

    .. math:: z = \sum_{k=0}^{K} \alpha_k h_k, \qquad h_0 = s\,x, \qquad h_{k+1} = (a_k P + b_k)\, h_k + c_k\, h_{k-1}

    Gradients flow to ``x``, ``alpha`` and the coefficients of the recurrence.

    Args:
        graph: The graph, N nodes.
        x: The signal, (N, d), finite. Types narrower than float32 are computed in float32.
        alpha: The coefficients of the filter, (K+1, d).
        s: The initial factor, (d,), nonzero.
        a, b, c: The coefficients of the :class:`~polybasis.bases.Recurrence`, (K, d); ``c[0]`` is unused.

    Returns:
        The filtered signal, (N, d).

    Raises:
        ValueError: If an argument is not finite or has the wrong shape, or if ``s`` has a zero.
        TypeError: If the signal is not a floating-point tensor.
        OverflowError: If the recurrence exceeds the range of the data type.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1], [1, 2]])
    >>> x, one, zero = torch.eye(3)[:, :1], torch.ones(1, 1), torch.zeros(1, 1)
    >>> z = pb.krylov.recurrence_filter(g, x, torch.tensor([[0.0], [1.0]]), one[0], one, zero, zero)
    >>> torch.equal(z, g @ x)
    True
    """
    signal = checked_signal(graph, x)
    channels, K = x.shape[1], len(alpha) - 1
    _check_shape("alpha", alpha, (max(K + 1, 1), channels))
    _check_shape("s", s, (channels,))
    for name, values in (("a", a), ("b", b), ("c", c)):
        _check_shape(name, values, (K, channels))
    if x.numel() == 0:
        return x * alpha.sum(0)
    for name, values in (("alpha", alpha), ("s", s), ("a", a), ("b", b), ("c", c)):
        _check_finite(name, values)
    if (s == 0).any():
        raise ValueError("s has an entry that is 0; expected nonzero numbers, because every h_k is a multiple of s")
    numbers = [values.to(signal).contiguous() for values in (alpha, s, a, b, c)]
    kernels = kernels_for(graph, signal, K)
    keep = torch.is_grad_enabled() and any(values.requires_grad for values in (signal, *numbers))
    filtered = cast(Tensor, _RecurrenceFilter.apply(signal, kernels, keep, *numbers))  # type: ignore[no-untyped-call]
    return filtered.to(x.dtype)


class _OptimalFilter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernels: Kernels, alpha: Tensor) -> Tensor:
        x, alpha = x.detach(), alpha.detach().contiguous()
        basis = kernels.optimal_basis(x, _finite_peak(kernels, x), len(alpha) - 1, last_gamma=False)
        ctx.kernels = kernels
        ctx.save_for_backward(*basis, alpha)
        return kernels.combine(basis.vectors, alpha)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, z_bar: Tensor) -> tuple[Tensor | None, ...]:
        *basis, alpha = ctx.saved_tensors
        x_bar, alpha_bar = ctx.kernels.optimal_adjoint(OptimalBasis(*basis), alpha, z_bar.contiguous())
        return x_bar, None, alpha_bar


class _RecurrenceFilter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernels: Kernels, keep: bool, alpha: Tensor, *numbers: Tensor) -> Tensor:
        x, alpha = x.detach(), alpha.detach()
        recurrence = Recurrence(*(values.detach() for values in numbers))
        _finite_peak(kernels, x)
        z, h = kernels.recurrence(x, alpha, recurrence, keep=keep)
        if torch.isinf(kernels.peak(z)).any():
            raise OverflowError(
                f"the recurrence of degree {len(alpha) - 1} exceeds the range of {x.dtype}; lower K or increase "
                "sqrt_beta"
            )
        if h is not None:
            ctx.kernels = kernels
            ctx.save_for_backward(h, alpha, *recurrence)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, z_bar: Tensor) -> tuple[Tensor | None, ...]:
        h, alpha, *numbers = ctx.saved_tensors
        x_bar, alpha_bar, bars = ctx.kernels.recurrence_adjoint(h, alpha, Recurrence(*numbers), z_bar.contiguous())
        return x_bar, None, None, alpha_bar, *bars


# ---- kernels -------------------------------------------------------------------------------------------------------


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


class NonFiniteError(ValueError):
    """A signal or coefficient is infinite or NaN."""


# ---- checks --------------------------------------------------------------------------------------------------------


def checked_degree(K: int) -> int:
    """Returns ``K`` as an ``int``.

    Raises:
        ValueError: If ``K`` is not a non-negative integer.
    """
    if isinstance(K, bool) or not isinstance(K, int | np.integer) or K < 0:
        raise ValueError(f"K is {K!r}; expected the degree of the polynomial, a non-negative integer")
    return int(K)


def checked_signal(graph: Graph, x: Tensor) -> Tensor:
    """Returns ``x`` as a contiguous (N, d) tensor in float32 or float64; narrower types are converted to float32.

    Raises:
        ValueError: If the shape is wrong.
        TypeError: If ``x`` is not a floating-point tensor.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"x is a {type(x).__name__}; expected a torch tensor of shape (N, d)")
    if x.dim() != 2 or x.shape[0] != graph.num_nodes:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected ({graph.num_nodes}, d), one row per node")
    if not x.is_floating_point():
        raise TypeError(f"x has dtype {x.dtype}; expected a floating-point type such as float32")
    return (x if x.dtype in (torch.float32, torch.float64) else x.float()).contiguous()


def _finite_peak(kernels: Kernels, x: Tensor) -> Tensor:
    peak = kernels.peak(x)
    if torch.isinf(peak).any():
        node, channel = (~torch.isfinite(x)).nonzero()[0].tolist()
        raise NonFiniteError(f"x[{node}, {channel}] is {float(x[node, channel])}; signals must be finite")
    return peak


def _check_finite(name: str, values: Tensor) -> None:
    finite = torch.isfinite(values.detach())
    if not finite.all():
        place = (~finite).nonzero()[0].tolist()
        raise NonFiniteError(f"{name}{place} is {float(values[tuple(place)])}; expected finite numbers")


def _check_shape(name: str, values: Tensor, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise ValueError(f"{name} has shape {tuple(values.shape)}; expected {shape}")
