r"""Propagation operators P of a graph, and the real symmetric matrices by which the kernels apply their polynomials.

Kernels see real symmetric matrices only. Every operator P here has a *symmetric form*: a real symmetric matrix M and an
invertible map B of signals with

.. math:: p(P)\, x = B^{-1}\, p(M)\, B\, x \quad \text{for all polynomials } p.

The Krylov vectors of M for B x are the images of those of P for x, so M and P have the same coefficients
:math:`\gamma` and :math:`\beta`.

================== ============================================= ===========================================
normalization      P                                             B x
================== ============================================= ===========================================
``"sym"``          :math:`D^{-1/2} A D^{-1/2}`                   x
``"rw"``           :math:`D^{-1} A`                              :math:`D^{1/2} x`
``"laplacian"``    :math:`I - 2 (D - A) / \lambda_{\max}`        x
``None``           :math:`A / \lambda_{\max}`                    x
================== ============================================= ===========================================

In a directed graph, A is replaced by the Hermitian matrix of :func:`hermitian_adjacency`, and B also replaces each
complex number by its real and imaginary parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polybasis.adjacency import FloatArray, IntArray
from polybasis.matrix import Matrix, SparseOperator

Normalization = Literal["sym", "rw", "laplacian"]

PROBES = 4  # random signals of the Lanczos process for the largest eigenvalue
MAX_STEPS, STEPS_PER_CHECK = 128, 16
TOLERANCE = 1e-7  # of the largest eigenvalue, relative
_INT32_MAX = 2**31 - 1


class OperatorArguments(TypedDict, total=False):
    """The arguments of all constructors of graphs that choose the operator; see ``Graph.from_edge_index``."""

    normalization: Normalization | None
    lambda_max: float | ArrayLike | None
    q: float


@dataclass(frozen=True)
class SymmetricForm:
    """The symmetric form of an operator P on N nodes.

    Attributes:
        matrix: M in float64, with N rows, or 2N for a directed graph; None for the matrix of ``"sym"``.
        scale: The factor of each node's signal, (N, 1), float64, or None for 1.
        is_complex: Whether signals are complex. Node i then has the rows 2i (real part) and 2i + 1 (imaginary part),
            so that the graphs of a batch remain contiguous.
    """

    matrix: Matrix | None = None
    scale: Tensor | None = None
    is_complex: bool = False

    def apply(self, x: Tensor) -> Tensor:
        """Returns B x for a signal, (..., N, d): (..., N, d), or (..., 2N, d) for a directed graph."""
        if self.scale is not None:
            x = x * self.scale.to(x.device, x.real.dtype)
        if not self.is_complex:
            return x
        parts = (x.real, x.imag) if x.is_complex() else (x, torch.zeros_like(x))
        return torch.stack(parts, dim=-2).flatten(-3, -2)

    def invert(self, y: Tensor) -> Tensor:
        """Undoes :meth:`apply`."""
        if self.is_complex:
            parts = y.reshape(*y.shape[:-2], y.shape[-2] // 2, 2, y.shape[-1])
            y = torch.complex(parts[..., 0, :], parts[..., 1, :])
        return y if self.scale is None else y / self.scale.to(y.device, y.real.dtype)


# ---- scaled operators ----------------------------------------------------------------------------------------------


def symmetric_form(
    normalization: Normalization | None,
    adjacency: sp.csr_array,
    degree: FloatArray,
    turns: FloatArray | None,
    lambda_max: float | ArrayLike | None,
    ptr: IntArray | None,
) -> tuple[SymmetricForm, FloatArray | None]:
    r"""Returns the symmetric form of an operator other than that of ``"sym"`` on an undirected graph.

    Args:
        normalization: The operator; see the table of this module.
        adjacency: The symmetric adjacency matrix A, N rows; :math:`D^{-1/2} A D^{-1/2}` for ``"sym"`` and ``"rw"``.
        degree: The row sums of A, (N,).
        turns: The phase of each nonzero of a directed graph; see :func:`hermitian_adjacency`.
        lambda_max: The largest absolute eigenvalue of the Laplacian or adjacency matrix, or an upper bound of it: one
            number, or one per graph of the batch; by default :func:`largest_eigenvalue`.
        ptr: The first node of each graph of a batch, followed by N, (G+1,).

    Returns:
        The form, and the largest eigenvalue of each graph, (G,), if the normalisation uses it.

    Raises:
        ValueError: If ``lambda_max`` is below a lower bound of the largest eigenvalue.
    """
    if not np.isfinite(degree).all():
        raise ValueError("the sum of a node's edge weights exceeds the range of float64; divide the weights by 1e300")
    scale = None
    if normalization == "rw":
        scale = torch.from_numpy(np.sqrt(np.where(degree > 0, degree, 1.0))).unsqueeze(1)
        if turns is None:
            return SymmetricForm(scale=scale), None
    ptr = np.array([0, len(degree)]) if ptr is None else ptr
    if turns is not None:
        adjacency, degree, ptr = hermitian_adjacency(adjacency, turns), degree.repeat(2), 2 * ptr
    eigenvalue = None
    if normalization == "laplacian":
        adjacency, eigenvalue = scaled_laplacian(adjacency, degree, lambda_max, ptr)
    elif normalization is None:
        adjacency, eigenvalue = scaled_adjacency(adjacency, lambda_max, ptr)
    return SymmetricForm(Matrix(*csr_tensors(adjacency), None), scale, turns is not None), eigenvalue


def check_operator(normalization: str | None, lambda_max: float | ArrayLike | None, q: float) -> None:
    """Checks the arguments that choose an operator.

    Raises:
        ValueError: If the normalisation is unknown, or a number is invalid or not used.
    """
    if normalization is not None and normalization not in get_args(Normalization):
        raise ValueError(
            f"normalization is {normalization!r}; expected one of {', '.join(get_args(Normalization))} or None"
        )
    if lambda_max is not None and normalization in ("sym", "rw"):
        raise ValueError(f"lambda_max is not used with normalization={normalization!r}; omit it")
    if lambda_max is not None and not np.all((np.asarray(lambda_max) > 0) & np.isfinite(lambda_max)):
        raise ValueError(f"lambda_max is {lambda_max!r}; expected a positive number")
    if not np.isfinite(q):
        raise ValueError(f"q is {q!r}; expected a finite number such as 0.25")


def hermitian_adjacency(magnitude: sp.csr_array, turns: FloatArray) -> sp.csr_array:
    r"""Returns the matrix with the given absolute values and phases, embedded in real numbers.

    An entry :math:`a + ib` becomes the block :math:`\begin{pmatrix} a & -b \\ b & a \end{pmatrix}`, so a Hermitian
    matrix becomes a symmetric one. The block of a quarter turn has exact zeros, which are not stored.

    Args:
        magnitude: A symmetric CSR matrix, N rows.
        turns: The phase of each nonzero in turns, that is, multiples of :math:`2\pi`; antisymmetric.

    Returns:
        A symmetric CSR matrix, 2N rows.

    >>> import numpy as np, scipy.sparse as sp
    >>> hermitian_adjacency(sp.csr_array([[0.0, 2.0], [2.0, 0.0]]), np.array([0.25, -0.25])).toarray()
    array([[ 0.,  0.,  0., -2.],
           [ 0.,  0.,  2.,  0.],
           [ 0.,  2.,  0.,  0.],
           [-2.,  0.,  0.,  0.]])
    """
    quarters = np.round(4 * turns)
    rest = 2 * np.pi * (turns - quarters / 4)
    cos, sin = np.cos(rest), np.sin(rest)
    quarter = np.mod(quarters, 4).astype(np.int64)
    real = np.choose(quarter, [cos, -sin, -cos, sin]) * magnitude.data
    imaginary = np.choose(quarter, [sin, cos, -sin, -cos]) * magnitude.data
    one, i = sp.csr_array([[1.0, 0.0], [0.0, 1.0]]), sp.csr_array([[0.0, -1.0], [1.0, 0.0]])
    parts = (sp.kron(_csr(real, magnitude), one, format="csr"), sp.kron(_csr(imaginary, magnitude), i, format="csr"))
    return _tidy(parts[0] + parts[1])


def complex_matrix(embedded: sp.csr_array) -> sp.csr_array:
    """Returns the complex matrix of an embedded one; see :func:`hermitian_adjacency`."""
    return sp.csr_array(embedded[0::2, 0::2] + 1j * embedded[1::2, 0::2])


def scaled_laplacian(
    adjacency: sp.csr_array, degree: FloatArray, lambda_max: float | ArrayLike | None, ptr: IntArray
) -> tuple[sp.csr_array, FloatArray]:
    r"""Returns :math:`I - 2 (D - A) / \lambda_{\max}`, whose eigenvalue 1 has the lowest frequency.

    A graph without edges has :math:`P = I`. Self-loops cancel in :math:`D - A`.

    Args:
        adjacency: A, symmetric, or its embedding.
        degree: The sum of the absolute values of each row of A as a complex matrix, repeated for both of its rows.
        lambda_max: See :func:`scaled_adjacency`.
        ptr: The first row of each graph of a batch, followed by the number of rows, (G+1,).

    Returns:
        The matrix, and the largest eigenvalue of each graph, (G,).
    """
    laplacian = _tidy(sp.diags_array(degree, format="csr") - adjacency)
    eigenvalue, factor = _scaling(laplacian, "Laplacian", lambda_max, ptr, both_ends=False)
    return _tidy(sp.eye_array(len(degree), format="csr") - _times_rows(laplacian, 2 * factor)), eigenvalue


def scaled_adjacency(
    adjacency: sp.csr_array, lambda_max: float | ArrayLike | None, ptr: IntArray
) -> tuple[sp.csr_array, FloatArray]:
    r"""Returns :math:`A / \lambda_{\max}`; zero for a graph without edges.

    Args:
        adjacency: A, symmetric, or its embedding.
        lambda_max: The largest absolute eigenvalue of every graph, or an upper bound of it; by default
            :func:`largest_eigenvalue` of each graph.
        ptr: See :func:`scaled_laplacian`.

    Returns:
        The matrix, and the largest absolute eigenvalue of each graph, (G,).
    """
    eigenvalue, factor = _scaling(adjacency, "adjacency matrix", lambda_max, ptr, both_ends=True)
    return _times_rows(adjacency, factor), eigenvalue


def _scaling(
    matrix: sp.csr_array, name: str, lambda_max: float | ArrayLike | None, ptr: IntArray, *, both_ends: bool
) -> tuple[FloatArray, FloatArray]:
    """Returns the largest eigenvalue of each graph, and its inverse for each row."""
    # Squares of entries do not overflow relative to a power of two, which rounds nothing.
    unit = float(2.0 ** np.frexp(np.abs(matrix.data).max(initial=0.0))[1])
    relative = _csr(matrix.data / unit, matrix)
    if lambda_max is None:
        eigenvalue = largest_eigenvalue(relative, ptr, both_ends=both_ends) * unit
    else:
        given = np.asarray(lambda_max, dtype=np.float64)
        if given.shape not in ((), (len(ptr) - 1,)):
            raise ValueError(f"lambda_max has shape {given.shape}; expected a number, or one per graph of a batch")
        eigenvalue = np.broadcast_to(given, (len(ptr) - 1,)).copy()
        # The norm of a column is at most the largest absolute eigenvalue.
        smallest = _graph_maxima(np.sqrt(relative.multiply(relative).sum(1)), ptr) * unit
        low = np.flatnonzero(eigenvalue < smallest * (1 - 1e-6))
        if len(low):
            raise ValueError(
                f"lambda_max is {eigenvalue[low[0]]:g}, but the {name} has an eigenvalue of at least "
                f"{smallest[low[0]]:g}; pass an upper bound of its eigenvalues, or omit lambda_max"
            )
    inverse = np.divide(1.0, eigenvalue, out=np.zeros_like(eigenvalue), where=eigenvalue > 0)
    return eigenvalue, np.repeat(inverse, np.diff(ptr))


def _times_rows(matrix: sp.csr_array, factor: FloatArray) -> sp.csr_array:
    """Multiplies the rows of a matrix; the result is symmetric because the factor is constant on each graph."""
    return _csr(matrix.data * np.repeat(factor, np.diff(matrix.indptr)), matrix)


def _csr(values: FloatArray, pattern: sp.csr_array) -> sp.csr_array:
    return sp.csr_array((values, pattern.indices, pattern.indptr), pattern.shape)


def _tidy(matrix: sp.csr_array) -> sp.csr_array:
    matrix = sp.csr_array(matrix)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def csr_tensors(matrix: sp.csr_array) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the parts of a CSR matrix as tensors: int32 indices if they suffice, and float64 values."""
    index = torch.int32 if max(matrix.nnz, *matrix.shape) <= _INT32_MAX else torch.int64
    parts = torch.from_numpy(matrix.indptr).to(index), torch.from_numpy(matrix.indices).to(index)
    return *parts, torch.from_numpy(matrix.data)


