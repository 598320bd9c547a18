"""Chooses a model and its hyperparameters for a graph: a portfolio of configurations, raced on validation data.

Candidates take turns in two rounds, in the manner of successive halving (Jamieson and Talwalkar, 2016). In the first
round, the first candidates of the portfolio, which serve most graphs, share the time; in the second, the best third of
them. Candidates continue where they stopped. If those that share the time of a round finish early, the others have
turns. A turn has enough epochs to tell candidates apart, so on a large graph not even all of the first candidates may
be tried. On a small graph, the time that is left pays for more splits of the training and validation nodes, because few
validation nodes do not tell good candidates apart. The rest of the time goes to training the winner, and to an ensemble
of it if there is enough.

Test nodes are not used. Which candidate wins depends on the speed of the machine; training its configuration again
does not.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch

from polybasis.data.dataset import NodeDataset, Split
from polybasis.data.metrics import sign
from polybasis.files import append_line, exclusive, read_lines
from polybasis.train.auto_portfolio import candidates, with_encoding
from polybasis.train.config import Config
from polybasis.train.fitting import FullBatch, Run
from polybasis.train.job import Job
from polybasis.train.source import Source

ROUNDS = ((0.45, 6), (0.7, 2))  # end, as a share of the time limit, and number of candidates that share the round
TURN_EPOCHS = 40  # that a turn has at least, until the round ends
REPEAT_SHARE = 0.75  # of the time limit; small graphs use what is left of it for more splits
MAX_SPLITS = 5
MAX_ENSEMBLE = 5


@dataclass(frozen=True)
class Candidate:
    """The outcome of one candidate.

    Attributes:
        name: name in the portfolio.
        config: its configuration.
        val_score: best score on the validation nodes, or its mean over several splits; None if training diverged.
        epochs: number of epochs on the given split.
        seconds: training time on the given split.
        status: ``finished``, ``behind`` (another one was better), ``out of time`` (the winner), ``not tried`` or
            ``diverged``.
        splits: number of splits that were tried.
    """

    name: str
    config: Config
    val_score: float | None
    epochs: int
    seconds: float
    status: str
    splits: int = 1


OnCandidate = Callable[[Candidate], None]


@dataclass(eq=False)
class _Entry:
    """A candidate during the race."""

    name: str
    config: Config
    run: Run | None = None
    scores: list[float] = field(default_factory=list)  # best validation score on each split
    epochs: int = 0
    seconds: float = 0.0
    status: str = "not tried"

    @property
    def rank(self) -> float:
        """Increases with the quality; the score itself may be an error."""
        if self.run is None or not self.scores:
            return -float("inf")
        return sign(self.run.task.objective.metric) * float(np.mean(self.scores))

    @property
    def finished(self) -> bool:
        return self.status in ("finished", "diverged")

    def take_turn(self, data: NodeDataset, split: Split, seed: int, share_end: float, deadline: float) -> None:
        """Trains until its share of the time ends and it had enough epochs, but not after the deadline."""
        start = time.monotonic()
        if self.run is None:
            self.run = _new_run(self.config, data, split, seed)
            self.status = "behind"
        first_epoch = self.epochs
        while not self.run.finished:
            progress = self.run.train_epoch()
            if progress is not None:
                self.scores, self.epochs = [progress.best_score], progress.epoch + 1
            now = time.monotonic()
            if now >= deadline or (now >= share_end and self.epochs - first_epoch >= TURN_EPOCHS):
                break
        self.seconds += time.monotonic() - start
        if self.run.finished:
            self.status = "finished" if self.run.kept else "diverged"
            self.scores = self.scores if self.run.kept else []

    def outcome(self) -> Candidate:
        score = float(np.mean(self.scores)) if self.scores else None
        return Candidate(
            self.name, self.config, score, self.epochs, round(self.seconds, 2), self.status, max(1, len(self.scores))
        )


@dataclass(frozen=True, eq=False)
class Race:
    """The outcome of a race.

    Attributes:
        candidates: all candidates, the best first.
        config: the configuration to train: that of the winner, with as many epochs as it had if it ran out of time, and
            an ensemble if there is time for one.
    """

    candidates: list[Candidate]
    config: Config
    _run: Run

    def save_winner(self, checkpoint: Path) -> None:
        """Writes the state of the winner, so that :func:`polybasis.train.fit` need not train it again.

        Args:
            checkpoint: the checkpoint to pass to :func:`polybasis.train.fit`, together with ``config``.
        """
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        first = checkpoint.with_stem(f"{checkpoint.stem}-0") if self.config.ensemble_size > 1 else checkpoint
        self._run.save(first)


def race(
    configs: dict[str, Config],
    data: NodeDataset,
    split: Split,
    *,
    time_limit: float,
    seed: int = 0,
    on_candidate: OnCandidate | None = None,
) -> Race:
    """Trains candidates in turns and ranks them by validation score.

    Args:
        configs: the candidates by name; see :func:`polybasis.train.auto_portfolio.candidates`.
        data: the graph, its features and classes.
        split: training and validation nodes; test nodes are not used.
        time_limit: seconds for the race and for training its winner. The first candidate trains for at least one epoch.
        seed: seed of the initial weights and of dropout.
        on_candidate: called with the outcome of each candidate, when it is known.

    Raises:
        ValueError: if the time limit is not positive.
        OverflowError: if all candidates diverge.
    """
    if not time_limit > 0:
        raise ValueError(f"time_limit is {time_limit}; expected a positive number of seconds")
    start = time.monotonic()
    entries = [_Entry(name, config) for name, config in configs.items()]
    order = entries
    for end, sharing in ROUNDS:
        waiting = [entry for entry in order if not entry.finished]
        _take_turns(waiting, sharing, data, split, seed, start + end * time_limit)
        order = sorted(entries, key=lambda entry: -entry.rank)
    if order[0].finished and all(entry.finished for entry in entries[: ROUNDS[0][1]]):
        _try_more_splits(entries, data, split, seed, start + REPEAT_SHARE * time_limit)
    ranked = sorted(entries, key=lambda entry: (-len(entry.scores), -entry.rank))
    first = ranked[0]
    if not first.scores:
        raise OverflowError(f"all {len(entries)} candidates diverged on {data.name}; scale its features")
    if not first.finished:
        first.take_turn(data, split, seed, start + time_limit, start + time_limit)
    if not first.finished:
        first.status = "out of time"
    for entry in ranked:
        if on_candidate is not None:
            on_candidate(entry.outcome())
    assert first.run is not None
    config = first.config if first.finished else first.config.replace(epochs=first.epochs)
    models = 1 + int((start + time_limit - time.monotonic()) / max(first.seconds, 1e-3))
    config = config.replace(ensemble_size=max(1, min(models, MAX_ENSEMBLE)))
    return Race([entry.outcome() for entry in ranked], config, first.run)


def _take_turns(
    entries: list[_Entry], sharing: int, data: NodeDataset, split: Split, seed: int, deadline: float
) -> None:
    """The first entries get equal shares of the time until the deadline, the others share what these do not need."""
    for number, entry in enumerate(entries):
        now = time.monotonic()
        if number > 0 and now >= deadline:
            return
        end = min(sharing, len(entries)) if number < sharing else len(entries)
        entry.take_turn(data, split, seed, now + (deadline - now) / (end - number), deadline)


def _try_more_splits(entries: list[_Entry], data: NodeDataset, split: Split, seed: int, deadline: float) -> None:
    """Trains finished entries on more splits; the better half continues if there is not enough time for all.

    These are other splits of the training and validation nodes, the same for each entry. A split on which the time runs
    out does not count. An entry that diverges on one of them is not tried again, so it ranks behind those that have
    been tried on all.
    """
    tried = [entry for entry in entries if entry.finished and entry.scores]
    for number in range(1, MAX_SPLITS):
        time_left = deadline - time.monotonic()
        if (MAX_SPLITS - number) * sum(entry.seconds for entry in tried) > time_left:
            tried = sorted(tried, key=lambda entry: -entry.rank)[: max(2, -(-len(tried) // 2))]
        if len(tried) < 2 or sum(entry.seconds for entry in tried) > time_left:
            return
        train, val = _divide_again(data, split, np.random.default_rng([seed, number]))
        runs = [_new_run(entry.config, data, Split(train, val, split.test), seed) for entry in tried]
        for run in runs:
            while not run.finished:
                if time.monotonic() >= deadline:
                    return
                run.train_epoch()
        for entry, run in zip(tried, runs, strict=True):
            if run.kept:
                entry.scores.append(run.best_score)
        tried = [entry for entry, run in zip(tried, runs, strict=True) if run.kept]


def _divide_again(data: NodeDataset, split: Split, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws new training and validation nodes from both, as many as before; every class is divided like the others."""
    nodes = rng.permutation(torch.cat([split.train, split.val]).numpy())
    if data.target == "classification":
        y = data.y.numpy()[nodes]
        position = np.empty(len(nodes))  # of a node in its class, between 0 and 1
        for value, size in zip(*np.unique(y, return_counts=True), strict=True):
            position[y == value] = (np.arange(size) + rng.random()) / size
        nodes = nodes[np.argsort(position, kind="stable")]
    train, val = np.split(nodes, [len(split.train)])
    return torch.from_numpy(np.sort(train)), torch.from_numpy(np.sort(val))


