"""Training that a callback can end early, with a record of every epoch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from polybasis.data.dataset import NodeDataset, Split
from polybasis.nn.models.model import Model
from polybasis.train.config import Config, make_ensemble
from polybasis.train.fitting import SEED_STEP, Evaluation, Fit, FullBatch, OnEpoch, Progress, Run, fit_task


class StopTraining(Exception):  # noqa: N818 (like StopIteration, not an error)
    """Raised by a callback to end training and keep the best model so far.

    >>> import polybasis as pb
    >>> def stop_at_90_percent(progress):
    ...     if progress.val_score > 0.9:
    ...         raise pb.StopTraining
    """


def fit_until_stopped(
    config: Config, data: NodeDataset, split: Split, seed: int, on_epoch: OnEpoch | None, checkpoint: Path | None
) -> tuple[Fit, list[dict[str, Any]]]:
    """:func:`polybasis.train.fit`, ended early by :class:`StopTraining`.

    An ensemble keeps the models trained so far, the last one at its best epoch.

    Returns:
        The fit and, for each epoch, ``epoch``, ``train_loss`` and ``val_score``.
    """
    history: list[dict[str, Any]] = []
    task = _Watched(data, split, config)
    best = _BestEpochs(config, task, seed, checkpoint)

    def after_epoch(progress: Progress) -> None:
        history.append({"epoch": progress.epoch, "train_loss": progress.train_loss, "val_score": progress.val_score})
        if on_epoch is not None:
            best.update(progress)
            on_epoch(progress)

    try:
        return fit_task(config, task, seed, on_epoch=after_epoch, checkpoint=checkpoint), history
    except StopTraining:
        return best.result(history), history


class _Watched(FullBatch):
    """Knows which model was validated last: the trained one, or its moving average."""

    validated: Model

    def evaluate(self, model: Model, nodes: Tensor) -> Evaluation:
        self.validated = model
        return super().evaluate(model, nodes)


@dataclass
class _BestEpochs:
    """The weights of the best epoch of each model of an ensemble, or of the only model."""

    config: Config
    task: _Watched
    seed: int
    checkpoint: Path | None
    weights: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)

    def update(self, progress: Progress) -> None:
        if progress.best_epoch == progress.epoch:
            state = self.task.validated.state_dict()
            number = progress.epoch // self.config.stopping.epochs
            self.weights[number] = {name: value.detach().clone() for name, value in state.items()}

    def result(self, history: list[dict[str, Any]]) -> Fit:
        last = history[-1]["epoch"] // self.config.stopping.epochs
        models = [self._model(number) for number in range(last + 1)]
        whole = models[0] if self.config.ensemble_size == 1 else make_ensemble(models, self.task.data.target)
        val = self.task.split.val
        logits, everything = self.task.evaluate(whole, val)
        val_score = self.task.objective.score(logits, val)
        return Fit(whole.eval(), self.task, val_score, len(history), time.monotonic() - self.start, everything)

    def _model(self, number: int) -> Model:
        single = replace(self.config, ensemble_size=1)
        if number in self.weights:
            model = self.task.make_model(single)
            model.load_state_dict(self.weights[number])
            return model.eval()
        # Training resumed from a checkpoint, and no epoch since then was better.
        file = self.checkpoint
        if file is not None and self.config.ensemble_size > 1:
            file = file.with_stem(f"{file.stem}-{number}")
        return Run(single, self.task, self.seed + number * SEED_STEP, file).result().model
