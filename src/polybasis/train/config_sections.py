"""The sections of a configuration: model, optimizer, stopping, loss. Each checks its own values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from polybasis.data.metrics import Metric, as_metric
from polybasis.train.config_checks import check_choice, check_count, check_fraction, check_roles

EarlyStopping = Literal["score", "loss", "none"]
OutputBias = Literal["prior", "random"]
RegressionLoss = Literal["squared", "huber"]
BATCH_SIZE = 10_000  # default for models on a precomputed basis


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

    def __post_init__(self) -> None:
        check_count("hidden", self.hidden)
        if not isinstance(self.precomputed, bool):
            raise ValueError(f"precomputed is {self.precomputed!r}; expected true or false")


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

    def __post_init__(self) -> None:
        check_roles("lr", self.lr)
        check_roles("weight_decay", self.weight_decay)
        if self.ema_decay is not None:
            check_fraction("ema_decay", self.ema_decay)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)


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

    def __post_init__(self) -> None:
        check_choice("early_stopping", self.early_stopping, get_args(EarlyStopping))
        if self.metric is not None:
            as_metric(self.metric)
        check_count("epochs", self.epochs)
        check_count("patience", self.patience)


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
        if self.output_bias is not None:
            check_choice("output_bias", self.output_bias, get_args(OutputBias))
        if self.regression_loss is not None:
            check_choice("regression_loss", self.regression_loss, get_args(RegressionLoss))
        weights = self.class_weight
        if not (weights is None or weights == "balanced" or isinstance(weights, dict)):
            raise ValueError(f"class_weight is {weights!r}; expected balanced or a weight for each class")
        for name, value in weights.items() if isinstance(weights, dict) else ():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"class_weight of {name!r} is {value!r}; expected a positive number")


SECTIONS: dict[str, type[Any]] = {
    "model": ModelConfig,
    "optimizer": OptimizerConfig,
    "stopping": StoppingConfig,
    "loss": LossConfig,
}
SECTION_OF = {item.name: name for name, section in SECTIONS.items() for item in fields(section)}
ENTRIES = ("ensemble_size", "label_reuse", "feature_transform", "preset")  # keys outside the sections
NOT_VALUES = ("name", "precomputed", "arguments", "preset", "sha256")  # keys that identify a model or a configuration
