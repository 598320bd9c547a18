"""The filter layer in the optimal basis."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from polybasis.bases import Favard, PolynomialBasis
from polybasis.graph import Graph
from polybasis.krylov import optimal_basis, optimal_filter
from polybasis.krylov.filters import Scale
from polybasis.nn.filter_layer import FilterLayer, unit_coefficients


class OptBasisConv(FilterLayer):
    r"""The filter of OptBasisGNN from `"Graph Neural Networks with Learnable and Optimal Polynomial Bases"
    <https://arxiv.org/abs/2302.12432>`_ (Guo and Wei, 2023).

    .. math:: Z_{:l} = s_l \sum_{k=0}^{K} \alpha_{kl}\, v_{kl}

    The vectors :math:`v_{0l}, \dots, v_{Kl}` are the orthonormal basis of the Krylov space of channel l, in which the
    Hessian of the squared loss is the identity. Initially :math:`\alpha_0 = 1` and the other coefficients are 0.

    Args:
        channels: The number of channels.
        K: The degree; a channel has K+1 coefficients.
        scale: ``"unit"`` is the paper's filter, :math:`s_l = 1`. Its output has entries of magnitude
            :math:`1 / \sqrt{N}`, so it depends on the size of the graph. ``"signal"`` multiplies by the norm of the
            input, :math:`s_l = \|X_{:l}\|`. The output is then a polynomial :math:`p(P)\, X_{:l}`; it scales with the
            input and is the same for any number of copies of a graph.

    Shapes:
        - **input:** x (N, channels) or (B, N, channels), edge_index (2, E) or a :class:`polybasis.Graph`, edge_weight
          (E,), optional, batch (N,), optional
        - **output:** that of x

    >>> import torch, polybasis as pb
    >>> conv = pb.nn.OptBasisConv(4, K=3)
    >>> conv
    OptBasisConv(4, K=3)
    >>> conv(torch.rand(5, 4), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])).shape
    torch.Size([5, 4])
    """

    def __init__(self, channels: int, K: int, scale: Scale = "unit") -> None:
        super().__init__(channels, K)
        if scale not in get_args(Scale):
            raise ValueError(f"scale is {scale!r}; expected {' or '.join(get_args(Scale))}")
        self.scale = scale
        self.alpha = torch.nn.Parameter(unit_coefficients(K, channels))

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.alpha.copy_(unit_coefficients(self.K, self.channels))

    def polynomials(self, x: Tensor, graph: Graph) -> tuple[PolynomialBasis, Tensor]:
        """Returns the orthonormal polynomials of each channel's spectral density, scaled to mass 1, and coefficients.

        Beyond the rank of a channel the polynomials are undefined and the coefficients are 0.

        Args:
            x: The signal, (N, channels).
            graph: The graph, N nodes.

        Returns:
            The basis, a :class:`polybasis.bases.Favard` of degree K with one column per channel, and the coefficients,
            (K+1, channels).

        Raises:
            ValueError: If the graph is a batch.
        """
        check_single(graph)
        own = optimal_basis(graph, x.detach(), self.K)
        return self.polynomials_on(own.gamma, own.sqrt_beta)

    def polynomials_on(self, gamma: Tensor, sqrt_beta: Tensor) -> tuple[Favard, Tensor]:
        """Returns the result of :meth:`polynomials` for a signal whose optimal basis is known.

        Args:
            gamma: The diagonal of the tridiagonal matrix of the optimal basis, (K+1, channels).
            sqrt_beta: The norm of the signal, followed by the off-diagonal, (K+1, channels).
        """
        defined = sqrt_beta > 0
        unit = torch.where(defined, sqrt_beta, 1)
        unit[0] = 1
        return Favard(gamma[:-1], unit), torch.where(defined, self.alpha.detach(), 0)

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        alpha = self.alpha.double()
        return alpha if self.scale == "unit" else alpha * sqrt_beta[0]

    def filter(self, x: Tensor, graph: Graph) -> Tensor:
        return optimal_filter(graph, x, self.alpha, self.scale)


def check_single(graph: Graph) -> None:
    """Checks that a graph is not a batch.

    Raises:
        ValueError: If it is a batch: each graph has its own polynomials, so a channel has no single response.
    """
    if graph.ptr is not None:
        raise ValueError(
            f"graph is a batch (num_graphs={graph.num_graphs}), and each graph has its own basis; "
            "pass one graph at a time"
        )
