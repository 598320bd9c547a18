"""Many trainings: every split of a data set, some at a time, each result kept as soon as it is there."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polybasis.cluster import spread
from polybasis.data.catalogue import load
from polybasis.data.dataset import NodeDataset
from polybasis.data.splits import make_split
from polybasis.files import append_line, read_lines
from polybasis.train.config import Config
from polybasis.train.fitting import Report
from polybasis.train.graph_training import fit, score_on

Result = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One training: a model on one split of a data set.

    Attributes:
        config: the model and how to train it.
        dataset: name of the data set.
        protocol: of its splits.
        split_seed: which split.
        model_seed: of the model's start and of dropout.
    """

    config: Config
    dataset: str
    protocol: str
    split_seed: int
    model_seed: int

    def key(self) -> str:
        """The same for two runs exactly when they would give the same result."""
        numbers = {**self.config.to_dict(), "dataset": self.dataset, "protocol": self.protocol}
        numbers |= {"split_seed": self.split_seed, "model_seed": self.model_seed}
        return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]


def execute(run: Run, root: str | None, report: Report | None = None, checkpoints: Path | None = None) -> Result:
    """Trains one run and scores it on its test nodes."""
    dataset = _loaded(run.dataset, root)
    dataset = replace(dataset, x=run.config.prepared(dataset.x))
    split = make_split(dataset, run.protocol, run.split_seed)
    checkpoint = None if checkpoints is None else checkpoints / f"{run.key()}.safetensors"
    trained = fit(run.config, dataset, split, run.model_seed, report=report, checkpoint=checkpoint)
    return {
        "key": run.key(),
        "model": run.config.model,
        "dataset": run.dataset,
        "settings": run.config.settings,
        "protocol": run.protocol,
        "split_seed": run.split_seed,
        "model_seed": run.model_seed,
        "metric": dataset.metric,
        "val_accuracy": trained.val_score,
        "test_accuracy": score_on(trained.model, dataset, split.test),
        "epochs": trained.epochs,
        "seconds": round(trained.seconds, 3),
        "threads": torch.get_num_threads(),
        "config": run.config.to_dict(),
        "versions": {name: version(name) for name in ("polybasis", "torch", "torch_geometric")},
    }


@cache
def _loaded(name: str, root: str | None) -> NodeDataset:
    return load(name, root)


def run_splits(
    runs: list[Run],
    results: Path,
    *,
    root: str | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    report: Report | None = None,
    finished: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Executes all runs that are not in the results file yet, and returns the results of all of them.

    Args:
        runs: what to do.
        results: a file of JSON lines; each result is appended and synced when it is there, so that a kill loses only
            what is under way, and that goes on from its last checkpoint.
        root: the folder of all data sets.
        jobs: how many processes; torch's threads are divided among them.
        cluster: address of a Ray cluster, or ``auto``; each run then has one processor of it.
        report: called after every epoch, with one job only.
        finished: called with each new result.

    Raises:
        OverflowError: where runs diverged, after all others have been done.
    """
    wanted = {run.key(): run for run in runs}
    done = {result["key"]: result for result in read_results(results) if result["key"] in wanted}
    checkpoints = results.parent / f".{results.stem}.checkpoints"
    missing = [run for key, run in wanted.items() if key not in done]
    failed: list[tuple[Run, OverflowError]] = []
    for result in _executed(missing, root, jobs, cluster, report, checkpoints, failed):
        append_line(results, json.dumps(result))
        done[result["key"]] = result
        if finished is not None:
            finished(result)
    if checkpoints.is_dir() and not any(checkpoints.iterdir()):
        checkpoints.rmdir()
    if failed:
        run, error = failed[0]
        raise OverflowError(
            f"{len(failed)} of {len(runs)} runs diverged and have no result, the first {run.config.model} on "
            f"{run.dataset}, split {run.split_seed}: {error}"
        )
    return [done[key] for key in wanted]


def _executed(
    runs: list[Run],
    root: str | None,
    jobs: int,
    cluster: str | None,
    report: Report | None,
    checkpoints: Path,
    failed: list[tuple[Run, OverflowError]],
) -> Iterator[Result]:
    if cluster is not None:
        work = [(run, root, None, checkpoints.absolute()) for run in runs]
        for number, result in spread(execute, work, address=cluster):
            try:
                yield result()
            except OverflowError as error:
                failed.append((runs[number], error))
        return
    if jobs <= 1 or len(runs) <= 1:
        for run in runs:
            try:
                yield execute(run, root, report, checkpoints)
            except OverflowError as error:
                failed.append((run, error))
        return
    threads = max(1, torch.get_num_threads() // jobs)
    # Workers start clean: a fork of a process that has used threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=torch.set_num_threads, initargs=(threads,)) as pool:
        futures = {pool.submit(execute, run, root, None, checkpoints): run for run in runs}
        try:
            for future in as_completed(futures):
                try:
                    yield future.result()
                except OverflowError as error:
                    failed.append((futures[future], error))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def read_results(path: Path) -> list[Result]:
    """All whole lines of a results file; none where there is no such file."""
    return [result for result in read_lines(path) if "key" in result]


def summary(scores: list[float]) -> dict[str, float]:
    """Mean, standard deviation and half the width of the 95 % confidence interval (Student's t)."""
    values = np.asarray(scores)
    if len(values) < 2:
        return {"mean": float(values.mean()), "std": 0.0, "ci95": 0.0}
    from scipy.stats import t

    std = float(values.std(ddof=1))
    return {
        "mean": float(values.mean()),
        "std": std,
        "ci95": float(t.ppf(0.975, len(values) - 1)) * std / len(values) ** 0.5,
    }


def summarised(results: list[Result]) -> list[dict[str, Any]]:
    """One row for each model, data set, protocol and configuration; scores in percent."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        config = json.dumps(result["config"], sort_keys=True)
        key = (result["model"], result["dataset"], result["settings"], result["protocol"], config)
        groups.setdefault(key, []).append(result)
    rows = []
    for (model, dataset, settings, *_), members in groups.items():
        test = summary([100 * member["test_accuracy"] for member in members])
        rows.append(
            {
                "model": model,
                "dataset": dataset,
                "settings": settings,
                "splits": len(members),
                "val": statistics.mean(100 * member["val_accuracy"] for member in members),
                **test,
                "epochs": statistics.mean(member["epochs"] for member in members),
                "seconds": statistics.mean(member["seconds"] for member in members),
            }
        )
    return rows
