"""Operators of ``torch.library`` that differentiate under autograd, ``torch.compile`` and ``torch.func`` alike.

``torch.library`` has no rule for forward-mode differentiation, and its autograd rules do not run inside ``torch.func``;
``torch.autograd.Function`` supports both, but not ``torch.compile``. A :class:`CustomOp` registers the same rules with
both and calls the one that applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

LIBRARY = torch.library.Library("polybasis", "DEF")  # type: ignore[no-untyped-call]


def is_transformed() -> bool:
    """Whether ``torch.func`` or forward-mode differentiation is active."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def has_values() -> bool:
    """Whether tensors have values that Python may branch on: not while they are traced or transformed."""
    return not (torch.compiler.is_compiling() or is_transformed())


@contextmanager
def ordinary_tensors() -> Iterator[None]:
    """Creates tensors that outlive the transform, trace or inference mode in which they are created, for caches."""
    with torch.inference_mode(False), torch.no_grad(), temporarily_clear_interpreter_stack(), _disable_current_modes():
        yield


class CustomOp:
    """An operator ``torch.ops.polybasis.<name>`` with all its rules.

    Args:
        schema: The signature, as for :func:`torch.library.define`.
        kernel: The implementation, outside autograd. Results must not share memory with arguments.
        fake: Returns empty tensors with the shapes and data types of the results.
        setup_context, backward: The reverse-mode rule, as for :func:`torch.library.register_autograd`.
        jvp: The forward-mode rule, as for :class:`torch.autograd.Function`.
        vmap: The batching rule, as for :func:`torch.library.register_vmap`.
    """

    def __init__(
        self,
        schema: str,
        kernel: Callable[..., Any],
        *,
        fake: Callable[..., Any],
        setup_context: Callable[..., None],
        backward: Callable[..., Any],
        jvp: Callable[..., Any],
        vmap: Callable[..., Any],
    ) -> None:
        name = schema.partition("(")[0]
        qualified = f"polybasis::{name}"
        LIBRARY.define(schema)  # type: ignore[no-untyped-call]
        LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
        torch.library.register_fake(qualified, fake, lib=LIBRARY)
        torch.library.register_autograd(qualified, backward, setup_context=setup_context, lib=LIBRARY)
        torch.library.register_vmap(qualified, vmap, lib=LIBRARY)
        self._op = getattr(torch.ops.polybasis, name).default
        rules = {
            "forward": self._op,
            "setup_context": setup_context,
            "backward": backward,
            "jvp": jvp,
            "vmap": vmap,
        }
        self._function: Any = type(
            name, (torch.autograd.Function,), {rule: staticmethod(function) for rule, function in rules.items()}
        )

    def __call__(self, *arguments: Any) -> Any:
        return self._function.apply(*arguments) if is_transformed() else self._op(*arguments)


# ---- rules for operators that a plain torch function also computes -------------------------------------------------


def composed_vjp(function: Callable[..., Any], primals: Sequence[Tensor], cotangents: Any) -> tuple[Tensor, ...]:
    """Returns the gradients of a composed function; the result can be differentiated again.

    Args:
        function: A function of tensors, made of differentiable operations.
        primals: Its arguments.
        cotangents: The gradient with respect to its result.
    """
    _, pullback = torch.func.vjp(function, *primals)  # type: ignore[misc]
    return cast(tuple[Tensor, ...], pullback(cotangents))


def composed_jvp(function: Callable[..., Any], primals: Sequence[Tensor], tangents: Sequence[Tensor]) -> Any:
    r"""Returns the directional derivative :math:`J t` of a composed function by reverse mode only.

    The map :math:`u \mapsto J^\top u` is linear, and its transpose is :math:`J`.

    Args:
        function: A function of tensors, made of differentiable operations; returns a tensor or several.
        primals: Its arguments.
        tangents: The direction, one tensor per argument.
    """
    result, transpose = torch.func.vjp(function, *primals)  # type: ignore[misc]
    start = tree_map(torch.zeros_like, result)
    _, pushforward = torch.func.vjp(transpose, start)  # type: ignore[misc]
    return pushforward(tuple(tangents))[0]


def looped_vmap(op: Callable[..., Any], info: Any, in_dims: Sequence[int | None], arguments: Sequence[Any]) -> Any:
    """Applies an operator to one batch entry after the other: a batching rule for arguments that cannot be merged.

    Args:
        op: The operator.
        info, in_dims, arguments: What :func:`torch.library.register_vmap` passes to a rule.
    """
    results = []
    for i in range(info.batch_size):
        entry = [a if dim is None else a.select(dim, i) for a, dim in zip(arguments, in_dims, strict=True)]
        results.append(op(*entry))
    if isinstance(results[0], Tensor):
        return torch.stack(results), 0
    return tuple(torch.stack(parts) for parts in zip(*results, strict=True)), (0,) * len(results[0])


def merge_channels(x: Tensor, dim: int | None, size: int) -> Tensor:
    """Moves a batch dimension in front of the last one, the channels, and merges the two.

    Args:
        x: (..., d) with a batch dimension at ``dim``, or without one, in which case every batch entry is the same.
        dim: The place of the batch dimension, or None.
        size: The number of batch entries B.

    Returns:
        (..., B d).
    """
    x = x.unsqueeze(-2).expand(*x.shape[:-1], size, x.shape[-1]) if dim is None else x.movedim(dim, -2)
    return x.reshape(*x.shape[:-2], size * x.shape[-1])


def split_channels(x: Tensor, size: int) -> tuple[Tensor, int]:
    """Undoes :func:`merge_channels`: returns (..., B, d) and the place of the batch dimension."""
    x = x.reshape(*x.shape[:-1], size, x.shape[-1] // size)
    return x, x.dim() - 2
