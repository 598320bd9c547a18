"""The kernels in plain torch: the reference for the native kernels, and the implementation for other devices.

The code follows the mathematics line by line. Every new vector is orthogonalised twice against all earlier ones, which
takes K passes over the basis per step. The native kernels reorthogonalise only when the estimated loss of orthogonality
exceeds a tolerance.

The forward functions are made of differentiable operations, so autograd can differentiate through them to any order;
see :mod:`polybasis.krylov.composed`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.krylov.basis import OptimalBasis
from polybasis.krylov.rank import basis_ends
from polybasis.matrix import Matrix, SparseOperator
from polybasis.recurrence import Recurrence


class ReferenceKernels:
    """Kernels made of torch operations, for any device. Vectors are stored in the standard layout (K+1, N, d).

    Args:
        matrix: P in the data type of the signals: a torch sparse tensor, a :class:`polybasis.matrix.Matrix`, or its
            operator.
        ptr: The boundaries of the graphs of a batch; see :class:`polybasis.matrix.Matrix`.
        paired: Whether rows 2i and 2i + 1 are the real and imaginary parts of complex numbers; see
            :mod:`polybasis.propagation`. Every eigenvalue of P is then double, with eigenvectors u and iu. In exact
            arithmetic a Krylov space is orthogonal to i times itself. Rounding errors in that direction grow as soon as
            an eigenvector has converged, unless vectors are orthogonalised against :math:`i v_j` as well.
    """

    def __init__(
        self, matrix: Tensor | Matrix | SparseOperator, ptr: Tensor | None = None, *, paired: bool = False
    ) -> None:
        self._matrix = matrix
        self._ptr = ptr
        self._paired = paired
        if ptr is not None:
            sizes = ptr.diff()
            self._sizes = sizes.unsqueeze(1)  # (G, 1)
            self._graph_of = torch.repeat_interleave(torch.arange(len(sizes), device=ptr.device), sizes)

    def peak(self, x: Tensor) -> Tensor:
        size = x.double().abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
        if self._ptr is None:
            return size.amax(0)
        places = self._graph_of.unsqueeze(1).expand_as(size)
        return size.new_zeros(len(self._sizes), x.shape[1]).scatter_reduce(0, places, size, "amax")

    def optimal_basis(self, x: Tensor, peak: Tensor, K: int, *, last_gamma: bool) -> OptimalBasis:
        dtype, nodes = x.dtype, len(x) if self._ptr is None else self._sizes
        nodes = nodes // 2 if self._paired else nodes
        # Scaling by a power of two is exact and keeps the squares of any finite signal in range.
        usable = peak >= torch.finfo(dtype).tiny
        power = torch.where(usable, (peak.view(torch.int64) >> 52) - 1023, 0)  # the exponent of a float64
        factor = torch.where(usable, torch.ldexp(torch.ones_like(peak), -power), 0)
        w = (x.double() * self._spread(factor)).to(dtype)
        vectors: list[Tensor] = []
        gamma: list[Tensor] = []
        sqrt_beta: list[Tensor] = []
        rank = torch.zeros_like(peak, dtype=torch.int64)
        for k in range(K + 1):
            square = self._dot(w, w)
            alive = square > 0
            norm = torch.where(alive, square, 1).sqrt()
            if k > 0:
                so_far = torch.stack(gamma).detach(), torch.stack(sqrt_beta).detach()
                alive = alive & ~basis_ends(
                    torch.where(alive, norm, 0).detach(), *so_far, nodes=nodes, K=K, dtype=dtype
                )
            # v_k = w / |w|, or 0 in channels whose basis has ended. Divided in float64 and rounded once.
            unit = torch.where(self._spread(alive), w / self._spread(torch.where(alive, norm, 1)), 0)
            vectors.append(unit.to(dtype))
            sqrt_beta.append(torch.where(alive, norm, 0))
            rank = rank + alive
            if k == K and not last_gamma:
                gamma.append(torch.zeros_like(norm))
                break
            w = self._matrix @ vectors[k]
            gamma.append(self._dot(w, vectors[k]))
            if k < K:
                V = torch.stack(vectors)
                V = torch.cat([V, times_i(V)]) if self._paired else V
                for _ in range(2):
                    w = w - (self._spread(self._dot(w, V).to(dtype)) * V).sum(0)
        scale = torch.where(usable, torch.ldexp(torch.ones_like(peak), power), 0)
        sqrt_beta[0] = (sqrt_beta[0] * scale).clamp(max=torch.finfo(dtype).max)
        return OptimalBasis(torch.stack(vectors), self._stacked(gamma), self._stacked(sqrt_beta), rank)

    def standard_layout(self, vectors: Tensor) -> Tensor:
        return vectors

    def combine(self, vectors: Tensor, alpha: Tensor) -> Tensor:
        return (self._spread(self._by_degree(alpha)) * vectors).sum(0)

    def optimal_adjoint(
        self, basis: OptimalBasis, alpha: Tensor, z_bar: Tensor, *, signal: bool = False
    ) -> tuple[Tensor, Tensor]:
        V, gamma, sqrt_beta, _ = basis
        gamma, sqrt_beta, alpha = self._by_degree(gamma), self._by_degree(sqrt_beta), self._by_degree(alpha)
        K, dtype = len(V) - 1, V.dtype
        inverse = torch.where(sqrt_beta > 0, 1 / torch.where(sqrt_beta > 0, sqrt_beta, 1), 0)
        g, b, r = (self._spread(numbers.to(dtype)) for numbers in (gamma, sqrt_beta, inverse))
        lam = self._spread(alpha) * z_bar  # ∂L/∂v_k, (K+1, N, d)
        for k in range(K - 1, -1, -1):
            # The adjoint of Gram-Schmidt against all of v_0, .., v_k. Orthogonalising u against v_k and v_{k+1} only is
            # equivalent in exact arithmetic but unstable.
            known = torch.cat([V[: k + 2], times_i(V[: k + 1])]) if self._paired else V[: k + 2]
            u, inner = lam[k + 1], gamma.new_zeros(len(known), *gamma.shape[1:])
            for _ in range(2):
                more = self._dot(u, known)
                u = u - (self._spread(more.to(dtype)) * known).sum(0)
                inner += more
            u = u * r[k + 1]
            lam[: k + 1] -= self._spread(inner[: k + 1].to(dtype)) * V[k + 1]
            if self._paired:  # the adjoint of multiplication by i is multiplication by -i
                lam[: k + 1] += self._spread(inner[k + 2 :].to(dtype)) * times_i(V[k + 1])
            lam[k] += self._matrix @ u - g[k] * u
            if k > 0:
                lam[k - 1] -= b[k] * u
        x_bar = (lam[0] - self._spread(self._dot(lam[0], V[0]).to(dtype)) * V[0]) * r[0]
        zeta = self._dot(z_bar, V)
        if signal:  # alpha is a multiple of |x|, whose gradient is v_0
            x_bar = x_bar + self._spread(((alpha.double() * zeta).sum(0) * inverse[0]).to(dtype)) * V[0]
        return x_bar, (zeta if self._ptr is None else zeta.movedim(0, 1)).to(dtype)

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
            bars.a[k] = _total_dot(p_lam, h[k]).to(a.dtype)
            bars.b[k] = _total_dot(lam, h[k]).to(a.dtype)
            if k > 0:
                bars.c[k] = _total_dot(lam, h[k - 1]).to(a.dtype)
            following = c[k + 1] * lam_next if k + 1 < K else 0
            lam, lam_next = alpha[k] * z_bar + a[k] * p_lam + b[k] * lam + following, lam
        bars.s.copy_(torch.where(s != 0, _total_dot(lam, h[0]).to(a.dtype) / torch.where(s != 0, s, 1), 0))
        return s * lam, _total_dot(z_bar, h).to(a.dtype), bars

    # The inner products are those of each graph: (d,) per vector for one graph, (G, d) for a batch.

    def _dot(self, u: Tensor, v: Tensor) -> Tensor:
        """Returns the inner products of the channels of (..., N, d) arrays, in float64."""
        if self._ptr is None:
            return _total_dot(u, v)
        products = u.double() * v
        sums = products.new_zeros(*products.shape[:-2], len(self._sizes), products.shape[-1])
        return sums.index_add(products.dim() - 2, self._graph_of, products)

    def _spread(self, numbers: Tensor) -> Tensor:
        """Repeats a number of each graph and channel for its nodes: (.., d) to (.., 1, d), (.., G, d) to (.., N, d)."""
        return numbers.unsqueeze(-2) if self._ptr is None else numbers.index_select(-2, self._graph_of)

    def _stacked(self, numbers: list[Tensor]) -> Tensor:
        return torch.stack(numbers, dim=0 if self._ptr is None else 1)

    def _by_degree(self, numbers: Tensor) -> Tensor:
        """Moves the degree of numbers in the format of :class:`OptimalBasis` to the front: (K+1, d) or (K+1, G, d)."""
        if self._ptr is None:
            return numbers
        if numbers.dim() == 2:  # the same for all graphs
            return numbers.unsqueeze(1).expand(-1, len(self._sizes), -1)
        return numbers.movedim(1, 0)


def times_i(x: Tensor) -> Tensor:
    """Multiplies complex numbers, whose parts are in rows 2i and 2i + 1 of (..., 2N, d), by the imaginary unit."""
    parts = x.reshape(*x.shape[:-2], -1, 2, x.shape[-1])
    return torch.stack((-parts[..., 1, :], parts[..., 0, :]), dim=-2).reshape(x.shape)


def _total_dot(u: Tensor, v: Tensor) -> Tensor:
    return (u.double() * v).sum(dim=-2)
