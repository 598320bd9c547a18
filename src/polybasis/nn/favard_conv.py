"""The filter layer that learns its basis."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from polybasis.bases import Favard, PolynomialBasis
from polybasis.graph import Graph
from polybasis.krylov import recurrence_filter
from polybasis.nn.filter_layer import FilterLayer, Role

SMALLEST_SQRT_BETA = 0.01  # as in the paper's pseudo-code
SMALLEST_MOMENT = 1e-3
RecurrenceKind = Literal["free", "bounded"]


def free_basis(gamma: Tensor, sqrt_beta: Tensor) -> Favard:
    """The basis of a recurrence that is learned as it is."""
    return Favard(gamma, sqrt_beta.clamp(min=SMALLEST_SQRT_BETA))


def bounded_basis(logits: Tensor) -> Favard:
    """The basis of canonical moments that are learned as their logits.

    Moments stay away from 0 and 1, where a weight function vanishes and its polynomials exceed any number.
    """
    return Favard.from_moments(torch.sigmoid(logits.double()).clamp(SMALLEST_MOMENT, 1 - SMALLEST_MOMENT))


class FavardConv(FilterLayer):
    r"""The filter of FavardGNN (Guo and Wei, "Graph Neural Networks with Learnable and Optimal Polynomial Bases"):

    .. math::
        Z_{:l} = \sum_{k=0}^{K} \alpha_{kl}\, h_{kl}, \qquad h_{0l} = X_{:l} / \sqrt{\beta_{0l}}, \qquad
        \sqrt{\beta_{k+1,l}}\, h_{k+1,l} = P h_{kl} - \gamma_{kl}\, h_{kl} - \sqrt{\beta_{kl}}\, h_{k-1,l}.

    Coefficients and recurrence are learned; whatever they become, the polynomials are orthonormal to some weight
    function (Favard's theorem). At the start :math:`\alpha_0 = 1` and the other :math:`\alpha` are 0.

    Args:
        channels: number of channels.
        K: the degree; a channel has K+1 coefficients alpha.
        cached: keep the graph of the first call.
        recurrence: ``free``: :math:`\gamma` and :math:`\sqrt\beta` themselves are learned, from 0 and 1 on, as in the
            paper's appendix; :math:`\sqrt\beta` counts as 0.01 where it is less. The weight function may leave the
            spectrum, where the polynomials then grow as powers of it: that is why training is not smooth.
            ``bounded``: the canonical moments of a weight function on [-1, 1] are learned
            (:meth:`polybasis.bases.Favard.from_moments`), from Chebyshev's on; it cannot leave the spectrum.

    Shapes:
        x (N, channels), edge_index (2, E) or a Graph -> (N, channels)

    >>> import polybasis as pb
    >>> pb.nn.FavardConv(64, K=10)
    FavardConv(64, K=10)
    """

    roles: ClassVar[dict[str, Role]] = {
        "alpha": "coefficients",
        "gamma": "recurrence",
        "sqrt_beta": "recurrence",
        "moments": "recurrence",
    }

    def __init__(self, channels: int, K: int, cached: bool = False, recurrence: RecurrenceKind = "free") -> None:
        super().__init__(channels, K, cached)
        if recurrence not in get_args(RecurrenceKind):
            raise ValueError(f"recurrence is {recurrence!r}; expected {' or '.join(get_args(RecurrenceKind))}")
        self.recurrence = recurrence
        self.alpha = torch.nn.Parameter(torch.empty(K + 1, channels))
        if recurrence == "free":
            self.gamma = torch.nn.Parameter(torch.empty(K, channels))
            self.sqrt_beta = torch.nn.Parameter(torch.empty(K + 1, channels))
        else:
            self.moments = torch.nn.Parameter(torch.empty(2 * K, channels))  # before the sigmoid
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            self.alpha.zero_()
            self.alpha[0] = 1
            if self.recurrence == "free":
                self.gamma.zero_()
                self.sqrt_beta.fill_(1)
            else:
                self.moments.zero_()

    @torch.no_grad()
    def start_at(self, gamma: Tensor, sqrt_beta: Tensor) -> None:
        r"""Sets a free recurrence to that of the signals' optimal basis, up to their lengths.

        Then :math:`h_k = \|x\| v_k`, and training starts with the well-conditioned problem that OptBasisGNN has; but
        :math:`\sqrt\beta` is 0.01 at least. Past a channel's rank the recurrence stays as it is.

        Args:
            gamma, sqrt_beta: (K+1, channels) of that basis.
        """
        if self.recurrence != "free":
            raise ValueError(f"recurrence is {self.recurrence!r}; only a free one can start anywhere")
        gamma, sqrt_beta = gamma[:-1].to(self.gamma), sqrt_beta.to(self.sqrt_beta)
        self.gamma.copy_(torch.where(sqrt_beta[:-1] > 0, gamma, self.gamma))
        found = torch.where(sqrt_beta > 0, sqrt_beta.clamp(min=SMALLEST_SQRT_BETA), self.sqrt_beta)
        self.sqrt_beta[1:] = found[1:]

    @property
    def basis(self) -> Favard:
        """The basis as it is now."""
        return free_basis(self.gamma, self.sqrt_beta) if self.recurrence == "free" else bounded_basis(self.moments)

    def polynomials(self, x: Tensor, graph: Graph) -> tuple[PolynomialBasis, Tensor]:
        gamma, sqrt_beta = self.basis.gamma.detach(), self.basis.sqrt_beta.detach()
        return Favard(gamma, sqrt_beta), self.alpha

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        return (self.basis.coordinates(gamma, sqrt_beta) * self.alpha.double()).sum(1)

    def filter(self, x: Tensor, graph: Graph) -> Tensor:
        return recurrence_filter(graph, x, self.alpha, *self.basis.recurrence(self.K))
