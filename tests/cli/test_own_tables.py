"""From own tables to scores: metrics, class weights, calibration, thresholds, baselines and files of predictions."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import torch
from sklearn.metrics import average_precision_score, precision_score, recall_score, roc_auc_score

import polybasis as pb
from polybasis.train import TrainedModel

from .conftest import Run


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A graph of 600 nodes, of which one in eight is positive: those whose neighbours have large values."""
    folder = tmp_path_factory.mktemp("tables")
    data = pb.data.csbm(nodes=600, features=4, seed=3)
    risk = (data.graph @ data.x)[:, 0]
    fraud = risk > risk.quantile(0.875)
    low, high = data.graph.edge_index().tolist()
    contents = {
        "edges": ["source,target", *(f"n{a},n{b}" for a, b in zip(low, high, strict=True) if a < b)],
        "features": ["node,a,b,c,d", *(f"n{i}," + ",".join(map(str, row)) for i, row in enumerate(data.x.tolist()))],
        "labels": ["node,fraud", *(f"n{i},{'yes' if c else 'no'}" for i, c in enumerate(fraud.tolist()))],
    }
    for name, lines in contents.items():
        (folder / f"{name}.csv").write_text("\n".join(lines))
    return {name: folder / f"{name}.csv" for name in contents}


def train_arguments(tables: dict[str, Path]) -> list[object]:
    files = [item for name, path in tables.items() for item in (f"--{name}", path)]
    return ["train", *files, "--set", "K=3", "--epochs", 60, "--out", "model"]


def test_the_test_score_stands_beside_baselines(run: Run, tables: dict[str, Path]) -> None:
    outcome = run(*train_arguments(tables), "--json")
    assert outcome.status == 0, outcome.stderr
    assert "600 of 600 nodes labelled" in outcome.stderr
    (result,) = json.loads(outcome.stdout)["results"]
    trained = TrainedModel.load("model")
    found = trained.provenance["assessment"]
    assert result["metric"] == found["metric"] == "roc_auc"  # of imbalanced classes
    data = pb.data.read_tables(tables["edges"], tables["features"], tables["labels"])
    test = data.split("stratified", 0).test
    auc = roc_auc_score(data.y[test], trained.predict_proba(data)[test, 1])
    assert found["score"]["value"] == pytest.approx(auc) == pytest.approx(result["test_score"])
    assert found["score"]["low"] < auc < found["score"]["high"]
    assert [item["name"] for item in found["baselines"]] == ["majority", "columns only"]
    again = run(*train_arguments(tables))  # from the results file
    assert "columns only" in again.stdout
    assert f"{auc:.4f}" in again.stdout


def test_the_plan_and_the_advice_are_printed(run: Run, tables: dict[str, Path]) -> None:
    outcome = run(*train_arguments(tables))
    lines = outcome.stderr.splitlines()
    assert "model: optbasisgnn, 64 channels, degree 3; at most 60 epochs, patience 200" in lines
    assert "split: 360 training, 120 validation and 120 test nodes; of class 'yes' 45, 15 and 15" in lines
    assert (
        "metric: roc_auc, because only 12% of the labelled nodes are of class 'yes'; change it with --metric" in lines
    )
    assert any("only 15 validation nodes are of class 'yes'" in line for line in lines)
    advice = [line for line in lines if line.startswith("next: ")]
    assert len(advice) == 3
    assert "--calibrate auto for calibrated probabilities and --threshold precision=0.8 to decide which" in advice[0]
    assert "polybasis predict model --edges" in advice[1]
    chosen = run(*train_arguments(tables), "--metric", "f1", "--calibrate", "auto", "--threshold", "recall=0.9")
    assert "metric: f1, as requested" in chosen.stderr
    assert chosen.stderr.count("next: ") == 2


def test_a_model_that_does_not_beat_the_columns_is_called_so(run: Run, tables: dict[str, Path], tmp_path: Path) -> None:
    lines = tables["features"].read_text().splitlines()
    labels = [line.split(",") for line in tables["labels"].read_text().splitlines()]
    known = [f"{line},{int(cells[1] == 'yes')}" for line, cells in zip(lines[1:], labels[1:], strict=True)]
    (tmp_path / "f.csv").write_text("\n".join([lines[0] + ",e", *known]))
    outcome = run(*train_arguments({**tables, "features": tmp_path / "f.csv"}), "--epochs", 1, "--lr", 0)
    assert "warning: The model is worse than a linear model of the columns, which ignores the graph" in outcome.stderr


