"""Checksums that detect damaged files: of blocks of a file, of JSON documents, and of arrays.

Checksums are XXH3 with 64 bits: one damaged file in about 10^19 passes. They detect accidents, not attacks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from polybasis.files import write_atomically
from polybasis.foreign_files import regular_file

BLOCK = 1 << 20  # bytes of a file that share a checksum
OnBytes = Callable[[int], None]  # called with the number of bytes that were verified


class FormerVersionWarning(UserWarning):
    """A file was written by an earlier version, without checksums, and is read unverified."""


def digest(content: Any, seed: int = 0) -> str:
    """Checksum of text, bytes or a contiguous array, as 16 hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(content.encode() if isinstance(content, str) else content, seed)


# ---- JSON documents ------------------------------------------------------------------------------------------------


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Writes a JSON document with its own checksum to a file, atomically."""
    write_atomically(path, json.dumps({**document, "checksum": _checksum(document)}, indent=1).encode())


def read_document(path: Path, *, sealed: Callable[[dict[str, Any]], bool] = lambda document: True) -> dict[str, Any]:
    """Reads a document that :func:`write_document` wrote and verifies its checksum.

    Args:
        path: the file.
        sealed: whether a document must have a checksum; formats of earlier versions had none.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file is damaged; the message gives the file.
    """
    regular_file(path)
    try:
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict):
            raise ValueError("expected a JSON object")
        checksum = document.pop("checksum", None)
        intact = checksum == _checksum(document) if checksum is not None or sealed(document) else True
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error})") from error
    if not intact:
        raise ValueError(f"{path}: checksum mismatch; the file is damaged")
    return document


def _checksum(document: dict[str, Any]) -> str:
    return digest(json.dumps(document, sort_keys=True))


# ---- files of a folder ---------------------------------------------------------------------------------------------


@dataclass
class VerifiedFile:
    """A file whose blocks are verified when they are first read.

    Attributes:
        path: the file.
        size: its expected size in bytes.
        checksums: the checksum of each block of ``BLOCK`` bytes, concatenated.
        verified: which blocks have been verified.
    """

    path: Path
    size: int
    checksums: str
    verified: NDArray[np.bool_] = field(init=False, repr=False)
    _complete: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        blocks = -(-self.size // BLOCK)
        if self.size < 0 or len(self.checksums) != 16 * blocks:
            raise ValueError(f"the list of checksums of {self.path} is damaged")
        self.verified = np.zeros(blocks, dtype=np.bool_)

    def verify(self, on_bytes: OnBytes | None = None) -> None:
        """Reads the blocks that have not been verified and compares their checksums.

        Raises:
            FileNotFoundError: if the file does not exist.
            ValueError: if the file has a different size or a block is damaged.
        """
        self._check_size()
        self._verify_blocks(np.flatnonzero(~self.verified), on_bytes)

    def verify_ranges(self, first: NDArray[np.int64], last: NDArray[np.int64]) -> None:
        """Verifies the blocks that contain some ranges of bytes, if they have not been verified before.

        Args:
            first, last: first and last byte of each range, (n,).

        Raises:
            FileNotFoundError, ValueError: as in :meth:`verify`.
        """
        if self._complete:
            return
        count = len(self.verified) + 1
        steps = np.bincount(first // BLOCK, minlength=count) - np.bincount(last // BLOCK + 1, minlength=count)
        needed = np.cumsum(steps)[:-1] > 0
        missing = np.flatnonzero(needed & ~self.verified)
        if len(missing):
            self._check_size()
            self._verify_blocks(missing)

    def _check_size(self) -> None:
        size = regular_file(self.path)
        if size != self.size:
            raise ValueError(f"{self.path} has {size:,} bytes; expected {self.size:,}: the file is damaged")

    def _verify_blocks(self, blocks: Iterable[int], on_bytes: OnBytes | None = None) -> None:
        with self.path.open("rb", buffering=0) as file:
            for block in map(int, blocks):
                file.seek(block * BLOCK)
                content = file.read(BLOCK)
                if digest(content) != self.checksums[16 * block : 16 * block + 16]:
                    raise ValueError(
                        f"{self.path}: checksum mismatch in bytes {block * BLOCK:,} to "
                        f"{block * BLOCK + len(content):,}; the file is damaged"
                    )
                self.verified[block] = True
                if on_bytes is not None:
                    on_bytes(len(content))
        self._complete = bool(self.verified.all())


class Manifest:
    """The size and the checksums of the files of a folder; it is part of a document that has its own checksum."""

    def __init__(self, folder: Path, records: dict[str, Any]) -> None:
        """Creates the manifest of a folder from the entry of a document.

        Raises:
            ValueError: if the entry is invalid, or names a file outside the folder.
        """
        self._folder = folder
        try:
            self._files = {
                name: VerifiedFile(folder / name, int(record["size"]), str(record["xxh3"]))
                for name, record in records.items()
            }
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the list of files of {folder} is damaged ({error})") from error
        for name, file in self._files.items():
            if file.path.name != name:
                raise ValueError(f"the list of files of {folder} is damaged ({name!r} is not the name of a file)")

    @staticmethod
    def records(folder: Path, names: Iterable[str]) -> dict[str, Any]:
        """Computes the entry of a document: size and checksums of some files of a folder."""
        return {name: _record(folder / name) for name in sorted(names)}

    def __getitem__(self, name: str) -> VerifiedFile:
        """The checksums of a file. Raises ValueError if it has none."""
        if name not in self._files:
            raise ValueError(f"{self._folder / name} has no checksums")
        return self._files[name]

    def require(self, *names: str) -> None:
        """Raises ValueError if the manifest omits one of these files."""
        for name in names:
            self[name]

    def verify_headers(self) -> None:
        """Verifies the first block of each file, so that the headers of arrays can be parsed.

        Raises:
            FileNotFoundError, ValueError: for the first file that is missing or damaged.
        """
        start = np.zeros(1, dtype=np.int64)
        for file in self._files.values():
            file.verify_ranges(start, start)

    def verify(self, on_bytes: OnBytes | None = None) -> None:
        """Verifies all files.

        Raises:
            FileNotFoundError, ValueError: for the first file that is missing or damaged.
        """
        for file in self._files.values():
            file.verify(on_bytes)


def _record(path: Path) -> dict[str, Any]:
    parts, size = [], 0
    with path.open("rb") as file:
        while content := file.read(BLOCK):
            parts.append(digest(content))
            size += len(content)
    return {"size": size, "xxh3": "".join(parts)}
