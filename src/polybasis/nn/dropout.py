"""Dropout whose random numbers cost little: on a CPU torch's own takes longer than a small graph's filter."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_STEPS = 1 << 16  # probabilities are rounded to this many steps


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Each entry becomes 0 with probability p, the others are divided by 1 - p; nothing happens outside training.

    The seed of each call is drawn from torch's generator, so that ``torch.manual_seed`` and torch's random state decide
    over these numbers too.
    """
    if not training or p <= 0 or x.numel() == 0:
        return x
    if x.device.type != "cpu" or p >= 1:
        return torch.nn.functional.dropout(x, p)
    return cast(Tensor, _Dropout.apply(x, p))  # type: ignore[no-untyped-call]


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        generator = np.random.Generator(np.random.SFC64(int(torch.randint(2**62, (1,)))))
        drawn = generator.integers(0, _STEPS, size=x.numel(), dtype=np.uint16)
        scale = np.where(drawn >= round(p * _STEPS), np.float32(1 / (1 - p)), np.float32(0))
        mask = torch.from_numpy(scale).view(x.shape).to(x.dtype)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, y_bar: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return y_bar * mask, None
