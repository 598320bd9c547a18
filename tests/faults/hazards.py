"""Two writers of one file, full disks and stores that vanish: nothing is lost, doubled or torn."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from faults.commands import COMMANDS, TRIALS, trials_in
from faults.kills import BrokenPromiseError, begin, check_outcome, prepare, run_again, undisturbed
from faults.record import Record
from faults.running import send, wait_for_cpu

PART = "hazards"
SHARED = ("train", "train --out", "tune", "precompute", "precompute a data set", "datasets build", "train on a store")
DISKS = ("train", "train --out", "tune", "precompute", "datasets build", "datasets synth", "predict")
SMALLEST_DISK = 800  # bytes of the largest file; the log of standard error needs some

Rng = np.random.Generator


def run(numbers: range, folder: Path) -> list[Record]:
    """Runs cases; inputs are written to the folder if they are not there."""
    inputs = prepare(folder)
    return [examine(number, inputs) for number in numbers]


def examine(number: int, inputs: Path) -> Record:
    """Injects one fault, runs the command again, and compares what it wrote with an undisturbed run."""
    cases: tuple[tuple[Callable[[str, Path, Path, Rng], str], tuple[str, ...]], ...] = (
        (_two_writers, SHARED),
        (_full_disk, DISKS),
        (_two_writers, SHARED),
        (_vanishing_store, ("train on a store",)),
    )
    inject, names = cases[number % len(cases)]
    name = names[number // len(cases) % len(names)]
    record = Record(PART, name, number, inject.__name__.strip("_").replace("_", " "))
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            verdict = inject(name, inputs, Path(scratch), np.random.default_rng([number, 4]))
            record = replace(record, verdict=verdict)
        except BrokenPromiseError as broken:
            message = " ".join(str(broken).split())[:600]
            record = replace(record, verdict="broken", failed=True, message=message)
    return replace(record, seconds=round(time.monotonic() - start, 3))


def _two_writers(name: str, inputs: Path, scratch: Path, rng: Rng) -> str:
    """Starts a command twice; in half of the cases the first process is killed."""
    reference, killed = undisturbed(name, inputs), bool(rng.integers(2))
    first = begin(name, inputs, scratch, "first")
    wait_for_cpu(first, float(rng.random()) * reference.cpu)
    second = begin(name, inputs, scratch, "again")
    try:
        if killed:
            wait_for_cpu(second, float(rng.random()) * 0.5 * reference.cpu)
            killed = send(first, signal.SIGKILL, "parent")
        for running in (first, second):
            status, errors = running.wait(), running.errors()
            complete = COMMANDS[name].once and "exists; remove it" in errors
            if "Traceback" in errors or (status != 0 and not complete and not (killed and running is first)):
                raise BrokenPromiseError(f"status {status}: {errors[-400:]}")
            notices = [line for line in errors.splitlines() if "waiting for another process that" in line]
            if len(notices) > 2:  # a graph folder and a store
                raise BrokenPromiseError(f"waiting is announced several times: {notices}")
    finally:
        first.end()
        second.end()
    if name == "tune":  # the workers share the trials, in any order
        ended = trials_in(scratch / "out" / "study.log")
        if not TRIALS <= len(ended) <= TRIALS + 1 or not (scratch / "out" / "best.toml").exists():
            raise BrokenPromiseError(f"{len(ended)} trials in the study")
    else:
        check_outcome(name, scratch, reference, [])
    return "as undisturbed, one killed" if killed else "as undisturbed"


def _full_disk(name: str, inputs: Path, scratch: Path, rng: Rng) -> str:
    """Limits the size of files; the command fails with one line, and succeeds when the limit is lifted."""
    reference = undisturbed(name, inputs)
    limit = int(rng.integers(SMALLEST_DISK, reference.largest_file))
    running = begin(name, inputs, scratch, "full", largest_file=limit)
    status, errors = running.wait(), running.errors()
    running.end()
    if status not in (0, 1) or "Traceback" in errors:
        raise BrokenPromiseError(f"status {status} with files of at most {limit} bytes: {errors[-400:]}")
    if status == 1 and sum(line.startswith("polybasis: ") for line in errors.splitlines()) != 1:
        raise BrokenPromiseError(f"not one line: {errors[-400:]}")
    if left := list(scratch.rglob("*.tmp")):
        raise BrokenPromiseError(f"temporary files on a full disk: {left}")
    if status == 0:
        shutil.copy(running.log.with_suffix(".out"), scratch / "again.out")
    else:
        run_again(name, inputs, scratch)
    check_outcome(name, scratch, reference, [])
    return "refused, then as undisturbed" if status else "enough space"


def _vanishing_store(name: str, inputs: Path, scratch: Path, rng: Rng) -> str:
    """Removes or truncates the store while a command reads it, and restores it."""
    reference, own = undisturbed(name, inputs), scratch / "inputs"
    shutil.copytree(inputs / "store", own / "store")
    running = begin(name, own, scratch, "vanished")
    wait_for_cpu(running, float(rng.random()) * reference.cpu)
    how = ("removed", "truncated")[int(rng.integers(2))]
    if how == "removed":
        (own / "store").rename(own / "gone")
    else:
        os.truncate(own / "store" / "vectors.npy", 128)
    status, errors = running.wait(), running.errors()
    running.end()
    if status is None or "Traceback" in errors:
        raise BrokenPromiseError(f"status {status} after the store was {how}: {errors[-400:]}")
    shutil.rmtree(own)
    shutil.copytree(inputs / "store", own / "store")
    run_again(name, own, scratch)
    shutil.rmtree(own)
    check_outcome(name, scratch, reference, [])
    return f"{how}, status {status}, then as undisturbed"
