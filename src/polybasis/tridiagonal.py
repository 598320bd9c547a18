"""Mathematics on the small tridiagonal matrices T, one for each channel."""

from __future__ import annotations

import torch
from torch import Tensor


def apply_tridiagonal(gamma: Tensor, sqrt_beta: Tensor, y: Tensor) -> Tensor:
    """T y for every channel.

    Args:
        gamma: (K+1, d), the diagonal.
        sqrt_beta: (K+1, d); entries 1 .. K stand beside the diagonal.
        y: (K+1, d).
    """
    beside = sqrt_beta[1:]
    product = gamma * y
    product[1:] += beside * y[:-1]
    product[:-1] += beside * y[1:]
    return product


def gauss_quadrature(gamma: Tensor, beside: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the Gauss quadrature that belongs to a Jacobi matrix (Golub and Welsch, 1969).

    Args:
        gamma: (n, ...), the diagonal.
        beside: (n-1, ...), the entries beside it.
        mass: (...), the integral of the weight function.

    Returns:
        Nodes, ascending, and weights, (n, ...) each: eigenvalues, and the mass times the squares of the eigenvectors'
        first entries.
    """
    diagonal, off = gamma.movedim(0, -1), beside.movedim(0, -1)
    matrix = torch.diag_embed(diagonal) + torch.diag_embed(off, 1) + torch.diag_embed(off, -1)
    nodes, vectors = torch.linalg.eigh(matrix)
    weights = mass.unsqueeze(-1) * vectors[..., 0, :] ** 2
    return nodes.movedim(-1, 0), weights.movedim(-1, 0)
