"""Filters that autograd can train: each keeps its basis, nothing else of the graph's size, and nothing of an edge's."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from polybasis.graph import Graph
from polybasis.krylov.kernels import Coefficients, Kernels, Lanczos, kernels_for
from polybasis.krylov.signal import checked_coefficients, checked_finite, checked_signal, finite_peak


def optimal_filter(graph: Graph, x: Tensor, alpha: Tensor) -> Tensor:
    r"""Filters every channel in its own optimal basis: :math:`z = \sum_k \alpha_k v_k`.

    The paper's OptBasisFiltering. Gradients flow to ``x`` (through the basis) and to ``alpha``.

    Args:
        graph: the graph, N nodes.
        x: signals of shape (N, d).
        alpha: coefficients of shape (K+1, d); K is the degree.

    Returns:
        The filtered signals, (N, d).

    Raises:
        ValueError: for numbers that are not finite, or shapes that do not fit.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
    >>> x = torch.tensor([[3.0], [0.0], [4.0], [0.0]])
    >>> pb.krylov.optimal_filter(g, x, torch.tensor([[2.0], [0.0]])).flatten()  # 2 v_0 = 2 x / |x|
    tensor([1.2000, 0.0000, 1.6000, 0.0000])
    """
    signal = checked_signal(graph, x)
    checked_coefficients("alpha", alpha, (max(len(alpha), 1), x.shape[1]))
    if x.numel() == 0:
        return x * alpha.sum(0)
    checked_finite("alpha", alpha)
    kernels = kernels_for(graph, signal, len(alpha) - 1)
    filtered = cast(Tensor, _OptimalFilter.apply(signal, kernels, alpha.to(signal)))  # type: ignore[no-untyped-call]
    return filtered.to(x.dtype)


def recurrence_filter(graph: Graph, x: Tensor, alpha: Tensor, s: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    r"""Filters through a three-term recurrence: :math:`z = \sum_k \alpha_k h_k` with

    .. math:: h_0 = s\,x, \qquad h_{k+1} = (a_k P + b_k)\, h_k + c_k\, h_{k-1}.

    Every channel may have numbers of its own. Gradients flow to ``x``, ``alpha`` and all coefficients.

    Args:
        graph: the graph, N nodes.
        x: signals of shape (N, d).
        alpha: coefficients of shape (K+1, d); K is the degree.
        s: shape (d,), not 0.
        a, b, c: shape (K, d); ``c[0]`` is not used.

    Returns:
        The filtered signals, (N, d).

    Raises:
        ValueError: for numbers that are not finite, or shapes that do not fit.
        OverflowError: where the recurrence grows beyond the data type.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1], [1, 2]])
    >>> x, one, zero = torch.eye(3)[:, :1], torch.ones(1, 1), torch.zeros(1, 1)
    >>> z = pb.krylov.recurrence_filter(g, x, torch.tensor([[0.0], [1.0]]), one[0], one, zero, zero)
    >>> torch.equal(z, g @ x)
    True
    """
    signal = checked_signal(graph, x)
    channels, K = x.shape[1], len(alpha) - 1
    checked_coefficients("alpha", alpha, (max(K + 1, 1), channels))
    checked_coefficients("s", s, (channels,))
    for name, number in (("a", a), ("b", b), ("c", c)):
        checked_coefficients(name, number, (K, channels))
    if x.numel() == 0:
        return x * alpha.sum(0)
    for name, number in (("alpha", alpha), ("s", s), ("a", a), ("b", b), ("c", c)):
        checked_finite(name, number)
    if (s == 0).any():
        raise ValueError("s has an entry that is 0, for which every h_k is: leave such channels out")
    numbers = [number.to(signal).contiguous() for number in (alpha, s, a, b, c)]
    kernels = kernels_for(graph, signal, len(alpha) - 1)
    keep = torch.is_grad_enabled() and any(number.requires_grad for number in (signal, *numbers))
    filtered = cast(Tensor, _RecurrenceFilter.apply(signal, kernels, keep, *numbers))  # type: ignore[no-untyped-call]
    return filtered.to(x.dtype)


class _OptimalFilter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernels: Kernels, alpha: Tensor) -> Tensor:
        x, alpha = x.detach(), alpha.detach().contiguous()
        peak = finite_peak(kernels, x)
        basis = kernels.optimal_basis(x, peak, len(alpha) - 1, last_gamma=False)
        ctx.kernels = kernels
        ctx.save_for_backward(*basis, alpha)
        return kernels.combine(basis.vectors, alpha)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, z_bar: Tensor) -> tuple[Tensor | None, ...]:
        *basis, alpha = ctx.saved_tensors
        x_bar, alpha_bar = ctx.kernels.optimal_adjoint(Lanczos(*basis), alpha, z_bar.contiguous())
        return x_bar, None, alpha_bar


class _RecurrenceFilter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernels: Kernels, keep: bool, alpha: Tensor, *numbers: Tensor) -> Tensor:
        x, alpha = x.detach(), alpha.detach()
        coefficients = Coefficients(*(number.detach() for number in numbers))
        finite_peak(kernels, x)
        z, h = kernels.recurrence(x, alpha, coefficients, keep=keep)
        if torch.isinf(kernels.peak(z)).any():
            raise OverflowError(
                f"the recurrence of degree {len(alpha) - 1} grows beyond {x.dtype}: lower K, or keep sqrt_beta larger"
            )
        if h is not None:
            ctx.kernels = kernels
            ctx.save_for_backward(h, alpha, *coefficients)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, z_bar: Tensor) -> tuple[Tensor | None, ...]:
        h, alpha, *numbers = ctx.saved_tensors
        x_bar, alpha_bar, bars = ctx.kernels.recurrence_adjoint(h, alpha, Coefficients(*numbers), z_bar.contiguous())
        return x_bar, None, None, alpha_bar, *bars
