"""The filters of a saved model on some data."""

from __future__ import annotations

from dataclasses import dataclass

from polybasis.data.dataset import NodeDataset
from polybasis.features import as_dense, transform_features
from polybasis.nn.interpret import Filters, filters_of_layers, filters_on_basis, spectral_density
from polybasis.nn.models.ensemble import Ensemble
from polybasis.nn.models.precomputed import PrecomputedGNN, basis_of
from polybasis.report.axes import FloatArray
from polybasis.train.source import Data
from polybasis.train.trained_model import TrainedModel


@dataclass(frozen=True)
class ModelFilters:
    """The filters of a model.

    Attributes:
        layers: the filters of each layer, from input to output; of the first model of an ensemble.
        density: edges and heights of the histogram of the graph's eigenvalues; None without the graph.
    """

    layers: list[Filters]
    density: tuple[FloatArray, FloatArray] | None

    @classmethod
    def of(cls, trained: TrainedModel, data: Data) -> ModelFilters:
        """The filters of a model.

        Args:
            trained: the model.
            data: a data set or a store; optimal bases depend on it.

        Raises:
            ValueError: if the model has no polynomial filter, or cannot be applied to the data.
        """
        data = trained.prepared(data)
        model = trained.model.models[0] if isinstance(trained.model, Ensemble) else trained.model
        if not isinstance(data, NodeDataset):
            if not isinstance(model, PrecomputedGNN):
                raise ValueError(f"{model!r} does not run on a store")
            return cls([filters_on_basis(model.conv, data.gamma, data.sqrt_beta)], None)
        x = transform_features(data.x, trained.config.feature_transform)
        if isinstance(model, PrecomputedGNN):
            _, gamma, sqrt_beta = basis_of(data.graph, as_dense(x), model.K)
            layers = [filters_on_basis(model.conv, gamma, sqrt_beta)]
        else:
            layers = filters_of_layers(model, x, data.graph)
        return cls(layers, spectral_density(data.graph))
