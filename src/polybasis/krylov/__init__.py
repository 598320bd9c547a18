"""All the work of the size of the graph: optimal bases, three-term recurrences, and their gradients."""

from polybasis.krylov.filters import optimal_filter, recurrence_filter
from polybasis.krylov.optimal import OptimalBasis, optimal_basis

__all__ = ["OptimalBasis", "optimal_basis", "optimal_filter", "recurrence_filter"]
