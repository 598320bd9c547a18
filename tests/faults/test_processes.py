"""Commands survive kills, other writers and full disks, and stop when they are told to."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from faults import hazards, kills
from faults.commands import results_in
from faults.record import describe_failures
from faults.running import send, start_command, start_forked

pytestmark = pytest.mark.slow
TRAIN = "train csbm --model mlp --set hidden=8 --results out/r.jsonl"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inputs")


def test_killed_commands_end_as_undisturbed_when_they_run_again(place: Path) -> None:
    records = kills.run(range(14), place)
    assert len(records) == 14
    assert not describe_failures(records)


def test_two_writers_full_disks_and_lost_stores_change_no_result(place: Path) -> None:
    records = hazards.run(range(8), place)
    assert len(records) == 8
    assert not describe_failures(records)


@pytest.mark.parametrize(
    ("number", "to"), [(signal.SIGINT, "all"), (signal.SIGTERM, "parent"), (signal.SIGKILL, "parent")]
)
def test_workers_stop_with_their_parent_and_finished_runs_are_kept(number: int, to: str, tmp_path: Path) -> None:
    """One run has finished before; the two that are interrupted would take hours."""
    short, long = (
        f"{TRAIN} --epochs 2 --splits 1",
        f"{TRAIN} --epochs 1000000 --set patience=1000000 --splits 2 --jobs 2",
    )
    assert start_forked(short.split(), tmp_path, tmp_path / "short.err").wait() == 0
    running = start_forked(long.split(), tmp_path, tmp_path / "long.err")
    try:
        limit = time.monotonic() + 60
        while len(running.workers()) < 2 and time.monotonic() < limit:
            time.sleep(0.02)
        assert len(running.workers()) == 2
        assert send(running, number, to)
        assert running.wait(10) == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
        limit = time.monotonic() + 10
        while running.survivors() and time.monotonic() < limit:
            time.sleep(0.02)
        assert not running.survivors()
    finally:
        running.end()
    if number != signal.SIGKILL:
        line = "in out/r.jsonl; there is no checkpoint yet, so the same command starts unfinished runs over"
        assert running.errors().splitlines()[-1].endswith(line)
        assert "Traceback" not in running.errors()
    assert len(results_in(tmp_path)) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_commands_leave_no_lock_files(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed command leaves the lock of its job, which the next command removes."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    words = [sys.executable, "-m", "polybasis", *TRAIN.split(), "--set", "patience=1000000", "--epochs"]
    running = start_command([*words, "1000000"], tmp_path, tmp_path / "long.err")
    try:
        limit = time.monotonic() + 60
        while not list(tmp_path.glob("tmp/polybasis-locks-*/*")) and time.monotonic() < limit:
            time.sleep(0.02)
        assert list(tmp_path.glob("tmp/polybasis-locks-*/*"))
        assert send(running, number, "parent")
        running.wait(10)
    finally:
        running.end()
    assert len(list(tmp_path.glob("tmp/polybasis-locks-*/*"))) == (number == signal.SIGKILL)
    assert start_command([*words, "2"], tmp_path, tmp_path / "short.err").wait() == 0
    assert not list(tmp_path.glob("tmp/polybasis-locks-*/*"))
