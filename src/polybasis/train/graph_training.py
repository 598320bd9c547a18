"""Training on a graph in memory, all nodes at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from polybasis.data.dataset import NodeDataset
from polybasis.data.splits import Split
from polybasis.features import SparseFeatures
from polybasis.nn.models import Model
from polybasis.nn.models.ensemble import Ensemble
from polybasis.nn.models.label_reuse import LabelReuse
from polybasis.train.checkpoint import refuse_strangers
from polybasis.train.config import Config
from polybasis.train.fitting import Fit, Progress, Report, Task, fit_task
from polybasis.train.metrics import score

SEED_STEP = 1_000_000  # between two members, farther apart than splits


class GraphTask(Task[Model]):
    """Nodes of a graph in memory, all of them at once."""

    def __init__(self, dataset: NodeDataset, split: Split) -> None:
        for name, nodes in zip(("training", "validation"), split, strict=False):
            if len(nodes) == 0:
                raise ValueError(f"{dataset.name} has no {name} nodes in this split; label more nodes")
        self.name, self.dataset, self.split = dataset.name, dataset, split
        self._ahead: tuple[Model, Tensor] | None = None  # scores that the next epoch starts from

    def make_model(self, config: Config) -> Model:
        if config.members is not None:
            raise ValueError("members are trained one by one, by fit")
        nodes = self.dataset.graph.num_nodes
        model = config.make_model(self.dataset.num_features, self.dataset.num_classes, nodes)
        if isinstance(model, LabelReuse):
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
        with torch.set_grad_enabled(model.deterministic):
            logits = model(self.dataset.x, self.dataset.graph)
        if model.deterministic:
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

    Members are trained one after another, each to the epoch that counts for it; the first is the model that would be
    trained alone. Each has a checkpoint of its own, whose name begins with the one given.
    """
    task, alone = GraphTask(dataset, split), replace(config, members=None)
    seeds = [seed + number * SEED_STEP for number in range(config.members or 1)]
    files: list[Path] = []
    if checkpoint is not None:
        ends = [""] if config.members is None else [f".{number}" for number in range(config.members)]
        files = [checkpoint.with_name(checkpoint.name + end) for end in ends]
        there = {file: task.identity(alone, each) for file, each in zip(files, seeds, strict=True) if file.exists()}
        refuse_strangers(checkpoint, there)
    if config.members is None:
        return fit_task(alone, task, seed, report=report, checkpoint=checkpoint)
    fits = []
    try:
        for number, each in enumerate(seeds):
            told = None if report is None else _as_member(report, number, len(seeds))
            file = files[number] if files else None
            fits.append(fit_task(alone, task, each, report=told, checkpoint=file, keep=True))
    except OverflowError:
        _remove(files)
        raise
    model = Ensemble(member.model for member in fits).eval()
    val_score, _ = task.validate(model)
    _remove(files)
    return Fit(model, val_score, sum(member.epochs for member in fits), sum(member.seconds for member in fits))


def _remove(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


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
