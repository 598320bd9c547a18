"""Expected results from independent methods: eigendecompositions and 300-bit (90-digit) arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import gmpy2
import numpy as np
import scipy.sparse
import scipy.special
import torch
from numpy.typing import NDArray

import polybasis as pb

Vector = NDArray[np.float64]
Multiprecision = NDArray[Any]  # object array of gmpy2.mpfr

BITS = 300
ZERO_RESIDUAL = 1e-40  # relative to the largest residual; smaller ones are zero in exact arithmetic


# ---- eigendecomposition --------------------------------------------------------------------------------------------


class Spectrum(NamedTuple):
    """P = U diag(mu) U^T in float64."""

    mu: Vector
    U: NDArray[np.float64]

    @classmethod
    def of(cls, graph: pb.Graph) -> Spectrum:
        """Decomposes D^-1/2 A D^-1/2, computed from the adjacency matrix in float64."""
        adjacency = graph.adjacency().toarray()
        degree = adjacency.sum(1)
        scale = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
        return cls(*np.linalg.eigh(scale[:, None] * adjacency * scale))

    @classmethod
    def of_rounded(cls, graph: pb.Graph, dtype: torch.dtype) -> Spectrum:
        """Decomposes P with its entries rounded to a data type, as the kernels read it."""
        P = graph.matrix(dtype).to_dense().double().numpy()
        return cls(*np.linalg.eigh((P + P.T) / 2))

    def krylov_dimension(self, x: Vector, *, gap: float, tolerance: float) -> int:
        """Counts the distinct eigenvalues whose eigenspaces the signal is not orthogonal to.

        Args:
            x: the signal, (N,).
            gap: eigenvalues that differ by at most this are considered equal.
            tolerance: components of the signal of at most this norm, relative to ‖x‖, are considered zero.
        """
        peak = np.abs(x).max(initial=0)
        if peak == 0:
            return 0
        y = (self.U.T @ (x / peak)) ** 2
        starts = np.flatnonzero(np.diff(self.mu, prepend=-np.inf) > gap)
        return int((np.add.reduceat(y, starts) > tolerance**2 * y.sum()).sum())

    def filtered(self, x: Vector, response: NDArray[np.float64]) -> NDArray[np.float64]:
        """Computes p_k(P) x, (K+1, N), from the values of p_k at the eigenvalues, (K+1, N)."""
        return (response * (self.U.T @ x)) @ self.U.T


# ---- polynomials in closed form ------------------------------------------------------------------------------------


class Polynomials(NamedTuple):
    """A basis of the package and an independent evaluation of the same polynomials."""

    basis: pb.bases.PolynomialBasis
    values: Callable[[Vector], NDArray[np.float64]]  # mu -> (K+1, len(mu))


def polynomials(K: int, seed: int) -> dict[str, Polynomials]:
    """Returns every basis at degree K; Jacobi exponents and the Favard recurrence are drawn with the seed."""
    rng = np.random.default_rng([seed, 7])
    a, b = rng.uniform(-0.9, 2, 2)
    favard = pb.bases.Favard.from_moments(torch.from_numpy(rng.uniform(0.2, 0.8, 2 * K)))
    k = np.arange(K + 1)[:, None]

    def interpolation(mu: Vector) -> NDArray[np.float64]:
        points = np.cos((np.arange(K + 1) + 0.5) * np.pi / (K + 1))
        others = [np.delete(points, j) for j in range(K + 1)]
        return np.stack(
            [((mu[:, None] - other) / (point - other)).prod(1) for point, other in zip(points, others, strict=True)]
        )

    def recurrence(mu: Vector) -> NDArray[np.float64]:
        gamma, sqrt_beta = favard.gamma.numpy(), favard.sqrt_beta.numpy()
        values = [np.zeros_like(mu), np.full_like(mu, 1 / sqrt_beta[0])]
        for j in range(K):
            values.append(((mu - gamma[j]) * values[-1] - sqrt_beta[j] * values[-2]) / sqrt_beta[j + 1])
        return np.stack(values[1:])

    return {
        "monomial": Polynomials(pb.bases.Monomial(), lambda mu: mu**k),
        "chebyshev": Polynomials(pb.bases.Chebyshev(), lambda mu: scipy.special.eval_chebyt(k, mu)),
        "interpolation": Polynomials(pb.bases.ChebyshevInterpolation(), interpolation),
        "bernstein": Polynomials(
            pb.bases.Bernstein(K),
            lambda mu: scipy.special.comb(K, k) * ((1 + mu) / 2) ** (K - k) * ((1 - mu) / 2) ** k,
        ),
        "jacobi": Polynomials(pb.bases.Jacobi(a, b), lambda mu: scipy.special.eval_jacobi(k, a, b, mu)),
        "legendre": Polynomials(pb.bases.Legendre(), lambda mu: scipy.special.eval_legendre(k, mu)),
        "favard": Polynomials(favard, recurrence),
    }


# ---- multiple-precision arithmetic ---------------------------------------------------------------------------------


class Matrix(NamedTuple):
    """A sparse symmetric matrix in CSR format with multiple-precision values; empty rows are omitted."""

    starts: NDArray[np.int64]  # first nonzero of each row in ``rows``
    rows: NDArray[np.int64]  # rows with nonzeros
    indices: NDArray[np.int64]
    values: Multiprecision
    nodes: int

    def __matmul__(self, v: Multiprecision) -> Multiprecision:  # type: ignore[override]
        product = np.full(self.nodes, gmpy2.mpfr(0), dtype=object)
        if len(self.rows):
            product[self.rows] = np.add.reduceat(self.values * v[self.indices], self.starts)
        return product


def multiprecision(values: Vector | Multiprecision) -> Multiprecision:
    """Converts an array to the precision of the current gmpy2 context."""
    return np.array([gmpy2.mpfr(value) for value in values.ravel().tolist()], dtype=object).reshape(values.shape)


def _matrix(graph: pb.Graph, values: Multiprecision) -> Matrix:
    indptr, indices = graph.indptr.numpy().astype(np.int64), graph.indices.numpy().astype(np.int64)
    rows = np.flatnonzero(np.diff(indptr))
    return Matrix(indptr[rows], rows, indices, values, graph.num_nodes)


def exact_matrix(graph: pb.Graph) -> Matrix:
    """Computes P from the edge weights in 300-bit arithmetic, which keeps repeated eigenvalues equal."""
    with gmpy2.context(precision=BITS):
        adjacency = _matrix(graph, multiprecision(graph.adjacency().data))
        degree = adjacency @ np.full(graph.num_nodes, gmpy2.mpfr(1), dtype=object)
        scale = np.array([1 / gmpy2.sqrt(d) if d > 0 else d for d in degree], dtype=object)
        rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr.numpy()))
        return adjacency._replace(values=adjacency.values * scale[rows] * scale[adjacency.indices])


def rounded_matrix(graph: pb.Graph, dtype: torch.dtype) -> Matrix:
    """Rounds P to a data type and averages it with its transpose, so that it is exactly symmetric."""
    values = graph.values(dtype).double().numpy()
    rounded = scipy.sparse.csr_array((values, graph.indices.numpy(), graph.indptr.numpy()), (graph.num_nodes,) * 2)
    with gmpy2.context(precision=BITS):
        return _matrix(graph, (multiprecision(values) + multiprecision(rounded.T.tocsr().data)) / 2)


class Exact(NamedTuple):
    """The filter z = sum_k alpha_k v_k and the gradient of <z_bar, z>."""

    z: Vector  # (N,)
    x_bar: Vector  # (N,)
    alpha_bar: Vector  # (K+1,)
    sqrt_beta: Vector  # (rank + 1,): ‖x‖ and the norms of the residuals, including the one after the last vector
    rank: int


def exact_filter(P: Matrix, x: Vector | Multiprecision, alpha: Vector, z_bar: Vector) -> Exact:
    """Runs Lanczos with full orthogonalisation until the residual is zero, and differentiates it.

    Args:
        P: the matrix, (N, N).
        x: the signal, (N,).
        alpha: coefficients, (K+1,).
        z_bar: gradient with respect to the output, (N,).
    """
    return noisy_filter(P, x, alpha, z_bar, 0 * np.outer(alpha, z_bar), len(alpha))


def noisy_filter(
    P: Matrix, x: Vector | Multiprecision, alpha: Vector, z_bar: Vector, noise: Vector, max_rank: int
) -> Exact:
    """Runs :func:`exact_filter` with given errors in the products and an upper bound on the rank.

    Step k is ``w = P v_k + noise_k``, ``u = w - sum_j h_j v_j`` with ``h_j = <w, v_j>`` over all j <= k, and
    ``v_{k+1} = u / ‖u‖``. The gradient follows by reverse-mode differentiation of these steps.

    Args:
        P, x, alpha, z_bar: as in :func:`exact_filter`.
        noise: errors of the products P v_k, (K+1, N).
        max_rank: maximum number of basis vectors.
    """
    with gmpy2.context(precision=BITS):
        return _noisy_filter(P, *(multiprecision(values) for values in (x, alpha, z_bar, noise)), max_rank)


def _noisy_filter(
    P: Matrix, x: Multiprecision, alpha: Multiprecision, z_bar: Multiprecision, noise: Multiprecision, max_rank: int
) -> Exact:
    V, W = np.full((2, *noise.shape), gmpy2.mpfr(0), dtype=object)  # v_k and P v_k
    H = np.full((len(alpha), len(alpha)), gmpy2.mpfr(0), dtype=object)  # H[k, j] = <P v_k, v_j>
    u, beta, threshold = x, [gmpy2.sqrt(x @ x)], 0
    rank = 0
    while rank < max_rank and beta[rank] > threshold:
        V[rank] = u / beta[rank]
        W[rank] = P @ V[rank] + noise[rank]
        u = W[rank]
        for _ in range(2):  # a single pass loses digits whenever the residual is short
            inner = V[: rank + 1] @ u
            H[rank, : rank + 1] += inner
            u = u - inner @ V[: rank + 1]
        beta.append(gmpy2.sqrt(u @ u))
        rank += 1
        threshold = ZERO_RESIDUAL * max(beta[1:rank], default=1)

    lam = alpha[:, None] * z_bar  # dL/dv_k
    for k in range(rank - 2, -1, -1):
        v, previous = V[k + 1], V[: k + 1]
        u_bar = (lam[k + 1] - (lam[k + 1] @ v) * v) / beta[k + 1]
        c = previous @ u_bar
        lam[: k + 1] -= c[:, None] * W[k] + H[k, : k + 1, None] * u_bar
        lam[k] += P @ (u_bar - c @ previous)
    x_bar = (lam[0] - (lam[0] @ V[0]) * V[0]) / beta[0] if rank else 0 * x
    return Exact(*(_floats(y) for y in (alpha @ V, x_bar, V @ z_bar, np.array(beta, dtype=object))), rank)


def _floats(values: Multiprecision) -> Vector:
    return values.astype(np.float64)


# ---- conditioning of the gradient ----------------------------------------------------------------------------------


def gradient_error(x_bar: Vector, alpha_bar: Vector, exact: Exact, x: Vector, alpha: Vector, z_bar: Vector) -> float:
    """Computes the largest absolute error relative to the largest entry, over both gradients.

    The denominator is at least ``1e-3 max|alpha| max|z_bar|``, divided by ‖x‖ for x_bar, because a gradient may vanish
    (for example on a graph with one node).
    """
    length = math.sqrt(float(((x / (peak := np.abs(x).max(initial=0) or 1)) ** 2).sum())) * peak
    natural = 1e-3 * np.abs(alpha).max() * np.abs(z_bar).max()
    errors = []
    for got, expected, floor in (
        (x_bar, exact.x_bar, natural / length if length else 1),
        (alpha_bar, exact.alpha_bar, natural),
    ):
        scale = max(float(np.abs(expected).max(initial=0)), float(floor))
        errors.append(float(np.abs(got / scale - expected / scale).max(initial=0)))
    return math.nan if any(math.isnan(error) for error in errors) else max(errors)


class Sensitivity(NamedTuple):
    """Effect of the unavoidable rounding errors of a data type on the exact result."""

    gradient: float  # change of the gradient, measured by gradient_error
    end: float  # residual after the last vector relative to the largest one, if the rank is below K+1; else 0


def sensitivity(
    graph: pb.Graph, exact: Exact, x: Vector, alpha: Vector, z_bar: Vector, dtype: torch.dtype
) -> Sensitivity:
    """Perturbs the exact computation by random errors of relative size 1e-7 (float32) or 1e-16 (float64).

    One run perturbs the signal. Another rounds the entries of P and perturbs every product P v_k, at the same rank: if
    eigenvalues repeat, such errors leave the Krylov space and grow, which no perturbation of x reveals. The gradient's
    sensitivity is infinite if a residual is as short as rounding errors.
    """
    unit = 1e-7 if dtype == torch.float32 else 1e-16
    noise = np.random.default_rng(len(x)).standard_normal((len(alpha) + 1, len(x)))
    noise *= unit / np.linalg.norm(noise, axis=1, keepdims=True)
    noisy = noisy_filter(rounded_matrix(graph, dtype), x, alpha, z_bar, noise[:-1], exact.rank)
    residuals = noisy.sqrt_beta[1:]
    end = float(residuals[-1] / residuals.max()) if 1 < exact.rank < len(alpha) else 0.0
    if (exact.sqrt_beta[1 : exact.rank] < 64 * torch.finfo(dtype).eps).any():
        return Sensitivity(math.inf, end)
    with gmpy2.context(precision=BITS):  # float64 does not resolve 1e-16
        perturbed = multiprecision(x)
        perturbed = perturbed + gmpy2.sqrt(perturbed @ perturbed) * multiprecision(noise[-1])
    runs = (noisy, exact_filter(exact_matrix(graph), perturbed, alpha, z_bar))
    return Sensitivity(max(gradient_error(run.x_bar, run.alpha_bar, exact, x, alpha, z_bar) for run in runs), end)
