"""The filter layer that learns its basis."""

from __future__ import annotations

import torch
from torch import Tensor

from polybasis.bases import Favard
from polybasis.graph import Graph
from polybasis.krylov import recurrence_filter
from polybasis.nn.filter_layer import FilterLayer

SMALLEST_SQRT_BETA = 0.01  # as in the paper's pseudo-code


class FavardConv(FilterLayer):
    r"""The filter of FavardGNN (Guo and Wei, "Graph Neural Networks with Learnable and Optimal Polynomial Bases"):

    .. math::
        Z_{:l} = \sum_{k=0}^{K} \alpha_{kl}\, h_{kl}, \qquad h_{0l} = X_{:l} / \sqrt{\beta_{0l}}, \qquad
        \sqrt{\beta_{k+1,l}}\, h_{k+1,l} = P h_{kl} - \gamma_{kl}\, h_{kl} - \sqrt{\beta_{kl}}\, h_{k-1,l}.

    Coefficients and recurrence are learned; whatever they become, the polynomials are orthonormal to some weight
    function (Favard's theorem). At the start :math:`\alpha_0 = 1` and the other :math:`\alpha` are 0,
    :math:`\sqrt\beta = 1`, :math:`\gamma = 0`, as in the paper's appendix; :math:`\sqrt\beta` counts as 0.01 where
    it is less.

    Args:
        channels: number of channels.
        K: the degree; a channel has K+1 coefficients alpha, K+1 sqrt_beta and K gamma.
        cached: keep the graph of the first call.

    Shapes:
        x (N, channels), edge_index (2, E) or a Graph -> (N, channels)

    >>> import polybasis as pb
    >>> pb.nn.FavardConv(64, K=10)
    FavardConv(64, K=10)
    """

    def __init__(self, channels: int, K: int, cached: bool = False) -> None:
        super().__init__(channels, K, cached)
        self.alpha = torch.nn.Parameter(torch.empty(K + 1, channels))
        self.gamma = torch.nn.Parameter(torch.empty(K, channels))
        self.sqrt_beta = torch.nn.Parameter(torch.empty(K + 1, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            self.alpha.zero_()
            self.alpha[0] = 1
            self.gamma.zero_()
            self.sqrt_beta.fill_(1)

    @property
    def basis(self) -> Favard:
        """The basis as it is now."""
        return Favard(self.gamma, self.sqrt_beta.clamp(min=SMALLEST_SQRT_BETA))

    def filter(self, x: Tensor, graph: Graph) -> Tensor:
        return recurrence_filter(graph, x, self.alpha, *self.basis.recurrence(self.K))
