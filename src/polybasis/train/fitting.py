"""The fit loop: Adam, early stopping on validation data, the state restored that counts."""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Generic, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from polybasis.nn.models.model import RoledModule
from polybasis.train.checkpoint import read_checkpoint, write_checkpoint
from polybasis.train.config import Config

CHECKPOINT_SECONDS = 20.0
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
        model: in evaluation mode, at the epoch that counts; each of its members at its own.
        val_score: of this model.
        epochs: how many were run, by all members.
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
        config: the model and how to train it; one model, without members.
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
        rank = {"score": val_score, "loss": -val_loss, "epochs": nan if isnan(val_loss) else epoch}[config.stop_on]
        if rank >= best_rank:  # of equal ranks the later, which has been trained longer; never what is not a number
            best_rank, best_score, best_epoch = rank, val_score, epoch
            best = {name: value.detach().clone() for name, value in watched.state_dict().items()}
        if report is not None:
            report(Progress(epoch, config.epochs, train_loss, val_score, best_score, best_epoch))
        if checkpoint is not None and task.writes and time.monotonic() - written > CHECKPOINT_SECONDS:
            written = time.monotonic()
            write(checkpoint)
    if not best or (config.stop_on == "epochs" and best_epoch < epoch):
        raise OverflowError(
            f"{config.model} on {task.name} diverged in epoch {best_epoch + 2}: lower the learning rate"
        )
    if checkpoint is not None and task.writes:
        if keep:
            write(checkpoint)
        else:
            checkpoint.unlink(missing_ok=True)
    model.load_state_dict(best)
    model.eval()
    return Fit(model, best_score, epoch + 1, before + time.monotonic() - start)
