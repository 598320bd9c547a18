"""The file of an Optuna study: a journal with a checksum for each entry, which several processes can share.

Each line is ``<checksum> <length> <JSON>``. The checksum depends on the number of the line, so that missing and
reordered lines are detected too. A line that a killed process left incomplete is ignored and later overwritten.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polybasis.checksums import FormerVersionWarning, digest
from polybasis.files import lock_for, os_errors_naming
from polybasis.foreign_files import regular_file

if TYPE_CHECKING:
    from optuna.storages.journal import BaseJournalBackend


class StudyFile:
    """The journal of a study, as a backend of Optuna's ``JournalStorage``.

    Args:
        path: the file; it is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._path = path
        self._offsets = [0]  # start of each line that was read, and of the next one

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yields the entries from the given number on.

        Raises:
            ValueError: if the file is damaged; the message gives the file and the line.
        """
        number = min(log_number_from, len(self._offsets) - 1)
        with self._path.open("rb") as file:
            file.seek(self._offsets[number])
            for line in file:
                if not _is_complete(line):
                    return
                entry = _parse(self._path, number, line)
                number += 1
                if number == len(self._offsets):
                    self._offsets.append(self._offsets[-1] + len(line))
                if number > log_number_from:
                    yield entry

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Appends entries and syncs the file; the last line is overwritten if it is incomplete.

        Raises:
            OSError: if the disk is full; the message gives the file.
        """
        with lock_for(self._path), os_errors_naming(self._path), self._path.open("r+b") as file:
            for _ in self.read_logs(len(self._offsets) - 1):  # finds the end of the last complete line
                pass
            file.seek(self._offsets[-1])
            file.truncate()
            for number, log in enumerate(logs, len(self._offsets) - 1):
                text = json.dumps(log, separators=(",", ":"))
                file.write(f"{digest(text, number)} {len(text)} {text}\n".encode())
            file.flush()
            os.fsync(file.fileno())


def study_backend(path: Path) -> BaseJournalBackend:
    """The journal in a file; a file of an earlier version, without checksums, is used with a warning."""
    from optuna.storages.journal import BaseJournalBackend, JournalFileBackend

    if path.exists() and _is_former_version(path):
        return JournalFileBackend(str(path))
    BaseJournalBackend.register(StudyFile)
    return StudyFile(path)  # type: ignore[return-value]


def verify_study(path: Path) -> int:
    """Reads the file of a study and verifies the checksums; returns the number of entries.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file is damaged; the message gives the file and the line.
    """
    if _is_former_version(path):
        return 0
    count = 0
    with path.open("rb") as file:
        for line in file:
            if not _is_complete(line):
                break
            _parse(path, count, line)
            count += 1
    return count


def _is_former_version(path: Path) -> bool:
    """Whether a file was written by an earlier version, as a journal without checksums; warns if so."""
    regular_file(path)
    with path.open("rb") as file:
        former = file.read(1) == b"{"
    if former:
        warnings.warn(
            f"{path} was written by an earlier version, without checksums", FormerVersionWarning, stacklevel=3
        )
    return former


def _is_complete(line: bytes) -> bool:
    """Whether a line was written completely: the last line of a killed process ends before its length."""
    if line.endswith(b"\n"):
        return True
    _, _, rest = line.partition(b" ")
    length, _, text = rest.partition(b" ")
    return length.isdigit() and len(text) > int(length)


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    checksum, _, rest = line.removesuffix(b"\n").partition(b" ")
    length, _, text = rest.partition(b" ")
    if checksum.decode("latin-1") != digest(text, number) or length != b"%d" % len(text):
        raise ValueError(f"{path}:{number + 1}: checksum mismatch; the file is damaged, remove it to start over")
    entry: dict[str, Any] = json.loads(text)
    return entry
