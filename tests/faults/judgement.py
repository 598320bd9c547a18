"""Judges how polybasis handles a file: it uses it, or refuses it with one line, within limits on time and memory."""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from faults.record import Record

SECONDS = 10.0  # limit on a case
MEMORY = 500 << 20  # limit on the growth of the resident memory, in addition to twice that of an undamaged file
REFUSALS = (ValueError, OSError, TypeError, OverflowError)  # what the command line prints on one line


class TooSlowError(BaseException):
    """A case exceeded its time; not an Exception, so that no reader catches it."""


def judge(record: Record, use: Callable[[], bool], folder: Path, honest_memory: int = 0) -> Record:
    """Completes the record of a case.

    Args:
        record: what was injected.
        use: uses the file and returns whether the outcome is acceptable.
        folder: an error message must name a file in this folder.
        honest_memory: growth of the resident memory with an undamaged file.
    """
    files = [str(path) for path in folder.rglob("*") if path.is_file()]
    gc.collect(1)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before, start, message = memory_of_process("VmRSS"), time.monotonic(), ""
    try:
        with _time_limit():
            verdict, failed = ("accepted", False) if use() else ("another outcome", True)
    except REFUSALS as error:
        message = " ".join(str(error).split())
        if isinstance(error, OSError) and error.filename:
            message = f"{error.filename}: {error.strerror}"
        named = any(file in message for file in files)
        verdict, failed = ("refused", False) if named else ("refused without the file", True)
    except TooSlowError:
        verdict, failed = f"over {SECONDS:.0f} s", True
    except Exception as error:
        verdict, failed, message = f"traceback: {type(error).__name__}", True, " ".join(str(error).split())
    seconds, memory = time.monotonic() - start, max(0, memory_of_process("VmHWM") - before)
    if memory > 2 * honest_memory + MEMORY:
        verdict, failed = "too much memory", True
    return replace(
        record, verdict=verdict, failed=failed, message=message[:300], seconds=round(seconds, 3), memory=memory
    )


@contextmanager
def _time_limit() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def memory_of_process(name: str) -> int:
    """A size in bytes from the kernel's status of this process, such as ``VmRSS``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))
