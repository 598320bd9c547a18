"""The site, built once for all tests and all workers of pytest-xdist."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from .documents import GENERATED, ROOT

PARTS = ("docs", "results", "native", "examples", "src", "benchmarks", "README.md", "CHANGELOG.md", "SECURITY.md")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of the HTML pages. Nothing is taken from earlier builds, and warnings are errors."""
    pytest.importorskip("sphinx")
    base = tmp_path_factory.getbasetemp()
    work = (base if worker_id == "master" else base.parent) / "site"
    log = work / "build.log"
    with FileLock(f"{work}.lock"):
        if not log.exists():
            work.mkdir()
            extra = [path.name for path in ROOT.glob("*.md")]
            for part in {*PARTS, *extra}:
                if (ROOT / part).is_dir():
                    ignored = shutil.ignore_patterns(*GENERATED, "__pycache__", "*.so")
                    shutil.copytree(ROOT / part, work / part, ignore=ignored)
                else:
                    shutil.copy(ROOT / part, work / part)
            command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "docs", "html"]
            done = subprocess.run(
                command, cwd=work, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True
            )
            log.write_text(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    text = log.read_text()
    assert text.startswith("exit status 0"), "\n".join(
        line for line in text.splitlines() if "WARNING" in line or "ERROR" in line or "Error" in line
    )
    return work / "html"
