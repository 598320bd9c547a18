"""The fit loop: full batch, Adam, early stopping on validation data, the best state restored."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from polybasis.data.dataset import NodeDataset
from polybasis.data.splits import Split
from polybasis.nn.features import SparseFeatures
from polybasis.nn.models import Model
from polybasis.train.checkpoint import read_checkpoint, write_checkpoint
from polybasis.train.config import Config
from polybasis.train.metrics import score

CHECKPOINT_SECONDS = 20.0


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


@dataclass(frozen=True)
class Fit:
    """A trained model and how it went.

    Attributes:
        model: in evaluation mode, at its best epoch.
        val_score: of that epoch.
        epochs: how many were run.
        seconds: how long that took, pauses left out.
    """

    model: Model
    val_score: float
    epochs: int
    seconds: float

    def test_score(self, dataset: NodeDataset, split: Split) -> float:
        """The score on the test nodes."""
        with torch.no_grad():
            logits = self.model(dataset.x, dataset.graph)[split.test]
        return score(dataset.metric, logits, dataset.y[split.test])


def fit(
    config: Config,
    dataset: NodeDataset,
    split: Split,
    seed: int,
    *,
    report: Report | None = None,
    checkpoint: Path | None = None,
) -> Fit:
    """Trains a fresh model. Test nodes are not looked at.

    Args:
        config: the model and how to train it.
        dataset: graph, features, labels.
        split: training and validation nodes.
        seed: of the model's start and of dropout.
        report: called after every epoch; may raise to end the training.
        checkpoint: a file for the state of the training, written every now and then. Where it is there already,
            training goes on from it, to the same weights as without the interruption; it is removed at the end.
    """
    for name, nodes in zip(("training", "validation"), split, strict=False):
        if len(nodes) == 0:
            raise ValueError(f"{dataset.name} has no {name} nodes in this split; label more nodes")
    torch.manual_seed(seed)
    model = config.make_model(dataset.num_features, dataset.num_classes, dataset.graph.num_nodes)
    optimizer = config.make_optimizer(model)
    models: dict[str, torch.nn.Module] = {"model": model}
    watched, mean = model, None
    if config.average is not None:
        mean = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config.average))  # type: ignore[no-untyped-call]
        models["mean"], watched = mean, cast(Model, mean.module)
    training = "" if checkpoint is None else _identity(config, dataset, split, seed)
    best: dict[str, Tensor] = {}
    best_rank, best_score, best_epoch, first, before = -float("inf"), 0.0, -1, 0, 0.0
    if checkpoint is not None and checkpoint.exists():
        best, state = read_checkpoint(checkpoint, models, optimizer, training)
        best_rank, best_score, best_epoch = state["best_rank"], state["best_score"], state["best_epoch"]
        first, before = state["epoch"] + 1, state["seconds"]
    start = written = time.monotonic()
    epoch = first - 1
    for epoch in range(first, config.epochs):
        train_loss = _step(model, optimizer, dataset, split.train)
        if mean is not None:
            mean.update_parameters(model)
        val_score, val_loss = _validate(watched, dataset, split.val)
        rank = val_score if config.stop_on == "score" else -val_loss
        if rank >= best_rank:  # of equal scores the later: it has been trained longer
            best_rank, best_score, best_epoch = rank, val_score, epoch
            best = {name: value.detach().clone() for name, value in watched.state_dict().items()}
        if report is not None:
            report(Progress(epoch, config.epochs, train_loss, val_score, best_score, best_epoch))
        if epoch - best_epoch >= config.patience:
            break
        if checkpoint is not None and time.monotonic() - written > CHECKPOINT_SECONDS:
            written = time.monotonic()
            numbers = {
                "epoch": epoch,
                "seconds": before + written - start,
                "best_rank": best_rank,
                "best_score": best_score,
                "best_epoch": best_epoch,
            }
            write_checkpoint(checkpoint, models, optimizer, best, numbers, training)
    if not best:
        raise OverflowError(f"{config.model} on {dataset.name} diverged from the first epoch: lower the learning rate")
    model.load_state_dict(best)
    model.eval()
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return Fit(model, best_score, epoch + 1, before + time.monotonic() - start)


def _identity(config: Config, dataset: NodeDataset, split: Split, seed: int) -> str:
    """The same for two trainings exactly when one may go on from the other's checkpoint."""
    digest = hashlib.sha256(json.dumps([config.to_dict(), seed], sort_keys=True).encode())
    values = dataset.x.values if isinstance(dataset.x, SparseFeatures) else dataset.x
    for part in (*split, dataset.y, dataset.graph.indptr, dataset.graph.indices, values):
        digest.update(part.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _step(model: Model, optimizer: torch.optim.Optimizer, dataset: NodeDataset, nodes: Tensor) -> float:
    model.train()
    optimizer.zero_grad()
    loss = cross_entropy(model(dataset.x, dataset.graph)[nodes], dataset.y[nodes])
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def _validate(model: Model, dataset: NodeDataset, nodes: Tensor) -> tuple[float, float]:
    model.eval()
    logits, y = model(dataset.x, dataset.graph)[nodes], dataset.y[nodes]
    return score(dataset.metric, logits, y), float(cross_entropy(logits, y))
