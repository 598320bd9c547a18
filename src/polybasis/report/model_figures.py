"""Figures of a trained model's filters."""

from __future__ import annotations

from pathlib import Path

from polybasis.data.dataset import NodeDataset
from polybasis.features import as_dense, transform_features
from polybasis.nn.interpret import filters_of, filters_on_basis, spectral_density
from polybasis.nn.models.precomputed import PrecomputedGNN, basis_of
from polybasis.report import figures
from polybasis.train.job import Data
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
    data = trained.prepared(data)
    model, density = trained.model, None
    if isinstance(data, NodeDataset):
        density = spectral_density(data.graph)
        x = transform_features(data.x, trained.config.feature_transform)
        if isinstance(model, PrecomputedGNN):
            _, gamma, sqrt_beta = basis_of(data.graph, as_dense(x), model.K)
            filters = filters_on_basis(model.conv, gamma, sqrt_beta)
        else:
            filters = filters_of(model, x, data.graph)
    else:
        if not isinstance(model, PrecomputedGNN):
            raise ValueError(f"{model!r} has several filters; expected a single model")
        filters = filters_on_basis(model.conv, data.gamma, data.sqrt_beta)
    written = figures.save(figures.draw_responses(filters.mu, filters.responses, density), out / "responses")
    written += figures.save(figures.draw_basis(filters.mu, filters.values), out / "basis")
    weights = filters.weight_functions()
    if weights is not None:
        written += figures.save(figures.draw_weight_functions(*weights), out / "weight-function")
    return written
