"""Training without a terminal prints lines; unfinished runs resume, and other configurations start anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from polybasis.cli import display
from polybasis.train import fitting
from polybasis.train.fitting import Progress

from .conftest import Run


@pytest.fixture
def interrupted(run: Run, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Arguments of a run with results in the folder of its model, which ended in epoch 20, after a checkpoint."""
    arguments = ["train", "csbm", "--set", "K=2", "--epochs", 30, "--out", "model", "--results", "model/runs.jsonl"]
    monkeypatch.setattr(fitting, "CHECKPOINT_SECONDS", 0.0)
    train = fitting.Run.train_epoch

    def stop(self: fitting.Run) -> Progress | None:
        if self.progress is not None and self.progress.epoch == 19:
            raise ValueError("stop here")
        return train(self)

    with monkeypatch.context() as patch:
        patch.setattr(fitting.Run, "train_epoch", stop)
        outcome = run(*arguments)
    assert "stop here" in outcome.stderr
    assert [path.name for path in Path("model").iterdir()] == [".runs.checkpoints"]
    return arguments


def test_another_configuration_starts_anew(run: Run, interrupted: list[object]) -> None:
    refused = run(*interrupted, "--lr", 0.25, "--resume")
    assert refused.status == 1
    assert "--resume: there is no run of this configuration in model/runs.jsonl" in refused.stderr
    outcome = run(*interrupted, "--lr", 0.25)
    assert outcome.status == 0, outcome.stderr
    assert "30 epochs" in outcome.stdout


def test_the_same_configuration_resumes(run: Run, interrupted: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    epochs: list[int] = []
    monkeypatch.setattr(display, "epoch_lines", lambda _: lambda progress: epochs.append(progress.epoch))
    outcome = run(*interrupted, "--resume")
    assert outcome.status == 0, outcome.stderr
    assert epochs == [*range(20, 30)]
    assert "polybasis: resuming at epoch 21" in outcome.stderr.splitlines()


def test_runs_that_are_not_repeated_are_reported(run: Run) -> None:
    arguments = ["train", "csbm", "--model", "mlp", "--epochs", 2]
    assert "repeated" not in run(*arguments).stderr
    again, several = run(*arguments), run(*arguments, "--splits", 2)
    advice = "use another --results or --seed to train again"
    line = f"this run is already in runs/train.jsonl and was not repeated; {advice}"
    assert again.stderr.splitlines().count(line) == 1
    assert f"1 of 2 runs are already in runs/train.jsonl and were not repeated; {advice}" in several.stderr.splitlines()
    assert "repeated" not in run(*arguments, "--splits", 1, "--seed", 1).stderr


def test_a_short_name_selects_the_same_model(run: Run) -> None:
    long, short = (["train", "csbm", "--epochs", 2, "--model", name] for name in ("favardgnn", "favard"))
    assert run(*long).stdout == run(*short).stdout


def test_lines_are_seconds_apart(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(display.time, "monotonic", lambda: now)
    on_epoch = display.epoch_lines("gcn on [own]")
    for epoch in range(12):
        now += 1.0
        on_epoch(Progress(epoch, 50, 0.3, 0.5 + epoch / 100, 0.75, 2))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"gcn on [own]: epoch {epoch + 1} of at most 50, validation {0.5 + epoch / 100:.4f}, best 0.7500 in epoch 3"
        for epoch in (4, 9)
    ]
