"""Trains models with Adam and early stopping on validation data; writes checkpoints and trains ensembles."""

from __future__ import annotations

import logging
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
from polybasis.data.metrics import sign
from polybasis.features import transform_features
from polybasis.krylov.operators import NonFiniteError
from polybasis.nn.models.label_reuse import LabelReuse
from polybasis.nn.models.model import Inputs, Model
from polybasis.nn.models.precomputed import PrecomputedGNN
from polybasis.train.checkpoint import read_checkpoint, write_checkpoint
from polybasis.train.config import Config
from polybasis.train.early_stopping import LEAST_GAIN, is_noisy, is_perfect_ranking, smoothed, stopping_warning
from polybasis.train.history import History, Row
from polybasis.train.new_model import make_ensemble
from polybasis.train.objective import Objective

logger = logging.getLogger("polybasis")
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


class StopTraining(Exception):  # noqa: N818 (like StopIteration, not an error)
    """Raised by a callback to end training and keep the best model so far.

    An ensemble keeps the models trained so far, the last one at its best epoch.

    >>> import polybasis as pb
    >>> def stop_at_90_percent(progress):
    ...     if progress.val_score > 0.9:
    ...         raise pb.StopTraining
    """


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
        logits: outputs for all nodes, (N, outputs), if available.
        ensemble_size: number of models; fewer than configured if a callback stopped training.
        stopped: whether a callback stopped training.
        history: every epoch, including those before an interruption.
    """

    model: Model
    task: Task
    val_score: float
    epochs: int
    seconds: float
    logits: Tensor | None = None
    ensemble_size: int = 1
    stopped: bool = False
    history: History = History()  # noqa: RUF009 (it is immutable)

    def score(self, nodes: Tensor) -> float | None:
        """Returns the score on the given nodes; None if there are none."""
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
        self.data, self.split = data.prepared(split), split
        self.objective = Objective.of(config, self.data, split.train)
        self._x: Inputs = transform_features(self.data.x, config.feature_transform)
        self._next: tuple[Model, Tensor] | None = None  # logits that the next epoch can reuse

    def make_model(self, config: Config) -> Model:
        model = config.make_model(self.data.x.shape[1], self.data.num_outputs, len(self.data.y), self.data.target)
        if isinstance(model, LabelReuse):
            model.set_labels(self.split.train, self.data.y)
        self._x = model.precompute(self._x, self.data.graph)
        model.fit_features(self._x, self.split.train)
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
        on_epoch: called after every epoch; may raise :class:`StopTraining`.
        checkpoint: file for the state of the run, named after its job. If it exists, training resumes from it; on a
            CPU, the result is the same as without the interruption. After a long run, the file is kept until the caller
            has saved the result and calls :func:`remove_checkpoints`.

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
    warning = stopping_warning(config.stopping.early_stopping, task.objective, task.split.val, task.data.classes)
    if warning:
        warnings.warn(f"{task.data.name}: {warning}", stacklevel=2)
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
            if fits[-1].stopped:
                break
    except OverflowError:
        remove_checkpoints(checkpoint)
        raise
    if len(fits) == 1:
        return fits[0]
    model = make_ensemble((part.model for part in fits), task.data.target).eval()
    logits, everything = task.evaluate(model, task.split.val)
    val_score = task.objective.score(logits, task.split.val)
    epochs, seconds = sum(part.epochs for part in fits), sum(part.seconds for part in fits)
    history = History.of_ensemble([part.history for part in fits], config.stopping.epochs)
    return Fit(model, task, val_score, epochs, seconds, everything, len(fits), fits[-1].stopped, history)


class Run:
    """The training of one model, one epoch at a time.

    Several runs can take turns: each restores its own random state before an epoch.

    Args:
        config: the model and how to train it, without an ensemble.
        task: the data to train on.
        seed: seed of the initial weights and of dropout.
        checkpoint: file with the state of an earlier run, from which this one resumes if the file exists.

    Attributes:
        best_score: validation score of the best epoch so far.
        progress: the state after the last epoch that was trained here; None before the first.
    """

    def __init__(self, config: Config, task: Task, seed: int, checkpoint: Path | None = None) -> None:
        self.config, self.task = config, task
        torch.manual_seed(seed)
        self._model = task.make_model(config)
        self._optimizer = config.make_optimizer(self._model)
        self._models: dict[str, torch.nn.Module] = {"model": self._model}
        self._validated, self._average = self._model, None
        if config.optimizer.ema_decay is not None:
            averaging = get_ema_multi_avg_fn(config.optimizer.ema_decay)  # type: ignore[no-untyped-call]
            self._average = AveragedModel(self._model, multi_avg_fn=averaging)
            self._models["average"], self._validated = self._average, cast(Model, self._average.module)
        self._best: dict[str, Tensor] = {}
        self._best_logits: Tensor | None = None
        self._best_rank, self.best_score, self._best_epoch, self._epoch = -float("inf"), 0.0, -1, -1
        self._improved, self._improved_rank = -1, -float("inf")  # the epoch from which patience counts
        self._seconds, self._diverged = 0.0, False
        self._history: list[Row] = []
        self._smooth, self._smoothed = is_noisy(task.objective, task.split.val), 0.0
        self.progress: Progress | None = None
        if checkpoint is not None and checkpoint.exists():
            self._best, state = read_checkpoint(checkpoint, self._models, self._optimizer)
            self._best_rank, self.best_score = state["best_rank"], state["best_score"]
            self._best_epoch, self._epoch, self._seconds = state["best_epoch"], state["epoch"], state["seconds"]
            self._smoothed, self._improved = state.get("smoothed", 0.0), state.get("improved", self._best_epoch)
            self._improved_rank = state.get("improved_rank", self._best_rank)
            self._history = [(epoch, loss, score) for epoch, loss, score in state.get("history", ())]
            if task.writes and not self.finished:
                logger.info("resuming at epoch %d", self._epoch + 2)  # counted from 1
        self._random = torch.get_rng_state()
        task.agree(self._epoch + 1)

    @property
    def finished(self) -> bool:
        """Whether training has ended: all epochs are trained, patience is exhausted, or training diverged."""
        stopping = self.config.stopping
        late = self._epoch - self._improved >= stopping.patience
        return self._diverged or late or self._epoch + 1 >= stopping.epochs

    def train_epoch(self) -> Progress | None:
        """Trains and validates for one epoch; returns None if training diverged."""
        start = time.monotonic()
        self._epoch += 1
        torch.set_rng_state(self._random)
        self.progress = self._train_and_validate()
        self._random = torch.get_rng_state()
        self._seconds += time.monotonic() - start
        return self.progress

    def _train_and_validate(self) -> Progress | None:
        task, val, stopping = self.task, self.task.split.val, self.config.stopping
        self._diverged = True  # unless the epoch completes
        try:
            train_loss = task.epoch(self._model, self._optimizer)
            if not all(bool(torch.isfinite(parameter).all()) for parameter in self._model.parameters()):
                return None
            if self._average is not None:
                self._average.update_parameters(self._model)
            logits, everything = task.evaluate(self._validated, val)
        except (NonFiniteError, OverflowError):  # filters raise an error for non-finite signals
            return None
        self._diverged = False
        objective = task.objective
        val_score, val_loss = objective.score(logits, val), float(objective.loss(logits, val))
        if self._smooth:
            self._smoothed = smoothed(self._smoothed, val_score)
        score_rank = self._smoothed if self._smooth else sign(objective.metric) * val_score
        rank = {"score": score_rank, "loss": -val_loss, "none": self._epoch}[stopping.early_stopping]
        if isfinite(val_loss) and rank >= self._best_rank:  # ties go to the later epoch
            if self._is_progress(rank, val_score):
                self._improved, self._improved_rank = self._epoch, rank
            self._best_rank, self.best_score, self._best_epoch = rank, val_score, self._epoch
            self._best = {name: value.detach().clone() for name, value in self._validated.state_dict().items()}
            self._best_logits = everything
        self._history.append((self._epoch, train_loss, val_score))
        return Progress(self._epoch, stopping.epochs, train_loss, val_score, self.best_score, self._best_epoch)

    def _is_progress(self, rank: float, val_score: float) -> bool:
        """Whether an epoch that is at least as good as the best one is a reason to go on."""
        if self.config.stopping.early_stopping != "score":
            return True
        if self._smooth:  # an average approaches its limit for hundreds of epochs
            return rank >= self._improved_rank + LEAST_GAIN
        return rank > self._best_rank or not is_perfect_ranking(self.task.objective.metric, val_score)

    def save(self, checkpoint: Path) -> None:
        """Writes the state to a file, from which a new run resumes."""
        progress = {
            "epoch": self._epoch,
            "seconds": self._seconds,
            "best_rank": self._best_rank,
            "best_score": self.best_score,
            "best_epoch": self._best_epoch,
            "smoothed": self._smoothed,
            "improved": self._improved,
            "improved_rank": self._improved_rank,
            "history": self._history,
        }
        torch.set_rng_state(self._random)
        write_checkpoint(checkpoint, self._models, self._optimizer, self._best, progress)

    @property
    def kept(self) -> bool:
        """Whether there is an epoch to keep; False if training diverged too early."""
        fixed_length = self.config.stopping.early_stopping == "none"
        return bool(self._best) and not (fixed_length and self._best_epoch < self._epoch)

    def result(self) -> Fit:
        """The model of the best epoch; the run cannot continue afterwards.

        Raises:
            OverflowError: if there is no epoch to keep.
        """
        if not self.kept:
            model, data = self.config.model.name, self.task.data.name
            raise OverflowError(f"{model} on {data} diverged in epoch {self._best_epoch + 2}; lower the learning rate")
        self._model.load_state_dict(self._best)
        self._model.eval()
        history, epochs = History(self._history, [self._best_epoch]), self._epoch + 1
        return Fit(self._model, self.task, self.best_score, epochs, self._seconds, self._best_logits, history=history)


def _fit_single(
    config: Config, task: Task, seed: int, on_epoch: OnEpoch | None, checkpoint: Path | None, keep: bool
) -> Fit:
    """Trains one model. A long run, and any run if ``keep`` is set, leaves a checkpoint of the finished model."""
    run = Run(config, task, seed, checkpoint)
    start = written = time.monotonic()
    file, stopped = checkpoint if task.writes else None, False
    while not run.finished and not stopped:
        progress = run.train_epoch()
        if on_epoch is not None and progress is not None:
            try:
                on_epoch(progress)
            except StopTraining:
                stopped = True
        if file is not None and progress is not None and time.monotonic() - written > CHECKPOINT_SECONDS:
            written = time.monotonic()
            run.save(file)
    if not run.kept:
        remove_checkpoints(checkpoint)
    elif file is not None and (keep or time.monotonic() - start > CHECKPOINT_SECONDS):
        run.save(file)
    return replace(run.result(), stopped=stopped)


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