def _new_run(config: Config, data: NodeDataset, split: Split, seed: int) -> Run:
    return Run(config, FullBatch(data, split, config), seed)


def choose_config(
    source: Source,
    protocol: str,
    split: int,
    seed: int,
    time_limit: float,
    results: Path,
    on_candidate: OnCandidate | None = None,
    configs: dict[str, Config] | None = None,
) -> Config:
    """The configuration for one split of a source; a race that was run before is not repeated.

    The state of the winner is left as a checkpoint of its job, so that the job need not train it again.

    Args:
        source: the data.
        protocol, split: the split.
        seed: seed of the race.
        time_limit: see :func:`race`.
        results: file of results of the job to run next. Finished races, with all candidates, are in a file beside it;
            see :func:`races_file`.
        on_candidate: called with the outcome of each candidate.
        configs: the candidates; by default those of :mod:`polybasis.train.auto_portfolio`, with transductive ones
            unless the source is tables, whose models predict for other nodes. Few dense features are encoded.

    Raises:
        ValueError: if the source is a store.
        OverflowError: see :func:`race`.
    """
    data, races = source.open(), races_file(results)
    if not isinstance(data, NodeDataset):
        raise ValueError(f"{data.name} is a store; --model auto needs a graph folder, tables or a data set")
    if configs is None:
        configs = candidates(data, transductive=source.kind != "tables")
    else:
        configs = {name: with_encoding(config, data).for_own_data() for name, config in configs.items()}
    portfolio = [[name, config.to_dict()] for name, config in configs.items()]  # their order matters
    rules = [ROUNDS, TURN_EPOCHS, REPEAT_SHARE, MAX_SPLITS, MAX_ENSEMBLE]
    identity = [portfolio, rules, source.identity, protocol, split, seed, time_limit]
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    with exclusive(races / key, f"is choosing a model for split {split} of {data.name}"):
        for line in read_lines(races):
            if line.get("race") == key:
                return Config.from_dict(line["config"], str(races))
        nodes = data.split(protocol, split)
        outcome = race(configs, data, nodes, time_limit=time_limit, seed=seed, on_candidate=on_candidate)
        job = Job(outcome.config, source, protocol, split, seed)
        outcome.save_winner(job.checkpoint(results))
        rows = [{**asdict(candidate), "config": candidate.config.to_dict()} for candidate in outcome.candidates]
        where = {"dataset": data.name, "protocol": protocol, "split": split, "seed": seed, "time_limit": time_limit}
        append_line(races, json.dumps({"race": key, **where, "config": outcome.config.to_dict(), "candidates": rows}))
    return outcome.config


def races_file(results: Path) -> Path:
    """The JSON Lines file of finished races beside a file of results."""
    return results.with_name(f"{results.stem}-races.jsonl")
