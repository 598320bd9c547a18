"""Training configurations, stored as TOML files with one section per topic.

.. code-block:: toml

    preset = "published"

    [model]
    name = "optbasisgnn"
    hidden = 64
    K = 10

    [optimizer]
    lr = { linear = 0.01, coefficients = 0.005 }

    [stopping]
    epochs = 1000
    patience = 200

    [loss]
    class_weight = "balanced"
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from polybasis.data.metrics import Metric, TargetKind, as_metric
from polybasis.features import FeatureTransform
from polybasis.foreign_files import read_toml
from polybasis.nn.filter_layer import Role
from polybasis.nn.models.model import Model, model_class
from polybasis.nn.models.own_models import model_file

if TYPE_CHECKING:
    from polybasis.nn.models.ensemble import Ensemble

EarlyStopping = Literal["score", "loss", "none"]
OutputBias = Literal["prior", "random"]
RegressionLoss = Literal["squared", "huber"]
Preset = Literal["published", "tuned", "honest"]
BATCH_SIZE = 10_000  # default for models on a precomputed basis
LARGE = 20_000  # nodes of the user's own data above which defaults save time, see Config.of_own_data
LARGE_EPOCHS, LARGE_PATIENCE, LARGE_DEGREE = 500, 50, 5


@dataclass(frozen=True)
class ModelConfig:
    """The model.

    Attributes:
        name: name of the model; see ``polybasis.nn.MODELS``.
        hidden: hidden width.
        precomputed: whether the model's filter uses a precomputed basis of the features, as in a store.
        arguments: the model's own hyperparameters, such as ``K`` and ``dropout``.
        sha256: SHA-256 hash of the file that defines a model ``FILE.py:Class``; None for other models.
    """

    name: str
    hidden: int = 64
    precomputed: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    sha256: str | None = None


@dataclass(frozen=True)
class OptimizerConfig:
    """The settings of Adam.

    Attributes:
        lr, weight_decay: by role of the parameters (``linear``, ``coefficients``, ``recurrence``); a role without an
            entry uses the value for ``linear``.
        ema_decay: decay of the exponential moving average of the weights; the averaged model is then validated and
            kept. None: no average.
        batch_size: nodes in a batch, for models on a precomputed basis. None: all nodes of a graph, or 10,000 nodes of
            a store.
    """

    lr: dict[str, float] = field(default_factory=lambda: {"linear": 0.01})
    weight_decay: dict[str, float] = field(
        default_factory=lambda: {"linear": 5e-4, "coefficients": 0.0, "recurrence": 0.0}
    )
    ema_decay: float | None = None
    batch_size: int | None = None


@dataclass(frozen=True)
class StoppingConfig:
    """When training stops, and which epoch is kept.

    Attributes:
        epochs: maximum number of epochs.
        patience: epochs without improvement after which training stops. An equal score counts as an improvement,
            unless it is that of a perfect ranking.
        early_stopping: the quantity that must improve: the validation ``score`` or the validation ``loss``; ties go to
            the later epoch. ``none``: train for exactly ``epochs`` epochs and keep the last one. With few
            validation nodes of a class, the score is smoothed; see :mod:`polybasis.train.early_stopping`.
        metric: the metric of the score, see :mod:`polybasis.data.metrics`. None: the data set's metric.
    """

    epochs: int = 1000
    patience: int = 200
    early_stopping: EarlyStopping = "score"
    metric: Metric | None = None


@dataclass(frozen=True)
class LossConfig:
    """The training loss: cross entropy for classes and labels; for regression, of the standardised target.

    Attributes:
        class_weight: ``balanced``, with which all classes have the same total weight, or a weight for each class by
            name, 1 for classes that are not given. None: all nodes have the same weight.
        output_bias: ``prior``: the output bias starts at the logarithm of the class frequencies among the training
            nodes, weighted as in the loss, so that training need not move all predictions to the base rate first.
            ``random``: it starts at random, as in the published models. None: ``random``, but ``prior`` for the user's
            own data, see :meth:`Config.for_own_data`.
        regression_loss: ``squared`` (Gaussian) or ``huber``, which limits the influence of outliers. None: ``squared``.
    """

    class_weight: Literal["balanced"] | dict[str, float] | None = None
    output_bias: OutputBias | None = None
    regression_loss: RegressionLoss | None = None

    def __post_init__(self) -> None:
        if isinstance(self.class_weight, dict):  # TOML and JSON have keys of text only
            object.__setattr__(self, "class_weight", {str(name): weight for name, weight in self.class_weight.items()})


SECTIONS: dict[str, type[Any]] = {
    "model": ModelConfig,
    "optimizer": OptimizerConfig,
    "stopping": StoppingConfig,
    "loss": LossConfig,
}
_SECTION_OF = {item.name: name for name, section in SECTIONS.items() for item in fields(section)}


@dataclass(frozen=True)
class Config:
    """A model, its hyperparameters and how to train it. :meth:`of` creates one from keyword arguments.

    Attributes:
        model, optimizer, stopping, loss: the sections.
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
            if _hyperparameters(kind).get("K", 0) > LARGE_DEGREE:
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
                raise ValueError(f"{self.model.name} has no argument {name!r}; expected {', '.join(known) or 'none'}")
        for table in ("lr", "weight_decay"):
            numbers = getattr(self.optimizer, table)
            if not isinstance(numbers, dict) or "linear" not in numbers:
                raise ValueError(f"{table} has no entry for the role 'linear'")
            for role, number in numbers.items():
                if role not in get_args(Role):
                    raise ValueError(f"{table} has the unknown role {role!r}; expected {', '.join(get_args(Role))}")
                if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
                    raise ValueError(f"{table}.{role} is {number!r}; expected a non-negative number")
        choices: dict[str, tuple[Any, tuple[Any, ...]]] = {
            "early_stopping": (self.stopping.early_stopping, get_args(EarlyStopping)),
            "feature_transform": (self.feature_transform, (None, *get_args(FeatureTransform))),
            "output_bias": (self.loss.output_bias, (None, *get_args(OutputBias))),
            "regression_loss": (self.loss.regression_loss, (None, *get_args(RegressionLoss))),
        }
        for name, (value, expected) in choices.items():
            if value not in expected:
                raise ValueError(f"{name} is {value!r}; expected {', '.join(str(item) for item in expected if item)}")
        if self.stopping.metric is not None:
            as_metric(self.stopping.metric)
        weights = self.loss.class_weight
        if not (weights is None or weights == "balanced" or isinstance(weights, dict)):
            raise ValueError(f"class_weight is {weights!r}; expected balanced or a weight for each class")
        for name, value in weights.items() if isinstance(weights, dict) else ():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"class_weight of {name!r} is {value!r}; expected a positive number")
        for name, value in (("ema_decay", self.optimizer.ema_decay), ("label_reuse", self.label_reuse)):
            if value is not None and not (isinstance(value, int | float) and 0 < value < 1):
                raise ValueError(f"{name} is {value!r}; expected a number between 0 and 1")
        counts = {
            "hidden": self.model.hidden,
            "epochs": self.stopping.epochs,
            "patience": self.stopping.patience,
            "ensemble_size": self.ensemble_size,
            "batch_size": self.optimizer.batch_size,
        }
        for name, value in counts.items():
            if name == "batch_size" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}; expected a positive integer")
        if not isinstance(self.model.precomputed, bool):
            raise ValueError(f"precomputed is {self.model.precomputed!r}; expected true or false")
        if self.label_reuse is not None and (self.model.precomputed or self.model.name == "link"):
            model = "a precomputed basis" if self.model.precomputed else "link, which has no features"
            raise ValueError(f"label_reuse adds features; it does not apply to {model}")
        if self.optimizer.batch_size is not None and not self.model.precomputed:
            raise ValueError("batch_size applies only to models on a precomputed basis")

    def hyperparameters(self) -> dict[str, Any]:
        """The model's own arguments with their defaults."""
        if self.model.precomputed:
            return _precomputed_hyperparameters(self.model.name)
        return _hyperparameters(model_class(self.model.name))

    def make_model(self, features: int, classes: int, nodes: int, target: TargetKind = "classification") -> Model:
        """A new model.

        Args:
            features, classes, nodes: numbers of features, of classes or other outputs, and of nodes.
            target: the kind of target, which determines how an ensemble averages.
        """
        if self.ensemble_size > 1:
            single = replace(self, ensemble_size=1)
            return make_ensemble(
                (single.make_model(features, classes, nodes) for _ in range(self.ensemble_size)), target
            )
        name, hidden, arguments = self.model.name, self.model.hidden, self.model.arguments
        if self.model.precomputed:
            from polybasis.nn.models.precomputed import PrecomputedGNN

            return PrecomputedGNN(name, features, hidden, classes, num_nodes=nodes, **arguments).float()
        if self.label_reuse is None:
            return model_class(name)(features, hidden, classes, num_nodes=nodes, **arguments).float()
        from polybasis.nn.models.label_reuse import LabelReuse

        model = model_class(name)(features + classes, hidden, classes, num_nodes=nodes, **arguments).float()
        return LabelReuse(model, self.label_reuse, nodes)

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
        known = {item.name for item in fields(cls)}
        for key in document:
            if key not in known:
                raise ValueError(f"{origin}: unknown key {key!r}; expected {', '.join(sorted(known))}")
        values = dict(document)
        for name in SECTIONS:
            section = values.pop(name, {})
            if not isinstance(section, dict):
                raise ValueError(f"{origin}: {name} is {section!r}; expected a section [{name}]")
            for key in section:
                # Any other key of [model] is an argument of the model and is checked below.
                default = "model" if name == "model" and key not in known else None
                if _SECTION_OF.get(key, default) != name or key == "arguments":
                    expected = ", ".join(item.name for item in fields(SECTIONS[name]))
                    expected = expected.replace("arguments", "arguments of the model")
                    raise ValueError(f"{origin}: unknown key {key!r} in [{name}]; expected {expected}")
            values |= section
        if "name" not in values:
            raise ValueError(f'{origin}: no model; add a section [model] with name = "optbasisgnn"')
        precomputed = values.pop("precomputed", False)
        try:
            return cls.of(values.pop("name"), precomputed=precomputed, **values)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{origin}: {error}") from error

    def to_toml(self) -> str:
        """The configuration as TOML."""
        lines: list[str] = []
        for name, value in self.to_dict().items():
            if name in SECTIONS:
                lines += ["", f"[{name}]", *(f"{key} = {_toml(item)}" for key, item in value.items())]
            else:
                lines.append(f"{name} = {_toml(value)}")
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, path: str | Path) -> Config:
        """Reads a TOML file.

        Raises:
            ValueError: if the document is invalid; the message gives the file.
        """
        return cls.from_dict(read_toml(Path(path)), str(path))


