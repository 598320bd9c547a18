"""A polynomial filter learned from input and output signals in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.polynomial import Chebyshev as ChebyshevSeries
from numpy.typing import NDArray
from torch import Tensor

from polybasis.bases.favard import Favard
from polybasis.graph import Graph, check_graph
from polybasis.krylov import OptimalBasis, optimal_basis, recurrence_filter
from polybasis.krylov.filters import checked_degree
from polybasis.parameters import NotFittedError, Parameters
from polybasis.signals import AnySignal, Signal, as_channels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class GraphFilter(Parameters):
    r"""A polynomial filter :math:`p(P)` of degree K, fitted to pairs of signals :math:`(x_j, y_j)`.

    .. math:: \min_p \; \sum_j \frac{\|p(P)\, x_j - y_j\|^2}{\sum_i \|x_i\|^2}
              + \rho \cdot \frac12 \int_{-1}^{1} p(\mu)^2 \, d\mu

    In the optimal basis, the Hessian of the first term is the identity, so the solution for one pair is
    :math:`c = V^\top y` and needs no iterative optimisation. For several pairs, the filter uses the basis that is
    jointly optimal. With ``normalization="rw"``, norms are weighted by node degrees.

    Args:
        K: The degree of the polynomial.
        ridge: The weight :math:`\rho \ge 0` of the penalty on the response.

    Attributes:
        basis_: The orthonormal polynomials, a :class:`polybasis.bases.Favard`.
        coefficients_: The coefficients of the filter in ``basis_``, at most K+1.
        mse_: The mean squared error of the fit.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> x = torch.rand(5, 1, dtype=torch.float64)
    >>> y = 2 * x - g @ x
    >>> f = pb.GraphFilter(K=1).fit(g, x, y)
    >>> f.response([0.0, 1.0]).round(6).tolist()  # 2 - mu
    [2.0, 1.0]
    """

    _kind = "transformer"
    basis_: Favard
    coefficients_: Tensor
    mse_: float

    def __init__(self, K: int = 10, ridge: float = 0.0) -> None:
        self.K = K
        self.ridge = ridge

    def fit(self, graph: Graph, x: Signal, y: Signal) -> GraphFilter:
        """Fits the filter to pairs of signals.

        Args:
            graph: The graph, N nodes.
            x: The input signals, (N,), or (N, d) or (B, N, d) for d or B d pairs: a torch tensor, a NumPy array, or
                columns of pandas or polars.
            y: The output signals, of the same shape.

        Returns:
            The filter itself.

        Raises:
            ValueError: If K or ridge is negative, if the signals are not finite or have different shapes, if ``x`` is
                zero, or if the graph is directed or a batch.
            TypeError: If a signal is neither a tensor nor an array, or ``graph`` is not a Graph.
        """
        K = checked_degree(self.K)
        if not self.ridge >= 0:
            raise ValueError(f"ridge is {self.ridge}; expected a non-negative number")
        _check_real(graph)
        x, y = _array(x), _array(y)
        if graph.ptr is not None:
            raise ValueError(
                f"graph is a batch of {graph.num_graphs}; GraphFilter fits a single graph: omit batch and ptr"
            )
        inputs, outputs = as_channels(x, graph.num_nodes)[0].double(), as_channels(y, graph.num_nodes, "y")[0].double()
        if tuple(x.shape) != tuple(y.shape):
            raise ValueError(f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}; expected the same shape for both")
        if not torch.isfinite(outputs).all():
            raise ValueError("y is not finite; signals must be finite")
        own = optimal_basis(graph, inputs, K)
        if int(own.rank.sum()) == 0:
            raise ValueError("x is zero everywhere; expected a nonzero signal")
        basis = joint_basis(own)
        # y in the basis of each signal
        inner = torch.einsum("knd,nd->kd", graph.to_symmetric(own.vectors), graph.to_symmetric(outputs))
        coordinates = basis.coordinates(own.gamma[: basis.K + 1], own.sqrt_beta[: basis.K + 1])
        coefficients = torch.einsum("jkd,jd->k", coordinates, inner[: basis.K + 1])
        if self.ridge > 0:
            penalty = self.ridge * float(own.sqrt_beta[0].square().sum()) * _gram_on_interval(basis)
            coefficients = torch.linalg.solve(torch.eye(len(penalty), dtype=penalty.dtype) + penalty, coefficients)
        self.basis_, self.coefficients_ = basis, coefficients
        self.mse_ = float((self.transform(graph, inputs) - outputs).square().mean())
        return self

    def transform(self, graph: Graph, x: AnySignal) -> AnySignal:
        """Filters a signal on the same graph or another one.

        Args:
            graph: The graph, N nodes.
            x: The signal, (N,), (N, d) or (B, N, d), a torch tensor, a NumPy array, or columns of pandas or polars.

        Returns:
            A tensor or array with the shape and floating-point type of ``x``, or in float64 if ``x`` has integers.

        Raises:
            ValueError: If the filter is not fitted, or if the signal is not finite or has the wrong shape.
        """
        basis, coefficients = self._fitted()
        _check_real(graph)
        signal, restore = as_channels(_array(x), graph.num_nodes)
        channels = signal.shape[1]
        alpha = coefficients.unsqueeze(-1).expand(-1, channels).contiguous()
        filtered = recurrence_filter(graph, signal.double(), alpha, *basis.recurrence(basis.K).per_channel(channels))
        return restore(filtered.to(signal.dtype))

    def response(self, mu: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        r"""Returns the frequency response :math:`p(\mu)` at eigenvalues :math:`\mu \in [-1, 1]` of P.

        Args:
            mu: An array of any shape.

        Returns:
            An array of the same shape.
        """
        basis, coefficients = self._fitted()
        points = torch.as_tensor(np.asarray(mu, dtype=np.float64))
        return torch.einsum("k...,k->...", basis.evaluate(points, basis.K), coefficients).numpy()

    def polynomial(self) -> ChebyshevSeries:
        """Returns the filter as a NumPy polynomial in mu.

        ``.convert(kind=numpy.polynomial.Polynomial)`` converts it to powers of mu.
        """
        basis, coefficients = self._fitted()
        return ChebyshevSeries((basis.to_chebyshev(basis.K) @ coefficients).numpy())

    def spectral_density(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Returns the spectral density of the input signals of the fit.

        .. math:: \sum_i w_i\, p(\mu_i) = \frac{\sum_j \langle x_j, p(P)\, x_j\rangle}{\sum_j \|x_j\|^2}
                  \quad \text{for all } p \text{ of degree at most } 2K+1

        Returns:
            The nodes :math:`\mu_i` of the Gauss quadrature in ascending order and their shares :math:`w_i` of the
            energy, whose sum is 1.
        """
        nodes, weights = self._fitted()[0].weight_function()
        return nodes.numpy(), (weights / weights.sum()).numpy()

    def plot(self, ax: Axes | None = None, *, energy: bool = True) -> Axes:
        """Plots the response over the spectral density of the input signals of the fit.

        Hatched parts of the spectrum hold less than 0.1% of the energy. There, the fit does not determine the
        response, which is extrapolated.

        Args:
            ax: The axes to draw on; by default those of a new figure.
            energy: Whether to draw the spectral density; pass False to add further filters to the same axes.

        Returns:
            The axes.
        """
        from polybasis.report.figures import plot_energy, plot_response

        basis, _ = self._fitted()
        ax = plot_response(self.response, ax, label="response")
        if energy:
            # A basis of a lower degree ends where the Krylov spaces end: the nodes are then eigenvalues of P.
            plot_energy(ax, *self.spectral_density(), isolated=basis.K < self.K)
        return ax

    def _fitted(self) -> tuple[Favard, Tensor]:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this filter has not been fitted; call fit(graph, x, y) first")
        return self.basis_, self.coefficients_

    def __sklearn_is_fitted__(self) -> bool:
        return "basis_" in vars(self)


