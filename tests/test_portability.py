"""Nothing that only POSIX systems have is needed: not by an import, and not by commands on graphs in memory.

The modules and functions that Windows lacks are removed from Python before polybasis is imported. Other packages, which
choose by platform, are imported before that.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WITHOUT_POSIX = """
import mmap, os, pkgutil, signal, sys
import numpy, optuna, pyarrow.parquet, rich.progress, scipy.sparse, sklearn.model_selection, torch, torchmetrics, typer
import torch_geometric.data
import multiprocessing.resource_tracker, subprocess, tempfile

for name in ("_posixshmem", "fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "polybasis._native"):
    sys.modules[name] = None
LACKING = {
    mmap: "MADV_DONTNEED MADV_HUGEPAGE MAP_ANONYMOUS MAP_PRIVATE MAP_SHARED PROT_READ",
    os: "O_CLOEXEC O_DIRECT O_DIRECTORY O_NOFOLLOW O_NONBLOCK chown fchmod fork geteuid getgid getloadavg getuid killpg"
    " nice posix_fadvise posix_fallocate pread pwrite register_at_fork sched_getaffinity set_blocking sysconf uname"
    " waitid",
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGUSR1 pthread_kill pthread_sigmask setitimer sigpending",
}
accept_pipe, set_blocking = signal.set_wakeup_fd, os.set_blocking
def accept_blocking_pipe(fd, **options):  # as Windows does
    if fd >= 0:
        set_blocking(fd, False)
    return accept_pipe(fd, **options)
signal.set_wakeup_fd = accept_blocking_pipe
for module, names in LACKING.items():
    for name in names.split():
        delattr(module, name)
"""


def run_without_posix(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_POSIX + code]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_every_module_can_be_imported(tmp_path: Path) -> None:
    code = """
import importlib, polybasis
for module in pkgutil.walk_packages(polybasis.__path__, "polybasis."):
    if not module.name.endswith(("__main__", "._native")):
        importlib.import_module(module.name)
print(len([name for name in sys.modules if name.startswith("polybasis.")]))
"""
    done = run_without_posix(code, tmp_path)
    assert done.returncode == 0, done.stderr
    package = Path(__file__).parents[1] / "src" / "polybasis"
    assert int(done.stdout) >= len([path for path in package.rglob("*.py") if path.name != "__main__.py"]) - 1


def test_training_and_prediction_work(tmp_path: Path) -> None:
    code = """
from polybasis.cli import main
for words in ("train csbm --epochs 2 --out model", "predict model csbm --out p.csv",
              "datasets synth --nodes 300 --edges 900 --features 4 --labelled 0.5 --out small.graph",
              "verify small.graph", "train small.graph --epochs 2 --out other"):
    sys.argv = ["polybasis", *words.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
"""
    done = run_without_posix(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 1001
    assert (tmp_path / "other" / "model.json").exists()


def test_what_needs_the_kernels_says_so_in_one_line(tmp_path: Path) -> None:
    code = """
from polybasis.cli import main
for words in ("datasets synth --nodes 300 --edges 900 --features 4 --labelled 0.5 --out small.graph",
              "precompute small.graph --out small.store --K 2"):
    sys.argv = ["polybasis", *words.split()]
    try:
        main()
    except SystemExit as end:
        code = end.code
sys.exit(code)
"""
    done = run_without_posix(code, tmp_path)
    assert done.returncode == 1
    assert "graphs on disk need the native kernels" in done.stderr
    assert "Traceback" not in done.stderr