@cache
def _hyperparameters(cls: type[Model]) -> dict[str, Any]:
    found = cls.hyperparameters()
    reserved = sorted(found.keys() & {*_SECTION_OF, *(item.name for item in fields(Config))})
    if reserved:
        raise ValueError(
            f"{cls.__name__} has an argument {reserved[0]!r}, which is a key of every configuration; rename it"
        )
    return found


@cache
def _precomputed_hyperparameters(model: str) -> dict[str, Any]:
    from polybasis.nn.models.precomputed import precomputed_hyperparameters

    return precomputed_hyperparameters(model)


def _sha256(model: str) -> str | None:
    """The hash of the file that defines a model, or None."""
    file = model_file(model)
    return None if file is None else file.sha256


def _changed(kind: type[Config], entries: dict[str, Any], values: dict[str, Any]) -> Config:
    """A configuration with the given sections and entries, and some values changed."""
    entries = {name: section() for name, section in SECTIONS.items() if name != "model"} | entries
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for name, value in values.items():
        if name in ("ensemble_size", "label_reuse", "feature_transform", "preset"):
            entries[name] = value
        elif name in _SECTION_OF:
            for_all_roles = name in ("lr", "weight_decay") and isinstance(value, int | float)
            sections[_SECTION_OF[name]][name] = {"linear": value} if for_all_roles else value
        else:
            sections["model"].setdefault("arguments", dict(entries["model"].arguments))[name] = value
    changed = {name: replace(entries[name], **part) for name, part in sections.items() if part}
    return kind(**entries | changed)


