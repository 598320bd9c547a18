r"""Signals filtered by given frequency responses :math:`h(\lambda)` with :math:`\lambda = 1 - \mu \in [0, 2]`.

Here :math:`\mu` is an eigenvalue of the operator P, for every normalisation.

Responses are expanded in Chebyshev polynomials, by default to machine precision; no matrix function is formed. The
comb response has kinks and is accurate to about 1e-7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from torch import Tensor

from polybasis.bases.classical import Chebyshev
from polybasis.graph import Graph
from polybasis.krylov.filters import recurrence_filter
from polybasis.signals import AnySignal, as_channels

Response = Callable[[NDArray[np.float64]], Any]
Variable = Literal["lambda", "mu"]

# The responses of BernNet's filter-learning experiment, which the paper repeats.
RESPONSES: dict[str, Response] = {
    "low-pass": lambda lam: np.exp(-10 * lam**2),
    "high-pass": lambda lam: 1 - np.exp(-10 * lam**2),
    "band-pass": lambda lam: np.exp(-10 * (lam - 1) ** 2),
    "band-reject": lambda lam: 1 - np.exp(-10 * (lam - 1) ** 2),
    "comb": lambda lam: np.abs(np.sin(np.pi * lam)),
}
MAX_TERMS = 2048  # of a Chebyshev expansion; a response that needs more is considered not smooth
MACHINE_PRECISION = 1e-15  # of the coefficients, relative to the largest


def apply_response(
    graph: Graph,
    x: AnySignal,
    response: str | Response,
    tolerance: float | None = None,
    variable: Variable = "lambda",
) -> AnySignal:
    r"""Filters a signal by a frequency response.

    .. math:: y = h(I - P)\, x \quad (\texttt{"lambda"}), \qquad y = h(P)\, x \quad (\texttt{"mu"})

    Args:
        graph: The graph, N nodes.
        x: The signal, (N,), (N, d) or (B, N, d), a torch tensor or a NumPy array; may be complex on a directed graph.
        response: ``"low-pass"``, ``"high-pass"``, ``"band-pass"``, ``"band-reject"``, ``"comb"``, or a vectorised
            function. At full accuracy, the comb response computes about forty sparse LU factorisations of shifted P,
            which is feasible only for grid-like graphs; with a ``tolerance`` of 0.01, it is expanded like the others.
        tolerance: The error of the Chebyshev expansion, relative to its largest coefficient; by default 1e-15.
        variable: The variable of a given function: an eigenvalue :math:`\mu \in [-1, 1]` of P, or :math:`\lambda = 1 -
            \mu \in [0, 2]`. For ``normalization="sym"`` or ``"rw"``, :math:`\lambda` is an eigenvalue of the normalised
            Laplacian; :meth:`polybasis.Graph.eigenvalue` converts :math:`\mu` for the other operators.

    Returns:
        The filtered signal, in the shape of ``x``, float64, or complex128 on a directed graph; a NumPy array if ``x``
        is one.

    Raises:
        ValueError: If the name or variable is unknown, the signal has the wrong shape, or the response is not smooth
            enough for the tolerance.
        TypeError: If the function is not vectorised, or the signal is neither a tensor nor an array.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1], [1, 2]])
    >>> x = torch.rand(3, 1, dtype=torch.float64)
    >>> both = pb.apply_response(g, x, "low-pass") + pb.apply_response(g, x, "high-pass")
    >>> torch.allclose(both, x)
    True
    >>> torch.allclose(pb.apply_response(g, x, lambda mu: mu**2, variable="mu"), g @ (g @ x))
    True
    """
    if variable not in get_args(Variable):
        raise ValueError(f"variable is {variable!r}; expected one of {', '.join(get_args(Variable))}")
    signal, restore = as_channels(x, graph.num_nodes, allow_complex=graph.directed)
    signal = _in_double_precision(signal)
    if not isinstance(response, str):
        of_mu = response if variable == "mu" else _of_mu(response)
    elif response not in RESPONSES:
        raise ValueError(f"response is {response!r}; expected a function or one of {', '.join(RESPONSES)}")
    elif variable == "mu":
        raise ValueError(f'the response {response!r} is a function of lambda; omit variable="mu"')
    elif response == "comb" and tolerance is None:  # |sin(pi lambda)| = sin(pi mu) sign(mu)
        odd = chebyshev_coefficients(lambda mu: np.sin(np.pi * mu))
        return restore(apply_sign(graph, _apply_series(graph, signal, odd)))
    else:
        of_mu = _of_mu(RESPONSES[response])
    return restore(_apply_series(graph, signal, chebyshev_coefficients(of_mu, tolerance)))


def chebyshev_coefficients(response: Response, tolerance: float | None = None) -> NDArray[np.float64]:
    r"""Expands a function of :math:`\mu \in [-1, 1]` in as few Chebyshev polynomials as the tolerance allows.

    Args:
        response: The function, vectorised.
        tolerance: The largest error, relative to the largest coefficient; by default machine precision.

    Returns:
        The coefficients, at least one.

    Raises:
        ValueError: If the tolerance is not positive, the function is not finite, or it needs more than ``MAX_TERMS``.
        TypeError: If the function does not return one number for each of its arguments.

    >>> chebyshev_coefficients(lambda mu: mu**2, tolerance=1e-9).round(6) + 0.0
    array([0.5, 0. , 0.5])
    """
    from scipy.fft import dct

    if tolerance is not None and not tolerance > 0:
        raise ValueError(f"tolerance is {tolerance}; expected a positive number such as 1e-6")
    relative = MACHINE_PRECISION if tolerance is None else max(float(tolerance), MACHINE_PRECISION)
    terms = 32
    while True:
        points = np.cos((np.arange(terms) + 0.5) * np.pi / terms)
        coefficients = dct(_values(response, points)) / terms
        coefficients[0] /= 2
        largest = max(float(np.abs(coefficients).max()), 1e-300)
        # Points on no Chebyshev grid reveal an expansion that agrees with the response on its own grid only.
        between = np.cos(np.linspace(0.001, 3.14, 3 * terms + 1))
        error = float(np.abs(chebyshev.chebval(between, coefficients) - _values(response, between)).max()) / largest
        # Evaluating the expansion rounds, which the error at machine precision has to allow for.
        if np.abs(coefficients[-8:]).max() <= relative * largest and error <= max(relative, 1e-12):
            break
        terms *= 2
        if terms > MAX_TERMS:
            raise ValueError(
                f"response is not smooth enough for a tolerance of {relative:.0e}: {MAX_TERMS} Chebyshev terms have an "
                f"error of {error:.1e}; pass tolerance={_round_up(error):.0e} or a smoother response"
            )
    # Drops the last coefficients, as far as their sum and the error are within the tolerance.
    dropped = np.cumsum(np.abs(coefficients[::-1]))[::-1]
    needed = np.flatnonzero(dropped > max(relative - error, 0.01 * relative) * largest)
    kept: NDArray[np.float64] = coefficients[: needed[-1] + 1] if len(needed) else coefficients[:1]
    return kept


def _of_mu(response: Response) -> Response:
    return lambda mu: response(1 - mu)


def _round_up(error: float) -> float:
    """Returns twice the error, rounded up to one digit."""
    digit = 10.0 ** np.floor(np.log10(2 * error))
    return float(np.ceil(2 * error / digit) * digit)


def _values(response: Response, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Evaluates a response, which may be a constant."""
    try:
        values = np.broadcast_to(np.asarray(response(points), dtype=np.float64), points.shape)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"response failed for an array of {len(points)} numbers ({error}); expected a function of NumPy arrays "
            "that returns an array of the same shape; numpy.vectorize makes one"
        ) from error
    if not np.isfinite(values).all():
        place = points[~np.isfinite(values)][0]
        raise ValueError(
            f"response is not finite at mu = {place:.6g} (lambda = {1 - place:.6g}); expected finite values"
        )
    return values


