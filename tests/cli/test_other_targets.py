"""Numbers and several labels from own tables to scores: scikit-learn computes every figure again from the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    root_mean_squared_error,
)
from sklearn.preprocessing import StandardScaler

import polybasis as pb
from polybasis.train import TrainedModel

from .conftest import Run

NODES = 500
LABELS = ["blue", "green", "red"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Accounts whose income and labels depend on the columns of their neighbours."""
    folder = tmp_path_factory.mktemp("accounts")
    rng = np.random.default_rng(0)
    data = pb.data.csbm(nodes=NODES, features=4, seed=3)
    low, high = data.graph.edge_index().numpy()
    names = np.array([f"u{i:03d}" for i in range(NODES)])
    pd.DataFrame({"source": names[low], "target": names[high]})[low < high].to_csv(folder / "edges.csv", index=False)
    neighbours = (data.graph @ data.x).numpy()
    frame = pd.DataFrame(data.x.numpy(), columns=list("abcd"))
    frame.insert(0, "user", names)
    frame["joined"] = "2024-05-01"
    frame["income"] = (1000 + 300 * neighbours[:, 0] + rng.normal(0, 20, NODES)).round(2)
    for i, label in enumerate(LABELS):
        frame[label] = (neighbours[:, i] > np.quantile(neighbours[:, i], 0.7)).astype(int)
    unknown = rng.random(NODES) < 0.1
    frame["income"] = frame["income"].mask(unknown)
    frame[LABELS] = frame[LABELS].astype(object)
    frame.loc[unknown, LABELS] = None
    frame.drop(columns=LABELS).to_csv(folder / "numbers.csv", index=False)
    frame.drop(columns="income").to_csv(folder / "labels.csv", index=False)
    return folder


def train(run: Run, folder: Path, table: str, *flags: object) -> dict[str, Any]:
    flags = ("--edges", folder / "edges.csv", "--features", folder / f"{table}.csv", "--drop", "joined", *flags)
    outcome = run("train", *flags, "--set", "K=3", "--epochs", 80, "--out", "model", "--json")
    assert outcome.status == 0, outcome.stderr
    (result,) = json.loads(outcome.stdout)["results"]
    return result


def of_model(folder: Path, table: str) -> list[object]:
    """The files only: the model knows the target and what was dropped."""
    return ["model", "--edges", folder / "edges.csv", "--features", folder / f"{table}.csv"]


def parts_of(folder: Path, table: str, **options: Any) -> tuple[pd.DataFrame, Any]:
    """The table, and the split of its nodes."""
    data = pb.data.read_tables(folder / "edges.csv", folder / f"{table}.csv", drop=["joined"], **options)
    return pd.read_csv(folder / f"{table}.csv"), data.split("stratified", 0)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_numbers_from_tables_to_scores(loss: str, run: Run, folder: Path) -> None:
    result = train(run, folder, "numbers", "--target", "income", "--set", f"regression_loss={loss}")
    frame, split = parts_of(folder, "numbers", target="income")
    train_part, test = frame.iloc[split.train.numpy()], frame.iloc[split.test.numpy()]
    run("predict", *of_model(folder, "numbers"), "--out", "p.csv")
    predicted = pd.read_csv("p.csv")
    assert list(predicted.columns) == ["node", "prediction"]
    assert predicted["node"].tolist() == frame["user"].tolist()
    ours = predicted["prediction"][split.test.numpy()]
    rows = json.loads(run("evaluate", *of_model(folder, "numbers"), "--json").stdout)
    scores = {row["nodes"]: row for row in rows}
    assert list(scores) == ["training", "validation", "test"]
    assert scores["test"]["rmse"] == pytest.approx(root_mean_squared_error(test["income"], ours), rel=1e-5)
    assert scores["test"]["mae"] == pytest.approx(mean_absolute_error(test["income"], ours), rel=1e-5)
    assert scores["test"]["r2"] == pytest.approx(r2_score(test["income"], ours), rel=1e-5)
    assert scores["test"]["r2"] > 0.3
    assert result["test_score"] == pytest.approx(scores["test"]["rmse"])
    constant = DummyRegressor(strategy="mean" if loss == "squared" else "median")
    constant.fit(train_part[["a"]], train_part["income"])
    scaler = StandardScaler().fit(train_part[list("abcd")])
    ridge = Ridge().fit(scaler.transform(train_part[list("abcd")]), train_part["income"])
    expected = {
        "constant": constant.predict(test[["a"]]),
        "columns only": ridge.predict(scaler.transform(test[list("abcd")])),
    }
    baselines = {item["name"]: item for item in result["assessment"]["baselines"]}
    assert list(baselines) == list(expected)
    for name, values in expected.items():
        rmse = root_mean_squared_error(test["income"], values)
        assert baselines[name]["score"]["value"] == pytest.approx(rmse, rel=1e-3)
        assert baselines[name]["advantage"]["low"] > 0  # lower errors are an advantage


