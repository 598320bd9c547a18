"""Polynomial bases by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar, overload

from polybasis.bases.bernstein import Bernstein
from polybasis.bases.classical import Chebyshev, Jacobi, Legendre, Monomial
from polybasis.bases.interpolation import ChebyshevInterpolation
from polybasis.bases.polynomial import PolynomialBasis
from polybasis.registry import Registry

NAMES = ("monomial", "chebyshev", "chebyshev-interpolation", "bernstein", "jacobi", "legendre")
OTHER_FILTERS = ("favard", "optbasis", "gcn", "sage", "gat", "none")  # names of ResidualFilterNet's other filters
MakeBasis = Callable[..., PolynomialBasis]
B = TypeVar("B", bound=MakeBasis)
OWN_BASES: Registry[MakeBasis] = Registry("basis", "polybasis.bases", (*NAMES, *OTHER_FILTERS))


def named_basis(name: str, K: int, a: float = 0.0, b: float = 0.0) -> PolynomialBasis:
    """Returns the basis with the given name.

    Args:
        name: ``"monomial"``, ``"chebyshev"``, ``"chebyshev-interpolation"``, ``"bernstein"``, ``"jacobi"``,
            ``"legendre"`` or the name of a registered basis.
        K: The degree.
        a: The first exponent of Jacobi polynomials.
        b: The second exponent.

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
    make = OWN_BASES.find(name)
    if make is None:
        raise ValueError(f"basis is {name!r}; expected one of {', '.join((*NAMES, *OWN_BASES.names()))}")
    basis = make(K) if "K" in inspect.signature(make).parameters else make()
    if not isinstance(basis, PolynomialBasis):
        raise ValueError(f"the basis {name!r} is {basis!r}; expected a polybasis.bases.PolynomialBasis")
    return basis


@overload
def register_basis(name: str) -> Callable[[B], B]: ...
@overload
def register_basis(name: str, make: B) -> B: ...
def register_basis(name: str, make: B | None = None) -> B | Callable[[B], B]:
    """Registers a polynomial basis under a name, for :class:`polybasis.nn.PolyConv` and the ``filter`` of
    :class:`polybasis.nn.ResidualFilterNet`.

    Installed packages register bases through the entry point group ``polybasis.bases``.

    Args:
        name: A name that is not taken; letters, digits, ``.``, ``_`` and ``-``.
        make: A subclass of :class:`polybasis.bases.PolynomialBasis`, or a function that returns a basis; it is called
            with the degree if it has an argument ``K``, and otherwise without arguments. Without it, a decorator is
            returned.

    Raises:
        ValueError: If the name is taken or invalid.

    >>> import torch, polybasis as pb
    >>> @pb.register_basis("shifted")
    ... class Shifted(pb.bases.ThreeTermBasis):
    ...     def recurrence(self, K):
    ...         ones = torch.ones(K, dtype=torch.float64)
    ...         return pb.bases.Recurrence(torch.ones((), dtype=torch.float64), ones, -ones, 0 * ones)
    >>> pb.nn.PolyConv(4, K=2, basis="shifted")
    PolyConv(4, K=2, basis=Shifted())
    """
    if make is None:
        return lambda decorated: register_basis(name, decorated)
    if not callable(make):
        raise ValueError(f"the basis {name!r} is {make!r}; expected a class or a function that returns a basis")
    OWN_BASES.register(name, make)
    return make
