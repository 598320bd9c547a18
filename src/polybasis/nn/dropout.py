"""Dropout whose random numbers cost little: on a CPU torch's own takes longer than a small graph's filter."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from polybasis import native


def dropout(x: Tensor, p: float, training: bool, offset: int = 0) -> Tensor:
    """Each entry becomes 0 with probability p, the others are divided by 1 - p; nothing happens outside training.

    The seed of each call is drawn from torch's generator, so that ``torch.manual_seed`` and torch's random state decide
    over these numbers too.

    Args:
        x: any numbers.
        p: probability.
        training: whether anything happens.
        offset: the place of the first entry in a larger array, of which several processes drop parts; a multiple of
            256.
    """
    if not training or p <= 0:
        return x
    served = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and p < 1
    if not served or native.kernels() is None:
        return torch.nn.functional.dropout(x, p)
    return cast(Tensor, _Dropout.apply(x, p, int(torch.randint(2**62, (1,))), offset))  # type: ignore[no-untyped-call]


class _Dropout(torch.autograd.Function):
    """Keeps the seed in place of a mask: the gradient is dropped at the same places."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int, offset: int) -> Tensor:
        ctx.numbers = (p, seed, offset)
        return _dropped(x, *ctx.numbers)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, y_bar: Tensor) -> tuple[Tensor, None, None, None]:
        return _dropped(y_bar, *ctx.numbers), None, None, None


def _dropped(x: Tensor, p: float, seed: int, offset: int) -> Tensor:
    x = x.detach().contiguous()
    y, kernels = torch.empty_like(x), native.kernels()
    assert kernels is not None
    kernels.dropout(x, p, seed, offset, y, torch.get_num_threads())
    return y
