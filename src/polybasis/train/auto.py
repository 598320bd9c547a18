"""Chooses a model and its hyperparameters for a graph: a portfolio of configurations, raced on validation data.

Candidates train one after the other, the cheapest first. Successive halving (Jamieson and Talwalkar, 2016; here
Optuna's asynchronous version) stops a candidate that is behind the others at the same epoch. The race does not score
test nodes. Which candidate wins depends on the speed of the machine; training its configuration again does not.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from polybasis.data.dataset import NodeDataset, Split
from polybasis.data.metrics import sign
from polybasis.files import append_line, exclusive, read_lines
from polybasis.train.config import Config
from polybasis.train.fitting import Progress, fit
from polybasis.train.job import Source
from polybasis.train.tune import import_optuna

FEW_FEATURES = 100  # below, LINKX competes too, if the model need not predict for other nodes
RACE_SHARE = 0.6  # of the time limit; the rest is for training the winner again
FIRST_RUNG, REDUCTION = 40, 3  # epochs after which candidates are first compared, and the share that goes on: 1/3

PORTFOLIO: dict[str, tuple[str, dict[str, Any]]] = {
    "linear": ("mlp", {"layers": 1}),
    "mlp": ("mlp", {}),
    "residual gcn": ("residual", {"filter": "gcn", "blocks": 2, "dropout": 0.5}),
    "favardgnn": ("favardgnn", {"recurrence": "bounded"}),
    "optbasisgnn": ("optbasisgnn", {"scale": "signal"}),
    "residual favard": ("residual", {"filter": "favard", "blocks": 2, "dropout": 0.2}),
    "residual favard, more dropout": ("residual", {"filter": "favard", "blocks": 2, "dropout": 0.5}),
    "linkx": ("linkx", {}),
}


@dataclass(frozen=True)
class Candidate:
    """The outcome of one candidate.

    Attributes:
        name: name in the portfolio.
        config: its configuration.
        val_score: best score on the validation nodes; None if training diverged at once.
        epochs: number of epochs.
        seconds: training time.
        status: ``finished``, ``behind`` (stopped by successive halving), ``out of time`` or ``diverged``.
    """

    name: str
    config: Config
    val_score: float | None
    epochs: int
    seconds: float
    status: str


OnCandidate = Callable[[Candidate], None]


class _OutOfTimeError(Exception):
    pass


def race(
    data: NodeDataset,
    split: Split,
    *,
    time_limit: float,
    seed: int = 0,
    transductive: bool = False,
    on_candidate: OnCandidate | None = None,
) -> list[Candidate]:
    """Trains the candidates of the portfolio and ranks them by validation score, the best first.

    Args:
        data: the graph, its features and classes.
        split: training and validation nodes; test nodes are not used.
        time_limit: seconds for the race and for training the winner again. The first candidate always trains for at
            least one epoch.
        seed: seed of the initial weights and of dropout.
        transductive: admit models that can predict only for the nodes they were trained on.
        on_candidate: called after each candidate.

    Raises:
        ValueError: if the time limit is not positive.
        OverflowError: if all candidates diverge.
        ImportError: if Optuna is not installed.
    """
    if not time_limit > 0:
        raise ValueError(f"time_limit is {time_limit}; expected a positive number of seconds")
    optuna = import_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=FIRST_RUNG, reduction_factor=REDUCTION)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    start = time.monotonic()
    tried: list[Candidate] = []
    waiting = candidates(data, transductive)
    for number, (name, config) in enumerate(waiting.items()):
        left = RACE_SHARE * time_limit - (time.monotonic() - start)
        if left <= 0 and tried:
            break
        found = _try(name, config, data, split, seed, left / (len(waiting) - number), study)
        tried.append(found)
        if on_candidate is not None:
            on_candidate(found)
    better = sign(data.metric)
    ranked = sorted((c for c in tried if c.val_score is not None), key=lambda c: -better * (c.val_score or 0.0))
    if not ranked:
        raise OverflowError(f"all {len(tried)} candidates diverged on {data.name}; scale its features")
    return ranked + [c for c in tried if c.val_score is None]


def candidates(data: NodeDataset, transductive: bool = False) -> dict[str, Config]:
    """The configurations that compete for a data set.

    Args:
        data: the data set.
        transductive: admit LINKX where it suits the features: there are few of them, or none but the nodes themselves.
    """
    with_linkx = transductive and (data.structure_only or data.num_features < FEW_FEATURES)
    return {
        name: Config.of(model, **values, preset="auto").for_own_data()
        for name, (model, values) in PORTFOLIO.items()
        if name != "linkx" or with_linkx
    }


def _try(
    name: str, config: Config, data: NodeDataset, split: Split, seed: int, seconds: float, study: Any
) -> Candidate:
    optuna = import_optuna()
    trial = study.ask()
    start = time.monotonic()
    latest: Progress | None = None
    better = sign(data.metric)

    def on_epoch(progress: Progress) -> None:
        nonlocal latest
        latest = progress
        trial.report(better * progress.best_score, progress.epoch + 1)
        if trial.should_prune():
            raise optuna.TrialPruned
        if time.monotonic() - start > seconds:
            raise _OutOfTimeError

    status = "finished"
    try:
        fit(config, data, split, seed, on_epoch=on_epoch)
    except optuna.TrialPruned:
        status = "behind"
    except _OutOfTimeError:
        status = "out of time"
    except OverflowError:
        status = "diverged"
    score = None if latest is None else latest.best_score
    if score is None:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    else:
        study.tell(trial, better * score)
    epochs = 0 if latest is None else latest.epoch + 1
    return Candidate(name, config, score, epochs, round(time.monotonic() - start, 2), status)


def winner(ranked: list[Candidate]) -> Config:
    """The configuration of the best candidate. One that ran out of time trains for as many epochs as it had."""
    best = ranked[0]
    return best.config.replace(epochs=best.epochs) if best.status == "out of time" else best.config


def choose_config(
    source: Source,
    protocol: str,
    split: int,
    seed: int,
    time_limit: float,
    races: Path,
    on_candidate: OnCandidate | None = None,
) -> Config:
    """The configuration for one split of a source; a race that was run before is not repeated.

    Args:
        source: the data.
        protocol, split: the split.
        seed: seed of the race.
        time_limit: see :func:`race`.
        races: JSON Lines file of finished races, with all candidates.
        on_candidate: called after each candidate.

    Raises:
        ValueError: if the source is a store.
        OverflowError, ImportError: see :func:`race`.
    """
    data = source.open()
    if not isinstance(data, NodeDataset):
        raise ValueError(f"{data.name} is a store; --model auto needs a graph folder, tables or a data set")
    transductive = source.kind != "tables"  # models of own tables predict for other nodes
    portfolio = {name: config.to_dict() for name, config in candidates(data, transductive).items()}
    identity = [portfolio, source.identity, protocol, split, seed, time_limit]
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    with exclusive(races / key, f"is choosing a model for split {split} of {data.name}"):
        for line in read_lines(races):
            if line.get("race") == key:
                return Config.from_dict(line["config"], str(races))
        nodes = data.split(protocol, split)
        ranked = race(
            data, nodes, time_limit=time_limit, seed=seed, transductive=transductive, on_candidate=on_candidate
        )
        chosen = winner(ranked)
        rows = [{**asdict(candidate), "config": candidate.config.to_dict()} for candidate in ranked]
        where = {"dataset": data.name, "protocol": protocol, "split": split, "seed": seed, "time_limit": time_limit}
        append_line(races, json.dumps({"race": key, **where, "config": chosen.to_dict(), "candidates": rows}))
    return chosen
