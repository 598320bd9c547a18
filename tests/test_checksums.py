"""Checksums: every single flipped bit, missing byte and additional byte is found; nothing is read twice."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from polybasis import checksums
from polybasis.checksums import Manifest, read_document, write_document

SIZE = 1000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "BLOCK", 64)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(np.random.default_rng(0).bytes(SIZE))
    return path


def manifest(path: Path) -> Manifest:
    return Manifest(path.parent, Manifest.records(path.parent, [path.name]))


def test_every_flipped_byte_is_found_in_its_block(file: Path) -> None:
    records = Manifest.records(file.parent, [file.name])
    content = file.read_bytes()
    for place in range(SIZE):
        file.write_bytes(content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :])
        checked = Manifest(file.parent, records)[file.name]
        first = place // 64 * 64
        with pytest.raises(ValueError, match=f"checksum mismatch in bytes {first:,} to {min(first + 64, SIZE):,}"):
            checked.verify()
        here = np.array([place])
        with pytest.raises(ValueError, match="checksum mismatch"):
            checked.verify_ranges(here, here)
        assert not checked.verified[place // 64]


def test_a_changed_size_is_found(file: Path) -> None:
    checked = manifest(file)
    content = file.read_bytes()
    for changed in (content + b"\0", content[:-1], b""):
        file.write_bytes(changed)
        with pytest.raises(ValueError, match=rf"data\.bin has {len(changed):,} bytes; expected 1,000"):
            checked.verify()
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"data\.bin does not exist"):
        checked.verify()
    os.mkfifo(file)
    with pytest.raises(ValueError, match=r"data\.bin is a pipe, socket or device"):
        checked.verify()


def test_ranges_verify_exactly_the_blocks_that_they_touch(file: Path) -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        checked = manifest(file)[file.name]
        first = rng.integers(0, SIZE, rng.integers(0, 5))
        last = np.minimum(first + rng.integers(0, 300, len(first)), SIZE - 1)
        expected = {byte // 64 for a, b in zip(first, last, strict=True) for byte in range(a, b + 1)}
        checked.verify_ranges(first, last)
        assert set(np.flatnonzero(checked.verified)) == expected


def test_a_verified_block_is_not_read_again(file: Path) -> None:
    """The page cache is trusted after the first look: verification costs one pass over the file."""
    checked = manifest(file)[file.name]
    counts: list[int] = []
    checked.verify_ranges(np.array([100]), np.array([200]))
    checked.verify(counts.append)
    assert sum(counts) == SIZE - 3 * 64
    file.unlink()
    checked.verify_ranges(np.array([0]), np.array([SIZE - 1]))


def test_documents_survive_whitespace_and_order_but_no_other_value(tmp_path: Path) -> None:
    path = tmp_path / "header.json"
    document = {"name": "graph", "gamma": [0.1, 1e-300, -2.5], "deep": {"list": [None, True, "ä"]}}
    write_document(path, document)
    assert read_document(path) == document
    content = path.read_bytes()
    kept = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            found = read_document(path)
        except ValueError:
            continue
        assert found == document
        kept += 1
    assert kept <= content.count(b" ") + content.count(b"\n")
    shuffled = dict(reversed(json.loads(content).items()))
    path.write_text(json.dumps(shuffled))
    assert read_document(path) == document


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"{}", b"null"])
def test_anything_but_a_sealed_document_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "header.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"header\.json"):
        read_document(path)


@pytest.mark.parametrize("records", [[], {"a": 1}, {"a": {}}, {"a": {"size": 65, "xxh3": "0" * 16}}])
def test_a_damaged_list_of_files_is_refused(records: object, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is damaged"):
        Manifest(tmp_path, records)  # type: ignore[arg-type]


def test_a_list_of_files_stays_inside_its_folder(file: Path) -> None:
    (record,) = Manifest.records(file.parent, [file.name]).values()
    for name in (f"../{file.parent.name}/{file.name}", str(file), f"./{file.name}"):
        with pytest.raises(ValueError, match="is not the name of a file"):
            Manifest(file.parent, {name: record})
    with pytest.raises(ValueError, match=r"y\.npy has no checksums"):
        manifest(file).require(file.name, "y.npy")


@pytest.mark.parametrize("size", [-1, 10**18])
def test_a_size_without_checksums_is_refused(size: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.npy is damaged"):
        Manifest(tmp_path, {"a.npy": {"size": size, "xxh3": ""}})


def test_nested_documents_end_in_one_error(tmp_path: Path) -> None:
    """Reading and writing JSON have different limits on the depth."""
    path = tmp_path / "header.json"
    for depth in range(100, 3000, 100):
        path.write_text('{"checksum": "0", "a": ' + '{"a":' * depth + "1" + "}" * depth + "}")
        with pytest.raises(ValueError, match=r"header\.json"):
            read_document(path)


def test_threads_that_share_a_file_verify_every_block(file: Path) -> None:
    """A block that two threads verify at once counts once."""
    content = file.read_bytes()
    for _ in range(20):
        file.write_bytes(content)
        checked = manifest(file)[file.name]
        first = np.arange(0, SIZE - 64, 7)
        with ThreadPoolExecutor(4) as pool:
            for task in [pool.submit(checked.verify_ranges, first, first) for _ in range(8)]:
                task.result()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(ValueError, match="checksum mismatch"):
            checked.verify_ranges(np.array([SIZE - 1]), np.array([SIZE - 1]))
