"""The results file of jobs: several processes may share it, and each job is run and written once."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import Timeout

from polybasis.files import PathLock, append_line, lock_for, parse_lines
from polybasis.foreign_files import regular_file
from polybasis.train.results import Result

if TYPE_CHECKING:
    from polybasis.train.job import Job

logger = logging.getLogger("polybasis")
POLL_SECONDS = 0.1  # between two attempts to claim a job that another process runs


class ResultFile:
    """A JSON Lines file of results.

    Args:
        path: the file; it need not exist.
        wanted: keys of the jobs whose results are needed.

    Attributes:
        found: the results that the file contained when it was last read, by key.
    """

    def __init__(self, path: Path, wanted: Iterable[str]) -> None:
        self.path, self.found = path, dict[str, Result]()
        self._wanted, self._offset = set(wanted), 0

    def refresh(self) -> None:
        """Reads what was appended since the last call.

        Raises:
            ValueError: if the path is not that of a regular file.
        """
        if not self.path.exists():
            return
        if regular_file(self.path) < self._offset:
            self._offset = 0
        with self.path.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        self._offset += content.rfind(b"\n") + 1  # the rest is an incomplete line, or one whose end is missing
        for result in parse_lines(content):
            if result.get("key") in self._wanted:
                self.found[result["key"]] = result

    def append(self, result: Result) -> None:
        """Appends a result and syncs the file; does nothing if the file contains a result of the same job."""

        def is_there() -> bool:
            self.refresh()
            return result["key"] in self.found

        append_line(self.path, json.dumps(result), unless=is_there)
        self.found.setdefault(result["key"], result)


class Claims:
    """Jobs that are still to run, each of which one process can claim at a time.

    A claim is a lock, which the system releases when a process is killed. Jobs that other processes run come last.

    Args:
        jobs: the jobs.
        file: the results.
        is_finished: whether a job need not run.
    """

    def __init__(self, jobs: list[Job], file: ResultFile, is_finished: Callable[[str], bool]) -> None:
        self._open = deque(jobs)
        self._taken: deque[Job] = deque()  # by other processes
        self._file, self._is_finished = file, is_finished
        self._held: dict[str, PathLock] = {}
        self._notified = False

    def next(self, *, wait: bool = True) -> Job | None:
        """Claims a job; returns None if all jobs are finished or claimed.

        Args:
            wait: wait for jobs that other processes run, to see whether they finish them.
        """
        while self._open or (self._taken and wait):
            if not self._open:
                self._open, self._taken = self._taken, self._open
                if not self._notified:
                    logger.warning(
                        "waiting for another process that is running %d of the jobs of %s",
                        len(self._open),
                        self._file.path,
                    )
                self._notified = True
                time.sleep(POLL_SECONDS)
            job = self._open.popleft()
            if self._claim(job):
                return job
        return None

    def some(self, count: int) -> list[Job]:
        """Claims up to ``count`` jobs; waits for other processes only if there are no others."""
        found: list[Job] = []
        while len(found) < count and (job := self.next(wait=not found)) is not None:
            found.append(job)
        return found

    def _claim(self, job: Job) -> bool:
        """Claims a job that no other process runs; False if another one runs it or has finished it."""
        lock = lock_for(self._file.path / job.key)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            self._taken.append(job)
            return False
        self._held[job.key] = lock
        self._file.refresh()
        if self._is_finished(job.key):
            self.release(job)
            return False
        return True

    def release(self, job: Job) -> None:
        """Releases a job."""
        self._held.pop(job.key).release()

    def release_all(self) -> None:
        """Releases all claims."""
        for lock in self._held.values():
            lock.release()
        self._held.clear()
