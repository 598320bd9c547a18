"""Mini batches on a store: the same training as on the graph, whatever the size of the batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis import native
from polybasis.nn.models.names import PRECOMPUTED
from polybasis.store import BasisStore, write_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train import Config, Fit, Job, Source, fit, run_job
from polybasis.train.fitting import fit_task
from polybasis.train.mini_batch import MiniBatches

if native.kernels() is None:
    pytest.skip("polybasis was built without its native kernels", allow_module_level=True)

DATA = pb.data.csbm(nodes=600, features=24, seed=1)
SPLIT = DATA.split("stratified")
K = 4


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> BasisStore:
    place = tmp_path_factory.mktemp("mini-batch")
    return precompute(write_graph_folder(place / "graph", DATA), place / "store", K)


def quick(model: str = "favardgnn", **values: object) -> Config:
    given = {"hidden": 16, "epochs": 5, "K": K, "lr": 0.01, "precomputed": True, **values}
    return Config.of(model, **given)  # type: ignore[arg-type]


def fit_store(config: Config, store: BasisStore, seed: int = 0) -> Fit:
    return fit_task(config, MiniBatches(store, store.split("stratified"), config), seed)


def test_splits_are_those_of_the_graph(store: BasisStore) -> None:
    for protocol in ("stratified", "per-class", "linkx", "train-val"):
        for ours, theirs in zip(store.split(protocol, 3), DATA.split(protocol, 3), strict=True):
            assert torch.equal(torch.from_numpy(store.rows[ours]), theirs)


def test_splits_of_a_store_of_labelled_rows_are_those_of_the_graph(tmp_path: Path) -> None:
    """Rows are renumbered, nodes are not: both sides divide the same nodes."""
    y = DATA.y.clone()
    y[::3] = -1
    data = replace(DATA, y=y)
    part = precompute(write_graph_folder(tmp_path / "graph", data), tmp_path / "store", 1)
    assert len(part) == int((y >= 0).sum())
    for ours, theirs in zip(part.split("stratified", 1), data.split("stratified", 1), strict=True):
        assert torch.equal(torch.from_numpy(part.rows[ours]), theirs)


@pytest.mark.parametrize("model", PRECOMPUTED)
def test_one_batch_of_all_nodes_trains_as_on_the_graph(model: str, store: BasisStore) -> None:
    """Without dropout both take the same gradient steps, up to rounding."""
    config = quick(model, dropout=0.0, early_stopping="none")
    on_graph = fit(config, DATA, SPLIT, 0).model.state_dict()
    on_store = fit_store(config, store).model.state_dict()
    fresh = config.make_model(24, 2, 600).state_dict()
    for name, value in on_graph.items():
        torch.testing.assert_close(on_store[name], value, rtol=1e-3, atol=1e-4)
    assert any(not torch.allclose(value, fresh[name], atol=1e-2) for name, value in on_store.items())


@pytest.mark.parametrize("model", PRECOMPUTED)
def test_every_model_learns_from_batches(model: str, store: BasisStore) -> None:
    fitted = fit_store(quick(model, epochs=60, batch_size=100), store)
    assert fitted.score(store.split("stratified").test) > 0.65  # type: ignore[operator]


def test_an_epoch_uses_every_training_node_once(store: BasisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    config = quick(batch_size=70)
    task = MiniBatches(store, store.split("stratified"), config)
    torch.manual_seed(0)
    model = task.make_model(config)
    seen: list[np.ndarray] = []
    over = task._batches.over
    monkeypatch.setattr(task._batches, "over", lambda batches: seen.extend(batches) or over(batches))
    orders = []
    for _ in range(2):
        seen.clear()
        task.epoch(model, config.make_optimizer(model))
        assert [len(rows) for rows in seen] == [70] * 5 + [len(task.split.train) - 350]
        rows = np.concatenate(seen)
        assert np.array_equal(np.sort(rows), task.split.train.numpy())
        assert all((np.diff(batch) > 0).all() for batch in seen)  # ascending: the disk is read in order
        orders.append(rows)
    assert not np.array_equal(*orders)  # another order in each epoch


def test_scores_do_not_depend_on_the_batch_size(store: BasisStore) -> None:
    config = quick()
    model = fit_store(config, store).model
    nodes = torch.arange(len(store)).flip(0)
    whole = MiniBatches(store, store.split("stratified"), config).evaluate(model, nodes).logits
    for size in (1000, 600, 599, 64):
        small = (
            MiniBatches(store, store.split("stratified"), config.replace(batch_size=size)).evaluate(model, nodes).logits
        )
        torch.testing.assert_close(small, whole, rtol=1e-5, atol=1e-5)
    assert MiniBatches(store, store.split("stratified"), config).evaluate(model, nodes[:0]).logits.shape == (0, 2)


def test_the_seed_determines_weights_and_batches(store: BasisStore) -> None:
    config = quick(batch_size=70)
    one, again, other = (fit_store(config, store, seed).model.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(value, again[name]) for name, value in one.items())
    assert any(not torch.equal(value, other[name]) for name, value in one.items())


def test_classes_of_test_nodes_do_not_influence_training(store: BasisStore, tmp_path: Path) -> None:
    split = store.split("stratified")
    y = DATA.y.clone()
    y[split.test] = 1 - y[split.test]
    altered = precompute(write_graph_folder(tmp_path / "graph", replace(DATA, y=y)), tmp_path / "store", K)
    config = quick(batch_size=70)
    one, other = (
        fit_task(config, MiniBatches(given, split, config), 0).model.state_dict() for given in (store, altered)
    )
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_lower_degree_uses_the_first_vectors(store: BasisStore, tmp_path: Path) -> None:
    """A store of degree 4 serves a model of degree 2 as one of degree 2 does."""
    lower = precompute(write_graph_folder(tmp_path / "graph", DATA), tmp_path / "store", 2)
    for model in PRECOMPUTED:
        config = quick(model, K=2, dropout=0.0, early_stopping="none")
        one, other = (fit_store(config, given).model.state_dict() for given in (store, lower))
        for name, value in one.items():
            torch.testing.assert_close(value, other[name], rtol=1e-3, atol=1e-4)


def test_waiting_time_and_processes_are_part_of_the_result(store: BasisStore) -> None:
    result = run_job(Job(quick(epochs=2), Source.folder(store.path), "stratified", 0, 0), group=None)
    assert result["processes"] == 1
    assert result["waited"] >= 0


def test_a_store_without_classes_is_refused(tmp_path: Path) -> None:
    unlabelled = replace(DATA, y=torch.full((600,), -1), classes=("a", "b"))
    precompute(write_graph_folder(tmp_path / "graph", unlabelled), tmp_path / "store", K, keep="all")
    for protocol in ("stratified", "per-class", "train-val", "linkx"):
        with pytest.raises(ValueError, match="csbm has no labelled nodes to split"):
            run_job(Job(quick(), Source.folder(tmp_path / "store"), protocol, 0, 0))
