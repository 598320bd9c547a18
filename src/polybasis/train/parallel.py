"""Runs jobs in parallel, in local processes or on a Ray cluster. Results arrive in the order of completion."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import CancelledError, ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

from polybasis.cluster import map_on_ray
from polybasis.train.job import Job, run_job
from polybasis.train.results import Result


def run_on_cluster(
    jobs: list[Job], cluster: str, checkpoints: Path, out: Path | None, failed: list[tuple[Job, OverflowError]]
) -> Iterator[Result]:
    """Runs jobs on a Ray cluster, each on one processor; appends jobs that diverge to ``failed``."""
    folders = (checkpoints.absolute(), None if out is None else out.absolute())
    for number, result in map_on_ray(_run_with, [(job, *folders) for job in jobs], address=cluster):
        try:
            yield result()
        except OverflowError as error:
            failed.append((jobs[number], error))


def run_in_processes(
    jobs: list[Job], processes: int, checkpoints: Path, failed: list[tuple[Job, OverflowError]]
) -> Iterator[Result]:
    """Runs jobs in several processes, which share torch's threads; appends jobs that diverge to ``failed``."""
    threads = max(1, torch.get_num_threads() // processes)
    # Spawn the workers: forking a process that has used threads may deadlock.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=torch.set_num_threads, initargs=(threads,)
    ) as pool:
        futures = {pool.submit(_run_with, job, checkpoints): job for job in jobs}
        broken: Exception | None = None
        try:
            for future in as_completed(futures):
                try:
                    yield future.result()
                except OverflowError as error:
                    failed.append((futures[future], error))
                except CancelledError:
                    pass
                except Exception as error:  # running jobs still finish, and their results are kept
                    broken = broken or error
                    for pending in futures:
                        pending.cancel()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        if broken is not None:
            raise broken


def _run_with(job: Job, checkpoints: Path, out: Path | None = None) -> Result:
    return run_job(job, checkpoints=checkpoints, out=out)
