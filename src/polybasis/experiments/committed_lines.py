"""Committed result lines: running one of them again, and finding those whose code has changed since."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from polybasis.code_version import DIRTY, git
from polybasis.data.catalogue import CATALOGUE
from polybasis.train.config import Config
from polybasis.train.job import Job, run_job
from polybasis.train.results import Result
from polybasis.train.source import Source

SCORES = ("val_score", "test_score", "epochs")
Status = Literal["current", "stale", "unknown"]
# Files that no training job's scores depend on: interfaces, and what is done with results after training. Presets are
# among them because a line has its own configuration.
WITHOUT_TRAINING = (
    "bench",
    "cli",
    "experiments",
    "presets",
    "report",
    "classifier.py",
    "code_version.py",
    "graph_filter.py",
    "responses.py",
    "version.py",
    "data/images.py",
    "train/auto.py",
    "train/auto_portfolio.py",
    "train/presets.py",
    "train/results.py",
    "train/study_file.py",
    "train/trained_model.py",
    "train/tune.py",
)
# What lines that are not jobs, those of filter learning, depend on besides.
FILTER_LEARNING = ("responses.py", "data/images.py", "experiments/bumps.py", "experiments/filter_learning.py")


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs torch on one thread: dense products on several add in another order, which changes digits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def parse_place(text: str) -> tuple[Path, int]:
    """The file and the line number of a text such as ``results/gcn.jsonl:3``; lines are counted from 1.

    Raises:
        ValueError: if there is no line number.
    """
    name, colon, number = text.rpartition(":")
    if not colon or not number.isdecimal() or int(number) < 1:
        raise ValueError(f"{text!r} is not a line of a file; expected FILE:NUMBER, for example results.jsonl:3")
    return Path(name), int(number)


def read_line(path: Path, number: int) -> Result:
    """The result on a line of a file.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if there is no such line, or it is not the result of a training job.
    """
    lines = path.read_text().splitlines()
    if number > len(lines):
        raise ValueError(f"{path} has {len(lines)} lines; line {number} does not exist")
    try:
        result = json.loads(lines[number - 1])
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{number} is not JSON: {error}") from error
    needed = {"key", "config", "dataset", "protocol", "split", "seed", *SCORES}
    if not isinstance(result, dict) or not needed <= result.keys():
        raise ValueError(f"{path}:{number} is not the result of a training job; expected the keys {sorted(needed)}")
    return result


def job_of(result: Result, root: str | None = None) -> Job:
    """The job of a result, from its recorded configuration, data set, protocol, split and seed.

    Raises:
        ValueError: if the result was trained on other data than a named data set, or its configuration is read
            differently by this version.
    """
    if result["dataset"] not in CATALOGUE:
        raise ValueError(f"{result['dataset']!r} is not a named data set; only results on those can be repeated")
    config, source = Config.from_dict(result["config"]), Source.named(result["dataset"], root)
    job = Job(config, source, result["protocol"], result["split"], result["seed"])
    if job.key != result["key"]:
        raise ValueError(
            f"the line has key {result['key']}, its configuration on the named data set {job.key}; it was trained on "
            "other data, such as a store, or written by a version whose configurations are read differently"
        )
    return job


@dataclass(frozen=True)
class Repetition:
    """A committed result and the result of running its job again.

    Attributes:
        committed, new: the results.
    """

    committed: Result
    new: Result

    @property
    def same(self) -> bool:
        """Whether validation score, test score and number of epochs are equal in all digits."""
        return all(self.committed[name] == self.new[name] for name in SCORES)

    def to_dict(self) -> dict[str, Any]:
        """Both results as plain objects."""
        return {"same": self.same, "committed": self.committed, "new": self.new}


def repeat_line(path: Path, number: int, root: str | None = None) -> Repetition:
    """Runs the job of one committed line again, on one thread.

    Args:
        path: the file.
        number: the line, counted from 1.
        root: the folder of all data sets.

    Raises:
        FileNotFoundError, ValueError: if there is no such line, or its job cannot be run again.
        OverflowError: if training diverges.
    """
    committed = read_line(path, number)
    job = job_of(committed, root)
    with one_thread():
        return Repetition(committed, run_job(job))


@dataclass(frozen=True)
class LineStatus:
    """Whether the code of a committed line has changed.

    Attributes:
        path, number: the line.
        code: the commit that it records, or empty.
        status: ``current``; ``stale`` if files that its code consists of have changed since, or had uncommitted changes
            when it ran; ``unknown`` without a commit, or with one that the repository does not have.
        changed: the files that have changed.
    """

    path: Path
    number: int
    code: str
    status: Status
    changed: tuple[str, ...] = ()


def line_statuses(folder: Path, repository: Path) -> list[LineStatus]:
    """The status of every line of the ``.jsonl`` files in a folder and its subfolders.

    A line's code is native/ and the files of src/polybasis that its scores depend on, see ``WITHOUT_TRAINING``. A
    changed comment counts: a stale line may still be right, and running it again decides.

    Args:
        folder: the folder with the results.
        repository: the checkout to compare with, uncommitted changes included.
    """
    known: dict[tuple[str, bool], tuple[Status, tuple[str, ...]]] = {}
    found = []
    for path in sorted(folder.rglob("*.jsonl")):
        for number, text in enumerate(path.read_text().splitlines(), 1):
            line = json.loads(text)
            code, is_job = str(line.get("code", "")), "key" in line
            if (code, is_job) not in known:
                known[code, is_job] = _status(repository, code, is_job)
            found.append(LineStatus(path, number, code, *known[code, is_job]))
    return found


def _status(repository: Path, code: str, is_job: bool) -> tuple[Status, tuple[str, ...]]:
    commit = code.removesuffix(DIRTY)
    if not commit or git(repository, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        return "unknown", ()
    excluded = [f":(exclude)src/polybasis/{name}" for name in WITHOUT_TRAINING]
    changes = git(repository, "diff", "--name-only", commit, "--", "src/polybasis", "native", *excluded) or ""
    if not is_job:
        more = [f"src/polybasis/{name}" for name in FILTER_LEARNING]
        changes += git(repository, "diff", "--name-only", commit, "--", *more) or ""
    changed = tuple(changes.split("\n")[:-1])
    return ("stale" if changed or code.endswith(DIRTY) else "current"), changed


def as_ranges(numbers: list[int]) -> str:
    """Formats ascending numbers as ranges.

    >>> as_ranges([1, 2, 3, 7, 9, 10])
    '1-3, 7, 9-10'
    """
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
