"""Which code a result was computed with: the commit of a checkout, or else the version of the package."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).parent
DIRTY = "-dirty"  # suffix of a commit whose files under src/ or native/ had been changed
CODE = ("src", "native")


def git(folder: Path, *arguments: str) -> str | None:
    """The output of a git command in a folder; None if it fails or git is not installed."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def repository_of(folder: Path) -> Path | None:
    """The repository that tracks the package in a folder; None if the package is installed otherwise.

    An installed copy may be inside a repository that does not track it, such as an environment of another project.
    """
    if git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    top = git(folder, "rev-parse", "--show-toplevel")
    return None if top is None else Path(top.strip())


def version_of(folder: Path) -> str:
    """The commit of the checkout that a package's folder belongs to, or else the package's version.

    Args:
        folder: the folder with the package's ``__init__.py``.

    Returns:
        The first twelve digits of the commit, with the suffix ``-dirty`` if files under ``src/`` or ``native/`` differ
        from it; the version of the installed package if the folder is not tracked by git.
    """
    repository = repository_of(folder)
    commit = None if repository is None else git(repository, "rev-parse", "--short=12", "HEAD")
    if repository is None or commit is None:
        return version("polybasis")
    changes = git(repository, "status", "--porcelain", "--", *CODE)
    return commit.strip() + (DIRTY if changes is None or changes.strip() else "")


@cache
def code_version() -> str:
    """The version of the running code, determined once per process; see :func:`version_of`."""
    return version_of(PACKAGE)
