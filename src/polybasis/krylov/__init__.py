"""Optimal bases and polynomial filters on graphs, with their gradients: all computation of the size of the graph."""

from polybasis.krylov.basis import OptimalBasis
from polybasis.krylov.filters import optimal_basis, optimal_filter, recurrence_filter

__all__ = ["OptimalBasis", "optimal_basis", "optimal_filter", "recurrence_filter"]
