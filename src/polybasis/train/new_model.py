"""Models as configurations describe them: hyperparameters, new models and ensembles."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from polybasis.data.metrics import TargetKind
from polybasis.nn.models.model import Model, model_class
from polybasis.train.config_sections import ENTRIES, SECTION_OF, SECTIONS, ModelConfig

if TYPE_CHECKING:
    from polybasis.nn.models.ensemble import Ensemble


def hyperparameters(config: ModelConfig) -> dict[str, Any]:
    """The model's own arguments with their defaults.

    Raises:
        ValueError: if the model is unknown or has no precomputed version, or if an argument has the name of a
            configuration key.
    """
    if config.precomputed:
        return _precomputed_hyperparameters(config.name)
    return _hyperparameters(model_class(config.name))


@cache
def _hyperparameters(cls: type[Model]) -> dict[str, Any]:
    found = cls.hyperparameters()
    reserved = sorted(found.keys() & {*SECTION_OF, *SECTIONS, *ENTRIES})
    if reserved:
        raise ValueError(
            f"{cls.__name__} has an argument {reserved[0]!r}, which is a key of every configuration; rename it"
        )
    return found


@cache
def _precomputed_hyperparameters(model: str) -> dict[str, Any]:
    from polybasis.nn.models.precomputed import precomputed_hyperparameters

    return precomputed_hyperparameters(model)


def new_model(config: ModelConfig, features: int, classes: int, nodes: int, label_reuse: float | None = None) -> Model:
    """A new model.

    Args:
        config: the model's name, width and arguments.
        features, classes, nodes: numbers of features, of classes or other outputs, and of nodes.
        label_reuse: probability that the class of a training node is a feature; None: classes are not used.
    """
    name, hidden, arguments = config.name, config.hidden, config.arguments
    if config.precomputed:
        from polybasis.nn.models.precomputed import PrecomputedGNN

        return PrecomputedGNN(name, features, hidden, classes, num_nodes=nodes, **arguments).float()
    if label_reuse is None:
        return model_class(name)(features, hidden, classes, num_nodes=nodes, **arguments).float()
    from polybasis.nn.models.label_reuse import LabelReuse

    model = model_class(name)(features + classes, hidden, classes, num_nodes=nodes, **arguments).float()
    return LabelReuse(model, label_reuse, nodes)


def make_ensemble(models: Iterable[Model], target: TargetKind) -> Ensemble:
    """An ensemble of models for a kind of target."""
    from polybasis.nn.models.ensemble import Ensemble, Link

    links: dict[TargetKind, Link] = {
        "classification": "softmax",
        "multi-label": "sigmoid",
        "regression": "identity",
    }
    return Ensemble(models, links[target])
