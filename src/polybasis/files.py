"""Crash-safe files: an interrupted write leaves the old file or the new one."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from polybasis.foreign_files import regular_file
from polybasis.processes import may_be_alive, process_name

logger = logging.getLogger("polybasis")
_TEMPORARY = re.compile(r"\..+\.([0-9a-f]+-[0-9]+)\.[0-9a-f]{8}\.tmp", re.DOTALL)


class PathLock(FileLock):
    """A lock whose file is removed when the lock is released.

    The file is removed while the lock is held. A process that has opened the removed file gets a lock that guards
    nothing; filelock notices that the file has no name any more and opens a new one.
    """

    def _release(self) -> None:
        if sys.platform != "win32":  # there an open file cannot be removed
            Path(self.lock_file).unlink(missing_ok=True)
        super()._release()


def lock_for(path: Path, timeout: float = -1) -> PathLock:
    """A lock on a file or folder, shared by all processes of this user on this machine.

    The lock file is in the system's temporary folder, because the data's own folder may be read-only. It is removed
    when the lock is released; those of killed processes are removed by the next process that takes a lock.

    Args:
        path: the file or folder; it need not exist.
        timeout: seconds to wait before :class:`filelock.Timeout` is raised; -1 waits forever.

    Raises:
        PermissionError: if the folder of the lock files belongs to another user.
    """
    folder = lock_folder()
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != _user():
        raise PermissionError(f"{folder} is not a folder of this user; remove it, or set TMPDIR to another folder")
    _remove_stale_locks(folder)
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    return PathLock(folder / f"{name}.lock", timeout=timeout)


def lock_folder() -> Path:
    """The folder of this user's lock files."""
    return Path(tempfile.gettempdir()) / f"polybasis-locks-{_user()}"


def _user() -> int:
    """The user ID, because users in containers may have no name; 0 on Windows, where temporary folders are per user."""
    return os.getuid() if hasattr(os, "getuid") else 0


@cache  # once in a process
def _remove_stale_locks(folder: Path) -> None:
    for path in folder.glob("*.lock"):
        with suppress(Timeout), PathLock(path, timeout=0):  # nobody holds it; releasing it removes the file
            pass


@contextmanager
def exclusive(path: Path, activity: str) -> Iterator[None]:
    """Holds the lock on a file or folder; logs one line if another process holds it.

    Args:
        path: the file or folder; it need not exist.
        activity: what a process does while it holds the lock, such as ``is building runs/cora.graph``.
    """
    lock = lock_for(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logger.warning("waiting for another process that %s", activity)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def temporary_path(path: Path) -> Path:
    """A new name, in the same folder, for a file or folder that is not complete yet; it contains this process's ID."""
    return path.with_name(f".{path.name}.{process_name()}.{secrets.token_hex(4)}.tmp")


def is_temporary(path: Path) -> bool:
    """Whether a path has a name that :func:`temporary_path` made, in this process or another one."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_stale_files(folder: Path) -> None:
    """Removes the temporary files and folders that dead processes of this machine left in a folder."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        found = _TEMPORARY.fullmatch(name)
        if found is None or may_be_alive(found[1]):
            continue
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):  # removed by another process, or a read-only folder
                path.unlink()


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a temporary file, syncs it and renames it to ``path``; removes stale temporary files in its folder.

    Raises:
        OSError: if the file cannot be written; the message gives the file.
    """
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A temporary file to write to, which is synced and renamed to ``path`` at the end of the block.

    Raises:
        OSError: if the file cannot be written; the message gives the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_stale_files(path.parent)
    temporary = temporary_path(path)
    try:
        with os_errors_naming(path), temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def append_line(path: Path, line: str, *, unless: Callable[[], bool] | None = None) -> None:
    """Appends one line and syncs the file; safe with concurrent writers.

    Args:
        path: the file; it is created if it does not exist.
        line: the line, without its end.
        unless: called while no other process can write; nothing is appended if it returns True.

    Raises:
        OSError: if the line cannot be written, for example because the disk is full; the file is then unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_for(path), os_errors_naming(path), path.open("ab+", buffering=0) as file:
        if unless is not None and unless():
            return
        content = line.encode() + b"\n"
        end = file.seek(0, os.SEEK_END)
        if end:  # terminate a line that a killed process left incomplete; readers skip it
            file.seek(end - 1)
            if file.read(1) != b"\n":
                content = b"\n" + content
        try:
            while content:
                content = content[file.write(content) :]
            os.fsync(file.fileno())
        except BaseException:
            file.truncate(end)
            raise


@contextmanager
def os_errors_naming(path: Path) -> Iterator[None]:
    """Adds the path to errors of file objects, which do not know it."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a JSON Lines file; an empty list if the file does not exist.

    Damaged lines are skipped, so that they do not hide the others.

    Raises:
        ValueError: if ``path`` is not a regular file.
    """
    if not path.exists():
        return []
    regular_file(path)
    return parse_lines(path.read_bytes())


def parse_lines(content: bytes) -> list[dict[str, Any]]:
    """The objects in JSON lines; damaged lines are skipped."""
    found = []
    for line in content.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deeply
            continue
        if isinstance(value, dict) and isinstance(value.get("key", ""), str):
            found.append(value)
    return found
