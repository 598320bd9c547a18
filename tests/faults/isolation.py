"""Runs cases in processes with limits on time and memory; a process that dies costs only the case it was running."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import resource
import signal
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from faults.judgement import SECONDS, memory_of_process
from faults.record import Record

GRACE = 20.0  # further seconds for native code that does not notice the alarm
ADDRESS_SPACE = 4 << 30  # limit on the growth of a process's address space

SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None  # cases write many small files

Examine = Callable[[int], Record]


def forks() -> Any:
    """A context whose processes are forked from one that has imported torch and polybasis, with one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])  # where the server finds the module below
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["faults.preloaded"])
    return context


def run_isolated(examine: Examine, numbers: Sequence[int]) -> list[Record]:
    """Examines cases in one process, and in a new one after each crash.

    Args:
        examine: returns the record of a case; a function of a module, or a partial of one.
        numbers: the cases.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.jsonl"
        file.touch()
        remaining, records = list(numbers), []
        while remaining:
            process = forks().Process(target=_examine_all, args=(examine, remaining, file))
            process.start()
            _wait(process, file)
            lines = file.read_text().splitlines()
            records += [Record(**json.loads(line)) for line in lines]
            remaining = remaining[len(lines) :]
            if process.exitcode == 1:
                raise RuntimeError(f"case {remaining[0]} of {_part(examine)} raised an error; see standard error")
            if remaining:
                verdict = f"process ended with status {process.exitcode}"
                records.append(Record(_part(examine), "unknown", remaining[0], "unknown", verdict, failed=True))
                remaining = remaining[1:]
            file.write_text("")
        return records


def _part(examine: Examine) -> str:
    function = getattr(examine, "func", examine)
    return str(function.__module__).rpartition(".")[2]


def _wait(process: Any, file: Path) -> None:
    """Waits for a process; kills it if it completes no case for too long."""
    size = -1
    while process.is_alive():
        process.join(SECONDS + GRACE)
        if process.is_alive() and file.stat().st_size == size:
            process.kill()
        size = file.stat().st_size


def _examine_all(examine: Examine, numbers: Sequence[int], file: Path) -> None:
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, lambda *_: None)  # the campaign finishes its cases when it is interrupted
    gc.freeze()  # the modules; they need not be searched for garbage after every case
    limit = memory_of_process("VmSize") + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with file.open("a") as out:
        for number in numbers:
            out.write(json.dumps(asdict(examine(number))) + "\n")
            out.flush()
