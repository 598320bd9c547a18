"""Models of tables: the recipe is learned without held-out nodes, saved with the model, and applied by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import polybasis as pb
from polybasis.checksums import read_document, write_document
from polybasis.data.dataset import NodeDataset
from polybasis.features import as_dense
from polybasis.report.model_figures import draw_model
from polybasis.train import Config, Job, Source, TrainedModel, run_job
from polybasis.train.fitting import FullBatch

CONFIG = Config.of("optbasisgnn", K=3, hidden=8, epochs=30)


def frame_of(seed: int, nodes: int = 240) -> pd.DataFrame:
    """A table of nodes with gaps, whose columns tell the class."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(nodes) < 0.4
    frame = pd.DataFrame({"user": [f"u{i:03d}" for i in range(nodes)]})
    frame["age"] = np.where(rng.random(nodes) < 0.1, np.nan, rng.normal(40 + 20 * fraud, 8))
    frame["amount"] = rng.lognormal(8 + fraud, 0.5).round(2)
    frame["vip"] = np.where(rng.random(nodes) < 0.1, None, np.where(rng.random(nodes) < 0.5, "yes", "no"))
    frame["plan"] = rng.choice(["basic", "pro", "team"], nodes)
    frame["fraud"] = np.where(rng.random(nodes) < 0.2, None, np.where(fraud, "yes", "no"))
    return frame