def joint_basis(own: OptimalBasis) -> Favard:
    r"""Returns the polynomials that are orthonormal with respect to the joint spectral density of several signals.

    .. math:: \sum_j \langle p_k(P)\, x_j,\; p_l(P)\, x_j \rangle = \delta_{kl}

    The joint spectral density is the sum of those of the signals, and the Gauss quadrature of each signal is exact for
    the polynomials involved. The Lanczos process on the joint quadrature nodes therefore gives the recurrence.

    Args:
        own: The optimal bases of the signals.

    Returns:
        The basis, of degree at most ``own.K``.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> joint_basis(pb.optimal_basis(g, torch.rand(5, 3, dtype=torch.float64), K=2))
    Favard(K=2)
    """
    nodes, weights = (values.flatten() for values in own.weight_function())
    positive = weights > 0
    nodes, weights = nodes[positive], weights[positive]
    size = min(len(own.gamma), len(nodes))
    mass = weights.sum().sqrt()
    vectors = [weights.sqrt() / mass]
    gamma, sqrt_beta = [(nodes * vectors[0] ** 2).sum()], [mass]
    for _ in range(1, size):
        residual = nodes * vectors[-1]
        for _ in range(2):  # "twice is enough" (Kahan and Parlett)
            for vector in vectors:
                residual = residual - (residual @ vector) * vector
        norm = torch.linalg.vector_norm(residual)
        if float(norm) < 1e-10:  # the Krylov spaces of all signals end here
            break
        vectors.append(residual / norm)
        sqrt_beta.append(norm)
        gamma.append((nodes * vectors[-1] ** 2).sum())
    return Favard(torch.stack(gamma), torch.stack(sqrt_beta))


def _array(x: AnySignal) -> AnySignal:
    """Returns columns of pandas or polars as a NumPy array, other signals as they are."""
    return cast(AnySignal, x.to_numpy()) if hasattr(x, "to_numpy") else x


def _check_real(graph: Graph) -> None:
    check_graph(graph)
    if graph.directed:
        raise ValueError("graph is directed; GraphFilter fits real signals and requires an undirected graph")


def _gram_on_interval(basis: Favard) -> Tensor:
    """Returns half the integrals over [-1, 1] of the products of the basis polynomials."""
    points, weights = np.polynomial.legendre.leggauss(basis.K + 1)
    values = basis.evaluate(torch.from_numpy(points), basis.K)
    return values * torch.from_numpy(weights / 2) @ values.T
