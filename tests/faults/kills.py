"""Kills commands at random moments: nothing is lost, doubled or torn, and a second run ends as if undisturbed."""

from __future__ import annotations

import signal
import tempfile
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from faults.commands import COMMANDS, outcome, results_in, write_inputs
from faults.record import Record
from faults.running import Running, cpu_seconds, send, start_command, start_forked, wait_for_cpu

PART = "kills"
STOP_SECONDS, ORPHAN_SECONDS = 3.0, 5.0
ATTEMPTS = 3  # to hit a command before it ends
SIGNALS = (signal.SIGKILL,) * 6 + (signal.SIGTERM,) * 2 + (signal.SIGINT,) * 2
# One round of cases, which take about a second each, and then one that takes longer.
ROUND = (
    *("train", "train --out", "train on a store", "tune", "precompute", "datasets build", "predict") * 3,
    *("train", "train --out", "train on a store", "tune", "precompute", "precompute a data set"),
    *("train on tables", "datasets synth", "evaluate", "verify"),
)
LONG = ("train --jobs", "train with torchrun", "train --jobs", "reproduce", "train --jobs", "plot")
RAY_EVERY = 400  # cases


class BrokenPromiseError(Exception):
    """What the campaign looks for; the message describes it."""


@dataclass(frozen=True)
class Reference:
    """An undisturbed run.

    Attributes:
        outcome: what it wrote.
        cpu: seconds of processor time.
        operations: number of operations on files.
        largest_file: size of the largest file that it wrote, in bytes.
    """

    outcome: dict[str, str]
    cpu: float
    operations: int
    largest_file: int


def run(numbers: range, folder: Path) -> list[Record]:
    """Runs cases; inputs are written to the folder if they are not there."""
    inputs = prepare(folder)
    return [examine(number, inputs) for number in numbers]


def prepare(folder: Path) -> Path:
    """The inputs of all commands, in a folder; they are written if they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "inputs").exists():
        write_inputs(Path(tempfile.mkdtemp(dir=folder)) / "inputs").rename(folder / "inputs")
    return folder / "inputs"


def examine(number: int, inputs: Path) -> Record:
    """Kills one command, runs it again, and compares what it wrote with an undisturbed run."""
    turn, place = divmod(number, len(ROUND) + 1)
    name = ROUND[place] if place < len(ROUND) else LONG[turn % len(LONG)]
    if number % RAY_EVERY == RAY_EVERY - 1:
        name = "precompute with Ray"
    rng = np.random.default_rng([number, 3])
    record = Record(PART, name, number, "")
    start = time.monotonic()
    reference = undisturbed(name, inputs)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            fault, verdict = _kill_and_resume(name, inputs, Path(scratch), reference, rng)
            record = replace(record, fault=fault, verdict=verdict)
        except BrokenPromiseError as broken:
            record = replace(record, fault=str(broken.args[0]), verdict="broken", failed=True)
            record = replace(record, message=" ".join(str(broken.args[1]).split())[:600])
    return replace(record, seconds=round(time.monotonic() - start, 3))


def begin(name: str, inputs: Path, scratch: Path, log: str, **options: Any) -> Running:
    """Starts a command."""
    command = COMMANDS[name]
    scratch.mkdir(parents=True, exist_ok=True)
    words, place = command.arguments(inputs), scratch / f"{log}.err"
    if command.program is None:
        return start_forked(words, scratch, place, **options)
    return start_command([*command.program, *words], scratch, place)


@cache
def undisturbed(name: str, inputs: Path) -> Reference:
    """Runs a command undisturbed."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, cpu = Path(scratch), 0.0
        running = begin(name, inputs, folder, "whole")
        while running.status() is None:
            cpu = max(cpu, cpu_seconds(running.pid))
            time.sleep(0.002)
        if running.status() != 0:
            raise RuntimeError(f"{name} failed undisturbed: {running.errors()}")
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        counted = running.log.with_suffix(".operations")
        operations = counted.stat().st_size if counted.exists() else 0
        return Reference(outcome(folder, running.output(), COMMANDS[name]), cpu, operations, max(sizes))


