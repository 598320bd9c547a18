"""The fit loop: Adam, early stopping on validation data, the best state restored."""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from polybasis.data.dataset import NodeDataset
from polybasis.data.splits import Split
from polybasis.nn.features import SparseFeatures
from polybasis.nn.models import Model
from polybasis.nn.models.ensemble import Ensemble
from polybasis.nn.models.labelled import LabelledModel
from polybasis.nn.models.model import RoledModule
from polybasis.train.checkpoint import read_checkpoint, write_checkpoint
from polybasis.train.config import Config
from polybasis.train.metrics import score

CHECKPOINT_SECONDS = 20.0
SEEDS = 1_000_000  # between two members, farther apart than splits
M = TypeVar("M", bound=RoledModule)


@dataclass(frozen=True)
class Progress:
    """Where a training is."""

    epoch: int
    epochs: int
    train_loss: float
    val_score: float
    best_score: float
    best_epoch: int


Report = Callable[[Progress], None]


class Task(ABC, Generic[M]):
    """What is trained on: nodes of a graph, or rows of a store. Test nodes are not part of it.

    Attributes:
        name: of the data.
        writes: whether this process writes the checkpoints.
    """

    name: str
    writes = True

    @abstractmethod
    def make_model(self, config: Config) -> M:
        """A fresh model."""

    @abstractmethod
    def epoch(self, model: M, optimizer: torch.optim.Optimizer) -> float:
        """Goes over all training nodes once; returns their loss."""

    @abstractmethod
    def validate(self, model: M) -> tuple[float, float]:
        """Score and loss on the validation nodes."""

    def agree(self, epoch: int) -> None:
        """Called with the epoch that training starts at: several processes have to start at the same."""

    @abstractmethod
    def parts(self) -> Iterable[NDArray[np.generic]]:
        """All that tells this task from others."""

    def identity(self, config: Config, seed: int) -> str:
        """The same for two trainings exactly when one may go on from the other's checkpoint."""
        digest = hashlib.sha256(json.dumps([config.to_dict(), seed], sort_keys=True).encode())
        for part in self.parts():
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Fit(Generic[M]):
    """A trained model and how it went.

    Attributes:
        model: in evaluation mode, at its best epoch.
        val_score: of that epoch.
        epochs: how many were run.
        seconds: how long that took, pauses left out.
    """

    model: M
    val_score: float
    epochs: int
    seconds: float


def fit_task(
    config: Config,
    task: Task[M],
    seed: int,
    *,
    report: Report | None = None,
    checkpoint: Path | None = None,
    keep: bool = False,
) -> Fit[M]:
    """Trains a fresh model.

    Args:
        config: the model and how to train it.
        task: what it is trained on.
        seed: of the model's start, of dropout and of the order of batches.
        report: called after every epoch; may raise to end the training.
        checkpoint: a file for the state of the training, written every now and then. Where it is there already,
            training goes on from it, on a CPU to the same weights as without interruption; it is removed at the end.
        keep: leave it at the end, for a training of which this is a part.
    """
    torch.manual_seed(seed)
    model = task.make_model(config)
    optimizer = config.make_optimizer(model)
    models: dict[str, torch.nn.Module] = {"model": model}
    watched, mean = model, None
    if config.average is not None:
        mean = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config.average))  # type: ignore[no-untyped-call]
        models["mean"], watched = mean, cast(M, mean.module)
    training = "" if checkpoint is None else task.identity(config, seed)
    best: dict[str, Tensor] = {}
    best_rank, best_score, best_epoch, first, before = -float("inf"), 0.0, -1, 0, 0.0
    if checkpoint is not None and checkpoint.exists():
        best, state = read_checkpoint(checkpoint, models, optimizer, training)
        best_rank, best_score, best_epoch = state["best_rank"], state["best_score"], state["best_epoch"]
        first, before = state["epoch"] + 1, state["seconds"]
    task.agree(first)
    start = written = time.monotonic()
    epoch = first - 1

    def write(file: Path) -> None:
        numbers = {
            "epoch": epoch,
            "seconds": before + time.monotonic() - start,
            "best_rank": best_rank,
            "best_score": best_score,
            "best_epoch": best_epoch,
        }
        write_checkpoint(file, models, optimizer, best, numbers, training)

    while epoch + 1 < config.epochs and epoch - best_epoch < config.patience:
        epoch += 1
        train_loss = task.epoch(model, optimizer)
        if mean is not None:
            mean.update_parameters(model)
        val_score, val_loss = task.validate(watched)
        rank = val_score if config.stop_on == "score" else -val_loss
        if rank >= best_rank:  # of equal scores the later: it has been trained longer
            best_rank, best_score, best_epoch = rank, val_score, epoch
            best = {name: value.detach().clone() for name, value in watched.state_dict().items()}
        if report is not None:
            report(Progress(epoch, config.epochs, train_loss, val_score, best_score, best_epoch))
        if checkpoint is not None and task.writes and time.monotonic() - written > CHECKPOINT_SECONDS:
            written = time.monotonic()
            write(checkpoint)
    if not best:
        raise OverflowError(f"{config.model} on {task.name} diverged from the first epoch: lower the learning rate")
    if checkpoint is not None and task.writes:
        if keep:
            write(checkpoint)
        else:
            checkpoint.unlink(missing_ok=True)
    model.load_state_dict(best)
    model.eval()
    return Fit(model, best_score, epoch + 1, before + time.monotonic() - start)


