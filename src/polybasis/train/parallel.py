"""Runs jobs in several processes or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from polybasis.cluster import map_on_ray
from polybasis.registry import Definition, accept_definitions, definitions
from polybasis.train.job import Job, run_job
from polybasis.train.result_file import Claims
from polybasis.train.results import Result
from polybasis.worker_pool import WorkerPool

CLAIMED_AT_ONCE = 256  # jobs sent to a cluster; every claim is an open file
Record = Callable[[Job, Result | OverflowError], None]


def run_on_cluster(claims: Claims, cluster: str, checkpoints: Path, out: Path | None, record: Record) -> None:
    """Runs jobs on a Ray cluster, each on one processor; records results and the errors of jobs that diverge.

    After any other error no more jobs are sent; the error is raised when those that were sent have ended.
    """
    arguments = (definitions(), checkpoints.absolute(), None if out is None else out.absolute())
    broken: list[Exception] = []
    while not broken and (claimed := claims.some(CLAIMED_AT_ONCE)):
        for number, result in map_on_ray(_run_with, [(job, *arguments) for job in claimed], address=cluster):
            try:
                outcome = result()
            except OverflowError as error:
                outcome = error
            except Exception as error:
                broken.append(error)
                claims.release(claimed[number])
                continue
            record(claimed[number], outcome)
    if broken:
        raise broken[0]


def run_in_processes(claims: Claims, processes: int, checkpoints: Path, record: Record) -> None:
    """Runs jobs in several processes, which share torch's threads; records results and the errors of jobs that diverge.

    After any other error no more jobs are started; the error is raised when the running ones have finished. When this
    process is interrupted, running jobs are stopped, and jobs that had finished are recorded.
    """
    threads, known = max(1, torch.get_num_threads() // processes), definitions()
    broken: list[Exception] = []

    def handle(job: Job, outcome: Any) -> None:
        if isinstance(outcome, Exception) and not isinstance(outcome, OverflowError):
            broken.append(outcome)
            claims.release(job)
        else:
            record(job, outcome)

    pool = WorkerPool(processes)
    try:
        while True:
            while pool.idle and not broken and (job := claims.next(wait=not pool.busy)) is not None:
                pool.submit(job, _run_with, job, known, checkpoints, None, threads)
            if not pool.busy:
                break
            pool.collect(handle)
    finally:
        pool.stop(handle)
    if broken:
        raise broken[0]


def _run_with(
    job: Job, known: Sequence[Definition], checkpoints: Path, out: Path | None = None, threads: int | None = None
) -> Result:
    accept_definitions(known)
    if threads is not None:
        torch.set_num_threads(threads)
    return run_job(job, checkpoints=checkpoints, out=out)
