"""What a trained model's filters do to the spectrum."""

from __future__ import annotations

from dataclasses import dataclass

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
from polybasis.nn.optbasis_conv import OptBasisConv

PROBES, PROBE_DEGREE = 16, 80


@dataclass(frozen=True)
class Filters:
    """The filters of a model on one graph.

    Attributes:
        mu: points of the spectrum, (n,).
        responses: (n, channels).
        basis: the polynomials they are made of.
        values: the basis polynomials, (K+1, n), the median over channels where each has its own.
        whole: which channels have polynomials of all degrees, (channels,): the optimal basis of a signal ends at its
            rank, and what is beyond means nothing.
    """

    mu: Tensor
    responses: Tensor
    basis: PolynomialBasis
    values: Tensor
    whole: Tensor

    def weight_functions(self) -> tuple[Tensor, Tensor] | None:
        """Nodes and weights of each channel's weight function, (n, channels), where the basis has one of its own."""
        if not isinstance(self.basis, Favard) or self.basis.gamma.dim() < 2 or self.basis.K == 0:
            return None
        if not self.whole.any():
            return None
        return Favard(self.basis.gamma[:, self.whole], self.basis.sqrt_beta[:, self.whole]).weight_function()


def filters_of(model: torch.nn.Module, x: Features, graph: Graph, points: int = 201) -> Filters:
    """The filters of a trained model.

    Args:
        model: a model with one filter layer.
        x, graph: features and graph; the optimal basis depends on them.
        points: how many points of the spectrum.

    Raises:
        ValueError: where the model has no polynomial filter, or several.
    """
    if isinstance(model, Ensemble):
        raise ValueError(f"{model!r} has several models, each with filters of its own; expected a single model")
    layers = [module for module in model.modules() if isinstance(module, FilterLayer)]
    if len(layers) != 1:
        raise ValueError(f"{type(model).__name__} has {len(layers)} polynomial filters; expected a model with one")
    layer, caught = layers[0], []
    handle = layer.register_forward_pre_hook(lambda _, inputs: caught.append(inputs))
    training = model.training
    try:
        with torch.no_grad():
            model.eval()(x, graph)
    finally:
        handle.remove()
        model.train(training)
    signal, on_graph = caught[0][:2]
    mu = torch.linspace(-1, 1, points, dtype=torch.float64)
    basis, alpha = layer.polynomials(signal, on_graph)
    whole = torch.ones(alpha.shape[1], dtype=torch.bool)
    if isinstance(layer, OptBasisConv):
        whole = optimal_basis(on_graph, signal, layer.K).rank == layer.K + 1
    values = basis.evaluate(mu, layer.K)
    if values.dim() == 3:
        values = (values[..., whole] if whole.any() else values).median(dim=-1).values
    with torch.no_grad():
        responses = layer.response(mu, signal, on_graph)
    return Filters(mu, responses, basis, values, whole)


def spectral_density(graph: Graph, bins: int = 60) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A histogram of the eigenvalues of P, by the Gauss quadratures of random signals: edges and heights.

    No eigenvalue is computed: the weight functions of a few random signals have the spectrum's density for their mean.
    """
    generator = torch.Generator().manual_seed(0)
    signals = torch.randn(graph.num_nodes, PROBES, generator=generator, dtype=torch.float64)
    nodes, weights = optimal_basis(graph, signals, min(PROBE_DEGREE, graph.num_nodes)).weight_function()
    # Rounding may put an eigenvalue of 1, which every component has, a little beyond.
    nodes = nodes.clamp(-1, 1)
    heights, edges = np.histogram(nodes.flatten(), bins=bins, range=(-1, 1), weights=weights.flatten(), density=True)
    return edges, heights


def filters_on_basis(model: torch.nn.Module, gamma: Tensor, sqrt_beta: Tensor, points: int = 201) -> Filters:
    """The filters of a trained model on a precomputed basis; nothing of the graph's size is needed.

    Args:
        model: a :class:`polybasis.nn.PrecomputedGNN`.
        gamma, sqrt_beta: coefficients of the basis, (K+1 or more, channels).
        points: number of points of the spectrum.

    Raises:
        ValueError: if the model has no polynomial filter.
    """
    layer = getattr(model, "conv", None)
    if not isinstance(layer, FilterLayer):
        raise ValueError(f"{model!r} has no polynomial filter to plot")
    gamma, sqrt_beta = gamma[: layer.K + 1], sqrt_beta[: layer.K + 1]
    mu = torch.linspace(-1, 1, points, dtype=torch.float64)
    known = sqrt_beta > 0
    with torch.no_grad():
        if isinstance(layer, OptBasisConv):
            unit = torch.where(known, sqrt_beta, 1.0)
            unit[0] = 1
            basis: PolynomialBasis = Favard(gamma[:-1], unit)
            alpha, whole = torch.where(known, layer.alpha, 0), known.all(0)
        else:
            basis, alpha = layer.polynomials(gamma, None)  # type: ignore[arg-type]
            whole = torch.ones(gamma.shape[1], dtype=torch.bool)
        values = basis.evaluate(mu, layer.K)
        by_channel = values if values.dim() == 3 else values.unsqueeze(-1)
        responses = (by_channel * alpha.double().unsqueeze(1)).sum(0)
        if values.dim() == 3:
            values = (values[..., whole] if whole.any() else values).median(dim=-1).values
    return Filters(mu, responses, basis, values, whole)
