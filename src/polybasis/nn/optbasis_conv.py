"""The filter layer in the optimal basis."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases import Favard, PolynomialBasis
from polybasis.graph import Graph
from polybasis.krylov import optimal_basis, optimal_filter
from polybasis.nn.filter_layer import FilterLayer


class OptBasisConv(FilterLayer):
    r"""The filter of OptBasisGNN (Guo and Wei, "Graph Neural Networks with Learnable and Optimal Polynomial Bases"):

    .. math:: Z_{:l} = \sum_{k=0}^{K} \alpha_{kl}\, v_{kl}

    with :math:`v_{0l}, \dots, v_{Kl}` the orthonormal basis of the Krylov space of channel l, in which the squared loss
    has the identity for its Hessian. At the start :math:`\alpha_0 = 1` and the rest is 0, as in the paper's appendix.

    Args:
        channels: number of channels.
        K: the degree; there are K+1 coefficients a channel.
        cached: keep the graph of the first call.

    Shapes:
        x (N, channels), edge_index (2, E) or a Graph -> (N, channels)

    >>> import polybasis as pb
    >>> pb.nn.OptBasisConv(64, K=10)
    OptBasisConv(64, K=10)
    """

    def __init__(self, channels: int, K: int, cached: bool = False) -> None:
        super().__init__(channels, K, cached)
        self.alpha = torch.nn.Parameter(torch.empty(K + 1, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            self.alpha.zero_()
            self.alpha[0] = 1

    def polynomials(self, x: Tensor, graph: Graph) -> tuple[PolynomialBasis, Tensor]:
        """The orthonormal polynomials of each channel's spectral density, taken to mass 1, and the coefficients."""
        own = optimal_basis(graph, x.detach(), self.K)
        # Past a channel's rank its vectors are zero and its polynomials mean nothing.
        known = own.sqrt_beta > 0
        sqrt_beta = torch.where(known, own.sqrt_beta, 1)
        sqrt_beta[0] = 1
        return Favard(own.gamma[:-1], sqrt_beta), torch.where(known, self.alpha.detach(), 0)

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        return self.alpha.double()

    def filter(self, x: Tensor, graph: Graph) -> Tensor:
        return optimal_filter(graph, x, self.alpha)
