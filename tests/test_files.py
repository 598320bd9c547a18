"""Files that survive kills: names of temporary files, their removal, and lines on a full disk."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from filelock import Timeout

from polybasis.files import (
    append_line,
    exclusive,
    lock_folder,
    lock_for,
    read_lines,
    remove_stale_files,
    temporary_path,
    write_atomically,
)
from polybasis.processes import may_be_alive, process_name, uninterrupted
from polybasis.store import GraphFolder, build_graph_folder
from polybasis.store.arrays import VectorWriter, save_array


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writing beyond a size in bytes fails, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_temporary_files_of_dead_processes_are_removed_and_others_are_not(tmp_path: Path) -> None:
    own = temporary_path(tmp_path / "a.json")
    dead = own.with_name(own.name.replace(f"-{os.getpid()}.", f"-{ended_process()}."))
    elsewhere = own.with_name(own.name.replace(process_name(), f"0123abcd-{ended_process()}"))
    folder = dead.with_name(dead.name.replace("a.json", "graph"))
    folder.mkdir()
    for path in (own, dead, elsewhere, folder / "x.npy", tmp_path / ".a.json.tmp"):
        path.touch()
    write_atomically(tmp_path / "b.json", b"{}")
    left = {own.name, elsewhere.name, ".a.json.tmp", "b.json"}
    assert {path.name for path in tmp_path.iterdir()} == left
    remove_stale_files(tmp_path / "nowhere")


def test_a_process_is_dead_from_its_end_on() -> None:
    machine = process_name().rpartition("-")[0]
    assert may_be_alive(process_name())
    assert may_be_alive("0123abcd-1")
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert may_be_alive(f"{machine}-{process.pid}")
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
    assert not may_be_alive(f"{machine}-{process.pid}")
    process.communicate()
    assert not may_be_alive(f"{machine}-{process.pid}")


def test_a_full_disk_leaves_the_file_as_it_was_and_is_named(tmp_path: Path) -> None:
    lines, document = tmp_path / "r.jsonl", tmp_path / "d.json"
    append_line(lines, '{"key": "a"}')
    write_atomically(document, b"old")
    with pytest.raises(OSError, match=r"File too large: .*r\.jsonl"), files_of_at_most(20):
        append_line(lines, '{"key": "b"}')
    with pytest.raises(OSError, match=r"File too large: .*d\.json"), files_of_at_most(20):
        write_atomically(document, b"new" * 20)
    assert lines.read_text() == '{"key": "a"}\n'
    assert document.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.json", "r.jsonl"]
    append_line(lines, '{"key": "b"}')
    assert [line["key"] for line in read_lines(lines)] == ["a", "b"]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, even if the tests were started in the background, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_signals_wait_for_the_end_of_an_uninterrupted_section() -> None:
    done = []

    def work() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("section")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["section"]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("limit", [100, 600, 4000, 9000])
def test_arrays_that_do_not_fit_on_the_disk_raise_an_error(limit: int, tmp_path: Path) -> None:
    """NumPy's own writers lose the last bytes silently: they ignore errors when they close a file."""
    numbers = np.arange(2000)

    def build() -> None:
        build_graph_folder(tmp_path / "graph", [np.stack([numbers, numbers[::-1]], axis=1)], 2000)

    def append() -> None:
        writer = VectorWriter(tmp_path / "vector.npy", np.dtype(np.int64))
        writer.append(numbers)
        writer.close()

    for write in (build, append, lambda: save_array(tmp_path / "array.npy", numbers)):
        with pytest.raises(OSError, match="File too large"), files_of_at_most(limit):
            write()
    assert not (tmp_path / "graph").exists()
    assert not list(tmp_path.glob(".*"))
    build()
    append()
    save_array(tmp_path / "array.npy", numbers)
    for name in ("array", "vector"):
        assert np.array_equal(np.load(tmp_path / f"{name}.npy"), numbers)
    assert GraphFolder.open(tmp_path / "graph").nonzeros == 2000


# ---- locks ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of lock files, in a temporary folder of this test's own, which child processes share."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return lock_folder()


def started(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


HOLD = """
import sys, time
from pathlib import Path
from polybasis.files import lock_for
with lock_for(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_released_locks_leave_no_files(locks: Path, tmp_path: Path) -> None:
    def interrupted() -> None:
        with exclusive(tmp_path / "graph", "is building graph"):
            assert len(list(locks.iterdir())) == 1
            raise KeyboardInterrupt

    append_line(tmp_path / "r.jsonl", "{}")
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    lock = lock_for(tmp_path / "job")
    lock.acquire()
    lock.release()
    assert not list(locks.iterdir())


def test_lock_files_of_killed_processes_are_removed_and_held_ones_are_not(locks: Path, tmp_path: Path) -> None:
    killed, alive = (started(HOLD, tmp_path / name) for name in ("killed", "alive"))
    try:
        for process in (killed, alive):
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
        killed.kill()
        killed.wait()
        assert len(list(locks.iterdir())) == 2
        with lock_for(tmp_path / "other"):
            assert len(list(locks.iterdir())) == 2  # the held one and this one
        with pytest.raises(Timeout):
            lock_for(tmp_path / "alive").acquire(timeout=0)
        with lock_for(tmp_path / "killed", timeout=0):
            pass
    finally:
        for process in (killed, alive):
            process.kill()
            process.communicate()


COUNT = """
import sys
from pathlib import Path
from polybasis.files import lock_for
path = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with lock_for(path):
        number = int(path.read_text())
        path.write_text("")
        path.write_text(str(number + 1))
"""


def test_a_lock_whose_file_is_removed_still_excludes_others(locks: Path, tmp_path: Path) -> None:
    """Every release removes the file that other processes are waiting for; no count is lost."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [started(COUNT, counter, 400) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert counter.read_text() == "1600"
    assert not list(locks.iterdir())


def test_a_folder_of_locks_that_is_a_link_is_refused(locks: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    locks.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="is not a folder of this user; remove it, or set TMPDIR"):
        lock_for(tmp_path / "r.jsonl")
