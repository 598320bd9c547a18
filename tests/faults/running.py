"""Starts commands in sessions of their own and observes their processes through /proc."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.isolation import forks
from polybasis.cli.app import main
from polybasis.cli.interruption import STOP_SIGNALS, run_stoppable
from polybasis.train import fitting

LIMIT = 120.0  # seconds after which a command counts as hanging
OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}  # as Python audits them
RAY_AGENTS = (b"ray::DashboardAgent", b"ray::RuntimeEnvAgent")
MARK = "POLYBASIS_CASE"  # environment variable that processes of a case inherit


@dataclass
class Running:
    """A command that was started.

    Attributes:
        pid: its process, the leader of a session.
        folder: its working directory.
        log: file of standard error; standard output is in ``log.with_suffix(".out")``.
        process: a forked process or a :class:`subprocess.Popen`.
    """

    pid: int
    folder: Path
    log: Path
    process: Any

    def status(self) -> int | None:
        """The exit status, negative for a signal; None while the process runs."""
        if isinstance(self.process, subprocess.Popen):
            return self.process.poll()
        status: int | None = self.process.exitcode
        return status

    def wait(self, seconds: float = LIMIT) -> int | None:
        """Waits for the end; returns the exit status, or None if the time is over."""
        if isinstance(self.process, subprocess.Popen):
            try:
                return self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
        self.process.join(seconds)
        return self.status()

    def errors(self) -> str:
        return self.log.read_text(errors="replace")

    def output(self) -> str:
        return self.log.with_suffix(".out").read_text(errors="replace")

    def workers(self) -> list[int]:
        """Processes that this one started to do its work."""
        return [pid for pid in descendants(self.pid) if _is_worker(pid)]

    def survivors(self, *, with_agents: bool = False) -> list[int]:
        """Processes of this command that are alive; the agents of Ray may outlive it and do not count by default."""
        mark, found = f"{MARK}={self.log}\0".encode(), []
        for pid in _processes():
            try:
                fields = _stat(pid)
                same = int(fields[3]) == self.pid or mark in Path(f"/proc/{pid}/environ").read_bytes() + b"\0"
                agent = Path(f"/proc/{pid}/cmdline").read_bytes().startswith(RAY_AGENTS)
                if same and fields[0] != "Z" and (with_agents or not agent):
                    found.append(pid)
            except OSError:
                continue
        return found

    def end(self) -> None:
        """Kills what is left of the command."""
        for pid in self.survivors(with_agents=True):
            _kill(pid, signal.SIGKILL)
        self.wait(10)


def start_forked(
    words: list[str],
    folder: Path,
    log: Path,
    *,
    largest_file: int | None = None,
    signal_at: tuple[int, int] | None = None,
) -> Running:
    """Starts a command in a process that has imported everything; it writes checkpoints often.

    Args:
        words: the arguments of ``polybasis``.
        folder: working directory.
        log: file for standard error; the file operations are counted in ``log.with_suffix(".operations")``.
        largest_file: size in bytes above which files cannot grow, as on a full disk.
        signal_at: number of a file operation before which the process sends itself a signal, and the signal.
    """
    process = forks().Process(target=_run_forked, args=(words, folder, log, largest_file, signal_at))
    process.start()
    while not log.exists() and process.is_alive():  # from then on, signals reach the command and not this module
        time.sleep(0.0005)
    return Running(process.pid, folder, log, process)


def start_command(command: list[str], folder: Path, log: Path) -> Running:
    """Starts a program as a shell would."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", MARK: str(log)}
    command = ["env", "--default-signal=INT", *command]  # a shell starts background jobs with SIGINT ignored
    with log.open("wb") as errors, log.with_suffix(".out").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=errors, env=environment, start_new_session=True
        )
    return Running(process.pid, folder, log, process)


def _run_forked(
    words: list[str], folder: Path, log: Path, largest_file: int | None, signal_at: tuple[int, int] | None
) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with SIGINT ignored
    os.setsid()
    os.chdir(folder)
    os.environ[MARK] = str(log)
    for path, descriptor in ((log.with_suffix(".out"), 1), (log, 2)):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND), descriptor)
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    _count_operations(folder, log.with_suffix(".operations"), signal_at)
    fitting.CHECKPOINT_SECONDS = 0.02
    sys.argv = ["polybasis", *words]
    run_stoppable(_run_unblocked)


def _count_operations(folder: Path, file: Path, signal_at: tuple[int, int] | None) -> None:
    """Writes one byte to a file for each change of files in a folder; sends a signal before one of them."""
    count, place = 0, str(folder)
    counter = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in OPERATIONS or (event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        if any(_is_below(argument, place) for argument in arguments[:2]):
            count += 1
            os.write(counter, b".")
            if signal_at is not None and count == signal_at[0]:
                os.kill(os.getpid(), signal_at[1])

    sys.addaudithook(hook)


def _is_below(argument: object, folder: str) -> bool:
    """Whether an argument is a path in the working directory, relative or absolute."""
    if isinstance(argument, os.PathLike):
        argument = os.fspath(argument)
    return isinstance(argument, str) and (argument.startswith(folder) or not argument.startswith("/"))


def _run_unblocked() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    main()


# ---- /proc ---------------------------------------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """Processor time of the main threads of a process and of those that it started."""
    total = 0.0
    for each in (pid, *descendants(pid)):
        try:
            total += int(Path(f"/proc/{each}/schedstat").read_text().split()[0]) / 1e9
        except (OSError, IndexError):
            continue
    return total


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*children, *(below for child in children for below in descendants(child))]


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


def _is_worker(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
    return any(part in words for part in ("spawn_main", "polybasis\0train", "ray::make_block"))


def _kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def send(running: Running, number: int, to: str) -> bool:
    """Sends a signal to a command.

    Args:
        running: the command.
        number: the signal.
        to: ``parent``, ``all`` processes of the session, or ``worker`` for one worker.

    Returns:
        Whether the process existed.
    """
    try:
        if to == "all":
            os.killpg(running.pid, number)
        elif to == "worker":
            os.kill(running.workers()[0], number)
        else:
            os.kill(running.pid, number)
    except (ProcessLookupError, IndexError):
        return False
    return True


def wait_for_cpu(running: Running, seconds: float) -> None:
    """Waits until a command has used some processor time, or has ended."""
    limit = time.monotonic() + LIMIT
    while cpu_seconds(running.pid) < seconds and running.status() is None and time.monotonic() < limit:
        time.sleep(0.0005)
