"""Polynomial bases by name."""

from __future__ import annotations

from polybasis.bases.bernstein import Bernstein
from polybasis.bases.classical import Chebyshev, Jacobi, Legendre, Monomial
from polybasis.bases.interpolation import ChebyshevInterpolation
from polybasis.bases.polynomial import PolynomialBasis

NAMES = ("monomial", "chebyshev", "chebyshev-interpolation", "bernstein", "jacobi", "legendre")


def named_basis(name: str, K: int, a: float = 0.0, b: float = 0.0) -> PolynomialBasis:
    """Returns the basis with the given name.

    Args:
        name: ``"monomial"``, ``"chebyshev"``, ``"chebyshev-interpolation"``, ``"bernstein"``, ``"jacobi"`` or
            ``"legendre"``.
        K: The degree.
        a, b: The exponents of Jacobi polynomials.

    Raises:
        ValueError: If the name is unknown.

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
    raise ValueError(f"basis is {name!r}; expected one of {', '.join(NAMES)}")
