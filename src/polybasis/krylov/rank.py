"""Where a basis ends."""

from __future__ import annotations

import torch
from torch import Tensor


def rank_limit(before: Tensor, dtype: torch.dtype) -> Tensor:
    """What the next residual has to exceed to be more than noise, for each channel.

    The same rule, with the same reasons, as `Tolerance` in native/optimal.cpp.

    Args:
        before: (k, channels): the lengths of the residuals so far, the signal's own left out; float64.
        dtype: of the vectors.
    """
    eps = torch.finfo(dtype).eps
    faded = 3e-4 if dtype == torch.float32 else 1e-5
    largest = before.amax(0) if len(before) else before.new_zeros(before.shape[1:])
    noise = 48 * eps * torch.where(before > 0, 0.8 * largest / before, 1).clamp(min=1).prod(0)
    noise = torch.minimum(noise, (2 * eps ** (1 / 3) * largest).clamp(min=48 * eps))
    return torch.maximum(noise, faded * largest)