# ---- the largest eigenvalue ----------------------------------------------------------------------------------------


def largest_eigenvalue(matrix: sp.csr_array, ptr: IntArray, *, both_ends: bool) -> FloatArray:
    r"""Returns a tight upper bound of the largest eigenvalue of each graph of a batch.

    The Lanczos process on a few random signals gives Ritz values :math:`\theta` and residual norms r. The bound is
    :math:`\theta + r` for the largest :math:`\theta` (Zhou and Li, "Bounding the spectrum of large Hermitian matrices",
    2011), but at most Gershgorin's bound for a diagonally scaled matrix. The process stops once the two bounds or the
    residual determine the eigenvalue to a relative accuracy of 1e-7, and otherwise after 128 steps, where r and thus
    the overestimate can be larger. The result is deterministic.

    Args:
        matrix: A real symmetric matrix, block-diagonal with one block per graph.
        ptr: The first row of each graph, followed by the number of rows, (G+1,).
        both_ends: Whether to return the largest absolute value instead, which may be that of a negative eigenvalue.

    >>> import numpy as np, scipy.sparse as sp
    >>> star = sp.csr_array([[0.0, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0]])
    >>> largest_eigenvalue(star, np.array([0, 5]), both_ends=True).round(6)
    array([2.])
    """
    rows = matrix.shape[0]
    size = np.diff(ptr)
    graph = np.repeat(np.arange(len(size)), size)
    bound = _gershgorin(matrix, ptr)
    if matrix.nnz == 0:
        return bound
    operator = SparseOperator(Matrix(*csr_tensors(matrix), None))
    # Every graph gets the same random numbers wherever it is in a batch.
    noise = np.random.default_rng(0).standard_normal((int(size.max()), PROBES))
    v = noise[np.arange(rows) - np.repeat(ptr[:-1], size)]
    v /= np.sqrt(_graph_sums(v * v, ptr))[graph]
    before, beta = np.zeros_like(v), np.zeros((len(size), PROBES))
    gammas: list[FloatArray] = []
    betas: list[FloatArray] = []
    result = bound.copy()
    pending = np.flatnonzero(bound > 0)
    for step in range(1, MAX_STEPS + 1):
        w = operator.product(torch.from_numpy(v)).numpy() - beta[graph] * before
        gamma = _graph_sums(v * w, ptr)
        w -= gamma[graph] * v
        beta = np.sqrt(_graph_sums(w * w, ptr))
        beta[beta <= 1e-14 * bound[:, None]] = 0.0  # the Krylov space has ended
        gammas.append(gamma)
        betas.append(beta)
        before, v = v, w * np.divide(1.0, beta, out=np.zeros_like(beta), where=beta > 0)[graph]
        if step % STEPS_PER_CHECK:  # checks at fixed steps keep a graph's result independent of its batch
            continue
        diagonal, off_diagonal = np.stack(gammas), np.stack(betas)
        theta, residual = _ritz(diagonal[:, pending], off_diagonal[:, pending], both_ends)
        result[pending] = np.minimum(theta + residual, bound[pending])
        pending = pending[(result[pending] - theta) > TOLERANCE * theta]
        if len(pending) == 0:
            break
    return result


