"""The filter layer with a learnable basis."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor
from torch.nn import Parameter

from polybasis.bases import Favard, PolynomialBasis
from polybasis.graph import Graph
from polybasis.krylov import recurrence_filter
from polybasis.nn.filter_layer import FilterLayer, Role, unit_coefficients

MIN_SQRT_BETA = 0.01  # as in the paper's pseudo-code
MIN_MOMENT = 1e-3
RecurrenceKind = Literal["free", "bounded"]


def free_basis(gamma: Tensor, sqrt_beta: Tensor) -> Favard:
    r"""Returns the basis of a free recurrence, with :math:`\sqrt\beta` clamped to at least 0.01.

    Args:
        gamma: (K, d).
        sqrt_beta: (K+1, d).
    """
    return Favard(gamma, sqrt_beta.clamp(min=MIN_SQRT_BETA))


def bounded_basis(logits: Tensor) -> Favard:
    """Returns the basis of canonical moments given by their logits.

    The moments are clamped to [0.001, 0.999], because at 0 and 1 the weight function degenerates and its orthonormal
    polynomials are unbounded.

    Args:
        logits: (2K, d).
    """
    return Favard.from_moments(torch.sigmoid(logits.double()).clamp(MIN_MOMENT, 1 - MIN_MOMENT))


class FavardConv(FilterLayer):
    r"""The filter of FavardGNN from `"Graph Neural Networks with Learnable and Optimal Polynomial Bases"
    <https://arxiv.org/abs/2302.12432>`_ (Guo and Wei, 2023).

    .. math::
        Z_{:l} = \sum_{k=0}^{K} \alpha_{kl}\, h_{kl}, \qquad h_{0l} = X_{:l} / \sqrt{\beta_{0l}}, \qquad
        \sqrt{\beta_{k+1,l}}\, h_{k+1,l} = P h_{kl} - \gamma_{kl}\, h_{kl} - \sqrt{\beta_{kl}}\, h_{k-1,l}

    Both the coefficients and the recurrence are learned. By Favard's theorem the polynomials are always orthonormal
    with respect to some weight function. Initially :math:`\alpha_0 = 1` and the other coefficients are 0.

    Args:
        channels: The number of channels.
        K: The degree; a channel has K+1 coefficients.
        recurrence: How the recurrence is parametrised.

            - ``"free"``: :math:`\gamma` and :math:`\sqrt\beta` are learned directly, starting from 0 and 1 as in the
              paper, with :math:`\sqrt\beta` clamped to at least 0.01. The support of the weight function may extend
              beyond the spectrum. On the spectrum, the polynomials then grow exponentially with their degree, and
              training is not smooth.
            - ``"bounded"``: the canonical moments of a weight function on [-1, 1] are learned, starting from those of
              the Chebyshev polynomials; see :meth:`polybasis.bases.Favard.from_moments`. The support always lies within
              [-1, 1].

    Shapes:
        - **input:** x (N, channels) or (B, N, channels), edge_index (2, E) or a :class:`polybasis.Graph`, edge_weight
          (E,), optional, batch (N,), optional
        - **output:** that of x

    Raises:
        ValueError: If ``recurrence`` is unknown.

    >>> import torch, polybasis as pb
    >>> conv = pb.nn.FavardConv(4, K=3)
    >>> conv
    FavardConv(4, K=3)
    >>> conv(torch.rand(5, 4), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])).shape
    torch.Size([5, 4])
    """

    roles: ClassVar[dict[str, Role]] = {
        "alpha": "coefficients",
        "gamma": "recurrence",
        "sqrt_beta": "recurrence",
        "moments": "recurrence",
    }

    def __init__(self, channels: int, K: int, recurrence: RecurrenceKind = "free") -> None:
        super().__init__(channels, K)
        if recurrence not in get_args(RecurrenceKind):
            raise ValueError(f"recurrence is {recurrence!r}; expected {' or '.join(get_args(RecurrenceKind))}")
        self.recurrence = recurrence
        self.alpha = Parameter(unit_coefficients(K, channels))
        if recurrence == "free":
            self.gamma = Parameter(torch.zeros(K, channels))
            self.sqrt_beta = Parameter(torch.ones(K + 1, channels))
        else:
            self.moments = Parameter(torch.zeros(2 * K, channels))  # as logits

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.alpha.copy_(unit_coefficients(self.K, self.channels))
            if self.recurrence == "free":
                self.gamma.zero_()
                self.sqrt_beta.fill_(1)
            else:
                self.moments.zero_()

    @torch.no_grad()
    def start_at(self, gamma: Tensor, sqrt_beta: Tensor) -> None:
        r"""Sets a free recurrence to that of the optimal basis of a signal, except for the norm of the signal.

        Then :math:`h_k = \|x\|\, v_k`, and training starts from the well-conditioned problem of OptBasisGNN. As always,
        :math:`\sqrt\beta` is clamped to at least 0.01. Beyond the rank of a channel the recurrence is unchanged.

        Args:
            gamma: The diagonal of the tridiagonal matrix of the optimal basis, (K+1, channels).
            sqrt_beta: The norm of the signal, followed by the off-diagonal, (K+1, channels).

        Raises:
            ValueError: If the recurrence is not free.
        """
        if self.recurrence != "free":
            raise ValueError(f'recurrence is {self.recurrence!r}; start_at() requires recurrence="free"')
        gamma, sqrt_beta = gamma[:-1].to(self.gamma), sqrt_beta.to(self.sqrt_beta)
        self.gamma.copy_(torch.where(sqrt_beta[:-1] > 0, gamma, self.gamma))
        clamped = torch.where(sqrt_beta > 0, sqrt_beta.clamp(min=MIN_SQRT_BETA), self.sqrt_beta)
        self.sqrt_beta[1:] = clamped[1:]

    @property
    def basis(self) -> Favard:
        """The current basis; gradients flow to the parameters."""
        return free_basis(self.gamma, self.sqrt_beta) if self.recurrence == "free" else bounded_basis(self.moments)

    def polynomials(self, x: Tensor, graph: Graph) -> tuple[PolynomialBasis, Tensor]:
        basis = self.basis
        return Favard(basis.gamma.detach(), basis.sqrt_beta.detach()), self.alpha

    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        return (self.basis.coordinates(gamma, sqrt_beta) * self.alpha.double()).sum(1)

    def filter(self, x: Tensor, graph: Graph) -> Tensor:
        return recurrence_filter(graph, x, self.alpha, *self.basis.recurrence(self.K))