def write_edges(path: Path, name: str = "u{:03d}") -> Path:
    pairs = np.random.default_rng(5).integers(0, 240, (600, 2)).tolist()
    rows = [f"{name.format(a)},{name.format(b)}" for a, b in pairs]
    path.write_text("source,target\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, and a model that was trained on them."""
    folder = tmp_path_factory.mktemp("models")
    write_edges(folder / "edges.csv")
    frame_of(0).to_csv(folder / "nodes.csv", index=False)
    job = Job(CONFIG, source(folder), "stratified", 0, 0)
    run_job(job, out=folder / "model")
    return folder


def source(folder: Path, nodes: str = "nodes.csv", **options: Any) -> Source:
    return Source.tables(folder / "edges.csv", folder / nodes, id="user", **({"target": "fraud"} | options))


def opened(found: Source) -> NodeDataset:
    data = found.open()
    assert isinstance(data, NodeDataset)
    return data


def test_training_uses_prepared_features(folder: Path) -> None:
    data = opened(source(folder))
    split = data.split("stratified")
    task = FullBatch(data, split, CONFIG)
    assert task.data.recipe == data.prepared(split).recipe is not None
    assert data.recipe is None
    saved = TrainedModel.load(folder / "model")
    assert saved.recipe == task.data.recipe
    assert saved.num_features == task.data.num_features == 8  # age, amount and vip, gaps of two, three plans
    raw = as_dense(data.x)[:, 2]
    assert raw.max() > 1000 > 20 > as_dense(task.data.x)[:, 2].max()


def test_a_loaded_model_predicts_what_the_trained_one_did(folder: Path) -> None:
    data = opened(source(folder))
    split = data.split("stratified")
    fitted = pb.train.fit(Job(CONFIG, source(folder), "stratified", 0, 0).config, data, split, 0)
    expected = TrainedModel.of(CONFIG, fitted).predict_proba(data)
    np.testing.assert_array_equal(TrainedModel.load(folder / "model").predict_proba(data), expected)
    y, best = data.y[split.test].numpy(), expected.argmax(axis=1)[split.test]
    assert (y == best).mean() > 0.75


def test_columns_are_matched_by_name(folder: Path) -> None:
    model = TrainedModel.load(folder / "model")
    expected = model.predict_proba(opened(source(folder)))
    frame = frame_of(0)
    frame[["plan", "fraud", "vip", "amount", "user", "age"]].to_csv(folder / "reordered.csv", index=False)
    frame.drop(columns="fraud").to_csv(folder / "unlabelled.csv", index=False)
    frame.rename(columns={"amount": "sum"}).to_csv(folder / "renamed.csv", index=False)
    frame.assign(extra=frame["amount"] + 1).to_csv(folder / "extra.csv", index=False)
    np.testing.assert_array_equal(model.predict_proba(opened(source(folder, "reordered.csv"))), expected)
    np.testing.assert_array_equal(model.predict_proba(opened(source(folder, "unlabelled.csv", target=None))), expected)
    with pytest.raises(ValueError, match="the table lacks column 'amount'"):
        model.predict_proba(opened(source(folder, "renamed.csv")))
    with pytest.raises(ValueError, match="the table has column 'extra', which the model was not trained with"):
        model.predict_proba(opened(source(folder, "extra.csv")))
    dropped = opened(source(folder, "extra.csv", drop=["extra"]))
    np.testing.assert_array_equal(model.predict_proba(dropped), expected)


def test_new_nodes_are_encoded_with_the_learned_recipe(folder: Path) -> None:
    """Other medians, means and categories in next week's table do not change the features of a node."""
    model = TrainedModel.load(folder / "model")
    frame = frame_of(0)
    more = frame_of(9, 60).assign(user=[f"u{i}" for i in range(900, 960)], plan="enterprise")
    more["amount"] *= 1000
    pd.concat([frame, more]).to_csv(folder / "next.csv", index=False)
    one, other = (model.prepared(opened(source(folder, name))) for name in ("nodes.csv", "next.csv"))
    assert isinstance(one, NodeDataset)
    assert isinstance(other, NodeDataset)
    assert torch.equal(as_dense(other.x)[:240], as_dense(one.x))
    assert as_dense(other.x)[240:, -3:].count_nonzero() == 0  # an unseen category where none was rare
    assert model.predict_proba(opened(source(folder, "next.csv"))).shape == (300, 2)


def test_figures_use_the_recipe(folder: Path, tmp_path: Path) -> None:
    assert draw_model(TrainedModel.load(folder / "model"), opened(source(folder)), tmp_path)


def test_models_without_a_recipe_take_plain_numbers(folder: Path, tmp_path: Path) -> None:
    """Models of earlier versions, of graph folders and of arrays."""
    matrix = np.random.default_rng(0).normal(size=(240, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", matrix)
    edges = write_edges(tmp_path / "edges.csv", "{}")
    labels = tmp_path / "labels.csv"
    labels.write_text("node,class\n" + "".join(f"{i},{'xy'[i % 2]}\n" for i in range(240)))
    run_job(Job(CONFIG, Source.tables(edges, tmp_path / "x.npy", labels), "stratified", 0, 0), out=tmp_path / "m")
    model = TrainedModel.load(tmp_path / "m")
    assert model.recipe is None
    assert "recipe" not in json.loads((tmp_path / "m" / "model.json").read_text())
    expected = model.predict_proba(opened(Source.tables(edges, tmp_path / "x.npy")))
    frame = pd.DataFrame(matrix, columns=["a", "b", "c"])
    frame.insert(0, "node", np.arange(240))
    frame.to_csv(tmp_path / "x.csv", index=False)
    np.testing.assert_array_equal(model.predict_proba(opened(Source.tables(edges, tmp_path / "x.csv"))), expected)
    frame["c"] = "red"
    frame.to_csv(tmp_path / "words.csv", index=False)
    with pytest.raises(ValueError, match="trained on a feature matrix, without a recipe"):
        model.predict_proba(opened(Source.tables(edges, tmp_path / "words.csv")))
    with pytest.raises(ValueError, match="the model was trained on the columns of a table"):
        TrainedModel.load(folder / "model").predict_proba(opened(Source.tables(edges, tmp_path / "x.npy")))


@pytest.mark.parametrize("damage", ["missing column", "other kind", "not a recipe"])
def test_damaged_recipes_are_refused(damage: str, folder: Path, tmp_path: Path) -> None:
    TrainedModel.load(folder / "model").save(tmp_path / "m")
    place = tmp_path / "m" / "model.json"
    document = read_document(place, sealed=lambda _: True)
    if damage == "missing column":
        del document["recipe"]["columns"][0]
    elif damage == "other kind":
        document["recipe"]["columns"][0]["kind"] = "date"
    else:
        document["recipe"] = 7
    write_document(place, {key: value for key, value in document.items() if key != "checksum"})
    with pytest.raises(ValueError, match=r"does not contain a readable model: .*recipe") as raised:
        TrainedModel.load(tmp_path / "m")
    assert "\n" not in str(raised.value)
