"""Trains models with Adam and early stopping on validation data; writes checkpoints and trains ensembles."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from polybasis.data.dataset import LabelledNodes, NodeDataset, Split
from polybasis.data.metrics import has_both_outcomes, sign
from polybasis.features import transform_features
from polybasis.krylov.operators import NonFiniteError
from polybasis.nn.models.label_reuse import LabelReuse
from polybasis.nn.models.model import Inputs, Model
from polybasis.nn.models.precomputed import PrecomputedGNN
from polybasis.train.checkpoint import read_checkpoint, write_checkpoint
from polybasis.train.config import Config, make_ensemble
from polybasis.train.objective import Objective

CHECKPOINT_SECONDS = 20.0
SEED_STEP = 1_000_000  # difference between the seeds of an ensemble; larger than any number of splits


@dataclass(frozen=True)
class Progress:
    """The state of a training run after an epoch."""

    epoch: int
    epochs: int
    train_loss: float
    val_score: float
    best_score: float
    best_epoch: int


OnEpoch = Callable[[Progress], None]


class Evaluation(NamedTuple):
    """Outputs of a model: class scores, or standardised numbers for regression.

    Attributes:
        logits: outputs for the requested nodes, (nodes, outputs).
        everything: outputs for all nodes, (N, outputs), if they were computed anyway.
    """

    logits: Tensor
    everything: Tensor | None = None


class Task(Protocol):
    """Training and validation nodes of a graph in memory, or the corresponding rows of a store.

    Attributes:
        split: the training, validation and test nodes.
        writes: whether this process writes files.
    """

    split: Split
    writes: bool

    @property
    def data(self) -> LabelledNodes:
        """All nodes with their targets."""

    @property
    def objective(self) -> Objective:
        """The loss and the metric."""

    @property
    def waited(self) -> float:
        """Seconds spent waiting for data."""

    def make_model(self, config: Config) -> Model:
        """A new model."""

    def epoch(self, model: Model, optimizer: torch.optim.Optimizer) -> float:
        """Trains on every training node once; returns the mean loss."""

    def evaluate(self, model: Model, nodes: Tensor) -> Evaluation:
        """Computes outputs in evaluation mode."""

    def agree(self, epoch: int) -> None:
        """Checks that all processes start at the same epoch."""


@dataclass(frozen=True)
class Fit:
    """A trained model and a record of its training.

    Attributes:
        model: the model of the best epoch, in evaluation mode; each model of an ensemble has its own best epoch.
        task: the task it was trained on.
        val_score: its score on the validation nodes.
        epochs: number of epochs, summed over an ensemble.
        seconds: training time, without interruptions.
        logits: outputs for all nodes, (N, outputs), if they were computed anyway.
    """

    model: Model
    task: Task
    val_score: float
    epochs: int
    seconds: float
    logits: Tensor | None = None

    def score(self, nodes: Tensor) -> float | None:
        """The score on the given nodes; None if there are none."""
        if len(nodes) == 0:
            return None
        logits = self.task.evaluate(self.model, nodes).logits if self.logits is None else self.logits[nodes]
        return self.task.objective.score(logits, nodes)


class FullBatch:
    """Full-batch training on a graph in memory. Features are transformed once, in the constructor."""

    writes = True
    waited = 0.0

    def __init__(self, data: NodeDataset, split: Split, config: Config) -> None:
        if config.optimizer.batch_size is not None:
            raise ValueError("batch_size applies to stores; training on a graph in memory uses full batches")
        self.data, self.split, self.objective = data, split, Objective.of(config, data, split.train)
        self._x: Inputs = transform_features(data.x, config.feature_transform) if config.feature_transform else data.x
        self._next: tuple[Model, Tensor] | None = None  # logits that the next epoch can reuse

    def make_model(self, config: Config) -> Model:
        model = config.make_model(self.data.x.shape[1], self.data.num_outputs, len(self.data.y), self.data.target)
        if isinstance(model, LabelReuse):
            model.set_labels(self.split.train, self.data.y)
        self._x = model.precompute(self._x, self.data.graph)
        if isinstance(model, PrecomputedGNN):
            _, gamma, sqrt_beta, *_ = model.precompute(self._x, self.data.graph).values
            model.start_at(gamma, sqrt_beta)
        if config.loss.output_bias == "prior":
            self.objective.start_output_bias(model, self.split.train, self.data.graph)
        return model

    def epoch(self, model: Model, optimizer: torch.optim.Optimizer) -> float:
        model.train()
        optimizer.zero_grad()
        following, self._next = self._next, None
        nodes, objective = self.split.train, self.objective
        if following is not None and following[0] is model:
            loss = objective.loss(following[1][nodes], nodes)
        elif isinstance(model, LabelReuse):
            loss = model.training_loss(self._x, self.data.graph, nodes, objective.loss)
        else:
            loss = objective.loss(model(self._x, self.data.graph)[nodes], nodes)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return float(loss.detach())

    def evaluate(self, model: Model, nodes: Tensor) -> Evaluation:
        model.eval()
        deterministic = model.deterministic
        with torch.set_grad_enabled(deterministic):
            logits: Tensor = model(self._x, self.data.graph)
        if deterministic:  # training mode would compute the same logits
            self._next = model, logits
        return Evaluation(logits.detach()[nodes], logits.detach())

    def agree(self, epoch: int) -> None:
        pass


def fit(
    config: Config,
    data: NodeDataset,
    split: Split,
    seed: int = 0,
    *,
    on_epoch: OnEpoch | None = None,
    checkpoint: Path | None = None,
) -> Fit:
    """Trains a new model on a graph in memory. Test nodes are not used.

    Args:
        config: the model and how to train it.
        data: the graph, its features and classes.
        split: training and validation nodes.
        seed: seed of the initial weights and of dropout; model i of an ensemble uses seed + i * 1,000,000.
        on_epoch: called after every epoch; may raise an exception to stop training.
        checkpoint: file for the state of the run, named after its job. If it exists, training resumes from it; on a
            CPU, the result is the same as that of an uninterrupted run. After a long run the file remains until the
            caller has saved the result and calls :func:`remove_checkpoints`.

    Returns:
        The trained model and its validation score.

    Raises:
        ValueError: if there are no training or validation nodes.
        OverflowError: if training diverges.

    >>> import polybasis as pb
    >>> data = pb.data.csbm(nodes=200, features=20)
    >>> config = pb.train.Config.of("optbasisgnn", K=3, epochs=20)
    >>> pb.train.fit(config, data, data.split("stratified")).epochs
    20
    """
    return fit_task(config, FullBatch(data, split, config), seed, on_epoch=on_epoch, checkpoint=checkpoint)


def fit_task(
    config: Config, task: Task, seed: int, *, on_epoch: OnEpoch | None = None, checkpoint: Path | None = None
) -> Fit:
    """:func:`fit` for nodes of a graph or rows of a store."""
    if task.data.target == "classification" and len(task.data.classes) < 2:
        raise ValueError(f"{task.data.name} has {len(task.data.classes)} class; expected at least two")
    for name, nodes in zip(("training", "validation"), task.split, strict=False):
        if len(nodes) == 0:
            raise ValueError(f"{task.data.name} has no {name} nodes in this split")
    metric, val = task.objective.metric, task.split.val
    if metric in ("roc_auc", "average_precision") and not has_both_outcomes(task.data.y[val]):
        warnings.warn(
            f"all validation nodes of {task.data.name} have the same class; {metric} is constant on them and cannot "
            "tell epochs apart: choose other validation nodes, or early_stopping='loss'",
            stacklevel=2,
        )
    size = config.ensemble_size
    if size == 1:
        return _fit_single(config, task, seed, on_epoch, checkpoint, keep=False)
    single = replace(config, ensemble_size=1)
    files = [None if checkpoint is None else checkpoint.with_stem(f"{checkpoint.stem}-{i}") for i in range(size)]
    fits: list[Fit] = []
    try:
        for number, file in enumerate(files):
            shown = None if on_epoch is None else _within_ensemble(on_epoch, number, size)
            fits.append(_fit_single(single, task, seed + number * SEED_STEP, shown, file, keep=True))
    except OverflowError:
        remove_checkpoints(checkpoint)
        raise
    model = make_ensemble((part.model for part in fits), task.data.target).eval()
    logits, everything = task.evaluate(model, task.split.val)
    val_score = task.objective.score(logits, task.split.val)
    epochs, seconds = sum(part.epochs for part in fits), sum(part.seconds for part in fits)
    return Fit(model, task, val_score, epochs, seconds, everything)


def _fit_single(
    config: Config, task: Task, seed: int, on_epoch: OnEpoch | None, checkpoint: Path | None, keep: bool
) -> Fit:
    """Trains one model. A long run, and any run if ``keep`` is set, leaves a checkpoint of the finished model."""
    torch.manual_seed(seed)
    model = task.make_model(config)
    optimizer = config.make_optimizer(model)
    models: dict[str, torch.nn.Module] = {"model": model}
    validated, average = model, None
    if config.optimizer.ema_decay is not None:
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config.optimizer.ema_decay))  # type: ignore[no-untyped-call]
        models["average"], validated = average, cast(Model, average.module)
    best: dict[str, Tensor] = {}
    best_logits: Tensor | None = None
    best_rank, best_score, best_epoch, first, before = -float("inf"), 0.0, -1, 0, 0.0
    if checkpoint is not None and checkpoint.exists():
        best, state = read_checkpoint(checkpoint, models, optimizer)
        best_rank, best_score, best_epoch = state["best_rank"], state["best_score"], state["best_epoch"]
        first, before = state["epoch"] + 1, state["seconds"]
    task.agree(first)
    start = written = time.monotonic()
    epoch = first - 1
    epochs, patience, criterion = config.stopping.epochs, config.stopping.patience, config.stopping.early_stopping
    val, objective = task.split.val, task.objective
    better = sign(objective.metric)

    def write(file: Path) -> None:
        numbers = {
            "epoch": epoch,
            "seconds": before + time.monotonic() - start,
            "best_rank": best_rank,
            "best_score": best_score,
            "best_epoch": best_epoch,
        }
        write_checkpoint(file, models, optimizer, best, numbers)

    while epoch + 1 < epochs and epoch - best_epoch < patience:
        epoch += 1
        try:
            train_loss = task.epoch(model, optimizer)
            if not all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters()):
                break
            if average is not None:
                average.update_parameters(model)
            logits, everything = task.evaluate(validated, val)
        except (NonFiniteError, OverflowError):  # diverged: filters raise an error for non-finite signals
            break
        val_score, val_loss = objective.score(logits, val), float(objective.loss(logits, val))
        rank = {"score": better * val_score, "loss": -val_loss, "none": epoch}[criterion]
        if isfinite(val_loss) and rank >= best_rank:  # ties go to the later epoch
            best_rank, best_score, best_epoch = rank, val_score, epoch
            best = {name: value.detach().clone() for name, value in validated.state_dict().items()}
            best_logits = everything
        if on_epoch is not None:
            on_epoch(Progress(epoch, epochs, train_loss, val_score, best_score, best_epoch))
        if checkpoint is not None and task.writes and time.monotonic() - written > CHECKPOINT_SECONDS:
            written = time.monotonic()
            write(checkpoint)
    if not best or (criterion == "none" and best_epoch < epoch):
        remove_checkpoints(checkpoint)
        raise OverflowError(
            f"{config.model.name} on {task.data.name} diverged in epoch {best_epoch + 2}; lower the learning rate"
        )
    if checkpoint is not None and task.writes and (keep or time.monotonic() - start > CHECKPOINT_SECONDS):
        write(checkpoint)
    model.load_state_dict(best)
    model.eval()
    return Fit(model, task, best_score, epoch + 1, before + time.monotonic() - start, best_logits)


def remove_checkpoints(checkpoint: Path | None) -> None:
    """Removes the checkpoint of a job and the checkpoints of the models of its ensemble."""
    if checkpoint is not None:
        for file in (checkpoint, *checkpoint.parent.glob(f"{checkpoint.stem}-*{checkpoint.suffix}")):
            file.unlink(missing_ok=True)


def _within_ensemble(on_epoch: OnEpoch, number: int, size: int) -> OnEpoch:
    """Converts the progress of one model to the progress of the ensemble."""

    def shown(progress: Progress) -> None:
        before = number * progress.epochs
        epoch, best, epochs = before + progress.epoch, before + progress.best_epoch, size * progress.epochs
        on_epoch(replace(progress, epoch=epoch, best_epoch=best, epochs=epochs))

    return shown
