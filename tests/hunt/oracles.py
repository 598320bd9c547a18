"""Expected results from independent methods: eigendecompositions and 90-digit arithmetic."""

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
Digits = NDArray[Any]  # an object array of gmpy2.mpfr

BITS = 300
ENDED = 1e-40  # a residual below this share of the largest one is zero in exact arithmetic


# ---- eigendecomposition --------------------------------------------------------------------------------------------


class Spectrum(NamedTuple):
    """P = U diag(mu) U^T in float64."""

    mu: Vector
    U: NDArray[np.float64]

    @classmethod
    def of(cls, graph: pb.Graph) -> Spectrum:
        """From the definition of P."""
        adjacency = graph.adjacency().toarray()
        degree = adjacency.sum(1)
        scale = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
        return cls(*np.linalg.eigh(scale[:, None] * adjacency * scale))

    @classmethod
    def of_rounded(cls, graph: pb.Graph, dtype: torch.dtype) -> Spectrum:
        """Of P with its entries rounded to a data type, as the kernels read it."""
        P = graph.matrix(dtype).to_dense().double().numpy()
        return cls(*np.linalg.eigh((P + P.T) / 2))

    def touched(self, x: Vector, *, gap: float, share: float) -> int:
        """The number of distinct eigenvalues in the signal: the dimension of its Krylov space.

        Args:
            x: the signal.
            gap: eigenvalues that differ by no more are the same.
            share: an eigenspace counts where it holds more than this share of ‖x‖.
        """
        peak = np.abs(x).max(initial=0)
        if peak == 0:
            return 0
        y = (self.U.T @ (x / peak)) ** 2
        starts = np.flatnonzero(np.diff(self.mu, prepend=-np.inf) > gap)
        return int((np.add.reduceat(y, starts) > share**2 * y.sum()).sum())

    def filtered(self, x: Vector, response: NDArray[np.float64]) -> NDArray[np.float64]:
        """p_k(P) x, (K+1, N), from the values of p_k at the eigenvalues, (K+1, N)."""
        return (response * (self.U.T @ x)) @ self.U.T


# ---- polynomials by closed forms -----------------------------------------------------------------------------------


class Polynomials(NamedTuple):
    """A basis of the package and the same polynomials by another formula."""

    basis: pb.bases.PolynomialBasis
    values: Callable[[Vector], NDArray[np.float64]]  # mu -> (K+1, len(mu))


def polynomials(K: int, seed: int) -> dict[str, Polynomials]:
    """Every basis at degree K; exponents and recurrences that a basis leaves open come from the seed."""
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


# ---- exact arithmetic ----------------------------------------------------------------------------------------------


class Matrix(NamedTuple):
    """A sparse symmetric matrix in compressed rows with many digits."""

    starts: NDArray[np.int64]
    rows: NDArray[np.int64]  # those with a nonzero
    indices: NDArray[np.int64]
    values: Digits
    nodes: int

    def __matmul__(self, v: Digits) -> Digits:  # type: ignore[override]
        product = np.full(self.nodes, gmpy2.mpfr(0), dtype=object)
        if len(self.rows):
            product[self.rows] = np.add.reduceat(self.values * v[self.indices], self.starts)
        return product


def digits(numbers: Vector | Digits) -> Digits:
    return np.array([gmpy2.mpfr(number) for number in numbers.ravel().tolist()], dtype=object).reshape(numbers.shape)


def _matrix(graph: pb.Graph, values: Digits) -> Matrix:
    indptr, indices = graph.indptr.numpy().astype(np.int64), graph.indices.numpy().astype(np.int64)
    rows = np.flatnonzero(np.diff(indptr))
    return Matrix(indptr[rows], rows, indices, values, graph.num_nodes)


def exact_matrix(graph: pb.Graph) -> Matrix:
    """P from the weights in 300-bit arithmetic, so that equal eigenvalues stay equal."""
    with gmpy2.context(precision=BITS):
        adjacency = _matrix(graph, digits(graph.adjacency().data))
        degree = adjacency @ np.full(graph.num_nodes, gmpy2.mpfr(1), dtype=object)
        scale = np.array([1 / gmpy2.sqrt(d) if d > 0 else d for d in degree], dtype=object)
        rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr.numpy()))
        return adjacency._replace(values=adjacency.values * scale[rows] * scale[adjacency.indices])


def rounded_matrix(graph: pb.Graph, dtype: torch.dtype) -> Matrix:
    """P rounded to a data type, symmetric to the last digit."""
    values = graph.values(dtype).double().numpy()
    rounded = scipy.sparse.csr_array((values, graph.indices.numpy(), graph.indptr.numpy()), (graph.num_nodes,) * 2)
    with gmpy2.context(precision=BITS):
        return _matrix(graph, (digits(values) + digits(rounded.T.tocsr().data)) / 2)


class Exact(NamedTuple):
    """z = sum_k alpha_k v_k and the gradient of <z_bar, z>."""

    z: Vector  # (N,)
    x_bar: Vector  # (N,)
    alpha_bar: Vector  # (K+1,)
    sqrt_beta: Vector  # (rank + 1,): ‖x‖ and the lengths of the residuals, the one after the last vector too
    rank: int


def exact_filter(P: Matrix, x: Vector | Digits, alpha: Vector, z_bar: Vector) -> Exact:
    """Lanczos with full orthogonalisation, ended where the residual is zero, and its gradient.

    Args:
        P: the matrix.
        x, z_bar: (N,).
        alpha: (K+1,).
    """
    return noisy_filter(P, x, alpha, z_bar, 0 * np.outer(alpha, z_bar), len(alpha))


