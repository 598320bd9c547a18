"""Pictures of a trained model's filters."""

from __future__ import annotations

from pathlib import Path

import torch

from polybasis.features import Features
from polybasis.graph import Graph
from polybasis.nn.interpret import filters_of, spectral_density
from polybasis.report import figures


def draw_model(model: torch.nn.Module, x: Features, graph: Graph, out: Path) -> list[Path]:
    """Writes ``responses``, ``basis`` and, where the basis has one of its own, ``weight-function`` as PNG and SVG."""
    filters = filters_of(model, x, graph)
    density = spectral_density(graph)
    written = figures.save(figures.draw_responses(filters.mu, filters.responses, density), out / "responses")
    written += figures.save(figures.draw_basis(filters.mu, filters.values), out / "basis")
    weights = filters.weight_functions()
    if weights is not None:
        written += figures.save(figures.draw_weight_functions(*weights), out / "weight-function")
    return written
