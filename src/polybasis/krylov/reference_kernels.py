"""The kernels in plain torch: the reference for the native kernels, and the implementation for other devices.

The code follows the mathematics line by line. Every new vector is orthogonalised twice against all earlier ones, which
takes K passes over the basis per step. The native kernels reorthogonalise only when the estimated loss of orthogonality
exceeds a tolerance.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.krylov.basis import OptimalBasis
from polybasis.krylov.rank import basis_ends
from polybasis.recurrence import Recurrence


def _dot(u: Tensor, v: Tensor) -> Tensor:
    """Returns the inner products of the channels of (..., N, d) arrays, in float64."""
    return (u.double() * v).sum(dim=-2)


class ReferenceKernels:
    """Kernels made of torch operations, for any device. Vectors are stored in the standard layout (K+1, N, d).

    Args:
        matrix: P as a sparse CSR tensor in the data type and on the device of the signals; see
            :meth:`polybasis.Graph.matrix`.
    """

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix

    def peak(self, x: Tensor) -> Tensor:
        low, high = torch.aminmax(x.double(), dim=0)
        return torch.maximum(-low, high).nan_to_num(nan=torch.inf, posinf=torch.inf)

    def optimal_basis(self, x: Tensor, peak: Tensor, K: int, *, last_gamma: bool) -> OptimalBasis:
        dtype, channels = x.dtype, x.shape[1]
        vectors = x.new_zeros(K + 1, *x.shape)
        gamma = peak.new_zeros(K + 1, channels)
        sqrt_beta = peak.new_zeros(K + 1, channels)
        rank = torch.zeros(channels, dtype=torch.int64, device=x.device)

        def append(k: int, w: Tensor) -> None:
            """Sets v_k = w / |w|, or 0 in channels whose basis has ended."""
            norm = _dot(w, w).sqrt()
            alive = norm > 0
            if k > 0:
                alive &= ~basis_ends(norm, gamma[:k], sqrt_beta[:k], nodes=len(x), K=K, dtype=dtype)
            # The division is in float64, the result is rounded once.
            vectors[k] = torch.where(alive, (w / torch.where(alive, norm, 1)).to(dtype), 0)
            sqrt_beta[k] = torch.where(alive, norm, 0)
            rank.add_(alive)

        # Scaling by a power of two is exact and keeps the squares of any finite signal in range.
        usable = peak >= torch.finfo(dtype).tiny
        power = torch.where(usable, torch.frexp(peak).exponent - 1, 0)
        scaled = torch.where(usable, torch.ldexp(x.double(), -power), 0).to(dtype)
        append(0, scaled)
        sqrt_beta[0] = torch.ldexp(sqrt_beta[0], power).clamp(max=torch.finfo(dtype).max)
        for k in range(K):
            w = self._matrix @ vectors[k]
            gamma[k] = _dot(w, vectors[k])
            for _ in range(2):
                inner = _dot(w, vectors[: k + 1])
                w = w - torch.einsum("jd,jnd->nd", inner.to(dtype), vectors[: k + 1])
            append(k + 1, w)
        if last_gamma:
            gamma[K] = _dot(self._matrix @ vectors[K], vectors[K])
        return OptimalBasis(vectors, gamma, sqrt_beta, rank)

    def standard_layout(self, vectors: Tensor) -> Tensor:
        return vectors

    def combine(self, vectors: Tensor, alpha: Tensor) -> Tensor:
        return torch.einsum("kd,knd->nd", alpha, vectors)

    def optimal_adjoint(self, basis: OptimalBasis, alpha: Tensor, z_bar: Tensor) -> tuple[Tensor, Tensor]:
        V, gamma, sqrt_beta, _ = basis
        K, dtype = len(V) - 1, V.dtype
        inverse = torch.where(sqrt_beta > 0, 1 / torch.where(sqrt_beta > 0, sqrt_beta, 1), 0)
        g, b, r = gamma.to(dtype), sqrt_beta.to(dtype), inverse.to(dtype)
        lam = alpha.unsqueeze(1) * z_bar  # ∂L/∂v_k, (K+1, N, d)
        for k in range(K - 1, -1, -1):
            # The adjoint of Gram-Schmidt against all of v_0, .., v_k. Orthogonalising u against v_k and v_{k+1} only is
            # equivalent in exact arithmetic but unstable.
            u, inner = lam[k + 1], torch.zeros_like(gamma[: k + 2])
            for _ in range(2):
                more = _dot(u, V[: k + 2])
                u = u - torch.einsum("jd,jnd->nd", more.to(dtype), V[: k + 2])
                inner += more
            u = u * r[k + 1]
            lam[: k + 1] -= inner[: k + 1].to(dtype).unsqueeze(1) * V[k + 1]
            lam[k] += self._matrix @ u - g[k] * u
            if k > 0:
                lam[k - 1] -= b[k] * u
        x_bar = (lam[0] - _dot(lam[0], V[0]).to(dtype) * V[0]) * r[0]
        return x_bar, _dot(z_bar, V).to(dtype)

    def recurrence(
        self, x: Tensor, alpha: Tensor, recurrence: Recurrence, *, keep: bool
    ) -> tuple[Tensor, Tensor | None]:
        s, a, b, c = recurrence
        h, before = s * x, torch.zeros_like(x)
        z = alpha[0] * h
        kept = [h]
        for k in range(len(a)):
            h, before = a[k] * (self._matrix @ h) + b[k] * h + c[k] * before, h
            z = z + alpha[k + 1] * h
            if keep:
                kept.append(h)
        return z, torch.stack(kept) if keep else None

    def recurrence_adjoint(
        self, h: Tensor, alpha: Tensor, recurrence: Recurrence, z_bar: Tensor
    ) -> tuple[Tensor, Tensor, Recurrence]:
        s, a, b, c = recurrence
        K = len(a)
        bars = Recurrence(*(torch.zeros_like(values) for values in recurrence))
        lam, lam_next = alpha[K] * z_bar, torch.zeros_like(z_bar)
        for k in range(K - 1, -1, -1):
            p_lam = self._matrix @ lam
            bars.a[k] = _dot(p_lam, h[k]).to(a.dtype)
            bars.b[k] = _dot(lam, h[k]).to(a.dtype)
            if k > 0:
                bars.c[k] = _dot(lam, h[k - 1]).to(a.dtype)
            following = c[k + 1] * lam_next if k + 1 < K else 0
            lam, lam_next = alpha[k] * z_bar + a[k] * p_lam + b[k] * lam + following, lam
        bars.s.copy_(torch.where(s != 0, _dot(lam, h[0]).to(a.dtype) / torch.where(s != 0, s, 1), 0))
        return s * lam, _dot(z_bar, h).to(a.dtype), bars
