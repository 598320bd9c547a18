"""Processes: their names, whether they are alive, how they end, and sections that signals do not interrupt."""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

PR_SET_PDEATHSIG = 1  # from linux/prctl.h
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def process_name() -> str:
    """Identifies this process among those of all machines that share a disk: ``<machine>-<process ID>``."""
    return f"{_machine()}-{os.getpid()}"


def may_be_alive(name: str) -> bool:
    """Whether a process may be alive; False only for a process of this machine that has ended.

    Args:
        name: what :func:`process_name` returned in that process.
    """
    machine, _, number = name.rpartition("-")
    if machine != _machine() or sys.platform == "win32":  # there os.kill(number, 0) sends Ctrl-C
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    status = Path("/proc") / number / "stat"
    try:
        return status.read_bytes().rpartition(b") ")[2][:1] != b"Z"  # a zombie: ended, but not yet waited for
    except OSError:
        return True


@cache
def _machine() -> str:
    """Identifies the machine and, for containers, which may share its name, their process IDs' namespace."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux
        namespace = ""
    return hashlib.sha256(f"{socket.gethostname()} {namespace}".encode()).hexdigest()[:8]


def end_with_parent(parent: int) -> None:
    """Ends this process when its parent ends, even if the parent is killed.

    Args:
        parent: process ID of the parent when it started this process.
    """
    if sys.platform != "linux" or ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it ended before this call
        os._exit(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@contextmanager
def noting_interruption(kept: Callable[[], str]) -> Iterator[None]:
    """Adds a note to Ctrl-C and other interruptions of the block, but not to errors.

    Args:
        kept: says what is kept and how to go on.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException as interruption:
        interruption.add_note(kept())
        raise


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delays SIGINT and SIGTERM until the end of the block, so that it is executed completely or not at all."""
    if threading.current_thread() is not threading.main_thread():  # other threads receive no signals
        yield
        return
    arrived: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        arrived.append(number)

    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    replaced = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    try:
        for number in replaced:
            signal.signal(number, note)
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])
