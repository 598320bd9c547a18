"""Finished work is not lost, divergence raises an error, and changes of the data are detected."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

import polybasis as pb
from polybasis.data.dataset import NodeDataset
from polybasis.files import temporary_path
from polybasis.store import write_graph_folder
from polybasis.train import Config, Job, Source, fit, run_jobs
from polybasis.train.fitting import Fit, Progress
from polybasis.train.results import read_results

DATA = pb.data.csbm(nodes=120, features=6, seed=1)


def quick(model: str = "mlp", **values: Any) -> Config:
    return Config.of(model, hidden=8, **{"epochs": 4, **values})


def job(config: Config, split: int = 0) -> Job:
    return Job(config, Source.named("csbm"), "per-class", split, split)


def write_tables(folder: Path) -> Source:
    edges = [f"{a},{b}" for a, b in DATA.graph.edge_index().T.tolist() if a < b]
    rows = [f"{i}," + ",".join(f"{v:.4f}" for v in row) for i, row in enumerate(DATA.x.tolist())]
    labels = [f"{i},{'red' if c else 'blue'}" for i, c in enumerate(DATA.y.tolist())]
    for name, header, lines in (("e", "s,t", edges), ("f", "node,a,b,c,d,e,f", rows), ("l", "node,class", labels)):
        (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    return Source.tables(*(folder / f"{name}.csv" for name in "efl"))


@pytest.mark.parametrize("size", [1, 2])
def test_a_finished_run_survives_a_failure_before_its_result_is_written(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is kept until the result is written, so the second attempt does not train again."""
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)  # every run counts as long
    planned, results = [job(quick(ensemble_size=size))], tmp_path / "r.jsonl"
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise OSError("no space left on device")

        patch.setattr(Fit, "score", full)
        with pytest.raises(OSError, match="no space left"):
            run_jobs(planned, results)
    assert not results.exists()
    epochs: list[Progress] = []
    (found,) = run_jobs(planned, results, on_epoch=epochs.append)
    assert not epochs
    assert found["epochs"] == 4 * size
    (expected,) = run_jobs(planned, tmp_path / "other.jsonl")
    assert (found["val_score"], found["test_score"]) == (expected["val_score"], expected["test_score"])
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["other.jsonl", "r.jsonl"]


def test_a_place_that_cannot_hold_a_model_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious").touch()
    epochs: list[Progress] = []
    for name, message in (("file", "is a file"), ("folder", "is not empty and does not contain a model")):
        with pytest.raises(ValueError, match=message):
            run_jobs([job(quick())], tmp_path / "r.jsonl", out=tmp_path / name, on_epoch=epochs.append)
    assert not epochs


def test_a_model_can_be_saved_where_a_killed_process_left_weights(tmp_path: Path) -> None:
    """Weights are written before the document that names them; a kill in between leaves a folder without a model."""
    out, other = tmp_path / "model", tmp_path / "other"
    run_jobs([job(quick())], tmp_path / "r.jsonl", out=out)
    expected = sorted(path.name for path in out.iterdir())
    run_jobs([job(quick(), split=1)], tmp_path / "r.jsonl", out=other)
    (out / "model.json").unlink()
    next(other.glob("weights-*")).rename(out / next(other.glob("weights-*")).name)
    temporary_path(out / "model.json").touch()
    own = {path.name for path in out.glob(".*.tmp")}  # of a process that is alive
    run_jobs([job(quick())], tmp_path / "r.jsonl", out=out)
    assert sorted({path.name for path in out.iterdir()} - own) == expected


@pytest.mark.parametrize("model", ["mlp", "optbasisgnn", "favardgnn", "gcn"])
def test_divergence_is_an_overflow_error_whatever_the_model(model: str) -> None:
    """The argmax of NaN logits is the first class, so they have an accuracy; they must not count as a trained model."""
    with pytest.raises(OverflowError, match=f"{model} on csbm diverged in epoch 1"):
        fit(quick(model, lr=1e30, epochs=5), DATA, DATA.split("stratified"))


def test_divergence_after_good_epochs_keeps_the_best_one() -> None:
    """The test sets the weights to NaN after epoch 5, as a diverging step would."""
    split = DATA.split("stratified")
    models: list[torch.nn.Module] = []

    def poison(progress: Progress) -> None:
        if progress.epoch == 5:
            for parameter in models[0].parameters():
                parameter.data.fill_(float("nan"))

    original = Config.make_model
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Config, "make_model", lambda *given: models.append(original(*given)) or models[-1])
        fitted = fit(quick(epochs=50), DATA, split, on_epoch=poison)
    assert fitted.epochs == 7
    assert all(bool(torch.isfinite(parameter).all()) for parameter in fitted.model.parameters())


def test_one_failing_job_does_not_discard_its_neighbours(tmp_path: Path) -> None:
    """A job with a protocol that the data lacks fails immediately, while the other job is already running."""
    broken = Job(quick(), Source.named("csbm"), "fixed", 0, 0)
    planned, results = [job(quick(epochs=300, patience=300)), broken], tmp_path / "r.jsonl"
    with pytest.raises(ValueError, match="csbm has no published splits"):
        run_jobs(planned, results, processes=2)
    assert [result["key"] for result in read_results(results)] == [planned[0].key]


def test_changed_files_are_read_again(tmp_path: Path) -> None:
    source = write_tables(tmp_path)
    assert source.open() is source.open()
    lines = (tmp_path / "l.csv").read_text().replace("blue", "green")
    (tmp_path / "l.csv").write_text(lines)
    changed = Source.tables(*(tmp_path / f"{name}.csv" for name in "efl"))
    assert changed.open().classes == ("green", "red")
    assert changed.identity != source.identity


def test_data_that_changes_after_a_job_was_planned_is_refused(tmp_path: Path) -> None:
    folder = write_graph_folder(tmp_path / "g.graph", DATA).path
    planned = Job(quick(), Source.folder(folder), "stratified", 0, 0)
    other = write_graph_folder(tmp_path / "other", pb.data.csbm(nodes=120, features=6, seed=2)).path
    os.rename(folder, tmp_path / "old")
    os.rename(other, folder)
    with pytest.raises(ValueError, match="csbm has changed since the job was planned; run the command again"):
        run_jobs([planned], tmp_path / "r.jsonl")


def test_a_result_that_two_processes_wrote_counts_once(tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    (found,) = run_jobs([job(quick())], results)
    results.write_text((json.dumps(found) + "\n") * 2)
    assert len(read_results(results)) == 1


def test_one_class_is_refused() -> None:
    alone = NodeDataset(name="alone", graph=DATA.graph, x=DATA.x, y=torch.zeros(120, dtype=torch.long))
    with pytest.raises(ValueError, match="alone has 1 class; expected at least two"):
        fit(quick(), alone, alone.split("stratified"))
