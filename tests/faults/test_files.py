"""Damaged and foreign files are refused with one line that names them, or do not change the outcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import flips, foreign_files
from faults.record import describe_failures

pytestmark = pytest.mark.slow


def test_no_damage_to_a_written_file_changes_an_outcome(tmp_path: Path) -> None:
    records = flips.run(range(150), tmp_path / "artefacts")
    assert len(records) == 150
    assert not describe_failures(records)


def test_no_mutated_file_ends_in_a_traceback(tmp_path: Path) -> None:
    records = foreign_files.run(range(300), tmp_path / "examples")
    assert len(records) == 300
    assert not describe_failures(records)
