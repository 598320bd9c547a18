"""Numbers and several labels in graph folders and stores: they train and predict as in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import polybasis as pb
from polybasis.data.dataset import NodeDataset
from polybasis.store import GraphFolder, open_store, write_graph_folder
from polybasis.store.graph_writing import build_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train import Config, Job, Source, TrainedModel, run_job

DATA = pb.data.csbm(nodes=300, features=6, seed=2)
FILTERED = (DATA.graph @ DATA.x)[:, :3]
UNKNOWN = torch.arange(0, 300, 7)
TARGETS: dict[str, Tensor] = {
    "numbers": (50 + 1e6 * FILTERED[:, 0].double()).index_fill(0, UNKNOWN, torch.nan),
    "labels": (FILTERED > 0.2).long().index_fill(0, UNKNOWN, -1),
    "labels with NaN": (FILTERED > 0.2).float().index_fill(0, UNKNOWN, torch.nan),
}


def dataset(kind: str) -> NodeDataset:
    classes = () if kind == "numbers" else ("red", "green", "blue")
    return replace(DATA, name="own", y=TARGETS[kind], classes=classes, metric=None, identity="")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", TARGETS)
def test_targets_survive_a_graph_folder_and_a_store(kind: str, tmp_path: Path) -> None:
    data = dataset(kind)
    folder = write_graph_folder(tmp_path / "g", data)
    found = GraphFolder.open(folder.path).load()
    assert (found.target, found.classes, found.metric) == (data.target, data.classes, data.metric)
    assert torch.equal(found.labelled, data.labelled)
    assert torch.equal(found.y[found.labelled].double(), data.y[data.labelled].double())
    assert found.num_outputs == data.num_outputs
    store = precompute(folder, tmp_path / "s", 3)
    assert (store.target, store.classes, store.num_outputs) == (data.target, data.classes, data.num_outputs)
    np.testing.assert_array_equal(store.rows, data.labelled.numpy())
    assert torch.equal(store.y.double(), data.y[data.labelled].double())
    open_store(store.path, verify=True)


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_a_store_trains_and_predicts_in_the_units_of_the_target(kind: str, tmp_path: Path) -> None:
    """The model of a store predicts the same on the store and on the graph, and better than a constant."""
    data = dataset(kind)
    folder = write_graph_folder(tmp_path / "g", data)
    store = precompute(folder, tmp_path / "s", 3, keep="all")
    config = Config.of("favardgnn", precomputed=True, K=3, hidden=16, epochs=60, dropout=0.0, batch_size=50, lr=0.02)
    result = run_job(Job(config, Source.folder(store.path), "stratified", 0, 0), out=tmp_path / "model")
    trained = TrainedModel.load(tmp_path / "model")
    on_store, on_graph = trained.predict(open_store(store.path)), trained.predict(folder.load())
    test = store.split("stratified", 0).test
    if kind == "numbers":
        np.testing.assert_allclose(on_store, on_graph, rtol=1e-3, atol=1e-3 * trained.scale)
        rmse = float((torch.from_numpy(on_store)[test] - data.y[test]).square().mean().sqrt())
        assert result["test_score"] == pytest.approx(rmse)
        assert rmse < 0.7 * float(data.y[test].std())
    else:
        np.testing.assert_array_equal(on_store, on_graph)
        assert result["metric"] == "roc_auc"
        assert result["test_score"] > 0.7


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[0, 1], [1, 0.5]], r"node 1 has the labels \[1.0, 0.5\]; expected 0 or 1"),
        ([[0, 256], [1, 1]], r"node 0 has the labels \[0.0, 256.0\]"),
        ([[0, -1], [1, 1]], r"node 0 has the labels \[0.0, -1.0\]"),
        ([1.5, np.inf], "the target of node 1 is infinite"),
    ],
    ids=["a fraction", "a large label", "a gap", "infinity"],
)
def test_targets_that_are_not_valid_are_refused(y: list[Any], message: str, tmp_path: Path) -> None:
    """They would be rounded to labels, or fail when the folder is read."""
    with pytest.raises(ValueError, match=message):
        build_graph_folder(tmp_path / "g", [np.array([[0, 1]])], 2, x=np.ones((2, 1), np.float32), y=np.array(y))
    assert not (tmp_path / "g").exists()
