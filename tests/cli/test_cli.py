"""The command line as a person meets it: in a process of its own."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import polybasis as pb
from polybasis.train.runs import read_results

COMMANDS = ["demo", "train", "predict", "tune", "datasets", "reproduce", "plot", "precompute", "bench"]


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-c", "from polybasis.cli import main; main()", *map(str, arguments)]


def polybasis(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=cwd, check=False)


def own_graph(folder: Path) -> dict[str, Path]:
    """A csbm graph as three CSV files, with some labels missing and one node isolated."""
    data = pb.data.csbm(nodes=120, features=6, seed=1)
    low, high = data.graph.edge_index()
    edges = [f"n{a},n{b}" for a, b in zip(low.tolist(), high.tolist(), strict=True) if a < b]
    x = data.x.numpy()  # type: ignore[union-attr]
    rows = [f"n{i}," + ",".join(f"{v:.5f}" for v in row) for i, row in enumerate(x)]
    labels = [f"n{i},{'red' if c else 'blue'}" for i, c in enumerate(data.y.tolist()) if i % 4]
    contents = {
        "edges": ["source,target", *edges],
        "features": ["node," + ",".join(f"f{i}" for i in range(6)), *rows, "alone,0,0,0,0,0,0"],
        "labels": ["node,class", *labels],
    }
    paths = {}
    for name, lines in contents.items():
        paths[name] = folder / f"{name}.csv"
        paths[name].write_text("\n".join(lines) + "\n")
    return paths


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str) -> None:
    result = polybasis(name, "--help")
    assert result.returncode == 0
    assert "Usage" in result.stdout


def test_train_and_predict_an_own_graph(tmp_path: Path) -> None:
    files = own_graph(tmp_path)
    flags = [item for name, path in files.items() for item in (f"--{name}", path)]
    result = polybasis("train", *flags, "--out", tmp_path / "model", "--epochs", "30", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["nodes"] == 121
    out = tmp_path / "predictions.csv"
    graph = ["--edges", files["edges"], "--features", files["features"]]
    result = polybasis("predict", tmp_path / "model", *graph, "--out", out)
    assert result.returncode == 0, result.stderr
    rows = list(csv.DictReader(out.open()))
    assert list(rows[0]) == ["node", "prediction", "probability blue", "probability red"]
    assert len(rows) == 121
    assert {row["prediction"] for row in rows} <= {"blue", "red"}
    again = polybasis("predict", tmp_path / "model", *graph)
    assert again.stdout == out.read_text()


def test_structure_alone(tmp_path: Path) -> None:
    files = own_graph(tmp_path)
    flags = ["--edges", files["edges"], "--labels", tmp_path / "known.csv", "--out", tmp_path / "model"]
    connected = {name for row in list(csv.reader(files["edges"].open()))[1:] for name in row}
    known = [line for line in files["labels"].read_text().splitlines()[1:] if line.split(",")[0] in connected]
    (tmp_path / "known.csv").write_text("node,class\n" + "\n".join(known) + "\n")
    assert polybasis("train", *flags, "--epochs", "5").returncode == 0
    assert polybasis("predict", tmp_path / "model", "--edges", files["edges"]).returncode == 0
    wrong = polybasis("predict", tmp_path / "model", "--edges", files["edges"], "--features", files["features"])
    assert wrong.returncode != 0
    assert "trained on structure alone" in wrong.stderr


def test_labels_are_those_of_the_nodes_it_was_trained_on(tmp_path: Path) -> None:
    """The same nodes in another order would be shown one another's classes."""
    files = own_graph(tmp_path)
    (tmp_path / "config.toml").write_text('model = "optbasisgnn"\nepochs = 5\nlabels = 0.5\n')
    flags = [item for name, path in files.items() for item in (f"--{name}", path)]
    trained = polybasis("train", *flags, "--config", tmp_path / "config.toml", "--out", tmp_path / "model")
    assert trained.returncode == 0, trained.stderr
    graph = ["--edges", files["edges"], "--features"]
    assert polybasis("predict", tmp_path / "model", *graph, files["features"]).returncode == 0
    header, *rows = files["features"].read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([header, *reversed(rows)]) + "\n")
    wrong = polybasis("predict", tmp_path / "model", *graph, tmp_path / "other.csv")
    assert wrong.returncode != 0
    assert "was trained on labels: it can serve only the nodes it was trained on, in their order" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "train wants --dataset NAME, or --edges"),
        (["train", "--dataset", "cameleon"], "there is no data set 'cameleon'"),
        (["train", "--dataset", "csbm", "--model", "gat"], "there is no model 'gat'"),
        (["train", "--edges", "nowhere.csv", "--labels", "l.csv", "--out", "m"], "nowhere.csv"),
        (["train", "--dataset", "pokec", "--data-root", "nowhere"], "pokec is not there: expected pokec.mat"),
        (["predict", "nowhere", "--edges", "e.csv"], "is not the folder of a model"),
        (["datasets", "list", "cameleon"], "there is no data set 'cameleon'"),
        (["bench", "--size", "huge"], "--size is 'huge'"),
        (["tune", "--dataset", "cameleon"], "there is no data set 'cameleon'"),
        (
            ["datasets", "synth", "--nodes", "9", "--edges", "9", "--features", "2", "--out", "/dev/null/g"],
            "/dev/null/.g.building: Not a directory",
        ),
    ],
)
def test_mistakes_are_one_line_on_stderr(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = polybasis(*arguments, cwd=tmp_path)
    assert result.returncode != 0
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_broken_file_leaves_no_model_behind(tmp_path: Path) -> None:
    files = own_graph(tmp_path)
    with files["features"].open("a") as file:
        file.write("n1,0,0,0,0,0,nan\n")
    flags = [item for name, path in files.items() for item in (f"--{name}", path)]
    result = polybasis("train", *flags, "--out", tmp_path / "model")
    assert result.returncode != 0
    assert "features.csv:123: node 'n1' is there twice" in result.stderr
    assert not (tmp_path / "model").exists()


def test_datasets_lists_what_is_there(tmp_path: Path) -> None:
    result = polybasis("datasets", "list", "csbm", "pokec", "--data-root", tmp_path, "--json")
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert rows["csbm"]["present"]
    assert rows["csbm"]["nodes"] == 1000
    assert not rows["pokec"]["present"]


def test_tuned_settings_train(tmp_path: Path) -> None:
    tuned = polybasis(
        "tune", "--dataset", "csbm", "--model", "gpr-gnn", "--trials", "2", "--splits", "1", "--epochs", "3",
        cwd=tmp_path,
    )  # fmt: skip
    assert tuned.returncode == 0, tuned.stderr
    config = tmp_path / "runs/gpr-gnn-csbm.toml"
    result = polybasis("train", "--dataset", "csbm", "--config", config, "--epochs", "3", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["results"][0]["settings"] == "tuned"


def test_killed_runs_go_on_without_losing_or_repeating(tmp_path: Path) -> None:
    """kill -9 of `train --splits 10 --jobs 2` in the middle; the same command again."""
    arguments = [
        "train",
        "--dataset",
        "csbm",
        "--splits",
        "10",
        "--jobs",
        "2",
        "--epochs",
        "40",
        "--results",
        "r.jsonl",
    ]
    results = tmp_path / "r.jsonl"
    with subprocess.Popen(
        command(*arguments), cwd=tmp_path, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        limit = time.monotonic() + 120
        while len(read_results(results)) < 2 and time.monotonic() < limit:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    before = read_results(results)
    assert 2 <= len(before) < 10
    again = polybasis(*arguments, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    after = read_results(results)
    assert after[: len(before)] == before
    assert sorted(result["split_seed"] for result in after) == list(range(10))
    assert len(results.read_text().splitlines()) == 10
    assert np.isfinite([result["test_accuracy"] for result in after]).all()
