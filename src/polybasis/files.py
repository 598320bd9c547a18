"""Crash-safe files: an interrupted write leaves the old file or the new one."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock

from polybasis.foreign_files import regular_file


def lock_for(path: Path, timeout: float = -1) -> FileLock:
    """A lock on a file or folder, shared by all processes of this user on this machine.

    The lock file is in the system's temporary folder, because the data's own folder may be read-only.

    Args:
        path: the file or folder; it need not exist.
        timeout: seconds to wait before :class:`filelock.Timeout` is raised; -1 waits forever.
    """
    # Use the user ID: users in containers may have no name.
    name = hashlib.sha256(f"{os.getuid()} {path.resolve()}".encode()).hexdigest()[:16]
    return FileLock(Path(tempfile.gettempdir()) / f"polybasis-{name}.lock", timeout=timeout)


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a temporary file, syncs it and renames it to ``path``."""
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
    """Appends one line and syncs the file; safe with concurrent writers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_for(path), path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end:  # terminate a line that a killed process left incomplete; readers skip it
            file.seek(end - 1)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a JSON Lines file; an empty list if the file does not exist.

    Damaged lines are skipped, so that they do not hide the others.

    Raises:
        ValueError: if ``path`` is not a regular file.
    """
    if not path.exists():
        return []
    regular_file(path)
    found = []
    for line in path.read_bytes().splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deeply
            continue
        if isinstance(value, dict) and isinstance(value.get("key", ""), str):
            found.append(value)
    return found
