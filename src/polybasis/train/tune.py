"""Hyperparameter search on validation data, with Optuna. Test nodes are never scored here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.storages.journal import JournalFileBackend

from polybasis.data.catalogue import load
from polybasis.data.dataset import NodeDataset
from polybasis.data.splits import make_split
from polybasis.nn.models import model_class
from polybasis.train.config import Config
from polybasis.train.fitting import Progress
from polybasis.train.graph_training import fit

LEARNING_RATES = [0.0005, 0.001, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05]
WEIGHT_DECAYS = [0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3]
DROPOUTS = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
# What an argument of a model may be; those that are not here keep their defaults.
ARGUMENTS: dict[str, list[Any]] = {
    "K": [2, 4, 8, 12, 16, 20],
    "alpha": [0.1, 0.2, 0.5, 0.9],
    "a": [-0.5, 0.0, 0.5, 1.0, 1.5, 2.0],
    "b": [-0.5, 0.0, 0.5, 1.0, 1.5, 2.0],
    "scale": [0.5, 1.0, 1.5, 2.0],
    "layers": [1, 2, 3],
    "stacks": [1, 2, 3],
    "powers": [2, 3, 4],
    "theta": [0.5, 1.0, 1.5],
    "r": [0.0, 0.3, 0.5],
    "epsilon": [0.01, 0.05, 0.1],
}


def suggested(trial: optuna.Trial, model: str, start: Config) -> Config:
    """A configuration from the paper's search space: degree, rates and decays by role, dropout rates.

    The paper lists learning rates up to 0.5; its published settings are all among those here.
    """
    arguments = dict(start.arguments)
    for name in model_class(model).hyperparameters():
        choices = DROPOUTS if "dropout" in name else ARGUMENTS.get(name)
        if choices is not None:
            arguments[name] = trial.suggest_categorical(name, choices)
    roles: list[str] = list(model_class(model)(2, 2, 2, num_nodes=2).parameter_groups())
    lr = {role: trial.suggest_categorical(f"lr.{role}", LEARNING_RATES) for role in roles}
    decay = {role: trial.suggest_categorical(f"weight_decay.{role}", WEIGHT_DECAYS) for role in roles}
    return replace(start, arguments=arguments, lr=lr, weight_decay=decay, settings="tuned")


@dataclass(frozen=True)
class Search:
    """What workers of one search have in common.

    Attributes:
        protocol, splits: how many splits the validation score of a trial is the mean of.
        trials: finished or pruned trials in all, those of earlier calls and other workers included.
        study: the study's file, which workers share; a search that was stopped goes on from it.
        start: what all trials have in common: epochs, patience, hidden width, arguments that are not searched.
        known: settings that are tried first, where the search space has them.
    """

    protocol: str
    trials: int
    study: Path
    splits: int = 2
    start: Config | None = None
    known: Config | None = None


def search_named(model: str, dataset: str, root: str | None, search: Search, seed: int) -> None:
    """One worker of a search, on a data set by name."""
    tune(model, load(dataset, root), search, seed=seed)


def tune(
    model: str,
    dataset: NodeDataset,
    search: Search,
    *,
    seed: int = 0,
    finished: Callable[[int, float], None] | None = None,
) -> tuple[Config, float]:
    """Searches until the study has enough finished trials; several workers may share one study.

    Args:
        model: name of the model.
        dataset: the data set.
        search: what to search for how long.
        seed: of the sampler.
        finished: called with the number of trials and the best score after each.

    Returns:
        The best configuration and its validation score.
    """
    base = search.start or Config(model, epochs=500, patience=100)
    if base.stop_on == "epochs":
        raise ValueError('a search stops trials early; start it with stop_on = "score" or "loss"')
    dataset = replace(dataset, x=base.prepared(dataset.x))
    search.study.parent.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # A journal file is what Optuna offers for several processes without a database server.
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(search.study)))
    name = f"{model} on {dataset.name}, {search.splits} {search.protocol} splits, {base.epochs} epochs"
    name += "" if base.stop_on == "score" else f", stopped on {base.stop_on}"
    name += "" if base.normalise is None else f", {base.normalise} normalised"
    name += "" if base.members is None else f", {base.members} members"
    name += "" if base.labels is None else f", labels {base.labels}"
    study = optuna.create_study(
        study_name=name,
        storage=storage,
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=seed + _count(storage, name)),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=50, interval_steps=10),
    )

    if search.known is not None and not study.trials:
        study.enqueue_trial(_as_parameters(search.known))

    def objective(trial: optuna.Trial) -> float:
        config = suggested(trial, model, base)
        scores: list[float] = []
        for number in range(search.splits):

            def report(progress: Progress, number: int = number) -> None:
                step = number * progress.epochs + progress.epoch
                trial.report(float(np.mean([*scores, progress.best_score])), step)
                if trial.should_prune():
                    raise optuna.TrialPruned

            try:
                split = make_split(dataset, search.protocol, number)
                scores.append(fit(config, dataset, split, number, report=report).val_score)
            except (OverflowError, ValueError) as error:  # diverged: at first or later, numbers are not finite
                raise optuna.TrialPruned(str(error)) from error
        trial.set_user_attr("config", config.to_dict())
        return float(np.mean(scores))

    done = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    while len(study.get_trials(deepcopy=False, states=done)) < search.trials:
        study.optimize(objective, n_trials=1)
        complete = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        if finished is not None and complete:
            finished(len(study.get_trials(deepcopy=False, states=done)), study.best_value)
    if not study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)):
        raise ValueError(f"none of {search.trials} trials was finished; allow more of them")
    return Config.from_dict(study.best_trial.user_attrs["config"]), float(study.best_value)


def _as_parameters(config: Config) -> dict[str, Any]:
    """A configuration as a trial's parameters; those that the search space has not are left to the sampler."""
    parameters: dict[str, Any] = dict(config.arguments)
    for table, numbers in (("lr", config.lr), ("weight_decay", config.weight_decay)):
        parameters |= {f"{table}.{role}": number for role, number in numbers.items()}

    def choices(name: str) -> list[Any]:
        if name.startswith("lr."):
            return LEARNING_RATES
        if name.startswith("weight_decay."):
            return WEIGHT_DECAYS
        return DROPOUTS if "dropout" in name else ARGUMENTS.get(name, [])

    return {name: value for name, value in parameters.items() if value in choices(name)}


def _count(storage: optuna.storages.BaseStorage, name: str) -> int:
    """Trials so far, so that a search that goes on does not draw the same numbers again."""
    known = {study.study_name: study for study in optuna.get_all_study_summaries(storage)}
    return known[name].n_trials if name in known else 0
