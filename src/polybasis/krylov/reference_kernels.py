"""The kernels in plain torch: what the native ones are tested against, and what serves other devices.

Every line is a line of the mathematics. Orthonormality comes from orthogonalising each new vector twice against all
before it, which costs K passes a step where the native kernels spend them only when rounding calls for it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.graph import Graph
from polybasis.krylov.kernels import Coefficients, Lanczos
from polybasis.krylov.rank import basis_ends


def _dot(u: Tensor, v: Tensor) -> Tensor:
    """Channel-wise inner products of (..., N, d) arrays in float64."""
    return (u.double() * v).sum(dim=-2)


class ReferenceKernels:
    """Kernels on any device, made of torch operations."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def _product(self, x: Tensor) -> Tensor:
        product: Tensor = self._graph.matrix(x.dtype, x.device) @ x
        return product

    def peak(self, x: Tensor) -> Tensor:
        low, high = torch.aminmax(x.double(), dim=0)
        return torch.maximum(-low, high).nan_to_num(nan=torch.inf, posinf=torch.inf)

    def optimal_basis(self, x: Tensor, peak: Tensor, K: int, *, last_gamma: bool) -> Lanczos:
        dtype, channels = x.dtype, x.shape[1]
        vectors = x.new_zeros(K + 1, *x.shape)
        gamma = peak.new_zeros(K + 1, channels)
        sqrt_beta = peak.new_zeros(K + 1, channels)
        rank = torch.zeros(channels, dtype=torch.int64, device=x.device)

        def append(k: int, w: Tensor) -> None:
            """v_k = w / |w| where w is more than noise, and 0 from there on."""
            norm = _dot(w, w).sqrt()
            alive = norm > 0
            if k > 0:
                alive &= ~basis_ends(norm, gamma[:k], sqrt_beta[:k], nodes=len(x), K=K, dtype=dtype)
            vectors[k] = torch.where(alive, (w / torch.where(alive, norm, 1)).to(dtype), 0)  # in float64, then rounded
            sqrt_beta[k] = torch.where(alive, norm, 0)
            rank.add_(alive)

        # A power of two keeps the squares of any finite signal in range.
        usable = peak >= torch.finfo(dtype).tiny
        power = torch.where(usable, torch.frexp(peak).exponent - 1, 0)
        scaled = torch.where(usable, torch.ldexp(x.double(), -power), 0).to(dtype)
        append(0, scaled)
        sqrt_beta[0] = torch.ldexp(sqrt_beta[0], power).clamp(max=torch.finfo(dtype).max)
        for k in range(K):
            w = self._product(vectors[k])
            gamma[k] = _dot(w, vectors[k])
            for _ in range(2):
                inner = _dot(w, vectors[: k + 1])
                w = w - torch.einsum("jd,jnd->nd", inner.to(dtype), vectors[: k + 1])
            append(k + 1, w)
        if last_gamma:
            gamma[K] = _dot(self._product(vectors[K]), vectors[K])
        return Lanczos(vectors, gamma, sqrt_beta, rank)

    def in_order(self, vectors: Tensor) -> Tensor:
        return vectors

    def combine(self, vectors: Tensor, alpha: Tensor) -> Tensor:
        return torch.einsum("kd,knd->nd", alpha, vectors)

    def optimal_adjoint(self, basis: Lanczos, alpha: Tensor, z_bar: Tensor) -> tuple[Tensor, Tensor]:
        V, gamma, sqrt_beta, _ = basis
        K, dtype = len(V) - 1, V.dtype
        inverse = torch.where(sqrt_beta > 0, 1 / torch.where(sqrt_beta > 0, sqrt_beta, 1), 0)
        g, b, r = gamma.to(dtype), sqrt_beta.to(dtype), inverse.to(dtype)
        lam = alpha.unsqueeze(1) * z_bar  # ∂L/∂v_k, (K+1, N, d)
        for k in range(K - 1, -1, -1):
            # Adjoint of Gram-Schmidt against all of v_0 .. v_k. Orthogonalising u against v_k and v_{k+1} only is
            # equivalent in exact arithmetic but unstable.
            u, inner = lam[k + 1], torch.zeros_like(gamma[: k + 2])
            for _ in range(2):
                more = _dot(u, V[: k + 2])
                u = u - torch.einsum("jd,jnd->nd", more.to(dtype), V[: k + 2])
                inner += more
            u = u * r[k + 1]
            lam[: k + 1] -= inner[: k + 1].to(dtype).unsqueeze(1) * V[k + 1]
            lam[k] += self._product(u) - g[k] * u
            if k > 0:
                lam[k - 1] -= b[k] * u
        x_bar = (lam[0] - _dot(lam[0], V[0]).to(dtype) * V[0]) * r[0]
        return x_bar, _dot(z_bar, V).to(dtype)

    def recurrence(
        self, x: Tensor, alpha: Tensor, coefficients: Coefficients, *, keep: bool
    ) -> tuple[Tensor, Tensor | None]:
        s, a, b, c = coefficients
        h, before = s * x, torch.zeros_like(x)
        z = alpha[0] * h
        kept = [h]
        for k in range(len(a)):
            h, before = a[k] * self._product(h) + b[k] * h + c[k] * before, h
            z = z + alpha[k + 1] * h
            if keep:
                kept.append(h)
        return z, torch.stack(kept) if keep else None

    def recurrence_adjoint(
        self, h: Tensor, alpha: Tensor, coefficients: Coefficients, z_bar: Tensor
    ) -> tuple[Tensor, Tensor, Coefficients]:
        s, a, b, c = coefficients
        K = len(a)
        bars = Coefficients(*(torch.zeros_like(numbers) for numbers in coefficients))
        lam, lam_next = alpha[K] * z_bar, torch.zeros_like(z_bar)
        for k in range(K - 1, -1, -1):
            p_lam = self._product(lam)
            bars.a[k] = _dot(p_lam, h[k]).to(a.dtype)
            bars.b[k] = _dot(lam, h[k]).to(a.dtype)
            if k > 0:
                bars.c[k] = _dot(lam, h[k - 1]).to(a.dtype)
            following = c[k + 1] * lam_next if k + 1 < K else 0
            lam, lam_next = alpha[k] * z_bar + a[k] * p_lam + b[k] * lam + following, lam
        bars.s.copy_(torch.where(s != 0, _dot(lam, h[0]).to(a.dtype) / torch.where(s != 0, s, 1), 0))
        return s * lam, _dot(z_bar, h).to(a.dtype), bars
