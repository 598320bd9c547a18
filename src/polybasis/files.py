"""Writing files so that a kill at any moment leaves the old or the new one, beside other processes that do the same."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file beside its place, then moves it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)  # the only way to read it
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def append_line(path: Path, line: str) -> None:
    """Adds one line, whole or not at all, also beside other writers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        end = file.seek(0, os.SEEK_END)
        if end:  # a line that a kill cut off is closed, and skipped when read
            file.seek(end - 1)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Waits until nobody else on this machine is in here with this folder, which need not be there; not to be nested.

    The lock is a file in the system's temporary folder: one that cannot be had is no reason to stop.
    """
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    handle = None
    with suppress(OSError):
        handle = os.open(Path(tempfile.gettempdir()) / f"polybasis-{name}.lock", os.O_RDONLY | os.O_CREAT, 0o666)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a file of JSON objects; none where there is no such file."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
