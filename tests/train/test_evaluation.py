"""Scores of a saved model on labelled nodes of any source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis import native
from polybasis.data.dataset import NodeDataset
from polybasis.store import write_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train import Config, Job, Source, TrainedModel, run_job
from polybasis.train.evaluation import evaluate
from polybasis.train.job import adapt_config

DATA = replace(pb.data.csbm(nodes=300, features=12, seed=1), classes=("a", "b"))
CONFIG = Config.of("optbasisgnn", hidden=8, epochs=30, K=3)


def in_folder(path: Path, data: NodeDataset) -> Source:
    write_graph_folder(path, data)
    return Source.folder(path)


def train_on(source: Source, out: Path, config: Config = CONFIG) -> tuple[TrainedModel, float, float]:
    result = run_job(Job(config, source, source.protocol, 2, 0), out=out)
    return TrainedModel.load(out), result["val_score"], result["test_score"]


def test_parts_of_the_split_are_scored_separately_on_the_training_data(tmp_path: Path) -> None:
    source = in_folder(tmp_path / "graph", DATA)
    model, val_score, test_score = train_on(source, tmp_path / "model")
    rows = evaluate(model, source)
    assert [row["nodes"] for row in rows] == ["training", "validation", "test"]
    assert [row["count"] for row in rows] == [len(part) for part in DATA.split("stratified", 2)]
    assert rows[1]["accuracy"] == pytest.approx(val_score)
    assert rows[2]["accuracy"] == pytest.approx(test_score)
    split = DATA.split("stratified", 2)
    expected = torch.nn.functional.cross_entropy(model.logits(DATA)[split.test], DATA.y[split.test])
    assert rows[2]["cross entropy"] == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.skipif(native.kernels() is None, reason="stores need the native kernels")
def test_a_model_on_a_store_is_scored_on_the_store(tmp_path: Path) -> None:
    precompute(write_graph_folder(tmp_path / "graph", DATA), tmp_path / "store", 3)
    source = Source.folder(tmp_path / "store")
    config = adapt_config(Config.of("sign", precomputed=True, hidden=8, epochs=10), source)
    model, val_score, test_score = train_on(source, tmp_path / "model", config)
    rows = evaluate(model, source)
    assert [row["nodes"] for row in rows] == ["training", "validation", "test"]
    assert [row["accuracy"] for row in rows[1:]] == pytest.approx([val_score, test_score])


def test_all_labelled_nodes_are_scored_together_elsewhere(tmp_path: Path) -> None:
    model, *_ = train_on(in_folder(tmp_path / "graph", DATA), tmp_path / "model")
    other = replace(pb.data.csbm(nodes=400, features=12, seed=1), classes=("a", "b"))
    y = other.y.clone()
    y[:50] = -1
    (row,) = evaluate(model, in_folder(tmp_path / "other", replace(other, y=y)))
    assert (row["nodes"], row["count"]) == ("labelled", 350)
    correct = model.logits(other).argmax(1)[50:] == other.y[50:]
    assert row["accuracy"] == pytest.approx(float(correct.float().mean()))
    assert row.keys() == {"nodes", "count", "accuracy", "cross entropy"}


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "average_precision", "f1"])
def test_classes_are_matched_by_name(metric: str, tmp_path: Path) -> None:
    """Data with the same classes in another order has the same scores."""
    model, *_ = train_on(in_folder(tmp_path / "graph", DATA), tmp_path / "model")
    # Another name, so that neither counts as the training data.
    given = replace(DATA, name="given", metric=metric)  # type: ignore[arg-type]
    turned = replace(given, name="turned", classes=("b", "a"), y=1 - DATA.y)
    (expected,) = evaluate(model, in_folder(tmp_path / "given", given))
    (row,) = evaluate(model, in_folder(tmp_path / "turned", turned))
    assert row == pytest.approx(expected)  # the positive class is the model's
    assert row[metric] > 0.6


def test_a_prediction_outside_the_classes_of_the_data_is_wrong(tmp_path: Path) -> None:
    """A model of three classes may predict the third where the data has only two."""
    y = DATA.y.clone()
    y[::3] = 2
    model, *_ = train_on(in_folder(tmp_path / "graph", replace(DATA, y=y, classes=("c", "b", "a"))), tmp_path / "model")
    two = replace(DATA, name="two")  # classes a, b
    (row,) = evaluate(model, in_folder(tmp_path / "two", two), ["balanced_accuracy"])
    predicted = [model.classes[i] for i in model.logits(two).argmax(1).tolist()]
    right = [predicted[i] == "ab"[c] for i, c in enumerate(DATA.y.tolist())]
    assert row["accuracy"] == pytest.approx(sum(right) / len(right))
    recalls = [np.mean([r for r, c in zip(right, DATA.y.tolist(), strict=True) if c == own]) for own in (0, 1)]
    assert row["balanced_accuracy"] == pytest.approx(np.mean(recalls))


def test_data_of_a_single_class_is_scored_by_what_the_model_predicts(tmp_path: Path) -> None:
    model, *_ = train_on(in_folder(tmp_path / "graph", DATA), tmp_path / "model")
    only = replace(DATA, name="only", y=torch.where(DATA.y == 1, 0, -1), classes=("b",))
    (row,) = evaluate(model, in_folder(tmp_path / "only", only), ["f1"])
    recall = float((model.logits(only).argmax(1)[DATA.y == 1] == 1).float().mean())
    assert 0 < recall < 1
    assert row["f1"] == pytest.approx(2 * recall / (1 + recall))  # all predictions of b are right


def test_data_that_cannot_be_scored_is_refused(tmp_path: Path) -> None:
    model, *_ = train_on(in_folder(tmp_path / "graph", DATA), tmp_path / "model")
    with pytest.raises(ValueError, match="csbm has the class 'z', which is not one of the model's classes"):
        evaluate(model, in_folder(tmp_path / "z", replace(DATA, classes=("a", "z"))))
    with pytest.raises(ValueError, match="csbm has no labelled nodes to score"):
        evaluate(model, in_folder(tmp_path / "none", replace(DATA, y=torch.full((300,), -1))))
    with pytest.raises(ValueError, match="the data has 5 features; the model was trained with 12"):
        evaluate(model, in_folder(tmp_path / "narrow", replace(DATA, x=DATA.x[:, :5].contiguous())))


# ---- labels and numbers --------------------------------------------------------------------------------------------


def in_memory(data: NodeDataset) -> Source:
    return Source("tables", data.name, data.protocol, data.fingerprint, lambda: data)


def test_labels_are_matched_by_name(tmp_path: Path) -> None:
    y = torch.stack([DATA.y, 1 - DATA.y, (DATA.x[:, 0] > 0).long()], dim=1)
    data = NodeDataset(name="labels", graph=DATA.graph, x=DATA.x, y=y, classes=("a", "b", "c"))
    model, val_score, test_score = train_on(in_memory(data), tmp_path / "model")
    rows = evaluate(model, in_memory(data))
    assert [row["roc_auc"] for row in rows[1:]] == pytest.approx([val_score, test_score])
    assert rows[0].keys() == {"nodes", "count", "roc_auc", "average_precision", "f1", "log_loss"}
    given = replace(data, name="given")
    turned = replace(data, name="turned", classes=("c", "a", "b"), y=y[:, [2, 0, 1]])
    assert evaluate(model, in_memory(turned)) == [pytest.approx(row) for row in evaluate(model, in_memory(given))]


def test_numbers_are_scored_in_their_units(tmp_path: Path) -> None:
    data = NodeDataset(name="numbers", graph=DATA.graph, x=DATA.x, y=500 + 20 * DATA.x[:, 0])
    model, val_score, test_score = train_on(in_memory(data), tmp_path / "model", CONFIG.replace(metric="mae"))
    rows = evaluate(model, in_memory(data))
    assert model.metric == "mae"
    assert [row["mae"] for row in rows[1:]] == pytest.approx([val_score, test_score])
    nodes = data.split(data.protocol, 2).test
    errors = torch.from_numpy(model.predict(data))[nodes] - data.y[nodes]
    assert rows[2]["rmse"] == pytest.approx(float(errors.square().mean().sqrt()))
    with pytest.raises(ValueError, match="the target of csbm is classification; the model was trained for regression"):
        evaluate(model, in_memory(DATA))