def test_labels_from_tables_to_scores(run: Run, folder: Path) -> None:
    targets = [item for label in LABELS for item in ("--target", label)]
    result = train(run, folder, "labels", *targets, "--metric", "average_precision", "--class-weight", "balanced")
    frame, split = parts_of(folder, "labels", target=LABELS)
    test = frame.iloc[split.test.numpy()]
    run("predict", *of_model(folder, "labels"), "--out", "p.csv")
    predicted = pd.read_csv("p.csv").iloc[split.test.numpy()]
    columns = [f"{kind} {label}" for kind in ("prediction", "probability") for label in LABELS]
    assert list(predicted.columns) == ["node", *columns]
    shares = predicted[[f"probability {label}" for label in LABELS]].to_numpy()
    decided = predicted[[f"prediction {label}" for label in LABELS]].to_numpy()
    y = test[LABELS].to_numpy(int)
    np.testing.assert_array_equal(decided, shares > 0.5)
    rows = json.loads(run("evaluate", *of_model(folder, "labels"), "--json").stdout)
    scores = next(row for row in rows if row["nodes"] == "test")
    expected = average_precision_score(y, shares, average="macro")
    assert scores["average_precision"] == pytest.approx(expected, abs=1e-4) == pytest.approx(result["test_score"])
    assert scores["average_precision"] > 0.8
    assert scores["f1"] == pytest.approx(f1_score(y, decided, average="micro"), abs=1e-6)
    losses = [log_loss(y[:, i], shares[:, i]) for i in range(3)]
    assert scores["log_loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    assert [item["name"] for item in result["assessment"]["baselines"]] == ["constant", "columns only"]
    assert all(item["advantage"]["low"] > 0 for item in result["assessment"]["baselines"])


@pytest.mark.parametrize(("table", "targets"), [("numbers", ["income"]), ("labels", LABELS)])
def test_tune_and_report(table: str, targets: list[str], run: Run, folder: Path) -> None:
    flags = ["--edges", folder / "edges.csv", "--features", folder / f"{table}.csv", "--drop", "joined"]
    flags += [item for name in targets for item in ("--target", name)]
    outcome = run("tune", *flags, "--trials", 2, "--splits", 1, "--epochs", 3, "--out", "best.toml", "--json")
    assert outcome.status == 0, outcome.stderr
    assert json.loads(outcome.stdout)["metric"] == ("rmse" if table == "numbers" else "roc_auc")
    assert run("train", *flags, "--config", "best.toml", "--epochs", 2, "--out", "model").status == 0
    outcome = run("report", *of_model(folder, table))
    assert outcome.status == 0, outcome.stderr
    page = Path("report.html").read_text()
    assert ("Predicted and actual values" in page) == (table == "numbers")
    assert ("Labels</h2>" in page) == (table == "labels")
    assert "constant prediction" in page
    command = f"polybasis predict model --edges {folder / 'edges.csv'} --features {folder / f'{table}.csv'}"
    assert command in page


def test_new_nodes_of_next_week(run: Run, folder: Path) -> None:
    """The table of next week has new nodes, its columns in another order, and a target that is not known yet."""
    train(run, folder, "numbers", "--target", "income")
    frame = pd.read_csv(folder / "numbers.csv")
    more = frame.head(20).assign(user=[f"new{i}" for i in range(20)])
    week = pd.concat([frame, more]).assign(income="pending", joined="yesterday, at noon")
    week[list(reversed(week.columns))].to_csv("week.csv", index=False)
    edges = (folder / "edges.csv").read_text() + "".join(f"new{i},u{i:03d}\n" for i in range(20))
    Path("edges.csv").write_text(edges)
    outcome = run("predict", "model", "--edges", "edges.csv", "--features", "week.csv", "--out", "p.parquet")
    assert outcome.status == 0, outcome.stderr
    assert pd.read_parquet("p.parquet")["prediction"].notna().sum() == NODES + 20
    refused = run("evaluate", "model", "--edges", "edges.csv", "--features", "week.csv")
    assert "week.csv:2: column 'income', node 'u000': 'pending' is not a number" in refused.stderr


@pytest.mark.parametrize(
    ("table", "flags", "message"),
    [
        ("numbers", ["--target", "income", "--calibrate", "auto"], "--calibrate applies to classes"),
        ("numbers", ["--target", "income", "--metric", "f1"], "metric is 'f1', which does not apply to regression"),
        ("numbers", ["--target", "income", "--class-weight", "balanced"], "which does not apply to regression"),
        ("labels", ["--target", "red", "--target", "blue", "--threshold", "recall=0.9"], "--threshold applies to two"),
        ("labels", ["--target", "red", "--target", "blue", "--task", "regression"], "pass task='multi-label'"),
    ],
)
def test_what_does_not_apply_is_refused(table: str, flags: list[str], message: str, run: Run, folder: Path) -> None:
    files = ["--edges", folder / "edges.csv", "--features", folder / f"{table}.csv", "--drop", "joined"]
    if table == "labels":
        files += ["--drop", "green"]
    outcome = run("train", *files, *flags, "--out", "model")
    assert outcome.status == 1
    assert message in outcome.stderr
    assert not Path("model").exists()


def test_a_model_of_numbers_is_not_scored_against_classes(run: Run, folder: Path) -> None:
    train(run, folder, "numbers", "--target", "income")
    assert TrainedModel.load("model").target == "regression"
    labels = "node,c\n" + "".join(f"u{i:03d},{'xy'[i % 2]}\n" for i in range(NODES))
    Path("l.csv").write_text(labels)
    outcome = run("evaluate", *of_model(folder, "numbers"), "--labels", "l.csv")
    assert outcome.status == 1
    assert "l.csv:2: column 'c', node 'u000': 'x' is not a number" in outcome.stderr