def test_calibration_and_threshold_belong_to_the_saved_model(run: Run, tables: dict[str, Path]) -> None:
    asked = [
        "--calibrate",
        "temperature",
        "--threshold",
        "recall=0.9",
        "--class-weight",
        "no=1,yes=3",
        "--metric",
        "f1",
    ]
    outcome = run(*train_arguments(tables), *asked)
    assert outcome.status == 0, outcome.stderr
    trained = TrainedModel.load("model")
    assert trained.calibration is not None
    assert trained.threshold is not None
    assert trained.config.loss.class_weight == {"no": 1.0, "yes": 3.0}
    data = pb.data.read_tables(tables["edges"], tables["features"], tables["labels"])
    val = data.split("stratified", 0).val
    y, predicted = data.y[val].numpy(), trained.predict(data)[val] == "yes"
    assert recall_score(y, predicted) == pytest.approx(trained.threshold.recall)
    assert recall_score(y, predicted) >= 0.9
    assert precision_score(y, predicted) == pytest.approx(trained.threshold.precision)
    weights = {name: value.clone() for name, value in trained.model.state_dict().items()}
    plain = run(*train_arguments(tables), *asked[4:])  # the finished run is not repeated; its decisions are withdrawn
    assert plain.status == 0
    trained = TrainedModel.load("model")
    assert trained.calibration is None
    assert trained.threshold is None
    assert all(torch.equal(weights[name], value) for name, value in trained.model.state_dict().items())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--metric", "auc"], "metric is 'auc'; expected one of accuracy"),
        (["--metric", "rmse"], "metric is 'rmse', which does not apply to classification"),
        (["--class-weight", "yes"], "--class-weight yes: expected balanced, none or CLASS=WEIGHT"),
        (["--class-weight", "maybe=2"], "class_weight has the class 'maybe'; expected no, yes"),
        (["--class-weight", "balanced", "--set", "class_weight=balanced"], "class_weight is set twice"),
        (["--calibrate", "platt"], "--calibrate is platt; expected auto, temperature or isotonic"),
        (["--threshold", "precision=80"], "--threshold is precision=80; expected for example precision=0.8"),
        (["--threshold", "cost=1"], "--threshold is cost=1; expected"),
        (["--model", "auto", "--metric", "f1"], "--metric does not apply to --model auto"),
    ],
)
def test_wrong_values_are_refused(flags: list[str], message: str, run: Run, tables: dict[str, Path]) -> None:
    arguments = train_arguments(tables)
    if "auto" in flags:
        arguments = [item for item in arguments if item not in ("--set", "K=3", "--epochs", 60)]
    outcome = run(*arguments, *flags)
    assert outcome.status == 1
    assert message in outcome.stderr.splitlines()[-1]
    assert not Path("model").exists()


def test_several_problems_are_listed_one_to_a_line(run: Run) -> None:
    """The advice may name a flag that ``datasets build`` lacks; then the command says so."""
    Path("e.csv").write_text("s,t,w\na,b,1\nb,c,x\na,b,2\n")
    expected = [
        "polybasis: 2 problems in the files:",
        "e.csv:3: column 'w', edge 'b' - 'c': 'x' is not a number; correct the weights, or drop 'w' with drop=[..] or "
        "--drop if it does not hold weights",
        "e.csv:4: edge 'a' - 'b' is repeated, with weights 1 and 2 (first on line 2); pass merge='sum', 'mean', 'max' "
        "or 'first' (--merge) to combine the weights of repeated edges",
    ]
    Path("l.csv").write_text("node,class\na,x\nb,y\n")
    trained = run("train", "--edges", "e.csv", "--labels", "l.csv")
    assert trained.stderr.replace(f"{Path.cwd()}/", "").splitlines() == expected
    built = run("datasets", "build", "--edges", "e.csv", "--labels", "l.csv", "--out", "g")
    note = "`datasets build` has no --drop or --merge: change the tables instead"
    assert built.stderr.splitlines() == [*expected, note]


def test_the_suffix_selects_the_format_of_predictions(run: Run, tables: dict[str, Path]) -> None:
    assert run(*train_arguments(tables)).status == 0
    predict = ["predict", "model", "--edges", tables["edges"], "--features", tables["features"]]
    for out in ("p.csv", "p.parquet"):
        outcome = run(*predict, "--out", out)
        assert outcome.status == 0, outcome.stderr
        assert f"600 predictions in {out}" in outcome.stderr
    text, binary = pd.read_csv("p.csv"), pd.read_parquet("p.parquet")
    pd.testing.assert_frame_equal(text, binary, check_dtype=False, atol=1e-6, rtol=0)
    refused = run(*predict, "--out", "q.parquet", "--json")
    assert refused.status == 1
    assert "--json does not apply to the Parquet file q.parquet" in refused.stderr


def test_evaluate_prints_further_metrics(run: Run, tables: dict[str, Path]) -> None:
    assert run(*train_arguments(tables)).status == 0
    files = [item for name, path in tables.items() for item in (f"--{name}", path)]
    rows = json.loads(run("evaluate", "model", *files, "--metric", "average_precision", "--json").stdout)
    data = pb.data.read_tables(*tables.values())
    test, scores = data.split("stratified", 0).test, TrainedModel.load("model").predict_proba(data)[:, 1]
    expected = average_precision_score(data.y[test], scores[test])
    assert {row["nodes"]: row["average_precision"] for row in rows}["test"] == pytest.approx(expected)
    assert "does not apply to classification" in run("evaluate", "model", *files, "--metric", "mae").stderr


def test_tune_searches_by_the_metric_with_the_defaults_of_own_data(run: Run, tables: dict[str, Path]) -> None:
    files = [item for name, path in tables.items() for item in (f"--{name}", path)]
    flags = ["--trials", 1, "--splits", 1, "--epochs", 2, "--metric", "f1", "--class-weight", "balanced", "--json"]
    outcome = run("tune", *files, *flags)
    assert outcome.status == 0, outcome.stderr
    found = json.loads(outcome.stdout)
    assert found["metric"] == found["config"]["stopping"]["metric"] == "f1"
    assert found["config"]["loss"] == {"class_weight": "balanced", "output_bias": "prior"}
    assert run("train", *files, "--config", found["file"], "--epochs", 1).status == 0
