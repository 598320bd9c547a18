"""The configuration of a training run: a model, its hyperparameters and how to train it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

import torch

from polybasis.data.metrics import TargetKind
from polybasis.features import FeatureTransform
from polybasis.foreign_files import read_toml
from polybasis.nn.models.model import Model, model_class
from polybasis.nn.models.own_models import model_file
from polybasis.train.config_checks import check_choice, check_count, check_fraction
from polybasis.train.config_documents import flat_values, toml_text
from polybasis.train.config_sections import (
    ENTRIES,
    NOT_VALUES,
    SECTION_OF,
    SECTIONS,
    LossConfig,
    ModelConfig,
    OptimizerConfig,
    StoppingConfig,
)
from polybasis.train.new_model import hyperparameters, make_ensemble, new_model

LARGE = 20_000  # nodes of the user's own data above which defaults save time, see Config.of_own_data
LARGE_EPOCHS, LARGE_PATIENCE, LARGE_DEGREE = 500, 50, 5


@dataclass(frozen=True)
class Config:
    """A model, its hyperparameters and how to train it. :meth:`of` creates one from keyword arguments.

    Attributes:
        model: the model and its hyperparameters.
        optimizer: learning rates and weight decay.
        stopping: number of epochs, early stopping and the metric.
        loss: the loss and its weights.
        ensemble_size: number of models trained from different initial weights; the prediction is the mean of their
            probabilities.
        label_reuse: probability that the class of a training node is a feature in a training step; see
            :class:`polybasis.nn.models.label_reuse.LabelReuse`. None: classes are not used as features.
        feature_transform: ``row-normalize`` divides each node's features by their sum where it exceeds 1; ``binarize``
            replaces nonzeros with 1. None: features are unchanged.
        preset: the origin of the values, such as ``published`` or ``tuned``.

    >>> from polybasis.train import Config
    >>> config = Config.of("favardgnn", K=6, dropout=0.2, lr=0.05)
    >>> config.model.arguments, config.optimizer.lr
    ({'K': 6, 'dropout': 0.2}, {'linear': 0.05})
    """

    model: ModelConfig
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    stopping: StoppingConfig = field(default_factory=StoppingConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    ensemble_size: int = 1
    label_reuse: float | None = None
    feature_transform: FeatureTransform | None = None
    preset: str = "default"

    @classmethod
    def of(cls, model: str, *, precomputed: bool = False, **values: Any) -> Config:
        """The default configuration of a model with some values changed.

        Args:
            model: name of the model.
            precomputed: whether the model's filter uses a precomputed basis; the defaults are then those of the paper's
                large-scale experiments.
            values: anything :meth:`replace` accepts.

        Raises:
            ValueError: for an unknown model or value.

        >>> Config.of("optbasisgnn", K=4, epochs=50).stopping.epochs
        50
        """
        if not precomputed:
            defaults = model_class(model).training_defaults
            return _changed(cls, {"model": ModelConfig(model, sha256=_sha256(model))}, {**defaults, **values})
        lr = {"linear": 0.001, "coefficients": 0.01, "recurrence": 0.01}
        sections = {
            "model": ModelConfig(model, hidden=512, precomputed=precomputed),
            "optimizer": OptimizerConfig(lr=lr, weight_decay={"linear": 0.0}),
            "stopping": StoppingConfig(epochs=200, patience=30),
        }
        return _changed(cls, sections, values)

    @classmethod
    def of_own_data(cls, model: str, nodes: int, **values: Any) -> Config:
        """The default configuration of a model for the user's own data, with some values changed.

        It is that of :meth:`for_own_data`. With more than 20,000 nodes, training takes a fraction of the time: at most
        500 epochs in place of 1000, a patience of 50 in place of 200, and filters of degree 5 in place of 10.

        Args:
            model: name of the model.
            nodes: number of nodes.
            values: anything :meth:`replace` accepts.

        Raises:
            ValueError: for an unknown model or value.

        >>> Config.of_own_data("favardgnn", nodes=200_000).model.arguments
        {'K': 5}
        """
        kind = model_class(model)
        defaults: dict[str, Any] = {}
        if nodes > LARGE:
            defaults = {"epochs": LARGE_EPOCHS, "patience": LARGE_PATIENCE}
            if hyperparameters(ModelConfig(model)).get("K", 0) > LARGE_DEGREE:
                defaults["K"] = LARGE_DEGREE
        return cls.of(model, **{**defaults, **kind.training_defaults, **values}).for_own_data()

    def replace(self, **values: Any) -> Config:
        """This configuration with some values changed.

        Args:
            values: entries of any section or of the configuration itself, by name; any other name is an argument of
                the model. ``lr`` and ``weight_decay`` may each be one number for all roles.

        Raises:
            ValueError: for an invalid value.

        >>> Config.of("gcn").replace(dropout=0.2, lr=0.05).optimizer.lr
        {'linear': 0.05}
        """
        return _changed(type(self), {item.name: getattr(self, item.name) for item in fields(self)}, values)

    def for_own_data(self) -> Config:
        """This configuration with defaults for the user's own data in place of those of published models.

        The output bias starts at the prior, and OptBasisGNN's filter gets ``scale="signal"``, with which predictions
        do not change with the size of the graph. Values that are set do not change.

        >>> Config.of("optbasisgnn").for_own_data().model.arguments
        {'scale': 'signal'}
        """
        changed: dict[str, Any] = {}
        if self.loss.output_bias is None:
            changed["output_bias"] = "prior"
        if self.hyperparameters().get("scale") == "unit" and "scale" not in self.model.arguments:
            changed["scale"] = "signal"
        return self.replace(**changed)

    def __post_init__(self) -> None:
        known = self.hyperparameters()
        if self.model.sha256 != _sha256(self.model.name):
            found = f"the loaded file has {_sha256(self.model.name)}"
            raise ValueError(f"{self.model.name} was configured with the SHA-256 hash {self.model.sha256}; {found}")
        for name in self.model.arguments:
            if name not in known:
                raise _unknown_key(name, self.model.name, known)
        if self.feature_transform is not None:
            check_choice("feature_transform", self.feature_transform, get_args(FeatureTransform))
        if self.label_reuse is not None:
            check_fraction("label_reuse", self.label_reuse)
        check_count("ensemble_size", self.ensemble_size)
        if self.label_reuse is not None and (self.model.precomputed or self.model.name == "link"):
            model = "a precomputed basis" if self.model.precomputed else "link, which has no features"
            raise ValueError(f"label_reuse adds features; it does not apply to {model}")
        if self.optimizer.batch_size is not None and not self.model.precomputed:
            raise ValueError("batch_size applies only to models on a precomputed basis")

    def hyperparameters(self) -> dict[str, Any]:
        """The model's own arguments with their defaults."""
        return hyperparameters(self.model)

    def make_model(self, features: int, classes: int, nodes: int, target: TargetKind = "classification") -> Model:
        """A new model.

        Args:
            features: number of features.
            classes: number of classes or other outputs.
            nodes: number of nodes.
            target: the kind of target, which determines how an ensemble averages.
        """
        models = [new_model(self.model, features, classes, nodes, self.label_reuse) for _ in range(self.ensemble_size)]
        return models[0] if len(models) == 1 else make_ensemble(models, target)

    def make_optimizer(self, model: Model) -> torch.optim.Adam:
        """Adam with a parameter group for each role."""
        lr, decay = self.optimizer.lr, self.optimizer.weight_decay
        groups = [
            {
                "params": parameters,
                "lr": lr.get(role, lr["linear"]),
                "weight_decay": decay.get(role, decay["linear"]),
            }
            for role, parameters in model.parameter_groups().items()
        ]
        return torch.optim.Adam(groups, fused=True)

    # ---- documents -------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The values by section, as plain Python objects; None is omitted, and so are sections without values."""
        document: dict[str, Any] = {"preset": self.preset}
        for name in ("ensemble_size", "label_reuse", "feature_transform"):
            value = getattr(self, name)
            if value is not None and value != 1:
                document[name] = value
        model = self.model
        document["model"] = {"name": model.name, "hidden": model.hidden}
        document["model"] |= {"precomputed": True} if model.precomputed else {}
        document["model"] |= {"sha256": model.sha256} if model.sha256 is not None else {}
        document["model"] |= model.arguments
        for section in ("optimizer", "stopping", "loss"):
            values = {item.name: getattr(getattr(self, section), item.name) for item in fields(SECTIONS[section])}
            document[section] = {name: value for name, value in values.items() if value is not None}
        if not document["loss"]:
            del document["loss"]
        return deepcopy(document)

    @classmethod
    def from_dict(cls, document: dict[str, Any], origin: str = "configuration") -> Config:
        """The configuration in a document; the inverse of :meth:`to_dict`.

        Args:
            document: values by section, as plain Python objects.
            origin: prefix of error messages.

        Raises:
            ValueError: for unknown sections or keys, or invalid values.
        """
        values = flat_values(document, origin)
        precomputed = values.pop("precomputed", False)
        try:
            return cls.of(values.pop("name"), precomputed=precomputed, **values)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{origin}: {error}") from error

    def to_toml(self) -> str:
        """The configuration as TOML."""
        return toml_text(self.to_dict())

    @classmethod
    def from_toml(cls, path: str | Path) -> Config:
        """Reads a TOML file.

        Raises:
            ValueError: if the document is invalid; the message gives the file.
        """
        return cls.from_dict(read_toml(Path(path)), str(path))


