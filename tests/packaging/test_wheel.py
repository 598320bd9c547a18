"""Wheels, with and without a compiler, are built, installed in an empty environment and used outside the checkout.

The environment shares the installed packages of the running one, except polybasis, so that nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "CMAKE"))}
    done = subprocess.run(
        command, cwd=cwd, env=clean | environment, capture_output=True, text=True, check=False, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def build_wheel(source: Path, out: Path, *options: str, **environment: str) -> Path:
    """Builds a wheel with the build packages that are installed."""
    build = (*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--wheel-dir", out, *options, source)
    run(*build, cwd=out.parent, **environment)
    (wheel,) = out.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Installs a wheel in a new environment; returns the environment's folder of commands."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    shared = [place for place in sys.path if place.endswith("site-packages")]
    (packages / "shared.pth").write_text("\n".join(shared) + "\n")
    # Ignore what is installed: the shared packages may contain an editable polybasis.
    options = ("--no-deps", "--no-index", "--ignore-installed", "--prefix", folder)
    run(*PIP, "--python", folder / "bin" / "python", "install", *options, wheel, cwd=folder)
    return folder / "bin"


def test_a_wheel_works_outside_the_checkout(tmp_path: Path) -> None:
    # The build folder is kept, so that only the first build on a machine compiles everything.
    wheel = build_wheel(ROOT, tmp_path / "dist", f"--config-settings=build-dir={ROOT / 'build' / 'suite'}")
    commands = install(wheel, tmp_path / "environment")
    code = """
import importlib.resources, polybasis, polybasis.native
print(polybasis.__version__, polybasis.__file__, polybasis.native.module.__file__)
for name in ("py.typed", "_native.pyi", "presets/published", "krylov/rank_tolerance.toml"):
    assert (importlib.resources.files("polybasis") / name).exists(), name
"""
    printed = run(commands / "python", "-W", "error::RuntimeWarning", "-c", code, cwd=tmp_path).stdout.split()
    assert printed[0] == VERSION
    assert all(Path(place).is_relative_to(tmp_path / "environment") for place in printed[1:])
    assert run(commands / "polybasis", "--version", cwd=tmp_path).stdout == f"polybasis {VERSION}\n"
    run(commands / "polybasis", "demo", "--splits", "1", "--out", "demo", cwd=tmp_path, OMP_NUM_THREADS="1")
    assert (tmp_path / "demo" / "report.html").stat().st_size > 100_000


def test_a_source_distribution_installs_without_a_compiler(tmp_path: Path) -> None:
    build = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, tmp_path, cwd=ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    source = tmp_path / f"polybasis-{VERSION}"
    for folder in ("native", "src"):
        tracked = run("git", "ls-files", folder, cwd=ROOT).stdout.split()
        assert {*tracked} == {
            str(path.relative_to(source)) for path in (source / folder).rglob("*") if path.is_file()
        }  # fmt: skip
    assert not (source / "tests").exists()
    wheel = build_wheel(source, tmp_path / "dist", CC="/nowhere/cc", CXX="/nowhere/c++")
    code = """
import torch, warnings, polybasis as pb
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as caught:
    graph = pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    for _ in range(2):
        basis = pb.optimal_basis(graph, torch.eye(4)[:, :2], K=2)
        assert torch.allclose(basis.vectors[:, :, 0] @ basis.vectors[:, :, 0].T, torch.eye(3), atol=1e-6)
print(*(str(warning.message) for warning in caught if warning.category is RuntimeWarning), sep="\\n")
"""
    printed = run(install(wheel, tmp_path / "environment") / "python", "-c", code, cwd=tmp_path).stdout.splitlines()
    assert len(printed) == 1
    assert "without its native kernels" in printed[0]
