"""Dropout and linear layers on dense or sparse features.

On a CPU, torch's dropout takes longer than the filter of a small graph; the native kernel generates random numbers
cheaply. Dropout leaves zeros unchanged, so it is equivalent to apply it only to the nonzeros of sparse features.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from polybasis import native
from polybasis.custom_op import CustomOp, looped_vmap
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

    >>> import torch, polybasis as pb
    >>> x = torch.ones(1000)
    >>> sorted(set(pb.nn.dropout(x, 0.5, training=True).tolist()))
    [0.0, 2.0]
    >>> torch.equal(pb.nn.dropout(x, 0.5, training=False), x)
    True
    """
    if not training or p <= 0:
        return x
    if isinstance(x, SparseFeatures):
        return cast(F, x.with_values(dropout(x.values, p, training)))
    dense = cast(Tensor, x)
    supported = dense.device.type == "cpu" and dense.dtype in (torch.float32, torch.float64) and p < 1
    if not supported or (native.module or native.kernels()) is None:
        return cast(F, torch.nn.functional.dropout(dense, p))
    seed = torch.randint(2**62, (1,))  # a tensor, so that compiled functions draw a new one at every call
    return cast(F, seeded_dropout(dense, p, seed, offset))


class FeatureLinear(torch.nn.Linear):
    """A linear layer that takes dense and sparse features.

    Args:
        in_features: number of features of the input.
        out_features: number of features of the output.
        bias: whether to add a bias.
        device: device of the parameters.
        dtype: data type of the parameters.

    >>> import scipy.sparse as sp, torch, polybasis as pb
    >>> from polybasis.features import as_features
    >>> layer = pb.nn.FeatureLinear(4, 2)
    >>> rows = sp.csr_array([[0.0, 1.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0]])
    >>> torch.allclose(layer(as_features(rows)), layer(torch.tensor(rows.toarray(), dtype=torch.float32)))
    True
    """

    def __call__(self, input: Features) -> Tensor:
        return cast(Tensor, super().__call__(input))

    def forward(self, input: Features) -> Tensor:
        if isinstance(input, SparseFeatures):
            product = input.product(self.weight.t())
            return product if self.bias is None else product + self.bias
        return super().forward(input)


def _kernel(x: Tensor, p: float, seed: Tensor, offset: int) -> Tensor:
    x = x.detach().contiguous()
    y = torch.empty_like(x)
    assert native.module is not None
    native.module.dropout(x, p, int(seed), offset, y, torch.get_num_threads())
    return y


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, ctx.p, seed, ctx.offset = inputs
    ctx.save_for_backward(seed)
    ctx.save_for_forward(seed)


def _backward(ctx: Any, y_bar: Tensor) -> tuple[Tensor, None, None, None]:
    return seeded_dropout(y_bar, ctx.p, *ctx.saved_tensors, ctx.offset), None, None, None


def _jvp(ctx: Any, x_tangent: Tensor, *_: Any) -> Tensor:
    return cast(Tensor, seeded_dropout(x_tangent, ctx.p, *ctx.saved_tensors, ctx.offset))


def _vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
    return cast(tuple[Any, Any], looped_vmap(seeded_dropout, info, in_dims, arguments))


# Dropout with the mask of a seed. It is linear: derivatives draw the same mask again instead of saving it.
seeded_dropout = CustomOp(
    "dropout(Tensor x, float p, Tensor seed, SymInt offset) -> Tensor",
    _kernel,
    fake=lambda x, p, seed, offset: torch.empty_like(x, memory_format=torch.contiguous_format),
    setup_context=_setup,
    backward=_backward,
    jvp=_jvp,
    vmap=_vmap,
)
