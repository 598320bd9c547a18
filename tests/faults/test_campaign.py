"""The campaign resumes without repeating cases, counts every case once, and its page is made of the committed lines."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from faults import campaign, flips, foreign_files
from faults.page import kind_of, summarize, write_page
from faults.record import Record
from polybasis.files import read_lines

RESULTS = Path(__file__).resolve().parents[2] / "results" / "reliability"


class Fake(ModuleType):
    """A part of the campaign that is interrupted once and records what it ran."""

    PART = "fake"

    def __init__(self, interrupt_at: int) -> None:
        super().__init__("fake_part")
        self.interrupt_at, self.ran = interrupt_at, Counter[int]()

    def run(self, numbers: range, folder: Path) -> list[Record]:
        if self.interrupt_at in numbers:
            self.interrupt_at = -1
            raise KeyboardInterrupt
        self.ran.update(numbers)
        return [_record(number) for number in numbers]


def _record(number: int) -> Record:
    verdict = "refused" if number % 3 else "accepted"
    target, fault = f"target {number % 4}", f"cut: {number} bytes left"
    return Record("fake", target, number, fault, verdict, failed=number == 17, seconds=number, memory=number << 20)


@pytest.mark.parametrize("processes", [1, 3])
def test_an_interrupted_campaign_resumes(processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(interrupt_at=40)
    monkeypatch.setitem(sys.modules, "fake_part", fake)
    part = campaign.Part("fake_part", 100, 7)
    with pytest.raises(KeyboardInterrupt):
        campaign.run_part("fake", part, range(100), processes, tmp_path)
    with (tmp_path / "fake.jsonl").open("a") as file:
        file.write('{"part": "fake", "targ')  # a line that was cut off
    records = campaign.run_part("fake", part, range(100), processes, tmp_path)
    assert records == [_record(number) for number in range(100)]
    assert set(fake.ran.values()) == {1}
    assert campaign.run_part("fake", part, range(100), processes, tmp_path) == records
    assert set(fake.ran.values()) == {1}


def test_a_summary_counts_every_case_once(tmp_path: Path) -> None:
    records = [_record(number) for number in range(100)]
    summarize(records, tmp_path / "flips.jsonl")
    lines = read_lines(tmp_path / "flips.jsonl")
    assert [line["target"] for line in lines] == [f"target {i}" for i in range(4)]
    counts = Counter[str]()
    for line in lines:
        assert list(line["cases"]) == ["cut"]
        counts.update(line["cases"]["cut"])
    assert counts == Counter(record.verdict for record in records)
    assert max(line["seconds"] for line in lines) == 99
    assert [failure for line in lines for failure in line["failures"]] == ["case 17, cut: 17 bytes left: refused"]
    write_page(tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "| Damage to files that polybasis wrote | 100 | 1 | 99.0 s | 104 MB |" in page
    assert "- target 1: case 17" in page


def test_numbers_do_not_distinguish_kinds_of_faults() -> None:
    assert kind_of("SIGKILL after 0.35 s") == kind_of("SIGKILL after 12 s")
    assert kind_of("cut: 7 bytes left") == "cut"


def test_the_committed_page_is_made_of_the_committed_lines(tmp_path: Path) -> None:
    for lines in RESULTS.glob("*.jsonl"):
        shutil.copy(lines, tmp_path)
    write_page(tmp_path)
    assert (tmp_path / "README.md").read_text() == (RESULTS / "README.md").read_text()


@pytest.mark.parametrize(("name", "cases"), [("flips", 2_000), ("foreign-files", 20_000)])
def test_the_committed_campaign_is_complete_and_without_failures(name: str, cases: int) -> None:
    lines = read_lines(RESULTS / f"{name}.jsonl")
    assert sum(sum(count.values()) for line in lines for count in line["cases"].values()) == cases
    assert not [failure for line in lines for failure in line["failures"]]
    assert {verdict for line in lines for count in line["cases"].values() for verdict in count} <= {
        "accepted",
        "refused",
    }


def test_every_reader_and_artefact_is_in_the_committed_campaign() -> None:
    readers = {line["target"].partition(":")[0] for line in read_lines(RESULTS / "foreign-files.jsonl")}
    assert readers == {*foreign_files.READERS}
    artefacts = {line["target"].partition("/")[0] for line in read_lines(RESULTS / "flips.jsonl")}
    assert artefacts == {*flips.WRITERS}
