"""The base class of the filter layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor

from polybasis.bases import PolynomialBasis
from polybasis.graph import Graph
from polybasis.krylov.filters import checked_degree
from polybasis.nn.graph_cache import Adjacency, graph_of

Role = Literal["linear", "coefficients", "recurrence"]


class FilterLayer(torch.nn.Module, ABC):
    """A layer that filters every channel by its own polynomial of degree K.

    Subclasses create and initialise their parameters in the constructor. ``reset_parameters`` restores these values.

    Args:
        channels: The number of input and output channels.
        K: The degree of the polynomials; a channel has K+1 coefficients.

    Attributes:
        roles: The role of each parameter of the layer, by name. Each role may have its own learning rate.

    Raises:
        ValueError: If ``channels`` or ``K`` is negative.
    """

    roles: ClassVar[dict[str, Role]] = {"alpha": "coefficients"}

    def __init__(self, channels: int, K: int) -> None:
        super().__init__()
        if channels < 0:
            raise ValueError(f"channels is {channels}; expected a non-negative integer")
        self.channels = channels
        self.K = checked_degree(K)

    @abstractmethod
    def reset_parameters(self) -> None:
        """Restores the initial parameters."""

    @abstractmethod
    def filter(self, x: Tensor, graph: Graph) -> Tensor:
        """Returns the filtered signal, (N, channels).

        Args:
            x: The signal, (N, channels).
            graph: The graph, N nodes.
        """

    @abstractmethod
    def polynomials(self, x: Tensor, graph: Graph) -> tuple[PolynomialBasis, Tensor]:
        """Returns the polynomial basis in which ``x`` is filtered and the current coefficients.

        Args:
            x: The signal, (N, channels).
            graph: The graph, N nodes.

        Returns:
            The basis, of degree K, and the coefficients, (K+1, channels).
        """

    @abstractmethod
    def coordinates(self, gamma: Tensor, sqrt_beta: Tensor) -> Tensor:
        r"""Returns the coordinates c of the filtered signal :math:`V c` in the optimal basis V of the input.

        Gradients flow to the parameters of the layer.

        Args:
            gamma: The diagonal of the tridiagonal matrix of the optimal basis, (K+1, channels).
            sqrt_beta: The norm of the signal, followed by the off-diagonal, (K+1, channels).

        Returns:
            (K+1, channels), float64.
        """

    def response(self, mu: Tensor, x: Tensor, graph: Graph) -> Tensor:
        r"""Returns the frequency response of every channel.

        Args:
            mu: Eigenvalues :math:`\mu \in [-1, 1]` of P, (n,).
            x: The signal, (N, channels); the optimal basis depends on it.
            graph: The graph, N nodes.

        Returns:
            (n, channels), float64.
        """
        basis, alpha = self.polynomials(x, graph)
        values = basis.evaluate(mu, self.K)
        values = values if values.dim() == 3 else values.unsqueeze(-1)
        return (values * alpha.detach().double().unsqueeze(1)).sum(0)

    def forward(
        self,
        x: Tensor,
        edge_index: Adjacency,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Filters a signal.

        Args:
            x: The signal, (N, channels); (N,) for a single channel; or several signals, (B, N, channels).
            edge_index: A :class:`polybasis.Graph`; node pairs of shape (2, E), which are made undirected and stripped
                of self-loops; or a sparse adjacency matrix in a format of :meth:`polybasis.Graph.from_adjacency`. For
                node pairs, the graph is built once and cached for the lifetime of the tensor.
            edge_weight: The weights of the node pairs, (E,); must be omitted with a Graph or a matrix. Gradients flow
                to weights that require them.
            batch: The index of the graph that each node belongs to, (N,), ascending, as in PyG; must be omitted with a
                Graph. Every graph is filtered as if it were alone.

        Returns:
            The filtered signal, in the shape of ``x``.

        Raises:
            ValueError: If the signal is not finite, a shape is wrong, or ``edge_weight`` or ``batch`` is given with a
                Graph.
            TypeError: If the signal is not a tensor.
        """
        if not isinstance(x, Tensor):
            raise TypeError(f"x is a {type(x).__name__}; expected a torch tensor of shape (N, {self.channels})")
        if not 1 <= x.dim() <= 3 or (1 if x.dim() == 1 else x.shape[-1]) != self.channels:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (N, {self.channels}) or (B, N, {self.channels})")
        if isinstance(edge_index, Graph) and edge_weight is None and batch is None:
            return self.filter(x, edge_index)
        return self.filter(x, graph_of(edge_index, x.shape[0 if x.dim() == 1 else -2], edge_weight, batch))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, K={self.K})"


def unit_coefficients(K: int, channels: int) -> Tensor:
    r"""Returns coefficients with :math:`\alpha_0 = 1` and all others 0, (K+1, channels)."""
    alpha = torch.zeros(K + 1, channels)
    alpha[0] = 1
    return alpha
