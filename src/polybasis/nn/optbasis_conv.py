"""The filter layer in the optimal basis."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases import Favard, PolynomialBasis
from polybasis.graph import Graph
from polybasis.krylov import optimal_basis, optimal_filter
from polybasis.nn.filter_layer import FilterLayer, unit_coefficients


class OptBasisConv(FilterLayer):
    r"""The filter of OptBasisGNN from `"Graph Neural Networks with Learnable and Optimal Polynomial Bases"
    <https://arxiv.org/abs/2302.12432>`_ (Guo and Wei, 2023).

    .. math:: Z_{:l} = \sum_{k=0}^{K} \alpha_{kl}\, v_{kl}

    The vectors :math:`v_{0l}, \dots, v_{Kl}` are the orthonormal basis of the Krylov space of channel l, in which the
    Hessian of the squared loss is the identity. Initially :math:`\alpha_0 = 1` and the other coefficients are 0.

    Args:
        channels: The number of channels.
        K: The degree; a channel has K+1 coefficients.
        cached: Reuse the graph of the first call.

    Shapes:
        - **input:** x (N, channels), edge_index (2, E) or a :class:`polybasis.Graph`, edge_weight (E,), optional
        - **output:** (N, channels)

    >>> import torch, polybasis as pb
    >>> conv = pb.nn.OptBasisConv(4, K=3)
    >>> conv
    OptBasisConv(4, K=3)
    >>> conv(torch.rand(5, 4), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])).shape
    torch.Size([5, 4])
    """

    def __init__(self, channels: int, K: int, cached: bool = False) -> None:
        super().__init__(channels, K, cached)
        self.alpha = torch.nn.Parameter(unit_coefficients(K, channels))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            self.alpha.copy_(unit_coefficients(self.K, self.channels))

    def polynomials(self, x: Tensor, graph: Graph) -> tuple[PolynomialBasis, Tensor]:
        """Returns the orthonormal polynomials of each channel's spectral density, scaled to mass 1, and coefficients.

        Beyond the rank of a channel the polynomials are undefined and the coefficients are 0.
        """
        own = optimal_basis(graph, x.detach(), self.K)
        return self.polynomials_on(own.gamma, own.sqrt_beta)

    def polynomials_on(self, gamma: Tensor, sqrt_beta: Tensor) -> tuple[Favard, Tensor]:
        """Returns the same for a signal whose optimal basis is known.

        Args:
            gamma, sqrt_beta: The coefficients of the optimal basis, (K+1, channels).
        """
        defined = sqrt_beta > 0
        unit = torch.where(defined, sqrt_beta, 1)
        unit[0] = 1
        return Favard(gamma[:-1], unit), torch.where(defined, self.alpha.detach(), 0)

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        return self.alpha.double()

    def filter(self, x: Tensor, graph: Graph) -> Tensor:
        return optimal_filter(graph, x, self.alpha)