def _in_double_precision(x: Tensor) -> Tensor:
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def _apply_series(graph: Graph, x: Tensor, coefficients: NDArray[np.float64]) -> Tensor:
    """Filters a float64 or complex128 signal, (N, d), by a Chebyshev series in P."""
    K, channels = len(coefficients) - 1, x.shape[1]
    alpha = torch.from_numpy(coefficients.copy()).unsqueeze(-1).expand(K + 1, channels).contiguous()
    return recurrence_filter(graph, x, alpha, *Chebyshev().recurrence(K).per_channel(channels))


def apply_sign(graph: Graph, x: Tensor) -> Tensor:
    r"""Computes the matrix sign function of P on a signal in the range of P.

    .. math:: \mathrm{sign}(P)\, x = \frac{2}{\pi} \int_0^\infty P\, (P^2 + t^2)^{-1}\, x \, dt

    The trapezoidal rule in :math:`\log t` converges exponentially. Quadrature nodes above 1 form one smooth response.
    Each of the others takes sparse complex factorisations: :math:`P (P^2 + t^2)^{-1} x` is the mean of
    :math:`(P - it)^{-1} x` and :math:`(P + it)^{-1} x`, and, if P and x are real, the real part of the first.

    Args:
        graph: The graph, N nodes.
        x: The signal, (N, d), of the form P y.

    Returns:
        (N, d), float64, or complex128 on a directed graph, with an error of about 1e-7 relative to y.

    >>> import torch, polybasis as pb
    >>> g, y = pb.Graph.from_edge_index([[0, 1], [1, 2]]), torch.rand(3, 1, dtype=torch.float64)
    >>> torch.allclose(apply_sign(g, apply_sign(g, g @ y)), g @ y, atol=1e-6)  # sign(P)^2 = 1 on the range of P
    True
    """
    import scipy.sparse as sp
    from scipy.sparse.linalg import splu

    n, step = graph.num_nodes, 0.5
    nodes = np.exp(np.arange(-19.0, 18.0, step))
    far = nodes[nodes > 1]
    series = chebyshev_coefficients(lambda mu: sum(t * mu / (mu**2 + t**2) for t in far))
    total = _apply_series(graph, _in_double_precision(x), series).numpy()
    P = graph.matrix()
    csr = sp.csr_array((P.values().numpy(), P.col_indices().numpy(), P.crow_indices().numpy()), shape=(n, n))
    matrix, identity = sp.csc_matrix(csr), sp.identity(n, format="csc")
    right = x.numpy().astype(np.complex128)
    for t in nodes[nodes <= 1]:
        solution = splu(sp.csc_matrix(matrix - 1j * t * identity)).solve(right)
        if graph.directed:
            total += t / 2 * (solution + splu(sp.csc_matrix(matrix + 1j * t * identity)).solve(right))
        else:
            total += t * solution.real
    return torch.from_numpy(2 / np.pi * step * total)
