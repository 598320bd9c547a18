"""Optional packages: without one, what needs it says how to install it, and everything else works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BLOCKED = "import sys\nfor name in {names}: sys.modules[name] = None\n"


def run(names: list[str], code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    script = BLOCKED.format(names=names) + code
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=cwd)


def command(*words: str) -> str:
    return f"sys.argv = ['polybasis', *{list(words)}]\nfrom polybasis.cli import main\nmain()"


@pytest.mark.parametrize(
    ("missing", "words", "message"),
    [
        ("matplotlib", ("plot", "model", "csbm"), "figures require Matplotlib; {install} 'polybasis[plot]'"),
        ("matplotlib", ("demo",), "pip install 'polybasis[plot]'"),
        ("PIL", ("reproduce", "filter-learning", "--data-root", "."), "images need Pillow; {install}"),
        ("optuna", ("tune", "csbm", "--trials", "1"), "tuning needs Optuna; {install} 'polybasis[tune]'"),
        ("ray", ("tune", "csbm", "--ray", "auto"), "--ray needs Ray; {install} 'polybasis[ray]'"),
    ],
)  # fmt: skip
def test_what_needs_an_extra_says_how_to_install_it(
    missing: str, words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    if missing == "PIL":
        (tmp_path / "images").mkdir()
        for number in range(15):
            (tmp_path / "images" / f"img{number}.jpg").touch()
    if words[0] == "plot":
        assert run([], command("train", "csbm", "--epochs", "1", "--out", "model"), tmp_path).returncode == 0
    done = run([missing], command(*words), tmp_path)
    assert done.returncode == 1
    assert message.format(install="install it with: pip install") in done.stderr
    assert "Traceback" not in done.stderr


def test_training_needs_no_extra(tmp_path: Path) -> None:
    extras = ["matplotlib", "PIL", "optuna", "ray", "ogb", "pandas", "sklearn"]
    done = run(extras, command("train", "csbm", "--epochs", "2", "--out", "model"), tmp_path)
    assert done.returncode == 0, done.stderr
    done = run(extras, command("predict", "model", "csbm", "--out", "p.csv"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 1001
    # torchmetrics imports Matplotlib, and with it Pillow, if they are installed, even if they are blocked here.
    words = command("report", "model", "csbm", "--out", "report.html")
    done = run(["optuna", "ray", "ogb", "sklearn"], words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "install scikit-learn" in (tmp_path / "report.html").read_text()
    assert run(["matplotlib"], "import polybasis.report.model_report", tmp_path).returncode == 0