def _kill_and_resume(
    name: str, inputs: Path, scratch: Path, reference: Reference, rng: np.random.Generator
) -> tuple[str, str]:
    number, to = SIGNALS[int(rng.integers(len(SIGNALS)))], "parent"
    if COMMANDS[name].several:
        to = ("parent", "all", "worker")[int(rng.integers(3))]
    at_operation = COMMANDS[name].program is None and not COMMANDS[name].several and bool(rng.integers(2))
    for attempt in range(ATTEMPTS):
        folder = scratch / str(attempt)
        if at_operation and reference.operations:
            moment = int(rng.integers(1, reference.operations + 1))
            fault = f"{signal.Signals(number).name} to {to} before file operation {moment}"
            running = begin(name, inputs, folder, "killed", signal_at=(moment, number))
            sent = True
        else:
            share = float(rng.random())
            fault = f"{signal.Signals(number).name} to {to} at {share:.0%}"
            running = begin(name, inputs, folder, "killed")
            wait_for_cpu(running, share * reference.cpu)
            time.sleep(float(rng.choice([0, 0, 0.002, 0.01])))
            sent = running.status() is None and send(running, number, to)
        try:
            status = _check_end(running, number if sent else 0, to, name)
            sent = sent and status != 0
            if sent or attempt == ATTEMPTS - 1:
                kept = _check_kept(folder)
                run_again(name, inputs, folder)
                check_outcome(name, folder, reference, kept)
                return fault, "as undisturbed" if sent else "ended before the signal"
        except BrokenPromiseError as broken:
            raise BrokenPromiseError(fault, broken.args[0]) from None
        finally:
            running.end()
    raise AssertionError("unreachable")


def _check_end(running: Running, number: int, to: str, name: str) -> int:
    """Checks how a command ends after a signal, 0 if there was none; returns its exit status."""
    begun = time.monotonic()
    status = running.wait()
    seconds = time.monotonic() - begun
    if status is None:
        raise BrokenPromiseError("the command hangs")
    torchrun = name == "train with torchrun"  # prints tracebacks of its own
    errors = running.errors()
    if "Traceback" in errors and not torchrun:
        raise BrokenPromiseError(f"traceback: {errors[-500:]}")
    if number in (signal.SIGINT, signal.SIGTERM) and to != "worker" and not torchrun:
        if status not in (0, 128 + number, -number):
            raise BrokenPromiseError(f"status {status} after signal {number}: {errors[-300:]}")
        if status == 128 + number and errors.count("polybasis: interrupted") + errors.count("polybasis: termin") != 1:
            raise BrokenPromiseError(f"no line says what is kept: {errors[-300:]}")
        if seconds > STOP_SECONDS:
            raise BrokenPromiseError(f"{seconds:.1f} s from the signal to the end, status {status}: {errors[-200:]}")
        ray = name == "precompute with Ray"  # it kills its workers, whose files the second run removes
        if status == 128 + number and not ray and (left := list(running.folder.rglob("*.tmp"))):
            raise BrokenPromiseError(f"temporary files after signal {number}: {left}")
    limit = time.monotonic() + ORPHAN_SECONDS
    while running.survivors():
        if time.monotonic() > limit:
            raise BrokenPromiseError(f"processes left after {ORPHAN_SECONDS:.0f} s: {running.survivors()}")
        time.sleep(0.02)
    return status


def _check_kept(folder: Path) -> list[str]:
    """The keys of the results that exist after a kill; every line must be complete."""
    try:
        keys = [str(result["key"]) for result in results_in(folder)]
    except ValueError as error:
        raise BrokenPromiseError(f"torn line: {error}") from None
    if len(set(keys)) < len(keys):
        raise BrokenPromiseError(f"doubled results: {keys}")
    return keys


def run_again(name: str, inputs: Path, folder: Path) -> None:
    """Runs a command undisturbed where it was killed before."""
    running = begin(name, inputs, folder, "again")
    try:
        status = running.wait()
        complete = COMMANDS[name].once and "exists; remove it" in running.errors()
        if status != 0 and not complete:
            raise BrokenPromiseError(f"the second run ended with status {status}: {running.errors()[-500:]}")
    finally:
        running.end()


def check_outcome(name: str, folder: Path, reference: Reference, kept: list[str]) -> None:
    """Checks that the results that were kept are still there, and that everything is as after an undisturbed run."""
    try:
        final = [str(result["key"]) for result in results_in(folder)]
    except ValueError as error:
        raise BrokenPromiseError(f"torn line: {error}") from None
    if not set(kept) <= set(final):
        raise BrokenPromiseError(f"lost results: {set(kept) - set(final)}")
    output = folder / "again.out"
    found = outcome(folder, output.read_text() if output.exists() else "", COMMANDS[name])
    if found != reference.outcome:
        different = sorted(
            path for path in found.keys() | reference.outcome.keys() if found.get(path) != reference.outcome.get(path)
        )
        raise BrokenPromiseError(f"another outcome: {different}")
