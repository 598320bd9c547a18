"""The compiled kernels behind the interface of :mod:`polybasis.krylov.kernels`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polybasis.krylov.kernels import Coefficients, Lanczos
from polybasis.krylov.workspace import Workspace


class NativeKernels:
    """Kernels on a native operator. Large arrays are allocated here, once a call; threads are torch's number.

    Args:
        operator: see :func:`polybasis.native.operator`.
        results: lends the memory of results, for callers that copy them; each result has its own unless given.
    """

    def __init__(self, operator: Any, results: Workspace | None = None) -> None:
        self._operator = operator
        self._workspace = Workspace()
        self._results = results

    def peak(self, x: Tensor) -> Tensor:
        peak = torch.empty(x.shape[1], dtype=torch.float64)
        self._operator.peak(x, peak, torch.get_num_threads())
        return peak

    def optimal_basis(self, x: Tensor, peak: Tensor, K: int, *, last_gamma: bool) -> Lanczos:
        channels = x.shape[1]
        basis = Lanczos(
            self._workspace.empty(K + 1, *x.shape, dtype=x.dtype),
            torch.zeros(K + 1, channels, dtype=torch.float64),
            torch.zeros(K + 1, channels, dtype=torch.float64),
            torch.zeros(channels, dtype=torch.int64),
        )
        self._operator.optimal_basis(x, peak, *basis, last_gamma, torch.get_num_threads())
        return basis

    def in_order(self, vectors: Tensor) -> Tensor:
        planes, nodes, channels = vectors.shape
        width = self._operator.panel_width()
        if channels <= width:
            return vectors
        widths = [min(width, channels - first) for first in range(0, channels, width)]
        panels = torch.split(vectors.flatten(), [planes * nodes * w for w in widths])
        return torch.cat([panel.view(planes, nodes, w) for panel, w in zip(panels, widths, strict=True)], dim=2)

    def combine(self, vectors: Tensor, alpha: Tensor) -> Tensor:
        z = self._result(vectors[0])
        self._operator.combine(vectors, alpha, z, torch.get_num_threads())
        return z

    def optimal_adjoint(self, basis: Lanczos, alpha: Tensor, z_bar: Tensor) -> tuple[Tensor, Tensor]:
        x_bar, alpha_bar = self._result(z_bar), torch.empty_like(alpha)
        work = self._workspace.empty(2, *z_bar.shape, dtype=z_bar.dtype)
        vectors, gamma, sqrt_beta, _ = basis
        threads = torch.get_num_threads()
        self._operator.optimal_adjoint(vectors, gamma, sqrt_beta, alpha, z_bar, x_bar, alpha_bar, work, threads)
        return x_bar, alpha_bar

    def recurrence(
        self, x: Tensor, alpha: Tensor, coefficients: Coefficients, *, keep: bool
    ) -> tuple[Tensor, Tensor | None]:
        planes = len(alpha) if keep else min(2, len(alpha))
        h, z = self._workspace.empty(planes, *x.shape, dtype=x.dtype), self._result(x)
        self._operator.recurrence(x, alpha, *coefficients, h, z, torch.get_num_threads())
        return z, h if keep else None

    def recurrence_adjoint(
        self, h: Tensor, alpha: Tensor, coefficients: Coefficients, z_bar: Tensor
    ) -> tuple[Tensor, Tensor, Coefficients]:
        x_bar, alpha_bar = self._result(z_bar), torch.empty_like(alpha)
        work = self._workspace.empty(*z_bar.shape, dtype=z_bar.dtype)
        bars = Coefficients(*(torch.empty_like(numbers) for numbers in coefficients))
        threads = torch.get_num_threads()
        self._operator.recurrence_adjoint(h, alpha, *coefficients, z_bar, x_bar, alpha_bar, *bars, work, threads)
        return x_bar, alpha_bar, bars

    def _result(self, like: Tensor) -> Tensor:
        return torch.empty_like(like) if self._results is None else self._results.empty(*like.shape, dtype=like.dtype)
