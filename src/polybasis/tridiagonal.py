"""Computations on the small tridiagonal matrices T, one per channel."""

from __future__ import annotations

import torch
from torch import Tensor


def apply_tridiagonal(gamma: Tensor, sqrt_beta: Tensor, y: Tensor) -> Tensor:
    r"""Returns :math:`T y` for every channel.

    Args:
        gamma: (K+1, d), the diagonal of T.
        sqrt_beta: (K+1, d), with the off-diagonal of T in ``sqrt_beta[1:]``.
        y: (K+1, d).

    Returns:
        (K+1, d).

    >>> import torch
    >>> apply_tridiagonal(torch.ones(2, 1), torch.full((2, 1), 3.0), torch.tensor([[1.0], [0.0]])).flatten()
    tensor([1., 3.])
    """
    off_diagonal = sqrt_beta[1:]
    product = gamma * y
    product[1:] += off_diagonal * y[:-1]
    product[:-1] += off_diagonal * y[1:]
    return product


def gauss_quadrature(gamma: Tensor, off_diagonal: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    r"""Computes the Gauss quadrature of a Jacobi matrix (Golub and Welsch, 1969).

    The nodes are the eigenvalues :math:`\mu_i` of the matrix, and the weights are :math:`m\, u_{i0}^2` with the mass
    :math:`m` and the first entries :math:`u_{i0}` of the eigenvectors.

    Args:
        gamma: (n, ...), the diagonal.
        off_diagonal: (n-1, ...).
        mass: (...), the integral of the weight function.

    Returns:
        Nodes in ascending order and weights, (n, ...) each.

    >>> import torch
    >>> nodes, weights = gauss_quadrature(torch.zeros(2), torch.tensor([1 / 3]).sqrt(), torch.tensor(2.0))  # Legendre
    >>> nodes, weights
    (tensor([-0.5774,  0.5774]), tensor([1.0000, 1.0000]))
    """
    diagonal, off_diagonal = gamma.movedim(0, -1), off_diagonal.movedim(0, -1)
    matrix = torch.diag_embed(diagonal) + torch.diag_embed(off_diagonal, 1) + torch.diag_embed(off_diagonal, -1)
    nodes, vectors = torch.linalg.eigh(matrix)
    weights = mass.unsqueeze(-1) * vectors[..., 0, :] ** 2
    return nodes.movedim(-1, 0), weights.movedim(-1, 0)
