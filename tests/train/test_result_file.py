"""Processes that share a results file run each job once; a worker that is killed costs only its own job."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from polybasis.files import append_line
from polybasis.train import Config, Job, Source, job, run_jobs
from polybasis.train.result_file import ResultFile
from polybasis.train.results import Result
from polybasis.worker_pool import WorkerPool


def planned(count: int) -> list[Job]:
    config = Config.of("mlp", hidden=4, epochs=2)
    return [Job(config, Source.named("csbm"), "per-class", split, split) for split in range(count)]


def test_two_commands_with_one_results_file_run_each_job_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Threads stand for processes: a file lock is held by an open file, whatever process it belongs to."""
    results, ran = tmp_path / "r.jsonl", list[int]()
    both = threading.Barrier(2)

    def slow(job: Job, **_: object) -> Result:
        ran.append(job.split)
        if len(ran) <= 2:
            both.wait(30)  # both threads run a job now
        time.sleep(0.5 if job.split == 0 else 0)
        return {"key": job.key, "split": job.split}

    monkeypatch.setattr(job, "run_job", slow)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: run_jobs(planned(4), results), range(2)))
    assert sorted(ran) == [0, 1, 2, 3]
    assert found[0] == found[1]
    assert [result["split"] for result in found[0]] == [0, 1, 2, 3]
    assert results.read_text().count("\n") == 4
    assert caplog.messages == [f"waiting for another process that is running 1 of the jobs of {results}"]


def test_a_result_is_appended_once_and_new_lines_are_found(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    one, other = ResultFile(path, ["a", "b"]), ResultFile(path, ["a", "b"])
    one.append({"key": "a", "seed": 1})
    other.append({"key": "a", "seed": 2})
    assert other.found == {"a": {"key": "a", "seed": 1}}
    with path.open("a") as file:
        file.write('{"key": "b", "seed": 3}')  # complete, but without the end of the line
    one.append({"key": "b", "seed": 4})
    assert one.found["b"]["seed"] == 3
    append_line(path, '{"key": "other"}')
    one.refresh()
    assert set(one.found) == {"a", "b"}
    path.write_text('{"key": "a", "seed": 5}\n')  # replaced by a shorter file
    one.refresh()
    assert one.found["a"]["seed"] == 5


def collected(pool: WorkerPool) -> dict[str, object]:
    found: dict[str, object] = {}
    handle: Callable[[str, object], None] = found.__setitem__
    while pool.busy:
        pool.collect(handle)
    return found


def test_a_worker_that_is_killed_costs_only_its_own_call() -> None:
    pool = WorkerPool(2)
    try:
        pool.submit("killed", _kill_this_process)
        pool.submit("failed", int, "x")
        found = collected(pool)
        assert pool.idle == 1
        pool.submit("other", divmod, 7, 2)
        found |= collected(pool)
    finally:
        pool.stop()
    assert isinstance(found["failed"], ValueError)
    assert found["other"] == (3, 1)
    assert isinstance(found["killed"], ChildProcessError)
    assert str(found["killed"]) == "a worker process was ended by SIGKILL"


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_calls_that_ended_before_the_pool_is_stopped_are_handled() -> None:
    pool, found = WorkerPool(2), dict[str, object]()
    pool.submit("slow", time.sleep, 600)
    pool.submit("quick", divmod, 7, 2)
    workers = [worker.process for worker in (*pool._busy, *pool._idle)]
    quick = pool._busy[1].connection
    assert quick.poll(60)
    pool.stop(found.__setitem__)
    assert found == {"quick": (3, 1)}
    assert not any(worker.is_alive() for worker in workers)
