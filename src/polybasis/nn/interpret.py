"""The frequency responses of a trained model's filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.bases import Favard, PolynomialBasis
from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.krylov import optimal_basis
from polybasis.nn.filter_layer import FilterLayer
from polybasis.nn.models.ensemble import Ensemble
from polybasis.nn.optbasis_conv import OptBasisConv, check_single

PROBES, PROBE_DEGREE = 16, 80


@dataclass(frozen=True)
class Filters:
    """The filters of a model on one graph.

    Attributes:
        mu: Points of the spectrum of P, (n,), in [-1, 1]; see :meth:`polybasis.Graph.eigenvalue`.
        responses: The frequency response of each channel, (n, channels).
        basis: The polynomial basis of the filters.
        values: The basis polynomials, (K+1, n); the median over channels if each channel has its own basis.
        full_rank: Whether a channel has polynomials of all degrees, (channels,). The optimal basis of a channel ends at
            its rank; the polynomials beyond are undefined.
    """

    mu: Tensor
    responses: Tensor
    basis: PolynomialBasis
    values: Tensor
    full_rank: Tensor

    def weight_functions(self) -> tuple[Tensor, Tensor] | None:
        """Returns nodes and weights of the weight function of each channel of full rank, (K, channels) each.

        Returns None if channels share one basis, or if no channel has full rank.
        """
        if not isinstance(self.basis, Favard) or self.basis.gamma.dim() < 2 or self.basis.K == 0:
            return None
        if not self.full_rank.any():
            return None
        return Favard(self.basis.gamma[:, self.full_rank], self.basis.sqrt_beta[:, self.full_rank]).weight_function()


def filters_of(model: torch.nn.Module, x: Features, graph: Graph, points: int = 201) -> Filters:
    """Returns the filters of a trained model.

    Args:
        model: A model with one filter layer.
        x: The features, (N, in_channels); the optimal basis depends on them.
        graph: The graph, N nodes.
        points: The number of points of the spectrum.

    Raises:
        ValueError: If the model does not have exactly one polynomial filter, or filters a batch in optimal bases.

    >>> import torch, polybasis as pb
    >>> g = pb.Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
    >>> filters_of(pb.nn.FavardGNN(3, 8, 2), torch.rand(4, 3), g).responses.shape
    torch.Size([201, 8])
    """
    if isinstance(model, Ensemble):
        raise ValueError(f"{model!r} consists of several models with different filters; expected a single model")
    layers = _filter_layers(model)
    if len(layers) != 1:
        raise ValueError(f"{type(model).__name__} has {len(layers)} polynomial filters; expected a model with one")
    return filters_of_layers(model, x, graph, points)[0]


def filters_of_layers(model: torch.nn.Module, x: Features, graph: Graph, points: int = 201) -> list[Filters]:
    """Returns the filters of every filter layer of a trained model, in the order of its modules.

    Args:
        model: A model with filter layers.
        x: The features, (N, in_channels); optimal bases depend on the signals that enter their layers.
        graph: The graph, N nodes.
        points: The number of points of the spectrum.

    Raises:
        ValueError: If the model has no polynomial filter, or filters a batch in optimal bases.
    """
    layers = _filter_layers(model)
    if not layers:
        raise ValueError(f"{type(model).__name__} has no polynomial filter")
    found = []
    for layer, (signal, filtered_graph) in zip(layers, _layer_inputs(model, layers, x, graph), strict=True):
        if isinstance(layer, OptBasisConv):
            check_single(filtered_graph)
            own = optimal_basis(filtered_graph, signal, layer.K)
            found.append(filters_on_basis(layer, own.gamma, own.sqrt_beta, points))
        else:
            found.append(_filters(layer.K, *layer.polynomials(signal, filtered_graph), points))
    return found


def _filter_layers(model: torch.nn.Module) -> list[FilterLayer]:
    return [module for module in model.modules() if isinstance(module, FilterLayer)]


def filters_on_basis(layer: FilterLayer | None, gamma: Tensor, sqrt_beta: Tensor, points: int = 201) -> Filters:
    """Returns the filters of a layer on a precomputed basis; requires neither the graph nor the basis vectors.

    Args:
        layer: The filter layer of a :class:`polybasis.nn.PrecomputedGNN`.
        gamma, sqrt_beta: The coefficients of the basis, (K+1 or more, channels).
        points: The number of points of the spectrum.

    Raises:
        ValueError: If the model has no filter layer.
    """
    if layer is None:
        raise ValueError("the model has no polynomial filter")
    gamma, sqrt_beta = gamma[: layer.K + 1], sqrt_beta[: layer.K + 1]
    if isinstance(layer, OptBasisConv):
        full_rank = (sqrt_beta > 0).all(0)
        return _filters(layer.K, *layer.polynomials_on(gamma, sqrt_beta), points, full_rank)
    return _filters(layer.K, *layer.polynomials(gamma, None), points)  # type: ignore[arg-type]


def _filters(K: int, basis: PolynomialBasis, alpha: Tensor, points: int, full_rank: Tensor | None = None) -> Filters:
    mu = torch.linspace(-1, 1, points, dtype=torch.float64)
    full_rank = torch.ones(alpha.shape[1], dtype=torch.bool) if full_rank is None else full_rank
    with torch.no_grad():
        values = basis.evaluate(mu, K)
        by_channel = values if values.dim() == 3 else values.unsqueeze(-1)
        responses = (by_channel * alpha.double().unsqueeze(1)).sum(0)
        if values.dim() == 3:
            values = (values[..., full_rank] if full_rank.any() else values).median(dim=-1).values
    return Filters(mu, responses, basis, values, full_rank)


def _layer_inputs(
    model: torch.nn.Module, layers: list[FilterLayer], x: Features, graph: Graph
) -> list[tuple[Tensor, Graph]]:
    """Returns the signal and the graph that enter each filter layer in evaluation mode."""
    inputs: dict[torch.nn.Module, tuple[Any, ...]] = {}

    def note(layer: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        inputs.setdefault(layer, arguments)

    handles = [layer.register_forward_pre_hook(note) for layer in layers]
    training = model.training
    try:
        with torch.no_grad():
            model.eval()(x, graph)
    finally:
        for handle in handles:
            handle.remove()
        model.train(training)
    return [inputs[layer][:2] for layer in layers]


def spectral_density(graph: Graph, bins: int = 60) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Estimates the histogram of the eigenvalues of P by stochastic Lanczos quadrature.

    The mean of the weight functions of random signals approximates the spectral density; no eigenvalue is computed.

    Args:
        graph: The graph.
        bins: The number of bins of the histogram over [-1, 1].

    Returns:
        The edges of the bins, (bins + 1,), and the densities, (bins,).

    >>> import polybasis as pb
    >>> edges, heights = spectral_density(pb.Graph.from_edge_index([[0, 1, 2], [1, 2, 3]]), bins=4)
    >>> float((heights * 0.5).sum())
    1.0
    """
    generator = torch.Generator().manual_seed(0)
    rows = 2 * graph.num_nodes if graph.directed else graph.num_nodes
    noise = torch.randn(rows, PROBES, generator=generator, dtype=torch.float64)  # white in the symmetric form of P
    signals = graph.from_symmetric(noise)
    nodes, weights = optimal_basis(graph, signals, min(PROBE_DEGREE, graph.num_nodes)).weight_function()
    nodes = nodes.clamp(-1, 1)  # rounding can move the eigenvalue 1 out of the interval
    heights, edges = np.histogram(nodes.flatten(), bins=bins, range=(-1, 1), weights=weights.flatten(), density=True)
    return edges, heights
