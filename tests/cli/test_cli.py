"""The command line as a user runs it: in a separate process."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from polybasis.train.results import read_results

from .conftest import write_tables

COMMANDS = ["demo", "train", "predict", "evaluate", "plot", "tune", "datasets", "precompute", "reproduce", "bench"]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", "from polybasis.cli import main; main()", *map(str, arguments)]


def polybasis(*arguments: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=cwd, check=False, env=env)


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, flag: str) -> None:
    result = polybasis(name, flag)
    assert result.returncode == 0
    assert "Usage" in result.stdout
    assert result.stderr == ""


def test_the_version_is_that_of_the_package() -> None:
    from polybasis import __version__

    assert polybasis("--version").stdout == f"polybasis {__version__}\n"


@pytest.mark.parametrize(("words", "expected"), [("polybasis tr", "train"), ("polybasis train cham", "chameleon")])
def test_shells_complete_commands_and_data_sets(words: str, expected: str) -> None:
    count = str(len(words.split()) - 1)
    settings = {"_POLYBASIS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count}
    code = "import sys; sys.argv = ['polybasis']; from polybasis.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **settings}
    )
    assert expected in done.stdout.split(), done.stderr


def test_own_tables_are_trained_on_predicted_and_scored(tmp_path: Path) -> None:
    files = write_tables(tmp_path)
    flags = [item for name, path in files.items() for item in (f"--{name}", path)]
    result = polybasis("train", *flags, "--out", "model", "--epochs", "30", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["model"] == "model"
    (found,) = document["results"]
    assert found["metric"] == "accuracy"
    out = tmp_path / "predictions.csv"
    graph = ["--edges", files["edges"], "--features", files["features"]]
    result = polybasis("predict", tmp_path / "model", *graph, "--out", out)
    assert result.returncode == 0, result.stderr
    rows = list(csv.DictReader(out.open()))
    assert list(rows[0]) == ["node", "score", "prediction", "probability blue", "probability red"]
    assert len(rows) == 121
    assert {row["prediction"] for row in rows} <= {"blue", "red"}
    assert polybasis("predict", tmp_path / "model", *graph).stdout == out.read_text()
    scored = polybasis("evaluate", tmp_path / "model", *flags, "--json")
    by_part = {row["nodes"]: row for row in json.loads(scored.stdout)}
    assert by_part["validation"]["accuracy"] == found["val_score"]
    assert by_part["test"]["accuracy"] == found["test_score"]
    # The scores are those of the predictions.
    known = dict(list(csv.reader(files["labels"].open()))[1:])
    right = [row["prediction"] == known[row["node"]] for row in rows if row["node"] in known]
    counts = [row["count"] for row in by_part.values()]
    assert sum(counts) == len(right)
    accuracy = sum(row["count"] * row["accuracy"] for row in by_part.values()) / sum(counts)
    assert accuracy == pytest.approx(np.mean(right))


def test_a_model_on_structure_only_refuses_features(tmp_path: Path) -> None:
    files = write_tables(tmp_path)
    connected = {name for row in list(csv.reader(files["edges"].open()))[1:] for name in row}
    known = [line for line in files["labels"].read_text().splitlines()[1:] if line.split(",")[0] in connected]
    (tmp_path / "known.csv").write_text("node,class\n" + "\n".join(known) + "\n")
    flags = ["--edges", files["edges"], "--labels", "known.csv", "--out", "model", "--epochs", "5"]
    assert polybasis("train", *flags, cwd=tmp_path).returncode == 0
    assert polybasis("predict", tmp_path / "model", "--edges", files["edges"]).returncode == 0
    wrong = polybasis("predict", tmp_path / "model", "--edges", files["edges"], "--features", files["features"])
    assert wrong.returncode != 0
    assert "trained on structure only" in wrong.stderr


def test_label_reuse_serves_only_the_nodes_it_was_trained_on(tmp_path: Path) -> None:
    """With the nodes in a different order, each node would get the class of another node as a feature."""
    files = write_tables(tmp_path)
    flags = [item for name, path in files.items() for item in (f"--{name}", path)]
    settings = ["--set", "label_reuse=0.5", "--epochs", "5", "--out", "model"]
    trained = polybasis("train", *flags, *settings, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    graph = ["--edges", files["edges"], "--features"]
    assert polybasis("predict", tmp_path / "model", *graph, files["features"]).returncode == 0
    header, *rows = files["features"].read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([header, *reversed(rows)]) + "\n")
    wrong = polybasis("predict", tmp_path / "model", *graph, tmp_path / "other.csv")
    assert wrong.returncode != 0
    assert "it can predict only for the nodes it was trained on, in the same order" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "no data; pass a SOURCE (data set, graph folder or store) or --edges FILE"),
        (["train", "cameleon"], "unknown data set 'cameleon'"),
        (["train", "csbm", "--model", "gat"], "unknown model 'gat'"),
        (["train", "csbm", "--set", "K"], "--set K: expected NAME=VALUE"),
        (["train", "csbm", "--set", "depth=3"], "unknown key 'depth' for optbasisgnn; expected one of K, dropout"),
        (["train", "csbm", "--set", "epoch=3"], "unknown key 'epoch' for optbasisgnn; did you mean 'epochs'?"),
        (["train", "csbm", "--set", "hiden=3"], "unknown key 'hiden' for optbasisgnn; did you mean 'hidden'?"),
        (["train", "csbm", "--set", "k=3"], "unknown key 'k' for optbasisgnn; did you mean 'K'?"),
        (["train", "csbm", "--set", "K=-1"], "K is -1"),
        (["train", "csbm", "--protocol", "half"], "unknown split protocol 'half'"),
        (["train", "csbm", "--epochs", "0"], "--epochs"),
        (["train", "csbm", "--epoch", "3"], "--epoch"),
        (["trian", "csbm"], "'trian'"),
        (["train", "--edges", "nowhere.csv", "--labels", "l.csv", "--out", "m"], "nowhere.csv"),
        (["train", "pokec", "--data-root", "nowhere"], "pokec is not installed: expected pokec.mat"),
        (["predict", "nowhere", "csbm"], "is not a saved model"),
        (["predict"], "MODEL"),
        (["datasets", "list", "cameleon"], "unknown data set 'cameleon'"),
        (["bench", "--size", "huge"], "--size is 'huge'"),
        (["train", "g.stor"], "g.stor does not exist and is not a data set"),
        (["tune", "cameleon"], "unknown data set 'cameleon'"),
        (["precompute", "cameleon", "--out", "s"], "'cameleon' is neither a graph folder nor a data set"),
        (["precompute", "csbm", "--out", "s", "--memory", "much"], "'much' is not a valid size; use for example 8GiB"),
    ],
)
def test_errors_are_one_line_on_standard_error(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = polybasis(*arguments, cwd=tmp_path)
    assert result.returncode != 0
    assert message in result.stderr
    assert result.stderr.startswith("polybasis: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_broken_file_leaves_no_model_behind(tmp_path: Path) -> None:
    files = write_tables(tmp_path)
    with files["features"].open("a") as file:
        file.write("n1,0,0,0,0,0,0\n")
    flags = [item for name, path in files.items() for item in (f"--{name}", path)]
    result = polybasis("train", *flags, "--out", tmp_path / "model", cwd=tmp_path)
    assert result.returncode != 0
    assert "features.csv:123: column 'node': duplicate node 'n1' (first on line 3)" in result.stderr
    assert not (tmp_path / "model").exists()


def test_datasets_tells_what_is_installed(tmp_path: Path) -> None:
    result = polybasis("datasets", "list", "csbm", "pokec", "--data-root", tmp_path, "--json")
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert rows["csbm"]["installed"]
    assert rows["csbm"]["nodes"] == 1000
    assert not rows["pokec"]["installed"]


def test_datasets_lists_all_without_loading_any(tmp_path: Path) -> None:
    """Sizes come from the catalogue, and the 28 campuses take one row."""
    for file in ("amazon/Photo/raw/amazon_electronics_photo.npz", "facebook100/UC33.mat"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text("damaged")
    result = polybasis("datasets", "list", "--data-root", tmp_path)
    assert result.returncode == 0, result.stderr
    assert re.search(r"amazon-photo \* .* 7,650 .* random +. yes", result.stdout)
    assert re.search(r"28 campuses .* 2,314 - 24,580 .* linkx +. 1 of 28", result.stdout)
    assert "brown11, bucknell39" in result.stdout
    damaged = polybasis("datasets", "list", "uc33", "--data-root", tmp_path)
    assert damaged.returncode != 0
    assert "UC33.mat: not a MATLAB file" in damaged.stderr
    assert len(damaged.stderr.splitlines()) == 1


def test_datasets_prints_task_and_paper_of_named_sets(tmp_path: Path) -> None:
    result = polybasis("datasets", "list", "csbm", "dblp", "--data-root", tmp_path)
    assert "dblp: topics of papers; edges are citations. Bojchevski" in result.stdout
    assert "csbm: blocks of a contextual stochastic block model." in result.stdout


def test_names_are_complete_in_narrow_terminals(tmp_path: Path) -> None:
    """Tables wrap long names instead of truncating them."""
    result = polybasis("datasets", "list", "twitch-gamers", "--data-root", tmp_path, COLUMNS="60")
    assert "twitch-gamers" in result.stdout
    assert "…" not in result.stdout


@pytest.mark.slow
def test_a_tuned_configuration_trains(tmp_path: Path) -> None:
    options = ["--model", "gpr-gnn", "--trials", "2", "--splits", "1", "--epochs", "3", "--json"]
    tuned = polybasis("tune", "csbm", *options, cwd=tmp_path)
    assert tuned.returncode == 0, tuned.stderr
    document = json.loads(tuned.stdout)
    result = polybasis("train", "csbm", "--config", document["file"], "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (found,) = json.loads(result.stdout)["results"]
    assert found["preset"] == "tuned"
    assert found["config"] == document["config"]


@pytest.mark.slow
def test_a_killed_command_resumes_without_losing_or_repeating(tmp_path: Path) -> None:
    """Kills `train --splits 10 --jobs 2` with SIGKILL and runs the same command again."""
    arguments = ["train", "csbm", "--splits", "10", "--jobs", "2", "--epochs", "40", "--results", "r.jsonl"]
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
    assert sorted(result["split"] for result in after) == list(range(10))
    assert len(results.read_text().splitlines()) == 10
    assert np.isfinite([result["test_score"] for result in after]).all()
