"""Hyperparameter search on validation data with Optuna. Test nodes are never scored."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from polybasis.data.dataset import NodeDataset
from polybasis.data.metrics import sign
from polybasis.nn.models.model import model_class
from polybasis.nn.models.names import MODEL_CLASSES
from polybasis.processes import may_be_alive, noting_interruption, process_name
from polybasis.registry import Definition, accept_definitions
from polybasis.train.config import Config
from polybasis.train.fitting import Progress, fit
from polybasis.train.objective import scoring_metric
from polybasis.train.source import Source
from polybasis.train.study_file import study_backend

if TYPE_CHECKING:
    import optuna

LEARNING_RATES = [0.0005, 0.001, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05]
WEIGHT_DECAYS = [0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3]
DROPOUTS = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
PROCESS = "process"  # attribute of a trial: the process that runs it
# Choices for arguments of the models; other arguments keep their defaults.
ARGUMENTS: dict[str, list[Any]] = {
    "K": [2, 4, 8, 12, 16, 20],
    "alpha": [0.1, 0.2, 0.5, 0.9],
    "a": [-0.5, 0.0, 0.5, 1.0, 1.5, 2.0],
    "b": [-0.5, 0.0, 0.5, 1.0, 1.5, 2.0],
    "scale": [0.5, 1.0, 1.5, 2.0],
    "layers": [1, 2, 3],
    "blocks": [1, 2, 3, 4, 6],
    "jumping": [False, True],
    "adjacency": [False, True],
    "stacks": [1, 2, 3],
    "powers": [2, 3, 4],
    "theta": [0.5, 1.0, 1.5],
    "r": [0.0, 0.3, 0.5],
    "epsilon": [0.01, 0.05, 0.1],
}


def import_optuna() -> Any:
    """Imports Optuna.

    Raises:
        ImportError: if Optuna is not installed; the message says how to install it.
    """
    try:
        import optuna
    except ImportError as error:
        raise ImportError("tuning needs Optuna; install it with: pip install 'polybasis[tune]'") from error
    return optuna


def search_space(start: Config) -> dict[str, list[Any]]:
    """Returns the choices for the hyperparameters of a model, without those that are not searched.

    For a custom model, the degree ``K`` and dropout have the same choices as for built-in models. The choices of other
    arguments follow from the constructor: the values of a ``Literal``, both values of a bool, and for a positive number
    its default, a smaller and a larger value.
    """
    name, arguments = start.model.name, start.hyperparameters()
    if name in MODEL_CLASSES:
        space = {key: DROPOUTS if "dropout" in key else ARGUMENTS.get(key) for key in arguments}
        # JacobiConv's scale is a number, OptBasisGNN's is not.
        return {key: found for key, found in space.items() if found and not isinstance(arguments[key], str)}
    space = {key: _choices(key, default, annotation) for key, default, annotation in _signature(start)}
    return {key: found for key, found in space.items() if found}


def _signature(start: Config) -> list[tuple[str, Any, Any]]:
    """Name, default and annotation of the model's own arguments."""
    constructor = model_class(start.model.name).__init__
    try:
        annotations = get_type_hints(constructor)
    except Exception:  # names that exist for type checkers only
        annotations = {}
    return [(key, default, annotations.get(key)) for key, default in start.hyperparameters().items()]


