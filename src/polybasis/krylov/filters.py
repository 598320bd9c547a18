"""Optimal bases and polynomial filters of signals on a graph.

The filters are differentiable, also under ``torch.compile`` and ``torch.func``; see :mod:`polybasis.krylov.operators`.
"""

from __future__ import annotations

from typing import Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor

from polybasis.custom_op import has_values, is_transformed, merge_channels, split_channels
from polybasis.graph import Graph
from polybasis.krylov import operators
from polybasis.krylov.basis import OptimalBasis
from polybasis.krylov.kernel_choice import kernels_for
from polybasis.krylov.operators import check_finite, finite_peak
from polybasis.signals import AnySignal, Signal, as_channels

Scale = Literal["unit", "signal"]


def optimal_basis(graph: Graph, x: Signal, K: int) -> OptimalBasis:
    r"""Computes the optimal basis of every channel of a signal by the Lanczos process.

    .. math:: \sqrt{\beta_{k+1}}\, v_{k+1} = P v_k - \gamma_k v_k - \sqrt{\beta_k}\, v_{k-1}, \qquad v_0 = x / \|x\|

    The vectors are orthonormal to working precision, and the basis of a channel ends where its Krylov space ends. The
    result is bit-identical for any number of threads. It is not differentiable, but :func:`optimal_filter` is.

    Args:
        graph: The graph, N nodes.
        x: The signal, (N, d), finite: a torch tensor or a NumPy array. (N,) and (B, N, d) are also accepted and change
            the shapes of the result accordingly. Types narrower than float32 are computed in float32. Signals on a
            directed graph may be complex.
        K: The degree; the basis has K+1 vectors.

    Returns:
        The basis, with ``vectors`` in the data type of ``x``; NumPy arrays if ``x`` is one. On a batch of G graphs,
        every graph has its own basis: ``gamma`` and ``sqrt_beta`` have the shape (K+1, G, d), ``rank`` (G, d).
        With ``normalization="rw"``, norms and inner products are weighted by degrees: :math:`\langle u, v\rangle =
        \sum_i d_i u_i v_i`, where an isolated node has :math:`d_i = 1`.

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
    channels, restore = as_channels(x, graph.num_nodes, allow_complex=graph.directed)
    signal = checked_signal(graph, channels).detach()
    graphs = () if graph.ptr is None else (graph.num_graphs,)
    if signal.numel() == 0:
        vectors = signal.new_zeros(K + 1, *signal.shape)
        gamma, sqrt_beta = signal.new_zeros(2, K + 1, *graphs, signal.shape[1], dtype=torch.float64)
        rank = torch.zeros(*graphs, signal.shape[1], dtype=torch.int64, device=signal.device)
    else:
        kernels = kernels_for(graph.operator(signal.dtype, signal.device), signal, paired=graph.directed)
        peak = finite_peak(kernels, signal)
        vectors, gamma, sqrt_beta, rank = kernels.optimal_basis(signal, peak, K, last_gamma=True)
        vectors = kernels.standard_layout(vectors)
        if graphs:
            gamma, sqrt_beta = gamma.movedim(1, 0), sqrt_beta.movedim(1, 0)
    return OptimalBasis(
        restore(_as_result(graph, vectors, channels)),
        *(_per_channel(numbers, x) for numbers in (gamma, sqrt_beta, rank)),
    )


def optimal_filter(graph: Graph, x: Tensor, alpha: Tensor, scale: Scale = "unit") -> Tensor:
    r"""Filters every channel in its optimal basis (OptBasisFiltering in the paper).

    .. math:: z = \sum_{k=0}^{K} \alpha_k v_k \qquad \text{or} \qquad z = \|x\| \sum_{k=0}^{K} \alpha_k v_k

    Gradients flow to ``x``, through the basis, and to ``alpha``.

    Args:
        graph: The graph, N nodes.
        x: The signal, (N,), (N, d) or (B, N, d), finite. Types narrower than float32 are computed in float32.
        alpha: The coefficients, (K+1, d).
        scale: ``"unit"`` selects the first formula, as in the paper; the result does not depend on the norm of the
            signal. ``"signal"`` selects the second; the result is a polynomial :math:`p(P)\, x` and the same for any
            number of copies of a graph.

    Returns:
        The filtered signal, in the shape of ``x``.

    Raises:
        ValueError: If an argument is not finite or has the wrong shape.
        TypeError: If the signal is not a floating-point tensor.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
    >>> x = torch.tensor([[3.0], [0.0], [4.0], [0.0]])
    >>> pb.krylov.optimal_filter(g, x, torch.tensor([[2.0], [0.0]])).flatten()  # 2 v_0 = 2 x / |x|
    tensor([1.2000, 0.0000, 1.6000, 0.0000])
    """
    _check_scale(scale)
    if x.dim() == 1:
        return optimal_filter(graph, x.unsqueeze(1), alpha, scale).squeeze(1)
    _check_shape("alpha", alpha, (max(len(alpha), 1), x.shape[-1]))
    if x.dim() == 3 and len(x) > 0:
        filtered = optimal_filter(graph, merge_channels(x, 0, len(x)), merge_channels(alpha, None, len(x)), scale)
        return split_channels(filtered, len(x))[0].movedim(1, 0)
    signal = checked_signal(graph, x)
    if x.numel() == 0:
        return _as_result(graph, signal * alpha.to(signal).sum(0), x)
    matrix = graph.propagation(signal.dtype, signal.device)
    z = cast(Tensor, operators.optimal_filter(*matrix, signal, alpha.to(signal), scale == "signal", graph.directed)[0])
    return _as_result(graph, z, x)


def recurrence_filter(graph: Graph, x: Tensor, alpha: Tensor, s: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    r"""Filters every channel by a three-term recurrence.

    .. math:: z = \sum_{k=0}^{K} \alpha_k h_k, \qquad h_0 = s\,x, \qquad h_{k+1} = (a_k P + b_k)\, h_k + c_k\, h_{k-1}

    Gradients flow to ``x``, ``alpha`` and the coefficients of the recurrence.

    Args:
        graph: The graph, N nodes.
        x: The signal, (N,), (N, d) or (B, N, d), finite. Types narrower than float32 are computed in float32.
        alpha: The coefficients of the filter, (K+1, d).
        s: The initial factor, (d,), nonzero.
        a: The factors of P, (K, d); see :class:`~polybasis.bases.Recurrence`.
        b: The constant terms, (K, d).
        c: The factors of :math:`h_{k-1}`, (K, d); ``c[0]`` is unused.

    Returns:
        The filtered signal, in the shape of ``x``.

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
    if x.dim() == 1:
        return recurrence_filter(graph, x.unsqueeze(1), alpha, s, a, b, c).squeeze(1)
    channels, K = x.shape[-1], len(alpha) - 1
    _check_shape("alpha", alpha, (max(K + 1, 1), channels))
    _check_shape("s", s, (channels,))
    for name, values in (("a", a), ("b", b), ("c", c)):
        _check_shape(name, values, (K, channels))
    if x.dim() == 3 and len(x) > 0:
        merged = [merge_channels(values, None, len(x)) for values in (alpha, s, a, b, c)]
        filtered = recurrence_filter(graph, merge_channels(x, 0, len(x)), *merged)
        return split_channels(filtered, len(x))[0].movedim(1, 0)
    signal = checked_signal(graph, x)
    if x.numel() == 0:
        return _as_result(graph, signal * alpha.to(signal).sum(0), x)
    numbers = [values.to(signal) for values in (alpha, s, a, b, c)]
    keep = is_transformed() or (torch.is_grad_enabled() and any(values.requires_grad for values in (signal, *numbers)))
    matrix = graph.propagation(signal.dtype, signal.device)
    return _as_result(graph, cast(Tensor, operators.recurrence_filter(*matrix, signal, *numbers, keep)[0]), x)


