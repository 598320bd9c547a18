"""JacobiConv."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from polybasis.bases import Jacobi
from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.filter_layer import Role
from polybasis.nn.linear import FeatureLinear, dropout
from polybasis.nn.models.model import Model
from polybasis.nn.poly_conv import PolyConv


def first_factor(scale: float) -> float:
    """What every further degree's coefficient is multiplied by at the start."""
    return scale * math.tanh(_first_eta(scale))


def _first_eta(scale: float) -> float:
    return min(1 / scale, 1.0)


class DecomposedFilter(PolyConv):
    r"""Jacobi filters with the coefficient decomposition :math:`\alpha_{kl} = w_{kl} \prod_{i=1}^{k} s \tanh \eta_i`: a
    common decay along the degree, and weights of its own for each channel.

    Args:
        channels, K: as of :class:`PolyConv`.
        a, b: of the Jacobi polynomials.
        scale: the s of the formula.
    """

    roles: ClassVar[dict[str, Role]] = {"alpha": "coefficients", "eta": "recurrence"}

    def __init__(self, channels: int, K: int, a: float, b: float, scale: float) -> None:
        self._scale = scale
        super().__init__(channels, K, Jacobi(a, b))

    def reset_parameters(self) -> None:
        self._cached_graph = None
        if not hasattr(self, "eta"):
            self.eta = torch.nn.Parameter(torch.empty(self.K))
        torch.nn.init.constant_(self.eta, _first_eta(self._scale))
        torch.nn.init.ones_(self.alpha)

    def coefficients(self) -> Tensor:
        decay = torch.cumprod(self._scale * self.eta.tanh(), dim=0)
        return self.alpha * torch.cat([decay.new_ones(1), decay]).unsqueeze(-1)


class JacobiConv(Model):
    """A linear model: one linear layer, and a filter in Jacobi polynomials for each class (Wang and Zhang, 2022).

    Args:
        in_channels, hidden_channels, out_channels: features, not used, classes.
        K: degree of the filters.
        a, b: of the Jacobi polynomials.
        scale: bound of the factors in the coefficient decomposition.
        dropout: rate on the features.
        filter_dropout: rate on the scores that enter the filter.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        K: int = 10,
        a: float = 1.0,
        b: float = 1.0,
        scale: float = 1.0,
        dropout: float = 0.5,
        filter_dropout: float = 0.5,
        num_nodes: int | None = None,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.lin = FeatureLinear(in_channels, out_channels)
        self.conv = DecomposedFilter(out_channels, K, a, b, scale)
        self.dropout, self.filter_dropout = dropout, filter_dropout

    def forward(self, x: Features, graph: Graph) -> Tensor:
        scores = self.lin(dropout(x, self.dropout, self.training))
        filtered: Tensor = self.conv(dropout(scores, self.filter_dropout, self.training), graph)
        return filtered

    def __repr__(self) -> str:
        return f"JacobiConv({self.in_channels}, {self.out_channels}, K={self.conv.K}, basis={self.conv.basis!r})"
