"""Text files, plain or compressed, with a limit on how much a compressed file may hold."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from polybasis.data.tables.problems import LIMIT, TableError
from polybasis.foreign_files import regular_file

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
MIN_UNPACKED, MAX_RATIO = 1 << 28, 200  # bytes that any file may hold, and bytes for each compressed byte
NOT_TEXT = "save it as CSV in UTF-8"


def suffix_of(path: Path) -> str:
    """The suffix of a file in lower case, without that of its compression.

    >>> suffix_of(Path("a.CSV.gz")), suffix_of(Path("edges"))
    ('.csv', '')
    """
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in COMPRESSIONS else suffix


def compression_of(path: Path) -> str | None:
    """The compression of a file, by its first bytes or its name."""
    with path.open("rb") as file:
        start = file.read(4)
    found = next((name for magic, name in MAGIC.items() if start.startswith(magic)), None)
    return found or COMPRESSIONS.get(path.suffix.lower())


class _Unpacked(io.RawIOBase):
    """The contents of a compressed file; reading raises ValueError beyond a limit, or if the file is damaged."""

    def __init__(self, path: Path, compression: str) -> None:
        self._path = path
        self._limit = max(MIN_UNPACKED, MAX_RATIO * regular_file(path))
        self._left = self._limit
        self._stream = pa.CompressedInputStream(pa.OSFile(str(path)), compression)
        self._compression = compression

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._stream.read(len(buffer))
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise TableError(
                [f"{self._path}: not a {self._compression} file, or damaged ({reason})"],
                ["copy or download the file again"],
            ) from error
        self._left -= len(content)
        if self._left < 0:
            raise TableError(
                [f"{self._path}: holds more than {self._limit:,} bytes, far more than its size suggests"],
                ["if you trust the file, unpack it yourself"],
            )
        buffer[: len(content)] = content
        return len(content)


def open_bytes(path: Path) -> IO[bytes]:
    """The unpacked contents of a file."""
    compression = compression_of(path)
    if compression is None:
        return path.open("rb")
    return io.BufferedReader(_Unpacked(path, compression), 1 << 20)


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """The contents of a file as text in UTF-8, without a byte order mark, with line ends as they are."""
    with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
        yield file


def csv_rows(path: Path, delimiter: str, skip: int) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every non-blank row after the first ``skip`` lines; slow, so used only for errors.

    The line of a row is its last one: quoted cells may contain line breaks.

    Raises:
        TableError: if the file is not a table in UTF-8; the message gives the file and the line.
    """
    with open_text(path) as file:
        try:
            for _ in range(skip):
                file.readline()
            reader = csv.reader(file, delimiter=delimiter)
            for row in reader:
                if row:
                    yield skip + reader.line_num, row
        except UnicodeDecodeError:
            raise undecodable(path) from None
        except csv.Error as error:
            raise TableError(
                [f"{path}:{skip + reader.line_num}: not a table ({error})"], ["is a quote missing?"]
            ) from error


def undecodable(path: Path) -> TableError:
    """The error for a file that is not UTF-8, with the lines."""
    wrong: list[str] = []
    more = 0
    with open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                more += len(wrong) == LIMIT
                if len(wrong) < LIMIT:
                    shown = line.decode("latin-1").strip()
                    wrong.append(f"{path}:{number}: not valid UTF-8 (in Latin-1: {shown[:40]!r})")
    advice = f"convert the file, for example with iconv -f latin1 -t utf-8 {path.name} > utf8-{path.name}"
    return TableError(wrong or [f"{path}: not valid UTF-8"], [advice], more)
