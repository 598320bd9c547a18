"""Signals given as torch tensors or NumPy arrays of several shapes, as the (N, channels) tensors that filters take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Signal = Tensor | NDArray[Any]
AnySignal = TypeVar("AnySignal", bound=Signal)


def as_channels(
    x: AnySignal, num_nodes: int | None = None, name: str = "x", *, allow_complex: bool = False
) -> tuple[Tensor, Callable[[Tensor], AnySignal]]:
    """Returns a signal as a matrix with one column per channel, and a function that restores shape and type.

    Filters treat channels independently, so the signals of a batch become further channels.

    Args:
        x: The signal, (N,), (N, d) or (B, N, d): a torch tensor or a NumPy array. Integers become float64.
        num_nodes: The number of nodes N; by default that of ``x``.
        name: The name of the argument in error messages.
        allow_complex: Whether the signal may be complex.

    Returns:
        The tensor, (N, channels), floating-point, and a function that converts a tensor of shape (..., N, channels) to
        the shape of ``x``, with the same leading dimensions, and to a NumPy array if ``x`` is one.

    Raises:
        ValueError: If the shape is wrong.
        TypeError: If ``x`` is neither a tensor nor an array of real numbers.

    >>> import numpy as np
    >>> signal, restore = as_channels(np.ones((4, 3, 2)))
    >>> signal.shape, restore(2 * signal).shape
    (torch.Size([3, 8]), (4, 3, 2))
    """
    signal = _as_tensor(x, name, allow_complex)
    shape = tuple(signal.shape)
    nodes = "N" if num_nodes is None else str(num_nodes)
    if len(shape) not in (1, 2, 3):
        raise ValueError(f"{name} has shape {shape}; expected ({nodes},), ({nodes}, d) or (B, {nodes}, d)")
    rows = shape[1] if len(shape) == 3 else shape[0]
    if num_nodes is not None and rows != num_nodes:
        hint = f"; pass {name}.T" if len(shape) == 2 and shape[1] == num_nodes else ""
        raise ValueError(
            f"{name} has shape {shape}; expected ({nodes},), ({nodes}, d) or (B, {nodes}, d), one row per node{hint}"
        )

    def restore(result: Tensor) -> AnySignal:
        result = _to_shape(result, shape)
        return cast(AnySignal, result if isinstance(x, Tensor) else result.detach().cpu().numpy())

    return _to_matrix(signal), restore


def _as_tensor(x: Any, name: str, allow_complex: bool) -> Tensor:
    if isinstance(x, np.ndarray):
        if x.dtype != np.bool_ and not np.issubdtype(x.dtype, np.number):
            raise TypeError(f"{name} has dtype {x.dtype}; expected real numbers")
        if np.iscomplexobj(x):
            x = x.astype(np.complex128) if x.dtype.itemsize > 16 else x
        elif not np.issubdtype(x.dtype, np.floating) or x.dtype.itemsize > 8:
            x = x.astype(np.float64)
        # torch requires the native byte order, non-negative strides, and memory that may be written.
        x = torch.from_numpy(np.require(x, x.dtype.newbyteorder("="), ["C", "W"]))
    if not isinstance(x, Tensor) or x.layout != torch.strided:
        kind = "sparse tensor" if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(
            f"{name} is a {kind}; expected a torch tensor or a NumPy array of shape (N,), (N, d) or (B, N, d)"
        )
    if x.is_complex() and not allow_complex:
        raise TypeError(f"{name} has dtype {x.dtype}; expected real numbers, or a directed graph for complex ones")
    return x if x.is_floating_point() or x.is_complex() else x.double()


def _to_matrix(signal: Tensor) -> Tensor:
    if signal.dim() == 1:
        return signal.unsqueeze(1)
    if signal.dim() == 2:
        return signal
    batch, nodes, width = signal.shape
    return signal.transpose(0, 1).reshape(nodes, batch * width)


def _to_shape(result: Tensor, shape: tuple[int, ...]) -> Tensor:
    if len(shape) == 1:
        return result.squeeze(-1)
    if len(shape) == 2:
        return result
    batch, nodes, width = shape
    return result.reshape(*result.shape[:-2], nodes, batch, width).transpose(-3, -2).contiguous()
