"""`polybasis results` on the files that `train` writes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from .conftest import Run


def test_results_of_training_as_tables(run: Run, tmp_path: Path) -> None:
    for model in ("mlp", "gcn"):
        flags = ["--splits", 3, "--epochs", 3, "--results", f"runs/{model}.jsonl"]
        assert run("train", "csbm", "--model", model, *flags).status == 0
    with (tmp_path / "runs" / "gcn.jsonl").open("a") as file:
        file.write('{"key": "cut')
    files = ["runs/mlp.jsonl", "runs/gcn.jsonl"]
    outcome = run("results", *files)
    assert outcome.status == 0
    assert outcome.stderr == "runs/gcn.jsonl: 1 line is damaged or not results of training; skipped\n"
    lines = outcome.stdout.splitlines()
    assert lines[0] == "| model | csbm |"
    assert lines[-1] == "Test accuracy in percent: mean ± 95% interval (Student's t) over 3 runs."
    summary = json.loads(run("train", "csbm", "--model", "mlp", *flags[:4], "--results", files[0], "--json").stdout)
    (row,) = summary["summary"]
    assert f"{row['mean']:.2f} ± {row['ci95']:.2f}" in lines[2]
    assert run("results", *files, "--format", "latex", "--out", "table.tex").stdout == ""
    assert r"\toprule" in (tmp_path / "table.tex").read_text()
    runs = run("results", *files, "--format", "csv", "--per-run").stdout
    assert [line["model"] for line in csv.DictReader(runs.splitlines())] == ["mlp"] * 3 + ["gcn"] * 3


def test_runs_on_different_data_have_their_own_rows(run: Run, sources: dict[str, list[str]]) -> None:
    train = ["train", *sources["tables"], "--model", "mlp", "--epochs", 2]
    for drop in ([], ["f1"], ["f1", "f2"]):
        assert run(*train, *(word for name in drop for word in ("--drop", name))).status == 0
    assert run("train", *sources["graph folder"], "--model", "mlp", "--epochs", 2).status == 0
    rows = [line.split(" | ")[0] for line in run("results", "runs/train.jsonl").stdout.splitlines()[2:6]]
    assert rows == ["| mlp (drop=none)", "| mlp (drop=f1)", "| mlp (drop=f1+f2)", "| mlp"]
    runs = csv.DictReader(run("results", "runs/train.jsonl", "--format", "csv", "--per-run").stdout.splitlines())
    assert [line["data"].partition("@")[0] for line in runs] == ["edges"] * 3 + ["csbm"]


def test_flags_and_files_that_do_not_apply_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("{}\n")
    for words, message in (
        (["r.jsonl", "--per-run"], "--per-run does not apply to --format markdown; use --format csv"),
        (["absent.jsonl"], "absent.jsonl does not exist"),
        (["."], ". is a folder; expected a file"),
        (["r.jsonl"], "no results with a test score; found 0 results (metrics: none)"),
        (["r.jsonl", "--format", "html"], "Invalid value for '--format': 'html' is not one of"),
    ):
        outcome = run("results", *words)
        assert outcome.status != 0
        assert message in outcome.stderr.splitlines()[-1]
        assert outcome.stdout == ""
