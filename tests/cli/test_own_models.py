"""Own models on the command line and in worker processes."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from polybasis.nn.models.names import OWN_MODELS

from .conftest import Run

MODEL = """
import torch
import polybasis as pb


class Net(pb.nn.Model):
    def __init__(self, in_channels, hidden_channels, out_channels, K=3, num_nodes=None):
        super().__init__(in_channels, hidden_channels, out_channels, num_nodes)
        self.first = pb.nn.FeatureLinear(in_channels, hidden_channels)
        self.conv = pb.nn.PolyConv(hidden_channels, K)
        self.last = torch.nn.Linear(hidden_channels, out_channels)

    def forward(self, x, graph):
        return self.last(self.conv(self.first(x).relu(), graph))
"""
BASIS = """
import torch
import polybasis as pb


class Scaled(pb.bases.ThreeTermBasis):
    def recurrence(self, K):
        ones = torch.ones(K, dtype=torch.float64)
        return pb.bases.Recurrence(torch.ones((), dtype=torch.float64), ones / 2, 0 * ones, 0 * ones)
"""


def polybasis(folder: Path, *words: object, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "polybasis", *map(str, words)]
    environment = {**os.environ, **({} if path is None else {"PYTHONPATH": str(path)})}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def install(folder: Path, *names: str) -> Path:
    """A package of the name, as pip would install it, with a model and a basis."""
    for name in names:
        (folder / f"{name}-1.0.dist-info").mkdir(parents=True)
        (folder / f"{name}-1.0.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        points = f"[polybasis.models]\ntheirs = {name}:Net\n[polybasis.bases]\nscaled = {name}:Scaled\n"
        (folder / f"{name}-1.0.dist-info" / "entry_points.txt").write_text(points)
        (folder / f"{name}.py").write_text(MODEL + BASIS)
    return folder


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forgets all loaded files, as a new process would."""
    monkeypatch.setattr(OWN_MODELS, "_things", {})
    monkeypatch.setattr(OWN_MODELS, "_definitions", {})

    def clear() -> None:
        OWN_MODELS._things.clear()
        OWN_MODELS._definitions.clear()

    return clear


def test_a_model_in_a_file_trains_in_workers_and_predicts(tmp_path: Path, run: Run, forget: Callable[[], None]) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    trained = run("train", "csbm", "--model", "mine.py:Net", "--epochs", 5, "--splits", 2, "--jobs", 2, "--json")
    assert trained.status == 0, trained.stderr
    first, second = json.loads(trained.stdout)["results"]
    assert first["model"] == second["model"] == "mine.py:Net"
    assert first["model_file"] == str(tmp_path / "mine.py")
    # Another spelling of the path is the same job; the model is saved.
    alone = run("train", "csbm", "--model", f"{tmp_path}/mine.py:Net", "--epochs", 5, "--out", "model")
    assert alone.status == 0, alone.stderr
    lines = [json.loads(line) for line in (tmp_path / "runs" / "train.jsonl").read_text().splitlines()]
    assert sorted(line["key"] for line in lines) == sorted([first["key"], second["key"]])
    forget()
    refused = run("predict", "model", "csbm", "--out", "p.csv")
    assert refused.status == 1
    (line,) = refused.stderr.splitlines()
    assert line.endswith("if you trust that file, pass it with --model-file, or in Python as model_file")
    done = run("predict", "model", "csbm", "--out", "p.csv", "--model-file", "mine.py")
    assert done.status == 0, done.stderr
    assert len(list(csv.reader((tmp_path / "p.csv").open()))) == 1001
    forget()
    assert run("verify", "model").status == 0


def test_a_tuned_configuration_belongs_to_one_version_of_the_file(
    tmp_path: Path, run: Run, forget: Callable[[], None]
) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    flags = ["csbm", "--model", "mine.py:Net", "--epochs", 2]
    tuned = run("tune", *flags, "--trials", 1, "--splits", 1, "--out", "t.toml")
    assert tuned.status == 0, tuned.stderr
    assert (tmp_path / "runs" / "tune-mine.py-Net-csbm.log").exists()
    forget()
    alone = run("train", "csbm", "--config", "t.toml")
    assert alone.status == 1
    assert "t.toml: the model 'mine.py:Net' is not part of an installed package; pass the file" in alone.stderr
    assert run("train", *flags, "--config", "t.toml").status == 0
    (tmp_path / "mine.py").write_text(MODEL + "# changed\n")
    changed = run("train", *flags, "--config", "t.toml")
    assert changed.status == 1
    assert "t.toml: mine.py:Net was configured with the SHA-256 hash" in changed.stderr
    assert len(changed.stderr.splitlines()) == 1


@pytest.mark.slow
def test_an_installed_model_and_basis_are_known_by_name(tmp_path: Path) -> None:
    path = install(tmp_path / "site", "theirs_package")
    flags = ["--epochs", 2, "--splits", 2, "--jobs", 2]
    for model in (["theirs"], ["residual", "--set", "filter=scaled"]):
        done = polybasis(tmp_path, "train", "csbm", "--model", *model, *flags, path=path)
        assert done.returncode == 0, done.stderr
    unknown = polybasis(tmp_path, "train", "csbm", "--model", "nix", path=path)
    assert unknown.stderr.rstrip().endswith("ndls, theirs")
    install(tmp_path / "site", "a_rival")
    clash = polybasis(tmp_path, "train", "csbm", "--model", "theirs", path=path)
    assert clash.returncode == 1
    message = "the model 'theirs' is provided by a_rival:Net and theirs_package:Net; uninstall all but one"
    assert clash.stderr == f"polybasis: {message}\n"


SCRIPT = """
import sys
from pathlib import Path
from polybasis.train import Config, Job, Source, run_jobs
{definitions}

if __name__ == "__main__":
{registration}
    jobs = [Job(Config.of("mine", epochs=2), Source.named("csbm"), "per-class", i, i) for i in range(2)]
    try:
        print(len(run_jobs(jobs, Path("r.jsonl"), processes=2)))
    except ValueError as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("definitions", "registration", "output"),
    [
        (MODEL, '    pb.register_model("mine", Net)\n', "2"),
        ("import polybasis as pb\nfrom mine import Net\n", '    pb.register_model("mine", Net)\n', "2"),
        (
            "",
            "".join(f"    {line}\n" for line in (MODEL + 'pb.register_model("mine", Net)').splitlines()),
            "the model 'mine' is Net of __main__, which a worker process cannot import; define it at the top level of "
            "a module that is installed or in the current folder",
        ),
    ],
    ids=["script", "module", "not importable"],
)
def test_workers_know_models_that_a_script_registers(
    definitions: str, registration: str, output: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    (tmp_path / "script.py").write_text(SCRIPT.format(definitions=definitions, registration=registration))
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout.startswith(output), done.stderr[-2000:]