def _per_channel(numbers: Tensor, x: AnySignal) -> AnySignal:
    """Returns numbers of each channel, (..., channels), in the shape and type that go with the signal ``x``."""
    shape = {1: numbers.shape[:-1], 2: numbers.shape, 3: (*numbers.shape[:-1], x.shape[0], x.shape[-1])}[x.ndim]
    numbers = numbers.reshape(shape)
    return cast(AnySignal, numbers if isinstance(x, Tensor) else numbers.cpu().numpy())


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
    """Returns ``x`` as the kernels take it: contiguous, (N, d) or (B, N, d), and in float32 or float64.

    Narrower types are converted to float32, and the operator's :meth:`~polybasis.Graph.to_symmetric` is applied: on a
    directed graph, the result has 2N rows.

    Raises:
        ValueError: If the shape is wrong, or a complex signal is not finite.
        TypeError: If ``x`` is not a floating-point tensor, nor a complex one on a directed graph.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"x is a {type(x).__name__}; expected a torch tensor of shape (N, d)")
    if x.dim() not in (2, 3) or x.shape[-2] != graph.num_nodes:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected ({graph.num_nodes}, d), one row per node")
    signal = graph.in_working_precision(x)
    if graph.directed and has_values():  # the kernels would name the row of the symmetric form
        check_finite("x", signal)
    return graph.to_symmetric(signal).contiguous()


def _as_result(graph: Graph, y: Tensor, x: Tensor) -> Tensor:
    """Converts a result of the kernels to the kind of the signal ``x``; it is complex on a directed graph."""
    return graph.from_symmetric(y) if graph.directed else graph.from_symmetric(y).to(x.dtype)


def _check_scale(scale: str) -> None:
    if scale not in get_args(Scale):
        raise ValueError(f"scale is {scale!r}; expected {' or '.join(get_args(Scale))}")


def _check_shape(name: str, values: Tensor, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise ValueError(f"{name} has shape {tuple(values.shape)}; expected {shape}")
