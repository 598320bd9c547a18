"""Dropout and linear layers on dense or sparse features.

On a CPU, torch's own dropout takes longer than the filter of a small graph; the native kernel draws random numbers
cheaply. Dropout leaves zeros unchanged, so applying it only to the nonzeros of sparse features is equivalent.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from polybasis import native
from polybasis.features import Features, SparseFeatures

F = TypeVar("F", bound=Features)


def dropout(x: F, p: float, training: bool, offset: int = 0) -> F:
    """Zeroes each entry with probability p and divides the others by 1 - p; the identity outside training.

    The seed of each call is drawn from torch's generator, so ``torch.manual_seed`` makes it reproducible.

    Args:
        x: dense features of any shape, or sparse ones.
        p: probability of zeroing an entry.
        training: whether to apply dropout.
        offset: index of the first entry in a larger array that is divided among processes; a multiple of 256.
    """
    if not training or p <= 0:
        return x
    if isinstance(x, SparseFeatures):
        return cast(F, x.with_values(dropout(x.values, p, training)))
    dense = cast(Tensor, x)
    supported = dense.device.type == "cpu" and dense.dtype in (torch.float32, torch.float64) and p < 1
    if not supported or (native.module or native.kernels()) is None:
        return cast(F, torch.nn.functional.dropout(dense, p))
    seed = int(torch.randint(2**62, (1,)))
    return cast(F, _Dropout.apply(dense, p, seed, offset))  # type: ignore[no-untyped-call]


class FeatureLinear(torch.nn.Linear):
    """A linear layer that takes dense and sparse features."""

    def __call__(self, input: Features) -> Tensor:
        return cast(Tensor, super().__call__(input))

    def forward(self, input: Features) -> Tensor:
        if isinstance(input, SparseFeatures):
            product = cast(Tensor, _SparseProduct.apply(self.weight.t(), input))  # type: ignore[no-untyped-call]
            return product if self.bias is None else product + self.bias
        return super().forward(input)


class _Dropout(torch.autograd.Function):
    """Saves the seed instead of a mask: the backward pass draws the same mask again."""

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
    y = torch.empty_like(x)
    assert native.module is not None
    native.module.dropout(x, p, seed, offset, y, torch.get_num_threads())
    return y


class _SparseProduct(torch.autograd.Function):
    """X W for sparse X; the gradient with respect to W is a product with the transpose, whose pattern is stored."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: SparseFeatures) -> Tensor:
        ctx.x = x
        return x @ weight.contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, y_bar: Tensor) -> tuple[Tensor, None]:
        return ctx.x.transposed_product(y_bar.contiguous()), None
