r"""The optimal basis with only two vectors in memory.

:math:`P v_k - \beta_k v_{k-1}` overwrites :math:`v_{k-1}`, and each vector is passed to the caller as soon as it is
computed. The price is that vectors cannot be reorthogonalised: they are only as orthogonal as the plain three-term
recurrence leaves them in float32 with inner products in float64.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis import native
from polybasis.graph import Graph
from polybasis.krylov.rank import basis_ends

MAX_EXPONENT = 40  # of a signal's largest entry; keeps sums of squares far from the limits of float32
# Smallest residual relative to the largest so far; vectors computed from smaller residuals would not be orthogonal.
MIN_RESIDUAL = 3e-4
CHANNELS = 64  # processed together in memory


class StreamedBasis(NamedTuple):
    """The coefficients and timings of a basis whose vectors were passed to a callback.

    Attributes:
        gamma, sqrt_beta: (K+1, d); the last gamma is 0.
        product_seconds: duration of each of the K products with the graph.
    """

    gamma: NDArray[np.float64]
    sqrt_beta: NDArray[np.float64]
    product_seconds: list[float]


def streamed_basis(
    operator: Any,
    u: NDArray[np.float32],
    w: NDArray[np.float32],
    norms: NDArray[np.float64],
    exponents: NDArray[np.int64],
    K: int,
    keep: Callable[[int, NDArray[np.float32], NDArray[np.float64]], None],
    threads: int,
) -> StreamedBasis:
    r"""Runs the Lanczos process on all channels of a block.

    Args:
        operator: the graph's :func:`polybasis.native.streamed` operator.
        u: the signals divided by :math:`2^{exponents}` and by the square roots of the degrees, (N, d); overwritten.
        w: zeros, (N, d); overwritten.
        norms: norms of the signals, (d,).
        exponents: exponents of the powers of two that the signals were divided by, (d,).
        K: the degree.
        keep: called with k, u and a scale (d,) such that :math:`v_k = D^{1/2} u \cdot scale`.
        threads: number of threads.

    Raises:
        OverflowError: if a signal overflows float32; the message gives the channel.
    """
    nodes, width = u.shape
    gamma, sqrt_beta = np.zeros((K + 1, width)), np.zeros((K + 1, width))
    product_seconds: list[float] = []
    alive = norms > 0
    sqrt_beta[0] = norms
    scale = np.divide(1.0, np.ldexp(norms, -exponents), out=np.zeros(width), where=alive)
    beta, sums = np.zeros(width), np.zeros(width)
    for k in range(K + 1):
        keep(k, u, scale)
        if k == K:
            break
        start = time.monotonic()
        operator.product(u, scale, beta, w, sums, threads)
        product_seconds.append(time.monotonic() - start)
        gamma[k] = sums * scale
        operator.subtract(u, scale, gamma[k], w, sums, threads)
        norm = np.sqrt(sums)
        if not np.isfinite(norm).all():
            raise OverflowError(f"channel {int((~np.isfinite(norm)).argmax())} overflows float32; scale it down")
        ends = basis_ends(
            torch.from_numpy(norm),
            torch.from_numpy(gamma[: k + 1]),
            torch.from_numpy(sqrt_beta[: k + 1]),
            nodes=nodes,
            K=K,
            dtype=torch.float32,
        )
        alive &= ~ends.numpy()
        alive &= norm > MIN_RESIDUAL * sqrt_beta[1 : k + 1].max(0, initial=0)
        sqrt_beta[k + 1] = beta = np.where(alive, norm, 0.0)
        scale = np.divide(1.0, beta, out=np.zeros(width), where=alive)
        u, w = w, u
    return StreamedBasis(gamma, sqrt_beta, product_seconds)


def first_exponents(peaks: NDArray[np.float64]) -> NDArray[np.int64]:
    """Exponents of the powers of two to divide signals by: 0 unless their largest entries are near float32's limits."""
    _, found = np.frexp(peaks)
    return np.where(np.abs(found) > MAX_EXPONENT, found, 0).astype(np.int64)


def plain_basis(graph: Graph, x: Tensor, K: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same basis for a graph in memory; equals the stored one up to rounding of the signals' norms.

    Args:
        graph: an unweighted graph without self-loops, N nodes.
        x: signals, (N, d), finite.
        K: the degree.

    Returns:
        Vectors, (N, K+1, d), float32; gamma and sqrt_beta, (K+1, d), float64.
    """
    indptr, indices = graph.indptr.numpy().astype(np.int64), graph.indices.numpy()
    operator = native.streamed(indptr, indices)
    roots = np.sqrt(np.maximum(np.diff(indptr), 1), dtype=np.float64)[:, None]
    vectors = np.empty((graph.num_nodes, K + 1, x.shape[1]), dtype=np.float32)
    parts = []
    for first in range(0, x.shape[1], CHANNELS):
        channels = slice(first, min(first + CHANNELS, x.shape[1]))
        signal = x[:, channels].double().numpy()
        exponents = first_exponents(np.abs(signal).max(0))
        u = (np.ldexp(signal, -exponents) / roots).astype(np.float32)
        norms = np.sqrt(np.square(signal).sum(0))

        def keep(k: int, u: NDArray[np.float32], scale: NDArray[np.float64], channels: slice = channels) -> None:
            vectors[:, k, channels] = u * scale * roots

        parts.append(streamed_basis(operator, u, np.zeros_like(u), norms, exponents, K, keep, torch.get_num_threads()))
    gamma = torch.from_numpy(np.concatenate([part.gamma for part in parts], axis=1))
    sqrt_beta = torch.from_numpy(np.concatenate([part.sqrt_beta for part in parts], axis=1))
    return torch.from_numpy(vectors), gamma, sqrt_beta
