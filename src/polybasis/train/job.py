"""Jobs: (data, split, configuration, seed) -> checkpoint -> result line -> saved model, on a graph or on a store."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from polybasis.files import append_line, read_lines
from polybasis.store.basis_store import BasisStore
from polybasis.train.config import Config
from polybasis.train.distributed import ProcessGroup
from polybasis.train.fitting import OnEpoch, fit, fit_task
from polybasis.train.results import Result
from polybasis.train.source import FolderSource, Source

OnResult = Callable[[Result], None]


@dataclass(frozen=True)
class Job:
    """One training run.

    Attributes:
        config: the model and how to train it.
        source: the data.
        protocol: protocol of the split.
        split: which split.
        seed: seed of the initial weights, dropout and the order of batches.
    """

    config: Config
    source: Source
    protocol: str
    split: int
    seed: int

    @cached_property
    def key(self) -> str:
        """Identifies the job: equal for two jobs exactly if they have the same result."""
        parts = [self.config.to_dict(), self.source.identity, self.protocol, self.split, self.seed]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def adapt_config(config: Config, source: Source) -> Config:
    """The configuration adapted to the data: a store determines the feature transform and, by default, the degree.

    Raises:
        ValueError: if the configuration contradicts the store.
    """
    data = source.open() if isinstance(source, FolderSource) else None
    if not isinstance(data, BasisStore):
        return config
    if not config.model.precomputed:
        raise ValueError(f"{data.path} is a store; models on it need precomputed = true in [model]")
    if config.feature_transform not in (None, data.feature_transform):
        raise ValueError(
            f"feature_transform is {config.feature_transform!r}; {data.path} was made with "
            f"{data.feature_transform!r}: run precompute with --feature-transform"
        )
    K = config.model.arguments.get("K", data.K)
    if K > data.K:
        raise ValueError(f"K is {K}; the basis in {data.path} has degree {data.K}")
    return config.replace(K=K, feature_transform=data.feature_transform)


def run_job(
    job: Job,
    *,
    checkpoints: Path | None = None,
    out: Path | None = None,
    on_epoch: OnEpoch | None = None,
    group: ProcessGroup | None = None,
) -> Result:
    """Trains the model of a job and scores it on its test nodes.

    Args:
        job: what to do.
        checkpoints: folder for the checkpoint, from which an interrupted job resumes.
        out: folder to save the model to.
        on_epoch: called after every epoch.
        group: the processes that train together, on a store.

    Returns:
        The result, as plain values.
    """
    data, config = job.source.open(), job.config
    split = data.split(job.protocol, job.split)
    checkpoint = None if checkpoints is None else checkpoints / f"{job.key}.safetensors"
    if isinstance(data, BasisStore):
        from polybasis.train.mini_batch import MiniBatches

        task = MiniBatches(data, split, config, group)
        fitted = fit_task(config, task, job.seed, on_epoch=on_epoch, checkpoint=checkpoint)
    else:
        fitted = fit(config, data, split, job.seed, on_epoch=on_epoch, checkpoint=checkpoint)
    result: Result = {
        "key": job.key,
        "model": config.model.name,
        "dataset": data.name,
        "preset": config.preset,
        "protocol": job.protocol,
        "split": job.split,
        "seed": job.seed,
        "metric": data.metric,
        "val_score": fitted.val_score,
        "test_score": fitted.score(split.test),
        "epochs": fitted.epochs,
        "seconds": round(fitted.seconds, 3),
        "threads": torch.get_num_threads(),
        "config": config.to_dict(),
        "versions": {name: version(name) for name in ("polybasis", "torch", "torch_geometric")},
    }
    if isinstance(data, BasisStore):
        result |= {"waited": round(fitted.task.waited, 3), "processes": 1 if group is None else group.size}
    if out is not None and fitted.task.writes:
        from polybasis.train.trained_model import TrainedModel

        provenance = {name: result[name] for name in ("key", "dataset", "protocol", "split", "seed", "test_score")}
        provenance["data"] = job.source.identity
        TrainedModel.of(config, fitted, provenance).save(out)
    return result


def run_jobs(
    jobs: list[Job],
    results: Path,
    *,
    out: Path | None = None,
    processes: int = 1,
    cluster: str | None = None,
    group: ProcessGroup | None = None,
    on_epoch: OnEpoch | None = None,
    on_result: OnResult | None = None,
) -> list[Result]:
    """Runs all jobs that have no result yet and returns the results of all.

    Args:
        jobs: what to do.
        results: file of JSON lines. Each result is appended and synced at once, so that a kill loses only unfinished
            jobs, which resume from their last checkpoint.
        out: folder to save the model of a single job to; a job with a result but without this model runs again.
        processes: number of jobs to run in parallel; torch's threads are divided among them.
        cluster: address of a Ray cluster, or ``auto``; each job then uses one of its processors.
        group: the processes that train together, on a store.
        on_epoch: called after every epoch if jobs do not run in parallel.
        on_result: called with each new result.

    Raises:
        ValueError: if ``out`` is given for several jobs.
        OverflowError: if jobs diverged, after all others have finished.
    """
    if out is not None and len(jobs) > 1:
        raise ValueError("a folder holds one model; save it for one split only")
    wanted = {job.key: job for job in jobs}
    done = {result["key"]: result for result in read_lines(results) if result.get("key") in wanted}
    if group is not None:
        group.require_equal(len(done), "results")
    missing = [job for key, job in wanted.items() if key not in done or not _saved(out, key)]
    checkpoints = results.parent / f".{results.stem}.checkpoints"
    failed: list[tuple[Job, OverflowError]] = []
    if processes > 1 and len(missing) > 1:
        finished = _run_parallel(missing, processes, checkpoints, failed)
    elif cluster is not None:
        finished = _run_on_cluster(missing, cluster, checkpoints, out, failed)
    else:
        finished = _run_in_turn(missing, failed, checkpoints=checkpoints, out=out, on_epoch=on_epoch, group=group)
    for result in finished:
        if (group is None or group.rank == 0) and result["key"] not in done:
            append_line(results, json.dumps(result))
        done[result["key"]] = result
        if on_result is not None:
            on_result(result)
    if checkpoints.is_dir() and not any(checkpoints.iterdir()):
        checkpoints.rmdir()
    if failed:
        job, error = failed[0]
        raise OverflowError(
            f"{len(failed)} of {len(jobs)} jobs diverged; the first is {job.config.model.name} on {job.source.name}, "
            f"split {job.split}: {error}"
        )
    return [done[key] for key in wanted]


def _saved(out: Path | None, key: str) -> bool:
    """Whether the model of a job is where it should be."""
    if out is None:
        return True
    try:
        return bool(json.loads((out / "model.json").read_text())["provenance"]["key"] == key)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _run_in_turn(jobs: list[Job], failed: list[tuple[Job, OverflowError]], **options: Any) -> Iterator[Result]:
    for job in jobs:
        try:
            yield run_job(job, **options)
        except OverflowError as error:
            failed.append((job, error))


def _run_on_cluster(
    jobs: list[Job], cluster: str, checkpoints: Path, out: Path | None, failed: list[tuple[Job, OverflowError]]
) -> Iterator[Result]:
    from polybasis.cluster import map_on_ray

    folders = (checkpoints.absolute(), None if out is None else out.absolute())
    for number, result in map_on_ray(_run_with, [(job, *folders) for job in jobs], address=cluster):
        try:
            yield result()
        except OverflowError as error:
            failed.append((jobs[number], error))


def _run_parallel(
    jobs: list[Job], processes: int, checkpoints: Path, failed: list[tuple[Job, OverflowError]]
) -> Iterator[Result]:
    threads = max(1, torch.get_num_threads() // processes)
    # Workers start clean: forking a process that has used threads may deadlock.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=torch.set_num_threads, initargs=(threads,)
    ) as pool:
        futures = {pool.submit(_run_with, job, checkpoints): job for job in jobs}
        try:
            for future in as_completed(futures):
                try:
                    yield future.result()
                except OverflowError as error:
                    failed.append((futures[future], error))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_with(job: Job, checkpoints: Path, out: Path | None = None) -> Result:
    return run_job(job, checkpoints=checkpoints, out=out)
