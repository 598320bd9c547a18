"""Polynomial bases: values, recurrences, coordinates on a tridiagonal matrix, weight functions."""

from polybasis.bases.bernstein import Bernstein
from polybasis.bases.classical import Chebyshev, Jacobi, Legendre, Monomial
from polybasis.bases.favard import Favard
from polybasis.bases.interpolation import ChebyshevInterpolation
from polybasis.bases.names import named_basis, register_basis
from polybasis.bases.polynomial import PolynomialBasis, ThreeTermBasis
from polybasis.recurrence import Recurrence

__all__ = [
    "Bernstein",
    "Chebyshev",
    "ChebyshevInterpolation",
    "Favard",
    "Jacobi",
    "Legendre",
    "Monomial",
    "PolynomialBasis",
    "Recurrence",
    "ThreeTermBasis",
    "named_basis",
    "register_basis",
]