def noisy_filter(P: Matrix, x: Vector | Digits, alpha: Vector, z_bar: Vector, noise: Vector, most: int) -> Exact:
    """As :func:`exact_filter` with given errors in the products, ended at a rank of ``most`` at the latest.

    Step k is ``w = P v_k + noise_k``, ``u = w - sum_j h_j v_j`` with ``h_j = <w, v_j>`` over all j <= k, and
    ``v_{k+1} = u / ‖u‖``. The gradient is that of these steps by reverse-mode differentiation.

    Args:
        noise: (K+1, N).
    """
    with gmpy2.context(precision=BITS):
        return _noisy_filter(P, *(digits(numbers) for numbers in (x, alpha, z_bar, noise)), most)


def _noisy_filter(P: Matrix, x: Digits, alpha: Digits, z_bar: Digits, noise: Digits, most: int) -> Exact:
    V, W = np.full((2, *noise.shape), gmpy2.mpfr(0), dtype=object)  # v_k and P v_k
    H = np.full((len(alpha), len(alpha)), gmpy2.mpfr(0), dtype=object)  # H[k, j] = <P v_k, v_j>
    u, beta, least = x, [gmpy2.sqrt(x @ x)], 0
    rank = 0
    while rank < most and beta[rank] > least:
        V[rank] = u / beta[rank]
        W[rank] = P @ V[rank] + noise[rank]
        u = W[rank]
        for _ in range(2):  # one pass loses digits at every short residual
            inner = V[: rank + 1] @ u
            H[rank, : rank + 1] += inner
            u = u - inner @ V[: rank + 1]
        beta.append(gmpy2.sqrt(u @ u))
        rank += 1
        least = ENDED * max(beta[1:rank], default=1)

    lam = alpha[:, None] * z_bar  # dL/dv_k
    for k in range(rank - 2, -1, -1):
        v, before = V[k + 1], V[: k + 1]
        u_bar = (lam[k + 1] - (lam[k + 1] @ v) * v) / beta[k + 1]
        c = before @ u_bar
        lam[: k + 1] -= c[:, None] * W[k] + H[k, : k + 1, None] * u_bar
        lam[k] += P @ (u_bar - c @ before)
    x_bar = (lam[0] - (lam[0] @ V[0]) * V[0]) / beta[0] if rank else 0 * x
    return Exact(*(_floats(y) for y in (alpha @ V, x_bar, V @ z_bar, np.array(beta, dtype=object))), rank)


def _floats(numbers: Digits) -> Vector:
    return numbers.astype(np.float64)


# ---- how much of a gradient a data type can know -------------------------------------------------------------------


def gradient_error(x_bar: Vector, alpha_bar: Vector, exact: Exact, x: Vector, alpha: Vector, z_bar: Vector) -> float:
    """The largest wrong entry relative to the largest entry, of both gradients.

    A gradient that vanishes (one node) is compared with a thousandth of ``max|alpha| max|z_bar| / ‖x‖``.
    """
    length = math.sqrt(float(((x / (peak := np.abs(x).max(initial=0) or 1)) ** 2).sum())) * peak
    natural = 1e-3 * np.abs(alpha).max() * np.abs(z_bar).max()
    errors = []
    for got, expected, least in (
        (x_bar, exact.x_bar, natural / length if length else 1),
        (alpha_bar, exact.alpha_bar, natural),
    ):
        scale = max(float(np.abs(expected).max(initial=0)), float(least))
        errors.append(float(np.abs(got / scale - expected / scale).max(initial=0)))
    return math.nan if any(math.isnan(error) for error in errors) else max(errors)


class Sensitivity(NamedTuple):
    """What errors that are unavoidable in a data type do to the exact result."""

    gradient: float  # how far the gradient moves, as by gradient_error
    end: float  # where the basis ends below K+1, the residual that is left there, as a share of the largest


def sensitivity(
    graph: pb.Graph, exact: Exact, x: Vector, alpha: Vector, z_bar: Vector, dtype: torch.dtype
) -> Sensitivity:
    """Errors of a random unit, 1e-7 (float32) or 1e-16 (float64), in exact arithmetic.

    First the signal moves by a unit of ‖x‖. Then the entries of P are rounded and every product P v_k moves by a unit,
    with the basis ended at the same rank: where eigenvalues repeat, such errors leave the Krylov space and grow, which
    no change of x shows. The gradient moves without limit where a residual is no longer than rounding errors are.
    """
    unit = 1e-7 if dtype == torch.float32 else 1e-16
    noise = np.random.default_rng(len(x)).standard_normal((len(alpha) + 1, len(x)))
    noise *= unit / np.linalg.norm(noise, axis=1, keepdims=True)
    noisy = noisy_filter(rounded_matrix(graph, dtype), x, alpha, z_bar, noise[:-1], exact.rank)
    lengths = noisy.sqrt_beta[1:]
    end = float(lengths[-1] / lengths.max()) if 1 < exact.rank < len(alpha) else 0.0
    if (exact.sqrt_beta[1 : exact.rank] < 64 * torch.finfo(dtype).eps).any():
        return Sensitivity(math.inf, end)
    with gmpy2.context(precision=BITS):  # float64 does not resolve 1e-16
        moved = digits(x)
        moved = moved + gmpy2.sqrt(moved @ moved) * digits(noise[-1])
    runs = (noisy, exact_filter(exact_matrix(graph), moved, alpha, z_bar))
    return Sensitivity(max(gradient_error(run.x_bar, run.alpha_bar, exact, x, alpha, z_bar) for run in runs), end)