def make_ensemble(models: Iterable[Model], target: TargetKind) -> Ensemble:
    """An ensemble of models for a kind of target."""
    from polybasis.nn.models.ensemble import Ensemble, Link

    links: dict[TargetKind, Link] = {
        "classification": "softmax",
        "multi-label": "sigmoid",
        "regression": "identity",
    }
    return Ensemble(models, links[target])


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        names = (
            key if re.fullmatch(r"[\w-]+", key, re.ASCII) else json.dumps(key, ensure_ascii=False) for key in value
        )
        inner = ", ".join(f"{name} = {_toml(item)}" for name, item in zip(names, value.values(), strict=True))
        return f"{{ {inner} }}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def load_preset(model: str, dataset: str, preset: Preset = "published") -> Config | None:
    """The hyperparameters that this package includes for a model and a data set, or None.

    Args:
        model, dataset: their names; ``honest`` has rows of its table in place of models.
        preset: ``published`` by the method's authors, ``tuned`` on validation data, or ``honest``: tuned with the same
            effort for every row of ``polybasis reproduce honest``.

    >>> from polybasis.train import load_preset
    >>> load_preset("favardgnn", "chameleon").preset
    'published'
    >>> load_preset("favardgnn", "csbm") is None
    True
    """
    file = resources.files("polybasis.presets").joinpath(preset, model, f"{dataset}.toml")
    return Config.from_dict(tomllib.loads(file.read_text()), str(file)) if file.is_file() else None