def _unknown_key(key: str, model: str, arguments: Iterable[str]) -> ValueError:
    """The error for a key that is neither an argument of the model nor another entry of a configuration."""
    known = [*arguments, *(name for name in (*SECTION_OF, *ENTRIES) if name not in NOT_VALUES)]
    close = difflib.get_close_matches(key.lower(), [name.lower() for name in known], n=1)
    if close:
        meant = next(name for name in known if name.lower() == close[0])
        return ValueError(f"unknown key {key!r} for {model}; did you mean {meant!r}?")
    return ValueError(f"unknown key {key!r} for {model}; expected one of {', '.join(known)}")


def _sha256(model: str) -> str | None:
    """The hash of the file that defines a model, or None."""
    file = model_file(model)
    return None if file is None else file.sha256


def _changed(kind: type[Config], entries: dict[str, Any], values: dict[str, Any]) -> Config:
    """A configuration with the given sections and entries, and some values changed."""
    entries = {name: section() for name, section in SECTIONS.items() if name != "model"} | entries
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for name, value in values.items():
        if name in ENTRIES:
            entries[name] = value
        elif name in SECTION_OF:
            for_all_roles = name in ("lr", "weight_decay") and isinstance(value, int | float)
            sections[SECTION_OF[name]][name] = {"linear": value} if for_all_roles else value
        else:
            sections["model"].setdefault("arguments", dict(entries["model"].arguments))[name] = value
    changed = {name: replace(entries[name], **part) for name, part in sections.items() if part}
    return kind(**entries | changed)
