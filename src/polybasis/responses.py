r"""Signals filtered by given frequency responses :math:`h(\lambda)` with :math:`\lambda = 1 - \mu \in [0, 2]`.

Smooth responses are expanded in Chebyshev polynomials to machine precision; no matrix function is formed. The comb
response has kinks and is accurate to about 1e-7.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from torch import Tensor

from polybasis.bases.classical import Chebyshev
from polybasis.graph import Graph
from polybasis.krylov.filters import checked_signal, recurrence_filter

Response = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# The responses of BernNet's filter-learning experiment, which the paper repeats.
RESPONSES: dict[str, Response] = {
    "low-pass": lambda lam: np.exp(-10 * lam**2),
    "high-pass": lambda lam: 1 - np.exp(-10 * lam**2),
    "band-pass": lambda lam: np.exp(-10 * (lam - 1) ** 2),
    "band-reject": lambda lam: 1 - np.exp(-10 * (lam - 1) ** 2),
    "comb": lambda lam: np.abs(np.sin(np.pi * lam)),
}
MAX_TERMS = 2048  # of a Chebyshev expansion; a response that needs more is considered not smooth


def apply_response(graph: Graph, x: Tensor, name: str) -> Tensor:
    r"""Filters a signal by one of :data:`RESPONSES`.

    .. math:: y = h(I - P)\, x

    Args:
        graph: The graph, N nodes.
        x: The signal, (N, d).
        name: ``"low-pass"``, ``"high-pass"``, ``"band-pass"``, ``"band-reject"`` or ``"comb"``. The comb response
            computes about forty sparse LU factorisations of shifted P, which is feasible for grid-like graphs only.

    Returns:
        The filtered signal, (N, d), float64.

    Raises:
        ValueError: If the name is unknown or the signal has the wrong shape.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1], [1, 2]])
    >>> x = torch.rand(3, 1, dtype=torch.float64)
    >>> both = pb.apply_response(g, x, "low-pass") + pb.apply_response(g, x, "high-pass")
    >>> torch.allclose(both, x)
    True
    """
    if name not in RESPONSES:
        raise ValueError(f"name is {name!r}; expected one of {', '.join(RESPONSES)}")
    if name == "comb":  # |sin(pi lambda)| = sin(pi mu) sign(mu)
        return apply_sign(graph, apply_smooth(graph, x, lambda lam: np.sin(np.pi * (1 - lam))))
    return apply_smooth(graph, x, RESPONSES[name])


def apply_smooth(graph: Graph, x: Tensor, response: Response) -> Tensor:
    r"""Filters a signal by a smooth response, expanded in Chebyshev polynomials to machine precision.

    Args:
        graph: The graph, N nodes.
        x: The signal, (N, d).
        response: The response :math:`h(\lambda)`, vectorised.

    Returns:
        The filtered signal, (N, d), float64.

    Raises:
        ValueError: If the response is not smooth or the signal has the wrong shape.

    >>> import torch, polybasis as pb
    >>> g, x = pb.Graph.from_edge_index([[0, 1], [1, 2]]), torch.rand(3, 1, dtype=torch.float64)
    >>> torch.allclose(apply_smooth(g, x, lambda lam: lam), x - g @ x)
    True
    """
    from scipy.fft import dct

    signal = checked_signal(graph, x)
    # Test points on no Chebyshev grid reveal an expansion that agrees with the response on its own grid only.
    test_points = np.cos(np.linspace(0.1, 3.0, 97))
    terms = 32
    while True:
        points = np.cos((np.arange(terms) + 0.5) * np.pi / terms)
        coefficients = dct(response(1 - points)) / terms
        coefficients[0] /= 2
        largest = np.abs(coefficients).max()
        error = np.abs(chebyshev.chebval(test_points, coefficients) - response(1 - test_points)).max()
        if np.abs(coefficients[-8:]).max() <= 1e-15 * largest and error <= 1e-12 * max(largest, 1e-300):
            break
        terms *= 2
        if terms > MAX_TERMS:
            raise ValueError(f"response is not smooth; its Chebyshev expansion has more than {MAX_TERMS} terms")
    needed = np.flatnonzero(np.abs(coefficients) > 1e-17 * largest)
    K = int(needed[-1]) if len(needed) else 0
    channels = signal.shape[1]
    alpha = torch.from_numpy(coefficients[: K + 1]).unsqueeze(-1).expand(K + 1, channels).contiguous()
    return recurrence_filter(graph, signal.double(), alpha, *Chebyshev().recurrence(K).per_channel(channels))


def apply_sign(graph: Graph, x: Tensor) -> Tensor:
    r"""Computes the matrix sign function of P on a signal in the range of P.

    .. math:: \mathrm{sign}(P)\, x = \frac{2}{\pi} \int_0^\infty P\, (P^2 + t^2)^{-1}\, x \, dt

    The trapezoidal rule in :math:`\log t` converges exponentially. Quadrature nodes above 1 form one smooth response.
    Each of the others takes one sparse complex factorisation, because :math:`P (P^2 + t^2)^{-1} x` is the real part of
    :math:`(P - it)^{-1} x`.

    Args:
        graph: The graph, N nodes.
        x: The signal, (N, d), of the form P y.

    Returns:
        (N, d), float64, with an error of about 1e-7 relative to y.

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
    total = apply_smooth(graph, x, lambda lam: sum(t * (1 - lam) / ((1 - lam) ** 2 + t**2) for t in far)).numpy()
    csr = sp.csr_array((graph.values(torch.float64).numpy(), graph.indices.numpy(), graph.indptr.numpy()), shape=(n, n))
    matrix, identity = sp.csc_matrix(csr), sp.identity(n, format="csc")
    right = x.double().numpy().astype(np.complex128)
    for t in nodes[nodes <= 1]:
        total += t * splu(sp.csc_matrix(matrix - 1j * t * identity)).solve(right).real
    return torch.from_numpy(2 / np.pi * step * total)
