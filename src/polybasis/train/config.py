"""What is trained and how: one small document, in TOML on disk."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from polybasis.features import Features, binarize, row_normalize
from polybasis.nn.filter_layer import Role
from polybasis.nn.models import Model, model_class
from polybasis.nn.models.ensemble import Ensemble
from polybasis.nn.models.label_reuse import LabelReuse
from polybasis.nn.models.model import RoledModule
from polybasis.nn.models.precomputed import PrecomputedGNN, scaled_hyperparameters

StopOn = Literal["score", "loss", "epochs"]
Settings = Literal["published", "tuned"]
Normalisation = Literal["rows", "binary"]


@dataclass(frozen=True)
class Config:
    """A model with its hyperparameters and how to train it.

    Attributes:
        model: its name.
        hidden: hidden width.
        arguments: the model's own hyperparameters.
        lr, weight_decay: of Adam, by role of the parameters; a role that is not there has the linear layers' numbers.
        epochs: most epochs, or exactly as many; see ``stop_on``.
        patience: epochs without a better validation result after which training ends.
        stop_on: what better means: the validation ``score`` (accuracy or ROC AUC) or the validation ``loss``. Of
            epochs with the same result the last counts. ``epochs``: training ends after ``epochs`` epochs, the last of
            which counts whatever validation says; ``patience`` is not looked at.
        settings: where the numbers come from.
        batch: nodes of a batch, for the scaled-up model of this name, which is trained on a store. None: the model is
            trained on a graph, on all nodes at once.
        average: what of the running mean of the weights stays at each step, as 0.98; validated and kept is then the
            mean in place of the weights themselves. None: no mean.
        normalise: ``rows`` where every node's features are divided by their sum, if above 1, as many authors do;
            ``binary`` where each that is not 0 counts as 1. None: features are taken as the data set has them.
        members: copies of the model that start from different weights, are trained one after another, each to the epoch
            that counts for it, and classify by their mean probability. None: one model alone.
        labels: the probability that a training node's class is a feature of it in a training step; the other training
            nodes are learned from. In evaluation all of their classes are features. The model then serves only the
            graph it was trained on. None: classes are no features.
    """

    model: str
    hidden: int = 64
    arguments: dict[str, Any] = field(default_factory=dict)
    lr: dict[str, float] = field(default_factory=lambda: {"linear": 0.01})
    weight_decay: dict[str, float] = field(default_factory=lambda: {"linear": 5e-4})
    epochs: int = 1000
    patience: int = 200
    stop_on: StopOn = "score"
    settings: str = "default"
    average: float | None = None
    batch: int | None = None
    normalise: Normalisation | None = None
    members: int | None = None
    labels: float | None = None

    def __post_init__(self) -> None:
        known = model_class(self.model).hyperparameters() if self.batch is None else scaled_hyperparameters(self.model)
        for name in self.arguments:
            if name not in known:
                raise ValueError(f"{self.model} has no argument {name!r}; it has {', '.join(known) or 'none'}")
        for table in ("lr", "weight_decay"):
            numbers = getattr(self, table)
            for role, number in numbers.items():
                if role not in get_args(Role):
                    raise ValueError(f"{table} has the role {role!r}; expected {', '.join(get_args(Role))}")
                if not isinstance(number, int | float) or not number >= 0:
                    raise ValueError(f"{table}.{role} is {number!r}; expected a number, 0 or more")
            if "linear" not in numbers:
                raise ValueError(f"{table} has no number for linear layers")
        if self.stop_on not in get_args(StopOn):
            raise ValueError(f"stop_on is {self.stop_on!r}; expected {', '.join(get_args(StopOn))}")
        for name in ("average", "labels"):
            share = getattr(self, name)
            if share is not None and not 0 < share < 1:
                raise ValueError(f"{name} is {share!r}; expected a number between 0 and 1")
        if self.normalise not in (None, *get_args(Normalisation)):
            raise ValueError(f"normalise is {self.normalise!r}; expected {' or '.join(get_args(Normalisation))}")
        if self.normalise is not None and self.batch is not None:
            raise ValueError("normalise is for training on a graph; the features of a store are those it was made from")
        for name in ("members", "labels"):
            if getattr(self, name) is not None and self.batch is not None:
                raise ValueError(f"{name} is for training on a graph, not on a store")
        if self.labels is not None and self.model == "link":
            raise ValueError("labels are features, and link looks at none")
        for name, least in {"hidden": 1, "epochs": 1, "patience": 1, "batch": 1, "members": 2}.items():
            number = getattr(self, name)
            if number is None and name in ("batch", "members"):
                continue
            if not isinstance(number, int) or number < least:
                raise ValueError(f"{name} is {number!r}; expected a whole number, {least} or more")

    def make_model(self, features: int, classes: int, nodes: int) -> Model:
        """A fresh model for this many features, classes and nodes."""
        if self.members is not None:
            alone = replace(self, members=None)
            return Ensemble(alone.make_model(features, classes, nodes) for _ in range(self.members))
        inputs = features if self.labels is None else features + classes
        model = model_class(self.model)(inputs, self.hidden, classes, num_nodes=nodes, **self.arguments)
        return model if self.labels is None else LabelReuse(model, self.labels, nodes)

    def make_scaled_model(self, channels: int, classes: int) -> PrecomputedGNN:
        """A fresh scaled-up model for this many channels and classes."""
        return PrecomputedGNN(self.model, channels, self.hidden, classes, **self.arguments)

    def prepared(self, x: Features) -> Features:
        """The features that the model is trained on and predicts from."""
        return x if self.normalise is None else {"rows": row_normalize, "binary": binarize}[self.normalise](x)

    def make_optimizer(self, model: RoledModule) -> torch.optim.Adam:
        """Adam with a group for each role."""
        groups = [
            {
                "params": parameters,
                "lr": self.lr.get(role, self.lr["linear"]),
                "weight_decay": self.weight_decay.get(role, self.weight_decay["linear"]),
            }
            for role, parameters in model.parameter_groups().items()
        ]
        return torch.optim.Adam(groups, fused=True)

    def to_dict(self) -> dict[str, Any]:
        """As plain values; what is None is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, values: dict[str, Any], origin: str = "configuration") -> Config:
        """From plain values; refuses keys it does not know."""
        known = {item.name for item in fields(cls)}
        for key in values:
            if key not in known:
                raise ValueError(f"{origin}: there is no setting {key!r}; expected some of {', '.join(sorted(known))}")
        if "model" not in values:
            raise ValueError(f'{origin}: there is no model; add: model = "optbasisgnn"')
        try:
            return cls(**values)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{origin}: {error}") from error

    def to_toml(self) -> str:
        """As TOML."""
        lines = []
        for name, value in self.to_dict().items():
            if isinstance(value, dict):
                inner = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
                lines.append(f"{name} = {{ {inner} }}" if inner else f"{name} = {{}}")
            else:
                lines.append(f"{name} = {_toml(value)}")
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, path: Path) -> Config:
        """From a TOML file."""
        try:
            values = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path}: {error}") from error
        return cls.from_dict(values, str(path))


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def default_config(model: str) -> Config:
    """A start for any graph: the model's own defaults, Adam at 0.01, weight decay on the linear layers only."""
    config = Config(model)
    roles = {"linear": 5e-4, "coefficients": 0.0, "recurrence": 0.0}
    return replace(config, weight_decay=roles)


def stored_config(model: str, dataset: str, settings: Settings = "published") -> Config | None:
    """The settings of a model for a data set that come with the package, or None.

    Args:
        model, dataset: their names.
        settings: ``published`` by the method's authors, or ``tuned`` here on validation data.
    """
    file = resources.files("polybasis.presets").joinpath(settings, model, f"{dataset}.toml")
    return Config.from_dict(tomllib.loads(file.read_text()), str(file)) if file.is_file() else None
