"""Tables of predictions agree with the model, whatever the file and the size of a block."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import polybasis as pb
from polybasis import native
from polybasis.store import precompute, write_graph_folder
from polybasis.train import TrainedModel, predictions
from polybasis.train.predictions import PredictionTable
from polybasis.train.source import Data


def trained_on(y: torch.Tensor, **options: object) -> tuple[TrainedModel, pb.data.NodeDataset]:
    base = pb.data.csbm(nodes=150, features=4, seed=2)
    names = np.array([f'a,"{i}' for i in range(150)])
    data = pb.data.NodeDataset(name="own", graph=base.graph, x=base.x, y=y, nodes=names, **options)  # type: ignore[arg-type]
    config = pb.train.Config.of("optbasisgnn", K=3, epochs=10).for_own_data()
    return TrainedModel.of(config, pb.train.fit(config, data, data.split("stratified"))), data


def tables_of(trained: TrainedModel, data: Data) -> list[pd.DataFrame]:
    """The table from CSV and from Parquet."""
    table, text, binary = PredictionTable(trained, data), io.StringIO(), io.BytesIO()
    table.write_csv(text)
    table.write_parquet(binary)
    text.seek(0)
    return [pd.read_csv(text), pd.read_parquet(binary)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "ROWS", 64)  # three blocks, the last one shorter


def test_two_classes_have_scores_decisions_and_calibrated_probabilities() -> None:
    y = (torch.arange(150) % 5 == 0).long()
    trained, data = trained_on(y, classes=("no", "yes"))
    val = data.split("stratified").val
    scores = trained.predict_proba(data)[:, 1]
    trained = trained.calibrated(data, val, "temperature").with_threshold(data, val, recall=0.8)
    for table in tables_of(trained, data):
        assert list(table) == ["node", "score", "prediction", "probability no", "probability yes"]
        assert table["node"].tolist() == data.node_names()
        np.testing.assert_allclose(table["score"], scores, rtol=1e-6)
        np.testing.assert_allclose(table[["probability no", "probability yes"]], trained.predict_proba(data), atol=6e-7)
        assert table["prediction"].tolist() == trained.predict(data).tolist()
    assert (trained.predict(data) == "yes").sum() > (scores > 0.5).sum()  # the threshold counts


def test_integer_classes_stay_integers() -> None:
    trained, data = trained_on(torch.arange(150) % 3)
    for table in tables_of(trained, data):
        assert list(table) == ["node", "prediction", "probability 0", "probability 1", "probability 2"]
        assert table["prediction"].tolist() == trained.predict(data).tolist()


def test_labels_have_a_prediction_each() -> None:
    trained, data = trained_on((torch.rand(150, 2, generator=torch.manual_seed(0)) > 0.5).long(), classes=("a", "b"))
    for table in tables_of(trained, data):
        assert list(table) == ["node", "prediction a", "prediction b", "probability a", "probability b"]
        np.testing.assert_array_equal(table[["prediction a", "prediction b"]].to_numpy(bool), trained.predict(data))
    row = PredictionTable(trained, data).to_json()[149]
    assert row["node"] == 'a,"149'
    assert row["predictions"] == dict(zip("ab", trained.predict(data)[149].tolist(), strict=True))


def test_numbers_are_in_their_own_units() -> None:
    trained, data = trained_on(1000 + torch.arange(150.0))
    for table in tables_of(trained, data):
        assert list(table) == ["node", "prediction"]
        np.testing.assert_allclose(table["prediction"], trained.predict(data), rtol=1e-8)


@pytest.mark.skipif(native.kernels() is None, reason="built without native kernels")
@pytest.mark.parametrize("named", [False, True])
def test_a_store_of_some_nodes_names_them_as_the_graph_does(named: bool, tmp_path: Path) -> None:
    """A store of labelled nodes has fewer rows than the graph has nodes; a row is not a node's number."""
    data = pb.data.csbm(nodes=150, features=4, seed=2)
    data = replace(data, y=torch.where(torch.arange(150) % 3 == 1, data.y, -1), fixed_splits=[])
    if named:
        data = replace(data, nodes=np.array([f"n{i}" for i in range(150)]))
    graph = write_graph_folder(tmp_path / "graph", data)
    store = precompute(graph, tmp_path / "store", 3)
    config = pb.train.Config.of("favardgnn", precomputed=True, K=3, epochs=3, batch_size=50)
    job = pb.train.Job(config, pb.train.Source.folder(store.path), "stratified", 0, 0)
    pb.train.run_job(job, out=tmp_path / "model")
    trained = TrainedModel.load(tmp_path / "model")
    numbers = list(range(1, 150, 3))
    expected = [f"n{i}" for i in numbers] if named else numbers
    for table in tables_of(trained, store):
        assert table["node"].tolist() == expected
        np.testing.assert_array_equal(table["prediction"], trained.predict(graph.load())[numbers])
    assert [row["node"] for row in PredictionTable(trained, store).to_json()] == expected
