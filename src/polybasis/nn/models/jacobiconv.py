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
from polybasis.nn.poly_conv import FixedBasisLayer


def first_factor(scale: float) -> float:
    r"""Returns the initial factor :math:`s \tanh \eta` between the coefficients of successive degrees.

    Args:
        scale: The bound s of the factors.
    """
    return scale * math.tanh(_initial_eta(scale))


def _initial_eta(scale: float) -> float:
    return min(1 / scale, 1.0)


class DecomposedFilter(FixedBasisLayer):
    r"""Jacobi filters with JacobiConv's decomposition of the coefficients.

    .. math:: \alpha_{kl} = w_{kl} \prod_{i=1}^{k} s \tanh \eta_i

    The decay along the degree is shared by all channels; the weights :math:`w_{kl}` are not.

    Args:
        channels: The number of channels.
        K: The degree.
        a: The first exponent of the Jacobi polynomials.
        b: The second exponent.
        scale: The bound s of the factors.
    """

    roles: ClassVar[dict[str, Role]] = {"alpha": "coefficients", "eta": "recurrence"}

    def __init__(self, channels: int, K: int, a: float, b: float, scale: float) -> None:
        super().__init__(channels, K, Jacobi(a, b))
        self.scale = scale
        self.alpha = torch.nn.Parameter(torch.ones(K + 1, channels))
        self.eta = torch.nn.Parameter(torch.full((K,), _initial_eta(scale)))

    def reset_parameters(self) -> None:
        torch.nn.init.ones_(self.alpha)
        torch.nn.init.constant_(self.eta, _initial_eta(self.scale))

    def coefficients(self) -> Tensor:
        decay = torch.cumprod(self.scale * self.eta.tanh(), dim=0)
        return self.alpha * torch.cat([decay.new_ones(1), decay]).unsqueeze(-1)


class JacobiConv(Model):
    """A linear layer followed by one Jacobi filter per class (Wang and Zhang, 2022); a linear model.

    Args:
        in_channels: The number of features.
        hidden_channels: Unused.
        out_channels: The number of classes.
        K: The degree of the filters.
        a: The first exponent of the Jacobi polynomials.
        b: The second exponent.
        scale: The bound of the factors in the decomposition of the coefficients.
        dropout: The dropout probability of the features.
        filter_dropout: The dropout probability before the filter.
        num_nodes: Unused.

    >>> JacobiConv(1433, 64, 7, K=10)
    JacobiConv(1433, 7, K=10, basis=Jacobi(1, 1))
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

    @property
    def output_bias(self) -> Tensor:
        return self.lin.bias

    def bias_response(self, graph: Graph) -> Tensor:
        response: Tensor = self.conv(torch.ones(graph.num_nodes, self.out_channels), graph)
        return response

    def forward(self, x: Features, graph: Graph) -> Tensor:
        scores = self.lin(dropout(x, self.dropout, self.training))
        filtered: Tensor = self.conv(dropout(scores, self.filter_dropout, self.training), graph)
        return filtered

    def __repr__(self) -> str:
        return f"JacobiConv({self.in_channels}, {self.out_channels}, K={self.conv.K}, basis={self.conv.basis!r})"
