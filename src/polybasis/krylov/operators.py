"""The operators ``torch.ops.polybasis.optimal_filter``, ``recurrence_filter`` and their adjoints, with all their rules.

A filter saves its K+1 vectors for the backward pass, and nothing of the size of the edges. Vectors are in the internal
layout of the kernels; only the adjoint of the same filter can read them.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from polybasis.custom_op import CustomOp, composed_jvp, composed_vjp, looped_vmap, merge_channels, split_channels
from polybasis.krylov import composed
from polybasis.krylov.basis import OptimalBasis, scaled_coefficients
from polybasis.krylov.kernel_choice import kernels_for
from polybasis.krylov.kernels import Kernels
from polybasis.matrix import MATRIX_SCHEMA, Matrix, operator_for
from polybasis.recurrence import Recurrence

Gradients = tuple[Tensor | None, ...]


class NonFiniteError(ValueError):
    """A signal or coefficient is infinite or NaN."""


def finite_peak(kernels: Kernels, x: Tensor) -> Tensor:
    """Returns the largest absolute value of each channel.

    Raises:
        NonFiniteError: If the signal is not finite; the message gives the first place.
    """
    peak = kernels.peak(x)
    if torch.isinf(peak).any():
        node, channel = (~torch.isfinite(x)).nonzero()[0].tolist()
        raise NonFiniteError(f"x[{node}, {channel}] is {float(x[node, channel])}; signals must be finite")
    return peak


def check_finite(name: str, values: Tensor) -> None:
    """Raises a NonFiniteError that gives the first place of a value that is not finite."""
    finite = torch.isfinite(values)
    if not finite.all():
        place = (~finite).nonzero()[0].tolist()
        raise NonFiniteError(f"{name}{place} is {values[tuple(place)].item()}; expected finite numbers")


# ---- optimal filter ------------------------------------------------------------------------------------------------


def _optimal_kernel(*arguments: Any) -> tuple[Tensor, ...]:
    *parts, x, alpha, signal, paired = _detached(arguments)
    x, alpha = x.contiguous(), alpha.contiguous()
    check_finite("alpha", alpha)
    kernels = kernels_for(operator_for(Matrix(*parts)), x, len(alpha) - 1, paired=paired)
    basis = kernels.optimal_basis(x, finite_peak(kernels, x), len(alpha) - 1, last_gamma=False)
    if signal and (basis.sqrt_beta[..., 0, :] >= torch.finfo(x.dtype).max).any():
        raise OverflowError(f"the norm of x exceeds the range of {x.dtype}; scale the signal down or use float64")
    z = kernels.combine(basis.vectors, scaled_coefficients(alpha, basis.sqrt_beta, signal))
    return z, *basis


def _optimal_fake(
    indptr: Tensor, indices: Tensor, values: Tensor, ptr: Tensor | None, x: Tensor, alpha: Tensor, *_: bool
) -> tuple[Tensor, ...]:
    graphs = () if ptr is None else (ptr.shape[0] - 1,)
    numbers = x.new_empty(*graphs, *alpha.shape, dtype=torch.float64)
    rank = x.new_empty(*graphs, x.shape[1], dtype=torch.int64)
    return x.new_empty(x.shape), x.new_empty(len(alpha), *x.shape), numbers, torch.empty_like(numbers), rank


def _optimal_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, signal, paired = inputs
    ctx.flags = signal, paired
    ctx.save_for_backward(*tensors, *output[1:])
    ctx.save_for_forward(*tensors, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _optimal_backward(ctx: Any, z_bar: Tensor | None, *_: Any) -> Gradients:
    *parts, x, alpha, vectors, gamma, sqrt_beta, rank = ctx.saved_tensors
    if z_bar is None:
        return (None,) * 8
    if ctx.needs_input_grad[2]:  # the values of P
        values_bar, x_bar, alpha_bar = composed_vjp(_composed_optimal(parts, *ctx.flags), (parts[2], x, alpha), z_bar)
        return None, None, values_bar, None, x_bar, alpha_bar, None, None
    x_bar, alpha_bar = optimal_adjoint(*parts, vectors, gamma, sqrt_beta, rank, x, alpha, z_bar, *ctx.flags)
    return None, None, None, None, x_bar, alpha_bar, None, None


def _optimal_jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
    *parts, x, alpha, _, _, _, _ = ctx.saved_tensors
    primals = (parts[2], x, alpha)
    directions = _or_zeros((tangents[2], tangents[4], tangents[5]), primals)
    return composed_jvp(_composed_optimal(parts, *ctx.flags), primals, directions), None, None, None, None


def _optimal_vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
    if _any_batched(in_dims[:4]):
        return cast(tuple[Any, Any], looped_vmap(optimal_filter, info, in_dims, arguments))
    *parts, x, alpha, signal, paired = arguments
    x, alpha = _merged((x, alpha), in_dims[4:6], info.batch_size)
    return _split(optimal_filter(*parts, x, alpha, signal, paired), info.batch_size)


def _composed_optimal(parts: list[Any], *flags: bool) -> Any:
    indptr, indices, _, ptr = parts
    return lambda values, x, alpha: composed.optimal_filter(Matrix(indptr, indices, values, ptr), x, alpha, *flags)


def _optimal_adjoint_kernel(*arguments: Any) -> tuple[Tensor, Tensor]:
    *tensors, signal, paired = _detached(arguments)
    *parts, vectors, gamma, sqrt_beta, rank, _, alpha, z_bar = tensors
    kernels = kernels_for(operator_for(Matrix(*parts)), z_bar, len(alpha) - 1, paired=paired)
    scaled = scaled_coefficients(alpha.contiguous(), sqrt_beta, signal)
    basis = OptimalBasis(*(part.contiguous() for part in (vectors, gamma, sqrt_beta, rank)))
    x_bar, alpha_bar = kernels.optimal_adjoint(basis, scaled, z_bar.contiguous(), signal=signal)
    if signal:
        alpha_bar = (alpha_bar * sqrt_beta[..., :1, :]).to(alpha.dtype)
    return x_bar, alpha_bar if alpha_bar.dim() == 2 else alpha_bar.double().sum(0).to(alpha.dtype)


def _optimal_adjoint_backward(ctx: Any, *bars: Tensor | None) -> Gradients:
    *parts, x, alpha, z_bar = ctx.saved_tensors
    values_bar, x_bar, alpha_bar, z_bar_bar = composed_vjp(
        _composed_optimal_adjoint(parts, *ctx.flags), (parts[2], x, alpha, z_bar), _or_zeros(bars, (x, alpha))
    )
    return None, None, values_bar, None, *(None,) * 4, x_bar, alpha_bar, z_bar_bar, None, None


def _optimal_adjoint_jvp(ctx: Any, *tangents: Tensor | None) -> Any:
    *parts, x, alpha, z_bar = ctx.saved_tensors
    primals = (parts[2], x, alpha, z_bar)
    directions = _or_zeros((tangents[2], *tangents[8:11]), primals)
    return composed_jvp(_composed_optimal_adjoint(parts, *ctx.flags), primals, directions)


def _optimal_adjoint_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *parts, _, _, _, _, x, alpha, z_bar, signal, paired = inputs
    ctx.flags = signal, paired
    ctx.save_for_backward(*parts, x, alpha, z_bar)
    ctx.save_for_forward(*parts, x, alpha, z_bar)
    ctx.set_materialize_grads(False)


def _optimal_adjoint_vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
    # Vectors that were computed for the whole batch have the layout of merged channels; others cannot be repeated.
    if _any_batched(in_dims[:4]) or in_dims[4] is None:
        return cast(tuple[Any, Any], looped_vmap(optimal_adjoint, info, in_dims, arguments))
    *parts, signal, paired = arguments
    merged = _merged(parts[4:], in_dims[4:11], info.batch_size)
    return _split(optimal_adjoint(*parts[:4], *merged, signal, paired), info.batch_size)


def _composed_optimal_adjoint(parts: list[Any], *flags: bool) -> Any:
    indptr, indices, _, ptr = parts

    def adjoint(values: Tensor, x: Tensor, alpha: Tensor, z_bar: Tensor) -> tuple[Tensor, ...]:
        matrix = Matrix(indptr, indices, values, ptr)
        return composed_vjp(lambda x, alpha: composed.optimal_filter(matrix, x, alpha, *flags), (x, alpha), z_bar)

    return adjoint


# z = sum_k alpha_k v_k, times |x| with `signal`, and the optimal basis of x in the layout of the kernels. Signals are
# complex with `paired`; see ReferenceKernels.
optimal_filter = CustomOp(
    f"optimal_filter({MATRIX_SCHEMA}, Tensor x, Tensor alpha, bool signal, bool paired) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _optimal_kernel,
    fake=_optimal_fake,
    setup_context=_optimal_setup,
    backward=_optimal_backward,
    jvp=_optimal_jvp,
    vmap=_optimal_vmap,
)

# The gradients with respect to x and alpha. x is needed for second derivatives only.
optimal_adjoint = CustomOp(
    f"optimal_adjoint({MATRIX_SCHEMA}, Tensor vectors, Tensor gamma, Tensor sqrt_beta, Tensor rank, Tensor x, "
    "Tensor alpha, Tensor z_bar, bool signal, bool paired) -> (Tensor, Tensor)",
    _optimal_adjoint_kernel,
    fake=lambda *arguments: tuple(like.new_empty(like.shape) for like in arguments[8:10]),
    setup_context=_optimal_adjoint_setup,
    backward=_optimal_adjoint_backward,
    jvp=_optimal_adjoint_jvp,
    vmap=_optimal_adjoint_vmap,
)


# ---- recurrence filter ---------------------------------------------------------------------------------------------


def _recurrence_kernel(*arguments: Any) -> tuple[Tensor, Tensor]:
    *tensors, keep = _detached(arguments)
    *parts, x, alpha, s, a, b, c = tensors
    x, alpha, *numbers = (values.contiguous() for values in (x, alpha, s, a, b, c))
    for name, values in zip(("alpha", *Recurrence._fields), (alpha, *numbers), strict=True):
        check_finite(name, values)
    if (s == 0).any():
        raise ValueError("s has an entry that is 0; expected nonzero numbers, because every h_k is a multiple of s")
    kernels = kernels_for(operator_for(Matrix(*parts)), x, len(alpha) - 1)
    finite_peak(kernels, x)
    z, h = kernels.recurrence(x, alpha, Recurrence(*numbers), keep=keep)
    if torch.isinf(kernels.peak(z)).any():
        raise OverflowError(
            f"the recurrence of degree {len(alpha) - 1} exceeds the range of {x.dtype}; lower K or increase sqrt_beta"
        )
    return z, x.new_empty(0) if h is None else h


def _recurrence_fake(*arguments: Any) -> tuple[Tensor, Tensor]:
    x, alpha, keep = arguments[4], arguments[5], arguments[10]
    return x.new_empty(x.shape), x.new_empty((len(alpha), *x.shape) if keep else 0)


def _recurrence_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, _ = inputs
    ctx.save_for_backward(*tensors, output[1])
    ctx.save_for_forward(*tensors, output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _recurrence_backward(ctx: Any, z_bar: Tensor | None, _: Any) -> Gradients:
    *tensors, h = ctx.saved_tensors
    if z_bar is None:
        return (None,) * 11
    parts, numbers = tensors[:4], tensors[4:]
    if ctx.needs_input_grad[2]:  # the values of P
        bars = composed_vjp(_composed_recurrence(parts), (parts[2], *numbers), z_bar)
        return None, None, bars[0], None, *bars[1:], None
    return None, None, None, None, *recurrence_adjoint(*parts, h, *numbers, z_bar), None


def _recurrence_jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
    *tensors, _ = ctx.saved_tensors
    primals = (tensors[2], *tensors[4:])
    directions = _or_zeros((tangents[2], *tangents[4:10]), primals)
    return composed_jvp(_composed_recurrence(tensors[:4]), primals, directions), None


def _recurrence_vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
    if _any_batched(in_dims[:4]):
        return cast(tuple[Any, Any], looped_vmap(recurrence_filter, info, in_dims, arguments))
    *tensors, keep = arguments
    merged = _merged(tensors[4:], in_dims[4:10], info.batch_size)
    results = recurrence_filter(*tensors[:4], *merged, keep)
    if keep:
        return _split(results, info.batch_size)
    z, place = split_channels(results[0], info.batch_size)
    return (z, results[1]), (place, None)


def _composed_recurrence(parts: Any) -> Any:
    indptr, indices, _, ptr = parts
    return lambda values, *numbers: composed.recurrence_filter(Matrix(indptr, indices, values, ptr), *numbers)


def _recurrence_adjoint_kernel(*arguments: Any) -> tuple[Tensor, ...]:
    *parts, h, _, alpha, s, a, b, c, z_bar = _detached(arguments)
    kernels = kernels_for(operator_for(Matrix(*parts)), z_bar, len(alpha) - 1)
    alpha, *numbers = (values.contiguous() for values in (alpha, s, a, b, c))
    x_bar, alpha_bar, bars = kernels.recurrence_adjoint(h.contiguous(), alpha, Recurrence(*numbers), z_bar.contiguous())
    return x_bar, alpha_bar, *bars


def _recurrence_adjoint_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *parts, _, x, alpha, s, a, b, c, z_bar = inputs
    ctx.save_for_backward(*parts, x, alpha, s, a, b, c, z_bar)
    ctx.save_for_forward(*parts, x, alpha, s, a, b, c, z_bar)
    ctx.set_materialize_grads(False)


def _recurrence_adjoint_backward(ctx: Any, *bars: Tensor | None) -> Gradients:
    tensors = ctx.saved_tensors
    primals = (tensors[2], *tensors[4:])
    found = composed_vjp(_composed_recurrence_adjoint(tensors[:4]), primals, _or_zeros(bars, primals[1:-1]))
    return None, None, found[0], None, None, *found[1:]


def _recurrence_adjoint_jvp(ctx: Any, *tangents: Tensor | None) -> Any:
    tensors = ctx.saved_tensors
    primals = (tensors[2], *tensors[4:])
    directions = _or_zeros((tangents[2], *tangents[5:]), primals)
    return composed_jvp(_composed_recurrence_adjoint(tensors[:4]), primals, directions)


def _recurrence_adjoint_vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
    if _any_batched(in_dims[:4]) or in_dims[4] is None:  # see _optimal_adjoint_vmap
        return cast(tuple[Any, Any], looped_vmap(recurrence_adjoint, info, in_dims, arguments))
    merged = _merged(arguments[4:], in_dims[4:], info.batch_size)
    return _split(recurrence_adjoint(*arguments[:4], *merged), info.batch_size)


def _composed_recurrence_adjoint(parts: Any) -> Any:
    filtered = _composed_recurrence(parts)

    def adjoint(values: Tensor, *numbers: Tensor) -> tuple[Tensor, ...]:
        *primals, z_bar = numbers
        return composed_vjp(lambda *primals: filtered(values, *primals), primals, z_bar)

    return adjoint


# z = sum_k alpha_k h_k and, with `keep`, all h_k in the layout of the kernels.
recurrence_filter = CustomOp(
    f"recurrence_filter({MATRIX_SCHEMA}, Tensor x, Tensor alpha, Tensor s, Tensor a, Tensor b, Tensor c, bool keep) "
    "-> (Tensor, Tensor)",
    _recurrence_kernel,
    fake=_recurrence_fake,
    setup_context=_recurrence_setup,
    backward=_recurrence_backward,
    jvp=_recurrence_jvp,
    vmap=_recurrence_vmap,
)

# The gradients with respect to x, alpha, s, a, b and c. x is needed for second derivatives only.
recurrence_adjoint = CustomOp(
    f"recurrence_adjoint({MATRIX_SCHEMA}, Tensor h, Tensor x, Tensor alpha, Tensor s, Tensor a, Tensor b, Tensor c, "
    "Tensor z_bar) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _recurrence_adjoint_kernel,
    fake=lambda *arguments: tuple(like.new_empty(like.shape) for like in arguments[5:11]),
    setup_context=_recurrence_adjoint_setup,
    backward=_recurrence_adjoint_backward,
    jvp=_recurrence_adjoint_jvp,
    vmap=_recurrence_adjoint_vmap,
)


# ---- helpers -------------------------------------------------------------------------------------------------------


def _detached(arguments: tuple[Any, ...]) -> list[Any]:
    return [a.detach() if isinstance(a, Tensor) else a for a in arguments]


def _or_zeros(tensors: Any, like: Any) -> tuple[Tensor, ...]:
    return tuple(
        torch.zeros_like(other) if tensor is None else tensor for tensor, other in zip(tensors, like, strict=True)
    )


def _any_batched(dims: tuple[int | None, ...]) -> bool:
    return any(dim is not None for dim in dims)


def _merged(tensors: Any, dims: Any, size: int) -> tuple[Tensor, ...]:
    """Merges a batch into the channels, which are independent of each other."""
    return tuple(merge_channels(tensor, dim, size) for tensor, dim in zip(tensors, dims, strict=True))


def _split(results: Any, size: int) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Undoes :func:`_merged` for the results of an operator."""
    tensors, dims = zip(*(split_channels(result, size) for result in results), strict=True)
    return tensors, dims
