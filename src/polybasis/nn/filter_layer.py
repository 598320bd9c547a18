"""What the filter layers share: where their graph comes from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor

from polybasis.bases import PolynomialBasis
from polybasis.graph import Graph
from polybasis.recurrence import checked_degree

Role = Literal["linear", "coefficients", "recurrence"]


class FilterLayer(torch.nn.Module, ABC):
    """A filter of degree K on every channel, with coefficients of its own for each.

    Args:
        channels: number of channels, of the signal and of the result.
        K: the degree of the polynomials; a channel has K+1 coefficients.
        cached: build the graph from the first ``edge_index`` and use it from then on, whatever comes later.

    Attributes:
        roles: the role of each of the layer's own parameters, by name; an optimiser may treat roles differently.
    """

    roles: ClassVar[dict[str, Role]] = {"alpha": "coefficients"}

    def __init__(self, channels: int, K: int, cached: bool = False) -> None:
        super().__init__()
        if channels < 0:
            raise ValueError(f"channels is {channels}; expected a whole number, 0 or more")
        self.channels = channels
        self.K = checked_degree(K)
        self.cached = cached
        self._cached_graph: Graph | None = None

    def reset_parameters(self) -> None:
        """Sets the parameters as at the start and forgets a cached graph."""
        self._cached_graph = None

    @abstractmethod
    def filter(self, x: Tensor, graph: Graph) -> Tensor:
        """The filtered signals."""

    @abstractmethod
    def polynomials(self, x: Tensor, graph: Graph) -> tuple[PolynomialBasis, Tensor]:
        """The basis in which this signal is filtered and the coefficients, (K+1, channels), as they are now."""

    @abstractmethod
    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        r"""The filter as coordinates on the optimal basis of a signal, (K+1, channels): :math:`Vc` is what it makes.

        Gradients flow to the layer's parameters. The numbers are float64.

        Args:
            gamma, sqrt_beta: (K+1, channels) of that basis.
        """

    def response(self, mu: Tensor, x: Tensor, graph: Graph) -> Tensor:
        r"""The frequency response of every channel's filter at eigenvalues :math:`\mu` of P, (len(mu), channels)."""
        basis, alpha = self.polynomials(x, graph)
        values = basis.evaluate(mu, self.K)
        values = values if values.dim() == 3 else values.unsqueeze(-1)
        return (values * alpha.detach().double().unsqueeze(1)).sum(0)

    def forward(self, x: Tensor, edge_index: Tensor | Graph, edge_weight: Tensor | None = None) -> Tensor:
        """Filters ``x``.

        Args:
            x: signals, (N, channels).
            edge_index: a :class:`polybasis.Graph`, or (2, E), made undirected and without self-loops on the way.
            edge_weight: (E,), with an ``edge_index`` of pairs only.

        Returns:
            (N, channels).
        """
        return self.filter(x, self._graph(edge_index, edge_weight, x.shape[0]))

    def _graph(self, edge_index: Tensor | Graph, edge_weight: Tensor | None, num_nodes: int) -> Graph:
        if isinstance(edge_index, Graph):
            if edge_weight is not None:
                raise ValueError(
                    "edge_weight came with a Graph; a Graph has its weights already: leave edge_weight out"
                )
            return edge_index
        if self._cached_graph is not None:
            return self._cached_graph
        graph = Graph.from_edge_index(edge_index, num_nodes, edge_weight)
        if self.cached:
            self._cached_graph = graph
        return graph

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, K={self.K})"
