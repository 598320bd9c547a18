"""Figures of a trained model's filters."""

from __future__ import annotations

from pathlib import Path

from polybasis.nn.models.ensemble import Ensemble
from polybasis.report import figures
from polybasis.report.filters import ModelFilters
from polybasis.train.source import Data
from polybasis.train.trained_model import TrainedModel


def draw_model(trained: TrainedModel, data: Data, out: Path) -> list[Path]:
    """Draws the filters of a model on some data.

    Args:
        trained: the model.
        data: a data set or a store.
        out: folder of the figures.

    Returns:
        The files, PNG and SVG: ``responses``, ``basis`` and, if the basis has a weight function, ``weight-function``.

    Raises:
        ValueError: if the model has no polynomial filter or several, or cannot be applied to the data.
    """
    found = ModelFilters.of(trained, data)
    if len(found.layers) != 1 or isinstance(trained.model, Ensemble):
        raise ValueError(f"{trained.model!r} has several filters; expected a model with one")
    filters, density = found.layers[0], found.density
    written = figures.save(figures.draw_responses(filters.mu, filters.responses, density), out / "responses")
    written += figures.save(figures.draw_basis(filters.mu, filters.values), out / "basis")
    weights = filters.weight_functions()
    if weights is not None:
        written += figures.save(figures.draw_weight_functions(*weights), out / "weight-function")
    return written