def _ritz(gamma: FloatArray, beta: FloatArray, both_ends: bool) -> tuple[FloatArray, FloatArray]:
    """Returns the largest Ritz value of each graph over all probes, (G,), and the norm of its residual."""
    from scipy.linalg import eigh_tridiagonal

    steps, graphs, probes = gamma.shape
    theta, residual = np.zeros((2, graphs))
    for graph in range(graphs):
        for probe in range(probes):
            values, vectors = eigh_tridiagonal(gamma[:, graph, probe], beta[:-1, graph, probe])
            ends = (steps - 1, 0) if both_ends else (steps - 1,)
            for end in ends:
                value = abs(values[end])
                if value > theta[graph]:
                    theta[graph] = value
                    residual[graph] = abs(beta[-1, graph, probe] * vectors[-1, end])
    return theta, residual


def _gershgorin(matrix: sp.csr_array, ptr: IntArray) -> FloatArray:
    """Returns an upper bound of the absolute eigenvalues of each graph.

    It is the smaller one of Gershgorin's bounds for M and for the similar matrix with rows divided and columns
    multiplied by the row sums of M.
    """
    absolute = abs(matrix)
    sums = np.asarray(absolute.sum(1)).ravel()
    similar = np.divide(absolute @ sums, sums, out=np.zeros_like(sums), where=sums > 0)
    return np.minimum(_graph_maxima(sums, ptr), _graph_maxima(similar, ptr))


def _graph_sums(values: FloatArray, ptr: IntArray) -> FloatArray:
    """Returns the sums over the rows of each graph, (G, ...)."""
    return _reduced(np.add, values, ptr)


def _graph_maxima(values: FloatArray, ptr: IntArray) -> FloatArray:
    return _reduced(np.maximum, values, ptr)


def _reduced(reduction: np.ufunc, values: FloatArray, ptr: IntArray) -> NDArray[np.float64]:
    reduced = np.zeros((len(ptr) - 1, *values.shape[1:]))
    nonempty = np.flatnonzero(np.diff(ptr))  # reduceat has no empty ranges
    if len(nonempty):
        reduced[nonempty] = reduction.reduceat(values, ptr[nonempty], axis=0)
    return reduced