class GraphTask(Task[Model]):
    """Nodes of a graph in memory, all of them at once."""

    def __init__(self, dataset: NodeDataset, split: Split) -> None:
        for name, nodes in zip(("training", "validation"), split, strict=False):
            if len(nodes) == 0:
                raise ValueError(f"{dataset.name} has no {name} nodes in this split; label more nodes")
        self.name, self.dataset, self.split = dataset.name, dataset, split
        self._ahead: tuple[Model, Tensor] | None = None  # scores that the next epoch starts from

    def make_model(self, config: Config) -> Model:
        nodes = self.dataset.graph.num_nodes
        model = config.make_model(self.dataset.num_features, self.dataset.num_classes, nodes)
        if isinstance(model, LabelledModel):
            model.tell(self.split.train, self.dataset.y)
        return model

    def epoch(self, model: Model, optimizer: torch.optim.Optimizer) -> float:
        nodes = self.split.train
        model.train()
        optimizer.zero_grad()
        ahead, self._ahead = self._ahead, None
        known = ahead[1] if ahead is not None and ahead[0] is model else None
        logits = model(self.dataset.x, self.dataset.graph) if known is None else known
        loss = model.loss(logits[nodes], self.dataset.y[nodes])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return float(loss.detach())

    def validate(self, model: Model) -> tuple[float, float]:
        nodes = self.split.val
        model.eval()
        with torch.set_grad_enabled(model.same_in_training):
            logits = model(self.dataset.x, self.dataset.graph)
        if model.same_in_training:
            self._ahead = model, logits
        logits, y = logits.detach()[nodes], self.dataset.y[nodes]
        return score(self.dataset.metric, logits, y), float(cross_entropy(logits, y))

    def parts(self) -> Iterable[NDArray[np.generic]]:
        x, graph = self.dataset.x, self.dataset.graph
        values = x.values if isinstance(x, SparseFeatures) else x
        return [part.numpy() for part in (*self.split, self.dataset.y, graph.indptr, graph.indices, values)]


def fit(
    config: Config,
    dataset: NodeDataset,
    split: Split,
    seed: int,
    *,
    report: Report | None = None,
    checkpoint: Path | None = None,
) -> Fit[Model]:
    """Trains a fresh model on a graph in memory; see :func:`fit_task`. Test nodes are not looked at.

    Members are trained one after another, each to its own best epoch; the first is the model that would be trained
    alone. Epochs and seconds are those of all of them.
    """
    task = GraphTask(dataset, split)
    if config.members is None:
        return fit_task(config, task, seed, report=report, checkpoint=checkpoint)
    alone, fits = replace(config, members=None), []
    files = [checkpoint and checkpoint.with_suffix(f".{number}.safetensors") for number in range(config.members)]
    for number, file in enumerate(files):
        told = report and _as_member(report, number, len(files))
        fits.append(fit_task(alone, task, seed + number * SEEDS, report=told, checkpoint=file, keep=True))
    model = Ensemble(member.model for member in fits).eval()
    val_score, _ = task.validate(model)
    for file in files:
        if file is not None:
            file.unlink()
    return Fit(model, val_score, sum(member.epochs for member in fits), sum(member.seconds for member in fits))


def _as_member(report: Report, number: int, members: int) -> Report:
    """Reports the epochs of one member as part of those of all members."""

    def told(at: Progress) -> None:
        before = number * at.epochs
        epoch, best, epochs = before + at.epoch, before + at.best_epoch, members * at.epochs
        report(replace(at, epoch=epoch, best_epoch=best, epochs=epochs))

    return told


@torch.no_grad()
def score_on(model: Model, dataset: NodeDataset, nodes: Tensor) -> float:
    """The score of a trained model on some nodes."""
    return score(dataset.metric, model(dataset.x, dataset.graph)[nodes], dataset.y[nodes])
