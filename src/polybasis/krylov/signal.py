"""Checks of the signals that enter a filter."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from polybasis.graph import Graph
from polybasis.krylov.kernels import Kernels

COMPUTED = (torch.float32, torch.float64)  # narrower types are computed in float32 and rounded at the end


def checked_signal(graph: Graph, x: Tensor) -> Tensor:
    """``x`` as a contiguous array of a type that is computed in, or an error that names what is wrong with it."""
    if not isinstance(x, Tensor):
        raise TypeError(f"x is a {type(x).__name__}; expected a torch tensor of shape (N, d)")
    if x.dim() != 2 or x.shape[0] != graph.num_nodes:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected ({graph.num_nodes}, d), one row for each node")
    if not x.is_floating_point():
        raise TypeError(f"x has dtype {x.dtype}; expected a floating type, as float32")
    return (x if x.dtype in COMPUTED else x.float()).contiguous()


def finite_peak(kernels: Kernels, x: Tensor) -> Tensor:
    """The largest |x| of each channel; refuses a signal that is not finite."""
    peak = kernels.peak(x)
    if torch.isinf(peak).any():
        node, channel = (int(i) for i in (~torch.isfinite(x)).nonzero()[0])
        value = float(x[node, channel])
        raise ValueError(f"x[{node}, {channel}] is {value}; expected finite numbers: mend the signal")
    return peak


def checked_degree(K: int) -> int:
    """``K``, or an error where it is no degree."""
    if isinstance(K, bool) or not isinstance(K, int | np.integer) or K < 0:
        raise ValueError(f"K is {K!r}; expected the degree of the polynomial, a whole number, 0 or more")
    return int(K)


def checked_finite(name: str, value: Tensor) -> None:
    """Refuses numbers that are not finite."""
    finite = torch.isfinite(value.detach())
    if not finite.all():
        place = (~finite).nonzero()[0].tolist()
        raise ValueError(f"{name}{place} is {float(value[tuple(place)])}; expected finite numbers")


def checked_coefficients(name: str, value: Tensor, shape: tuple[int, ...]) -> None:
    """Refuses per-channel numbers of another shape."""
    if value.shape != shape:
        raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {shape}")