def _choices(name: str, default: Any, annotation: Any) -> list[Any] | None:
    """Returns the choices for an argument of a custom model; None if it is not searched."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if isinstance(default, bool):
        return [False, True]
    if "dropout" in name:
        return DROPOUTS
    if name == "K":
        return ARGUMENTS["K"]
    if not isinstance(default, int | float) or not 0 < default < float("inf"):
        return None
    if isinstance(default, int):
        return sorted({max(1, default // 2), default, 2 * default})
    return [default / 2, default, (1 + default) / 2 if default < 1 else 2 * default]  # a probability stays one


def suggest(trial: optuna.Trial, start: Config) -> Config:
    """Suggests a configuration from the paper's search space: degree, dropout, learning rates, weight decays.

    The paper lists learning rates up to 0.5; this search space includes all values of its published hyperparameters.
    """
    values = {name: trial.suggest_categorical(name, choices) for name, choices in search_space(start).items()}
    roles: list[str] = list(start.replace(hidden=2, ensemble_size=1).make_model(2, 2, 2).parameter_groups())
    lr = {role: trial.suggest_categorical(f"lr.{role}", LEARNING_RATES) for role in roles}
    decay = {role: trial.suggest_categorical(f"weight_decay.{role}", WEIGHT_DECAYS) for role in roles}
    return start.replace(**values, lr=lr, weight_decay=decay, preset="tuned")


@dataclass(frozen=True)
class Search:
    """The settings that the workers of a search share.

    Attributes:
        start: the values that all trials share: model, epochs, patience, hidden width and arguments not searched over.
        protocol, splits: split protocol and number of splits; a trial's score is its mean validation score over them.
        trials: number of finished or pruned trials, including those of earlier calls and of other workers.
        study: file of the study, shared by all workers; an interrupted search resumes from it.
        known: a configuration to try first; values outside the search space are ignored.
    """

    start: Config
    protocol: str
    trials: int
    study: Path
    splits: int = 2
    known: Config | None = None


def run_worker(source: Source, search: Search, seed: int, definitions: Sequence[Definition] = ()) -> None:
    """Runs one worker of a search.

    Args:
        source: the data.
        search: the settings of the search.
        seed: seed of the sampler.
        definitions: models and bases that are registered in the process that started the worker.
    """
    accept_definitions(definitions)
    data = source.open()
    assert isinstance(data, NodeDataset)
    tune(data, search, seed=seed)


def tune(
    data: NodeDataset, search: Search, *, seed: int = 0, on_trial: Callable[[int, float], None] | None = None
) -> tuple[Config, float]:
    """Runs trials until the study has enough of them; several workers may share a study.

    Args:
        data: the data set.
        search: the settings of the search.
        seed: seed of the sampler.
        on_trial: called after each trial with the number of trials and the best score.

    Returns:
        The best configuration and its validation score.

    Raises:
        ValueError: if no trial finished, or the configuration has no early stopping.
        ImportError: if Optuna is not installed.
    """
    optuna = import_optuna()
    base = search.start
    if base.stopping.early_stopping == "none":
        raise ValueError('tuning needs early stopping; use early_stopping = "score" or "loss"')
    better = sign(scoring_metric(base, data))  # the study maximises
    splits = [data.split(search.protocol, number) for number in range(search.splits)]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.JournalStorage(study_backend(search.study))
    name = _study_name(data, search)
    study = optuna.create_study(
        study_name=name,
        storage=storage,
        direction="maximize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=50, interval_steps=10),
    )

    def objective(trial: Any) -> float:
        trial.set_user_attr(PROCESS, process_name())
        config = suggest(trial, base)
        scores: list[float] = []
        for number in range(search.splits):

            def on_epoch(progress: Progress, number: int = number) -> None:
                step = number * progress.epochs + progress.epoch
                trial.report(better * float(np.mean([*scores, progress.best_score])), step)
                if trial.should_prune():
                    raise optuna.TrialPruned

            try:
                scores.append(fit(config, data, splits[number], number, on_epoch=on_epoch).val_score)
            except OverflowError as error:
                raise optuna.TrialPruned(str(error)) from error
        trial.set_user_attr("config", config.to_dict())
        return better * float(np.mean(scores))

    complete = (optuna.trial.TrialState.COMPLETE,)
    done = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    count = 0

    def kept() -> str:
        finished = f"{count} of {search.trials} trials are finished and saved in {search.study}"
        return f"{finished}; run the same command again to resume"

    with noting_interruption(kept):
        while (count := len(study.get_trials(deepcopy=False, states=done))) < search.trials:
            study.sampler = _sampler(study, count, search.known, seed)
            trial = study.ask()
            try:
                study.tell(trial, objective(trial))
            except optuna.TrialPruned:
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            if on_trial is not None and study.get_trials(deepcopy=False, states=complete):
                on_trial(len(study.get_trials(deepcopy=False, states=done)), better * study.best_value)
    if not study.get_trials(deepcopy=False, states=complete):
        raise ValueError(f"none of {search.trials} trials finished; allow more trials")
    return Config.from_dict(study.best_trial.user_attrs["config"]), better * float(study.best_value)


def _study_name(data: NodeDataset, search: Search) -> str:
    """The name of the study; searches share a study only if they differ in nothing but the number of trials."""
    common = json.dumps([search.start.to_dict(), data.fingerprint, search.protocol, search.splits], sort_keys=True)
    return f"{search.start.model.name} on {data.name}, {hashlib.sha256(common.encode()).hexdigest()[:16]}"


def _as_parameters(config: Config) -> dict[str, Any]:
    """A configuration as parameters of a trial; values outside the search space are left to the sampler."""
    parameters: dict[str, Any] = dict(config.model.arguments)
    for table, numbers in (("lr", config.optimizer.lr), ("weight_decay", config.optimizer.weight_decay)):
        parameters |= {f"{table}.{role}": number for role, number in numbers.items()}

    space = search_space(config)

    def choices(name: str) -> list[Any]:
        if name.startswith("lr."):
            return LEARNING_RATES
        if name.startswith("weight_decay."):
            return WEIGHT_DECAYS
        return space.get(name, [])

    return {name: value for name, value in parameters.items() if value in choices(name)}


def _sampler(study: optuna.Study, finished: int, known: Config | None, seed: int) -> Any:
    """The sampler of the next trial.

    It ignores trials whose process has ended, so that a resumed search repeats them and goes on as without the
    interruption. Workers that share a study and a seed have different samplers.

    Args:
        study: the study.
        finished: number of finished trials.
        known: a configuration for the first trial.
        seed: seed of the search.
    """
    optuna = import_optuna()
    running = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))
    others = {trial.user_attrs[PROCESS] for trial in running if PROCESS in trial.user_attrs} - {process_name()}
    number = finished + sum(map(may_be_alive, others))
    sampler = optuna.samplers.TPESampler(seed=seed + number)
    if number > 0 or known is None:
        return sampler
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.PartialFixedSampler(_as_parameters(known), sampler)
