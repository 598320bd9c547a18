"""Bases by name, for layers, models and the command line."""

from __future__ import annotations

from polybasis.bases.bernstein import Bernstein
from polybasis.bases.classical import Chebyshev, Jacobi, Legendre, Monomial
from polybasis.bases.interpolation import ChebyshevInterpolation
from polybasis.bases.polynomial import PolynomialBasis

NAMES = ("monomial", "chebyshev", "chebyshev-interpolation", "bernstein", "jacobi", "legendre")


def named_basis(name: str, K: int, a: float = 0.0, b: float = 0.0) -> PolynomialBasis:
    """The basis with this name for degree K; ``a`` and ``b`` are Jacobi's.

    >>> named_basis("bernstein", K=4)
    Bernstein(4)
    """
    match name:
        case "monomial":
            return Monomial()
        case "chebyshev":
            return Chebyshev()
        case "chebyshev-interpolation":
            return ChebyshevInterpolation()
        case "bernstein":
            return Bernstein(K)
        case "jacobi":
            return Jacobi(a, b)
        case "legendre":
            return Legendre()
    raise ValueError(f"there is no basis {name!r}; expected one of {', '.join(NAMES)}")
