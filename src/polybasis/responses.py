r"""Given frequency responses :math:`h(\lambda)`, :math:`\lambda = 1 - \mu \in [0, 2]`, applied to signals.

Smooth responses are expanded in Chebyshev polynomials until nothing is left to add: machine precision, and no matrix
function is formed. The comb, which has a kink, is good to about 1e-7.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.fft import dct
from scipy.sparse.linalg import splu
from torch import Tensor

from polybasis.bases.classical import Chebyshev
from polybasis.graph import Graph
from polybasis.krylov import recurrence_filter
from polybasis.krylov.signal import checked_signal

Response = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# The filters of BernNet's experiments, which the paper learns.
RESPONSES: dict[str, Response] = {
    "low-pass": lambda lam: np.exp(-10 * lam**2),
    "high-pass": lambda lam: 1 - np.exp(-10 * lam**2),
    "band-pass": lambda lam: np.exp(-10 * (lam - 1) ** 2),
    "band-reject": lambda lam: 1 - np.exp(-10 * (lam - 1) ** 2),
    "comb": lambda lam: np.abs(np.sin(np.pi * lam)),
}
MOST_TERMS = 2048  # of a Chebyshev expansion; a response that needs more is not smooth


def apply_response(graph: Graph, x: Tensor, name: str) -> Tensor:
    """A signal filtered by one of :data:`RESPONSES`.

    Args:
        graph: the graph, N nodes.
        x: signals, (N, d).
        name: low-pass, high-pass, band-pass, band-reject, comb. ``comb`` has a kink and costs some forty sparse
            factorisations of P, which graphs like grids have and dense ones have not.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1], [1, 2]])
    >>> x = torch.rand(3, 1, dtype=torch.float64)
    >>> both = pb.apply_response(g, x, "low-pass") + pb.apply_response(g, x, "high-pass")
    >>> torch.allclose(both, x)
    True
    """
    if name not in RESPONSES:
        raise ValueError(f"there is no response {name!r}; expected one of {', '.join(RESPONSES)}")
    if name == "comb":  # |sin(pi lambda)| = sin(pi mu) sign(mu)
        return apply_sign(graph, apply_smooth(graph, x, lambda lam: np.sin(np.pi * (1 - lam))))
    return apply_smooth(graph, x, RESPONSES[name])


def apply_smooth(graph: Graph, x: Tensor, response: Response) -> Tensor:
    """A signal filtered by any smooth response, in float64."""
    signal = checked_signal(graph, x)
    between = np.cos(
        np.linspace(0.1, 3.0, 97)
    )  # points of no grid, where an expansion that has missed something shows it
    terms = 32
    while True:
        points = np.cos((np.arange(terms) + 0.5) * np.pi / terms)
        coefficients = dct(response(1 - points)) / terms
        coefficients[0] /= 2
        largest = np.abs(coefficients).max()
        missed = np.abs(chebyshev.chebval(between, coefficients) - response(1 - between)).max()
        if np.abs(coefficients[-8:]).max() <= 1e-15 * largest and missed <= 1e-12 * max(largest, 1e-300):
            break
        terms *= 2
        if terms > MOST_TERMS:
            raise ValueError("the response is not smooth: its Chebyshev expansion does not end")
    needed = np.flatnonzero(np.abs(coefficients) > 1e-17 * largest)
    K = int(needed[-1]) if len(needed) else 0
    channels = signal.shape[1]
    alpha = torch.from_numpy(coefficients[: K + 1]).unsqueeze(-1).expand(K + 1, channels).contiguous()
    return recurrence_filter(graph, signal.double(), alpha, *Chebyshev().recurrence(K).per_channel(channels))


def apply_sign(graph: Graph, x: Tensor) -> Tensor:
    r"""sign(P) x by :math:`\frac{2}{\pi} \int_0^\infty P (P^2 + t^2)^{-1} x \, dt`, for x of the form P y.

    The trapezoidal rule in log t converges exponentially. Nodes above 1 are smooth responses together; each of the
    others is one sparse complex factorisation, because :math:`P (P^2 + t^2)^{-1} x` is the real part of
    :math:`(P - it)^{-1} x`. The error is about 1e-7 of y.
    """
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
