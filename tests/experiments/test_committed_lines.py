"""Committed lines can be run again, and lines whose code has changed are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from polybasis.code_version import PACKAGE, repository_of
from polybasis.experiments.committed_lines import (
    FILTER_LEARNING,
    WITHOUT_TRAINING,
    job_of,
    line_statuses,
    parse_place,
    read_line,
    repeat_line,
)
from polybasis.train.config import Config
from polybasis.train.job import Job, run_jobs
from polybasis.train.source import Source


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Results of two splits of a synthetic graph; the second line has a score that no run gives."""
    path = tmp_path / "mlp.jsonl"
    config = Config.of("mlp", epochs=3)
    run_jobs([Job(config, Source.named("csbm"), "per-class", split, 7) for split in (0, 3)], path)
    first, second = map(json.loads, path.read_text().splitlines())
    path.write_text("".join(json.dumps(line) + "\n" for line in (first, {**second, "test_score": 0.123})))
    return path


def test_a_line_is_run_again_with_its_own_configuration_split_and_seed(lines: Path) -> None:
    repetition = repeat_line(lines, 1)
    assert repetition.same
    assert repetition.new["key"] == repetition.committed["key"]
    assert (repetition.new["split"], repetition.new["seed"], repetition.new["threads"]) == (0, 7, 1)
    assert not repeat_line(lines, 2).same


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "polybasis", "reproduce", *map(str, arguments)]
    return subprocess.run(run, capture_output=True, text=True, check=False)


def test_the_exit_status_is_1_if_the_scores_differ(lines: Path) -> None:
    same = command("line", f"{lines}:1", "--json")
    assert same.returncode == 0, same.stderr
    document = json.loads(same.stdout)
    assert document["same"] is True
    assert document["committed"]["test_score"] == document["new"]["test_score"]
    other = command("line", f"{lines}:2")
    assert other.returncode == 1
    assert "0.123" in other.stdout
    assert "the scores differ" in other.stderr


def test_lines_that_cannot_be_repeated_raise(lines: Path) -> None:
    with pytest.raises(ValueError, match="has 2 lines; line 9 does not exist"):
        read_line(lines, 9)
    line = read_line(lines, 1)
    with pytest.raises(ValueError, match="not a named data set"):
        job_of({**line, "dataset": "mine"})
    with pytest.raises(ValueError, match="it was trained on other data"):
        job_of({**line, "key": "0" * 16})
    lines.write_text('{"basis": "optimal"}\n')
    with pytest.raises(ValueError, match="not the result of a training job"):
        read_line(lines, 1)
    for text in ("results.jsonl", "results.jsonl:0", "results.jsonl:x"):
        with pytest.raises(ValueError, match="expected FILE:NUMBER"):
            parse_place(text)


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def write(repository: Path, name: str, text: str) -> None:
    (repository / name).parent.mkdir(parents=True, exist_ok=True)
    (repository / name).write_text(text)


FILES = (
    "src/polybasis/train/job.py",
    "src/polybasis/experiments/filter_learning.py",
    "src/polybasis/cli/app.py",
    "native/a.cpp",
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in FILES:
        write(tmp_path, name, "one\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "Start")
    return tmp_path


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    ("changed", "job", "other"),
    [
        ("src/polybasis/train/job.py", "stale", "stale"),
        ("native/a.cpp", "stale", "stale"),
        ("src/polybasis/experiments/filter_learning.py", "current", "stale"),
        ("src/polybasis/cli/app.py", "current", "current"),
        ("src/polybasis/experiments/figures.py", "current", "current"),
        ("README.md", "current", "current"),
    ],
)
def test_lines_are_stale_once_their_code_has_changed(
    changed: str, job: str, other: str, committed: bool, repository: Path
) -> None:
    code = git(repository, "rev-parse", "--short=12", "HEAD")
    rows = [{"key": "a", "code": code}, {"basis": "optimal", "code": code}]
    write(repository, "results/table/a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert [line.status for line in line_statuses(repository / "results", repository)] == ["current", "current"]
    write(repository, changed, "two\n")
    if committed:
        git(repository, "add", ".")
        git(repository, "commit", "-qm", "Change")
    found = line_statuses(repository / "results", repository)
    assert [line.status for line in found] == [job, other]
    assert [line.number for line in found] == [1, 2]
    assert all(line.changed == ((changed,) if line.status == "stale" else ()) for line in found)


def test_files_that_are_left_out_exist() -> None:
    assert all((PACKAGE / name).exists() for name in (*WITHOUT_TRAINING, *FILTER_LEARNING))


def test_lines_without_a_known_commit_are_unknown_and_dirty_ones_stale(repository: Path) -> None:
    code = git(repository, "rev-parse", "--short=12", "HEAD")
    rows = [
        {"key": "a"},
        {"key": "b", "code": "0.1.0"},
        {"key": "c", "code": "f" * 12},
        {"key": "d", "code": f"{code}-dirty"},
    ]
    write(repository, "results/a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = line_statuses(repository / "results", repository)
    assert [line.status for line in found] == ["unknown", "unknown", "unknown", "stale"]


@pytest.mark.skipif(repository_of(PACKAGE) is None, reason="polybasis is not installed from a checkout")
def test_the_command_lists_lines_by_file() -> None:
    listed = command("stale", Path(__file__).parents[2] / "results")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.splitlines()[-1].endswith("current")
    assert "unknown " in listed.stdout
    missing = command("stale", "nowhere")
    assert missing.returncode != 0
    assert "nowhere is not a folder" in missing.stderr
