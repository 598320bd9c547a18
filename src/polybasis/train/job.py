"""Training jobs on graphs and stores: a job writes checkpoints, a line in a results file and, optionally, a model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from polybasis.code_version import code_version
from polybasis.data.dataset import NodeDataset
from polybasis.files import is_temporary, remove_stale_files
from polybasis.nn.models.own_models import model_file
from polybasis.processes import noting_interruption, uninterrupted
from polybasis.store.basis_store import BasisStore
from polybasis.train.config import Config
from polybasis.train.distributed import ProcessGroup
from polybasis.train.fitting import FullBatch, OnEpoch, Task, fit_task, remove_checkpoints
from polybasis.train.result_file import Claims, ResultFile
from polybasis.train.results import Result
from polybasis.train.source import Source

OnResult = Callable[[Result], None]


@dataclass(frozen=True)
class Job:
    """One training run.

    Attributes:
        config: the model and how to train it.
        source: the data.
        protocol: protocol of the split.
        split: index of the split.
        seed: seed of the initial weights, dropout and the order of batches.

    >>> import polybasis as pb
    >>> job = pb.train.Job(pb.train.Config.of("gcn"), pb.train.Source.named("csbm"), "random", split=0, seed=0)
    >>> same = pb.train.Job(pb.train.Config.of("gcn"), pb.train.Source.named("csbm"), "random", split=0, seed=0)
    >>> job.key == same.key
    True
    """

    config: Config
    source: Source
    protocol: str
    split: int
    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", adapt_config(self.config, self.source))

    @cached_property
    def key(self) -> str:
        """Identifies the job: jobs with equal keys have the same result."""
        parts = [self.config.to_dict(), self.source.identity, self.protocol, self.split, self.seed]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def checkpoint(self, results: Path) -> Path:
        """Returns the path of the checkpoint of this job if its results go to a given file."""
        return _checkpoints(results) / f"{self.key}.safetensors"

    def has_checkpoint(self, results: Path) -> bool:
        """Whether there is a checkpoint of this job, or of a model of its ensemble, from which it resumes."""
        return any(_checkpoints(results).glob(f"{self.key}*.safetensors"))


def _checkpoints(results: Path) -> Path:
    return results.parent / f".{results.stem}.checkpoints"


def adapt_config(config: Config, source: Source) -> Config:
    """Adapts a configuration to the data.

    A store determines the feature transform and, by default, the degree. A model of the user's own tables is made to
    predict on other graphs; see :meth:`Config.for_own_data`.

    Raises:
        ValueError: if the configuration contradicts the store.
    """
    if source.kind == "tables":
        return config.for_own_data()
    if source.kind != "store":
        return config
    data = source.open()
    assert isinstance(data, BasisStore)
    if not config.model.precomputed:
        raise ValueError(f"{data.path} is a store; to train on it, set precomputed = true in [model]")
    if config.feature_transform not in (None, data.feature_transform):
        raise ValueError(
            f"feature_transform is {config.feature_transform!r}; {data.path} was built with "
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
    """Trains the model of a job and scores it on its test nodes; for the user's own tables, also scores baselines.

    Args:
        job: the job to run.
        checkpoints: folder for the checkpoint, from which an interrupted job resumes.
        out: folder to save the model to.
        on_epoch: called after every epoch.
        group: the processes that train the model together, for stores only.

    Returns:
        The result, as plain Python objects.

    Raises:
        ValueError: if the data has changed since the job was planned, or has no nodes to train on.
        OverflowError: if training diverges.
    """
    code = code_version()  # before training: files may be edited while it runs
    data, config = job.source.open(), job.config
    if data.fingerprint != job.source.identity:
        raise ValueError(f"{data.name} has changed since the job was planned; run the command again")
    split = data.split(job.protocol, job.split)
    checkpoint = None if checkpoints is None else checkpoints / f"{job.key}.safetensors"
    task: Task
    if isinstance(data, BasisStore):
        from polybasis.train.mini_batch import MiniBatches

        task = MiniBatches(data, split, config, group)
    else:
        task = FullBatch(data, split, config)
    fitted = fit_task(config, task, job.seed, on_epoch=on_epoch, checkpoint=checkpoint)
    result: Result = {
        "key": job.key,
        "model": config.model.name,
        "dataset": data.name,
        "preset": config.preset,
        "protocol": job.protocol,
        "split": job.split,
        "seed": job.seed,
        "metric": fitted.task.objective.metric,
        "val_score": fitted.val_score,
        "test_score": fitted.score(split.test),
        "epochs": fitted.epochs,
        "seconds": round(fitted.seconds, 3),
        "threads": torch.get_num_threads(),
        "config": config.to_dict(),
        "code": code,
        "versions": {name: version(name) for name in ("polybasis", "torch", "torch_geometric")},
    }
    file = model_file(config.model.name)
    if file is not None:
        result["model_file"] = str(file.file)
    if job.source.kind != "data set":
        result["data"] = data.dataset_identity
    if isinstance(data, NodeDataset) and data.schema is not None:
        result["tables"] = data.schema.to_dict()
    if isinstance(data, BasisStore):
        result |= {"waited": round(fitted.task.waited, 3), "processes": 1 if group is None else group.size}
    assessed = job.source.kind == "tables" and len(split.test) > 0
    if fitted.task.writes and (out is not None or assessed):
        from polybasis.train.trained_model import TrainedModel

        provenance = {name: result[name] for name in ("key", "dataset", "protocol", "split", "seed", "test_score")}
        provenance["data"] = data.dataset_identity
        provenance |= {"model_file": result["model_file"]} if file is not None else {}
        trained = TrainedModel.of(config, fitted, provenance | fitted.history.to_dict())
        if assessed:
            from polybasis.train.assessment import assess

            assert isinstance(fitted.task.data, NodeDataset)
            result["assessment"] = assess(trained, fitted.task.data, split).to_dict()
            trained.provenance["assessment"] = result["assessment"]
        if out is not None:
            trained.save(out)
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
    """Runs all jobs that do not have a result yet, and returns the results of all jobs.

    Args:
        jobs: the jobs to run.
        results: JSON Lines file. Each result is appended and synced immediately, so a killed run loses only unfinished
            jobs, which resume from their last checkpoint.
        out: folder to save the model of a single job to; a job with a result but without a saved model runs again.
        processes: number of jobs to run in parallel; torch's threads are divided among them.
        cluster: address of a Ray cluster, or ``auto``; each job then uses one processor of the cluster.
        group: the processes that train the model together, for stores only.
        on_epoch: called after every epoch, unless jobs run in parallel.
        on_result: called with each new result.

    Raises:
        ValueError: if ``out`` is given for several jobs.
        OverflowError: if a job diverged; raised after all other jobs have finished.
    """
    if out is not None:
        if len(jobs) > 1:
            raise ValueError("out can hold only one model; pass a single job")
        check_model_folder(out)
    wanted, writes = {job.key: job for job in jobs}, group is None or group.rank == 0
    file = ResultFile(results, wanted)
    file.refresh()
    if group is not None:
        group.require_equal(len(file.found), "results")
    checkpoints = _checkpoints(results)
    if writes:
        for folder in (results.parent, checkpoints, *([] if out is None else [out])):
            remove_stale_files(folder)

    def is_finished(key: str) -> bool:
        return key in file.found and _saved(out, key)

    missing = [job for key, job in wanted.items() if not is_finished(key)]
    failed: list[tuple[Job, OverflowError]] = []
    claims = Claims(missing, file, is_finished)

    def record(job: Job, outcome: Result | OverflowError) -> None:
        with uninterrupted():
            if isinstance(outcome, OverflowError):
                failed.append((job, outcome))
            elif writes:
                file.append(outcome)
            else:
                file.found[job.key] = outcome
            if writes:
                remove_checkpoints(checkpoints / f"{job.key}.safetensors")
                claims.release(job)
            if on_result is not None and not isinstance(outcome, OverflowError):
                on_result(outcome)

    def kept() -> str:
        finished = f"{len(file.found)} of {len(wanted)} runs are finished and saved in {results}"
        unfinished = [job for key, job in wanted.items() if key not in file.found]
        resumable = sum(job.has_checkpoint(results) for job in unfinished)
        if unfinished and not resumable:
            runs = "the run" if len(wanted) == 1 else "unfinished runs"
            return f"{finished}; there is no checkpoint yet, so the same command starts {runs} over"
        more = f", {resumable} unfinished with a checkpoint in {checkpoints}" if resumable else ""
        return f"{finished}{more}; run the same command again to resume"

    try:
        with noting_interruption(kept):
            if cluster is not None and missing:
                from polybasis.train.parallel import run_on_cluster

                run_on_cluster(claims, cluster, checkpoints, out, record)
            elif processes > 1 and len(missing) > 1:
                from polybasis.train.parallel import run_in_processes

                run_in_processes(claims, min(processes, len(missing)), checkpoints, record)
            else:
                options = {"checkpoints": checkpoints, "out": out, "on_epoch": on_epoch, "group": group}
                while (job := _next_job(claims, missing, group)) is not None:
                    record(job, _run_or_diverge(job, **options))
    finally:
        claims.release_all()
        if writes:
            _remove_leftovers(checkpoints, file.found)
    file.refresh()
    if failed:
        job, error = failed[0]
        raise OverflowError(
            f"{len(failed)} of {len(jobs)} jobs diverged; the first is {job.config.model.name} on {job.source.name}, "
            f"split {job.split}: {error}"
        )
    return [file.found[key] for key in wanted]


def _next_job(claims: Claims, jobs: list[Job], group: ProcessGroup | None) -> Job | None:
    """The next job to run; the first process of a group chooses it for all."""
    if group is None:
        return claims.next()
    job = claims.next() if group.rank == 0 else None
    number = int(group.broadcast(torch.tensor(-1 if job is None else jobs.index(job))))
    return None if number < 0 else jobs[number]


def _run_or_diverge(job: Job, **options: Any) -> Result | OverflowError:
    try:
        return run_job(job, **options)
    except OverflowError as error:
        return error


def _remove_leftovers(checkpoints: Path, finished: Iterable[str]) -> None:
    """Removes temporary files of ended processes and checkpoints of finished jobs, then the folder if it is empty."""
    if not checkpoints.exists():
        return
    remove_stale_files(checkpoints)
    for key in finished:  # a process that was killed after it wrote a result left its checkpoint
        remove_checkpoints(checkpoints / f"{key}.safetensors")
    with suppress(OSError):  # not empty, or removed by another process
        checkpoints.rmdir()


def _saved(out: Path | None, key: str) -> bool:
    """Whether the model of a job is saved in the folder; True if there is no folder."""
    if out is None:
        return True
    try:
        document = json.loads((out / "model.json").read_text())
        return bool(document["provenance"]["key"] == key) and (out / document["weights"]).exists()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def check_model_folder(out: Path) -> None:
    """Checks before training that a model can be saved to a folder.

    Raises:
        ValueError: if ``out`` is a file, or a non-empty folder without a model.
    """
    if out.exists() and not (out / "model.json").exists():
        if not out.is_dir():
            raise ValueError(f"{out} is a file; choose a folder for the model")
        # Results may be in the same folder, and a process that was killed may have left weights and other files.
        ours = ("weights-*.safetensors", ".*.checkpoints", "*.jsonl")
        if any(not is_temporary(path) and not any(map(path.match, ours)) for path in out.iterdir()):
            raise ValueError(f"{out} is not empty and does not contain a model; choose another folder")
