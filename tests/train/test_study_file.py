"""The file of a study: entries survive kills and concurrent writers; damage is found."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from polybasis.train.study_file import StudyFile, study_backend, verify_study

ENTRIES = [{"number": i, "text": "ä" * i} for i in range(20)]


def written(path: Path) -> bytes:
    StudyFile(path).append_logs(ENTRIES[:12])
    StudyFile(path).append_logs(ENTRIES[12:])
    return path.read_bytes()


def test_entries_are_read_from_any_number_on(tmp_path: Path) -> None:
    written(tmp_path / "study.log")
    for first in range(len(ENTRIES) + 1):
        fresh = StudyFile(tmp_path / "study.log")
        assert list(fresh.read_logs(first)) == ENTRIES[first:]
        assert list(fresh.read_logs(first)) == ENTRIES[first:]
        fresh.append_logs([])
        assert list(fresh.read_logs(0)) == ENTRIES
    assert verify_study(tmp_path / "study.log") == len(ENTRIES)


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "study.log"
    content = written(path)
    for place in range(len(content)):
        for bit in (1, 2, 64):
            path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
            with pytest.raises(ValueError, match=r"study\.log:\d+: checksum mismatch"):
                verify_study(path)


def test_missing_and_reordered_lines_are_found(tmp_path: Path) -> None:
    path = tmp_path / "study.log"
    lines = written(path).splitlines(keepends=True)
    for changed in (lines[:3] + lines[4:], [lines[1], lines[0], *lines[2:]], [*lines, lines[-1]]):
        path.write_bytes(b"".join(changed))
        with pytest.raises(ValueError, match="checksum mismatch"):
            verify_study(path)


def test_a_line_that_a_kill_left_incomplete_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "study.log"
    content = written(path)
    start = content.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(content)):
        path.write_bytes(content[:end])
        assert list(StudyFile(path).read_logs(0)) == ENTRIES[:-1]
        StudyFile(path).append_logs(ENTRIES[-1:])
        assert path.read_bytes() == content


def append_many(path: Path, writer: int) -> None:
    file = StudyFile(path)
    for i in range(30):
        file.append_logs([{"writer": writer, "i": i}])


def test_several_processes_append_to_one_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=append_many, args=(tmp_path / "study.log", w)) for w in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    found = list(StudyFile(tmp_path / "study.log").read_logs(0))
    for writer in range(2):
        assert [entry["i"] for entry in found if entry["writer"] == writer] == list(range(30))


def test_a_study_of_an_earlier_version_is_read_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "study.log").write_text('{"number":0}\n')
    with pytest.warns(UserWarning, match="written by an earlier version, without checksums"):
        assert list(study_backend(tmp_path / "study.log").read_logs(0)) == [{"number": 0}]
