"""The rank rule: when the Lanczos process stops."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from polybasis.custom_op import has_values
from polybasis.tridiagonal import apply_tridiagonal

_CONSTANTS = tomllib.loads(Path(__file__).with_name("rank_tolerance.toml").read_text())  # shared with the kernels


class RankTolerance(NamedTuple):
    """Constants of the rank rule for vectors of one data type.

    Attributes:
        rounding_level: residuals up to this norm are rounding errors of the product.
        noise_level: error of a residual before amplification.
        amplification_threshold: a residual below this norm amplifies earlier errors.
        noise_cap: largest error of a residual, relative to the largest residual.
        max_stopping_error: largest acceptable :func:`stopping_error`.
    """

    rounding_level: float
    noise_level: float
    amplification_threshold: float
    noise_cap: float
    max_stopping_error: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> RankTolerance:
        """The constants for a data type; ``native/tolerance.hpp`` explains them."""
        eps = torch.finfo(dtype).eps
        constants = _CONSTANTS["float32" if dtype == torch.float32 else "float64"]
        return cls(
            rounding_level=constants["rounding_level"] * eps,
            noise_level=constants["noise_level"] * eps,
            amplification_threshold=constants["amplification_threshold"],
            noise_cap=constants["noise_cap"] * math.cbrt(eps),
            max_stopping_error=constants["max_stopping_error"],
        )


def basis_ends(
    norm: Tensor, gamma: Tensor, sqrt_beta: Tensor, *, nodes: int | Tensor, K: int, dtype: torch.dtype
) -> Tensor:
    r"""Decides in which channels the basis ends at the latest vector :math:`v_k`.

    A basis ends if the next vector would be rounding noise and dropping it changes no :math:`T_m(P)\, x`,
    :math:`m \le K`, by more than a tolerance.

    Args:
        norm: (..., d), the norm of the residual after :math:`v_k`, which is orthogonal to all vectors so far.
        gamma, sqrt_beta: (k+1, ..., d), float64, the tridiagonal matrix so far.
        nodes: The number of nodes, or that of each graph of a batch, (G, 1).
        K: The degree.
        dtype: The data type of the vectors.

    Returns:
        (..., d), bool.
    """
    nodes = torch.as_tensor(nodes, dtype=torch.float64, device=norm.device)
    complete = nodes <= len(gamma)
    tolerance = RankTolerance.of(dtype)
    beta = sqrt_beta[1:]
    largest = beta.amax(0) if len(beta) else torch.zeros_like(norm)
    amplification = torch.where(beta > 0, tolerance.amplification_threshold / beta, 1).clamp(min=1)
    noise = tolerance.noise_level * amplification.prod(0)
    # Only the part of an error that is orthogonal to all vectors matters; the last possible vector leaves no such part.
    outside = ((nodes - len(gamma) - 1).clamp(min=0) / nodes.clamp(min=1)).sqrt()
    noise = torch.minimum(noise, (tolerance.noise_cap * largest).clamp(min=tolerance.noise_level)) * outside
    ends, suspect = complete | (norm <= tolerance.rounding_level), norm <= noise
    if not has_values() or suspect.any():
        ends = ends | suspect & (stopping_error(norm, gamma, sqrt_beta, K) <= tolerance.max_stopping_error)
    return ends


def stopping_error(norm: Tensor, gamma: Tensor, sqrt_beta: Tensor, K: int) -> Tensor:
    r"""Bounds the relative error of stopping at :math:`v_k`, over all Chebyshev polynomials up to degree K.

    .. math:: \max_{m \le K} \|T_m(P)\,x - \|x\|\, V\, T_m(T)\, e_0\| \,/\, \|x\|

    The Chebyshev recurrence on :math:`y_m = T_m(T)\, e_0` drops :math:`2 \sqrt{\beta_{k+1}}\, v_{k+1}\, (y_m)_k` in
    every step, and half of that in the first. A term dropped in step m contributes to step K multiplied by
    :math:`U_{K-1-m}(P)`, whose norm is at most :math:`K - m`.

    Args:
        norm: (d,), the norm :math:`\sqrt{\beta_{k+1}}` of the residual.
        gamma, sqrt_beta: (k+1, d), the tridiagonal matrix up to :math:`v_k`.
        K: The degree.

    Returns:
        (d,), float64.
    """
    y, before = torch.zeros_like(gamma), torch.zeros_like(gamma)
    y[0] = 1
    bound = torch.zeros_like(norm)
    for m in range(K):
        factor = 2 if m > 0 else 1
        bound = bound + factor * norm * y[-1].abs() * (K - m)
        y, before = factor * apply_tridiagonal(gamma, sqrt_beta, y) - before, y
    return bound
