"""Results name the code they were computed with."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from polybasis.code_version import version_of


def run(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a package under src/ and a page next to it."""
    package = tmp_path / "src" / "polybasis"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (tmp_path / "README.md").write_text("one\n")
    run(tmp_path, "init", "-q")
    run(tmp_path, "add", ".")
    run(tmp_path, "commit", "-qm", "Start")
    return tmp_path


def test_a_checkout_has_its_commit(checkout: Path) -> None:
    assert version_of(checkout / "src" / "polybasis") == run(checkout, "rev-parse", "--short=12", "HEAD")


@pytest.mark.parametrize("file", ["src/polybasis/__init__.py", "native/a.cpp"])
def test_changed_code_is_dirty(file: str, checkout: Path) -> None:
    (checkout / file).parent.mkdir(exist_ok=True)
    (checkout / file).write_text("changed\n")
    assert version_of(checkout / "src" / "polybasis").endswith("-dirty")


def test_a_changed_page_is_not_dirty(checkout: Path) -> None:
    (checkout / "README.md").write_text("two\n")
    assert not version_of(checkout / "src" / "polybasis").endswith("-dirty")


def test_a_copy_that_git_does_not_track_has_the_version_of_the_package(checkout: Path) -> None:
    installed = checkout / ".venv" / "site-packages" / "polybasis"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert version_of(installed) == version("polybasis")
