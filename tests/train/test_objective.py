"""Losses with weights, regression and several labels: from the objective to saved models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

import polybasis as pb
from polybasis import native
from polybasis.data.dataset import NodeDataset
from polybasis.store import open_store, write_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train import Config, TrainedModel, auto, auto_portfolio, fit
from polybasis.train.fitting import Progress
from polybasis.train.mini_batch import MiniBatches
from polybasis.train.objective import Objective
from polybasis.train.tune import Search, tune

CLASSES = pb.data.csbm(nodes=300, features=8, seed=1)
NODES = torch.arange(0, 300, 2)
SMOOTH = CLASSES.graph @ CLASSES.x


def dataset(y: torch.Tensor, **values: Any) -> NodeDataset:
    return NodeDataset(name="data", graph=CLASSES.graph, x=CLASSES.x, y=y, **values)


NUMBERS = dataset(1000 + 50 * (SMOOTH[:, 0] - SMOOTH[:, 1]))
LABELS = dataset((SMOOTH[:, :3] > 0).long(), classes=("a", "b", "c"))
SPLIT = NUMBERS.split("random")


def quick(model: str = "optbasisgnn", **values: Any) -> Config:
    return Config.of(model, **{"hidden": 16, "epochs": 60, "scale": "signal", "K": 3, "dropout": 0.0, **values})


# ---- losses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [CLASSES, LABELS, NUMBERS], ids=["classification", "multi-label", "regression"])
@pytest.mark.parametrize("huber", [False, True])
def test_a_weight_is_a_number_of_copies(data: NodeDataset, huber: bool) -> None:
    """A node of weight k counts as k nodes: in the loss, in the prior and in balanced class weights."""
    config = Config.of("mlp", regression_loss="huber" if huber else "squared")
    if data.target != "regression":
        config = config.replace(class_weight="balanced")
    generator = torch.Generator().manual_seed(0)
    weight = torch.randint(0, 4, (300,), generator=generator).float()
    outputs = torch.randn(300, data.num_outputs, generator=generator)
    copies = NODES.repeat_interleave(weight[NODES].long())
    weighted = Objective.of(config, replace(data, sample_weight=weight), NODES)
    repeated = Objective.of(config, data, copies)
    weighted = replace(weighted, center=repeated.center, scale=repeated.scale)
    torch.testing.assert_close(weighted.loss(outputs[NODES], NODES), repeated.loss(outputs[copies], copies))
    torch.testing.assert_close(weighted.log_prior(NODES), repeated.log_prior(copies))
    total = weighted.summed_loss(outputs[NODES], NODES) / weighted.total_weight(NODES)
    torch.testing.assert_close(total, weighted.loss(outputs[NODES], NODES))


def test_losses_without_weights() -> None:
    outputs = torch.randn(150, 3, generator=torch.Generator().manual_seed(0))
    objective = Objective.of(Config.of("mlp"), CLASSES, NODES)
    assert torch.equal(objective.loss(outputs[:, :2], NODES), cross_entropy(outputs[:, :2], CLASSES.y[NODES]))
    objective = Objective.of(Config.of("mlp"), LABELS, NODES)
    expected = binary_cross_entropy_with_logits(outputs, LABELS.y[NODES].float())
    torch.testing.assert_close(objective.loss(outputs, NODES), expected)


def test_class_weights_are_those_of_scikit_learn() -> None:
    utils = pytest.importorskip("sklearn.utils.class_weight", reason="scikit-learn is the oracle of this test")
    data = replace(CLASSES, y=torch.arange(300) % 7 // 3, classes=("a", "b", "c"))
    y = data.y[NODES].numpy()
    balanced = Objective.of(Config.of("mlp", class_weight="balanced"), data, NODES).class_weight
    assert balanced is not None
    np.testing.assert_allclose(balanced, utils.compute_class_weight("balanced", classes=np.arange(3), y=y), rtol=1e-6)
    outputs = torch.randn(150, 3, generator=torch.Generator().manual_seed(0))
    given = Objective.of(Config.of("mlp", class_weight={"c": 5, "a": 0.5}), data, NODES)
    expected = cross_entropy(outputs, data.y[NODES], weight=torch.tensor([0.5, 1.0, 5.0]))
    torch.testing.assert_close(given.loss(outputs, NODES), expected)


def test_class_weights_move_predictions_to_the_rare_class() -> None:
    y = CLASSES.y * (torch.rand(300, generator=torch.Generator().manual_seed(0)) < 0.2)
    data = dataset(y, metric="accuracy")
    shares = [
        float(fit(quick(class_weight=weight, epochs=30), data, SPLIT).logits.softmax(1)[:, 1].mean())  # type: ignore[union-attr]
        for weight in (None, "balanced")
    ]
    assert shares[0] < 0.2 < 0.35 < shares[1]


def test_weights_that_do_not_apply_are_refused() -> None:
    named = replace(CLASSES, classes=("a", "b"))
    with pytest.raises(ValueError, match="class_weight has the class 'z'; expected a, b"):
        Objective.of(Config.of("mlp", class_weight={"z": 2}), named, NODES)
    with pytest.raises(ValueError, match="class_weight is 'balanced', which does not apply to regression"):
        Objective.of(Config.of("mlp", class_weight="balanced"), NUMBERS, NODES)
    with pytest.raises(ValueError, match="class_weight of 'a' is -1; expected a positive number"):
        Config.of("mlp", class_weight={"a": -1})
    with pytest.raises(ValueError, match="class_weight is 'even'; expected balanced or a weight for each class"):
        Config.of("mlp", class_weight="even")
    weight = torch.ones(300).index_fill(0, torch.tensor([7]), -1)
    with pytest.raises(ValueError, match=r"sample_weight of node 7 is -1.0; expected a non-negative number"):
        Objective.of(Config.of("mlp"), replace(CLASSES, sample_weight=weight), NODES)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(3,\); expected \(300,\), one for each node"):
        Objective.of(Config.of("mlp"), replace(CLASSES, sample_weight=torch.ones(3)), NODES)
    with pytest.raises(ValueError, match="label_reuse applies to classification only"):
        fit(quick(label_reuse=0.5), NUMBERS, SPLIT)
    with pytest.raises(ValueError, match="metric is 'roc_auc', which does not apply to regression"):
        fit(quick(metric="roc_auc"), NUMBERS, SPLIT)


@pytest.mark.skipif(native.kernels() is None, reason="stores need the native kernels")
def test_a_batch_of_all_nodes_has_the_loss_of_the_full_batch(tmp_path: Path) -> None:
    precompute(write_graph_folder(tmp_path / "graph", CLASSES), tmp_path / "store", 3)
    store = open_store(tmp_path / "store")
    values = {"precomputed": True, "hidden": 8, "K": 3, "dropout": 0.0, "class_weight": {"0": 9.0}}
    config = Config.of("sign", **values, output_bias="prior")
    split = store.split("stratified")
    task = MiniBatches(store, split, config)
    model = task.make_model(config)
    torch.testing.assert_close(model.output_bias, task.objective.log_prior(split.train))
    before = float(task.objective.loss(task.evaluate(model, split.train).logits, split.train))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    assert task.epoch(model, optimizer) == pytest.approx(before, rel=1e-5)
    several = MiniBatches(store, split, config.replace(batch_size=17))
    assert several.epoch(model, optimizer) == pytest.approx(before, rel=1e-5)


# ---- configurations ------------------------------------------------------------------------------------------------


def test_defaults_are_not_written() -> None:
    """Keys of jobs are hashes of the written configuration."""
    assert "loss" not in Config.of("mlp").to_dict()
    assert "metric" not in Config.of("mlp").to_dict()["stopping"]


def test_configurations_with_weights_are_read_again(tmp_path: Path) -> None:
    weight = {"a b": 2.0, 'quoted "c"': 0.5, "Käse": 1.5, "0": 3}
    config = Config.of("mlp", class_weight=weight, metric="f1", output_bias="prior", regression_loss="huber")
    (tmp_path / "config.toml").write_text(config.to_toml())
    assert Config.from_toml(tmp_path / "config.toml") == Config.from_dict(config.to_dict()) == config
    assert Config.of("mlp", class_weight={0: 3}).loss.class_weight == {"0": 3}


# ---- regression ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_predictions_have_the_units_of_the_target(loss: str) -> None:
    """Another unit of the target changes the predictions by the same factor and shift, and nothing else."""
    config = quick(regression_loss=loss)
    trained = TrainedModel.of(config, fit(config, NUMBERS, SPLIT))
    predicted = trained.predict(NUMBERS)
    error = float((torch.from_numpy(predicted) - NUMBERS.y)[SPLIT.test].square().mean().sqrt())
    assert error < 0.5 * float(NUMBERS.y[SPLIT.test].std())
    other = TrainedModel.of(config, fit(config, replace(NUMBERS, y=-0.01 * NUMBERS.y), SPLIT))
    np.testing.assert_allclose(other.predict(NUMBERS).mean(), -0.01 * NUMBERS.y.mean(), rtol=0.05)
    scaled = TrainedModel.of(config, fit(config, replace(NUMBERS, y=4 * NUMBERS.y), SPLIT))  # exact in binary
    np.testing.assert_allclose(scaled.predict(NUMBERS), 4 * predicted, rtol=1e-6)


def test_the_huber_loss_ignores_outliers() -> None:
    y = NUMBERS.y.index_fill(0, SPLIT.train[:4], 1e6)
    errors = {}
    for loss in ("squared", "huber"):
        config = quick(regression_loss=loss)
        trained = TrainedModel.of(config, fit(config, replace(NUMBERS, y=y), SPLIT))
        errors[loss] = float((torch.from_numpy(trained.predict(NUMBERS)) - NUMBERS.y)[SPLIT.test].abs().median())
    assert errors["huber"] < 40 < 1000 < errors["squared"]


@pytest.mark.parametrize("metric", ["rmse", "mae", "r2"])
def test_early_stopping_keeps_the_best_epoch(metric: str) -> None:
    seen: list[Progress] = []
    fitted = fit(quick(metric=metric, lr=0.1), NUMBERS, SPLIT, on_epoch=seen.append)
    scores = [progress.val_score for progress in seen]
    assert fitted.val_score == (max if metric == "r2" else min)(scores)
    assert len(set(scores)) > 50
    assert fitted.score(SPLIT.val) == fitted.val_score


def test_the_search_and_the_race_prefer_low_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    best: list[float] = []
    start = Config.of("mlp", hidden=8, epochs=5, patience=5)
    search = Search(start, "random", 4, tmp_path / "study.log", splits=1)
    _, score = tune(NUMBERS, search, on_trial=lambda _, value: best.append(value))
    assert best == sorted(best, reverse=True)
    assert score == best[-1] > 0
    portfolio = {"linear": ("mlp", {"layers": 1, "epochs": 30}), "none": ("mlp", {"epochs": 30, "lr": 1e-9})}
    monkeypatch.setattr(auto_portfolio, "CANDIDATES", portfolio)
    monkeypatch.setattr(auto_portfolio, "INDUCTIVE_PORTFOLIO", tuple(portfolio))
    ranked = auto.race(auto_portfolio.candidates(NUMBERS), NUMBERS, SPLIT, time_limit=1e6).candidates
    scores = [candidate.val_score for candidate in ranked]
    assert scores == sorted(scores)  # type: ignore[type-var]


# ---- several labels ------------------------------------------------------------------------------------------------


def test_labels_are_learned() -> None:
    fitted = fit(quick(), LABELS, SPLIT)
    assert fitted.task.objective.metric == "roc_auc"
    assert fitted.score(SPLIT.test) > 0.8  # type: ignore[operator]


# ---- ensembles and saved models ------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [CLASSES, LABELS, NUMBERS], ids=["classification", "multi-label", "regression"])
@pytest.mark.parametrize("size", [1, 3])
def test_saved_models_predict_the_same_bits(data: NodeDataset, size: int, tmp_path: Path) -> None:
    config = quick(epochs=5, ensemble_size=size, output_bias="prior")
    fitted = fit(config, data, SPLIT)
    trained = TrainedModel.of(config, fitted)
    trained.save(tmp_path)
    loaded = TrainedModel.load(tmp_path)
    assert np.array_equal(loaded.predict(data), trained.predict(data))
    assert (loaded.target, loaded.center, loaded.scale) == (trained.target, trained.center, trained.scale)
    assert data.score(loaded.logits(data, SPLIT.val), SPLIT.val) == fitted.val_score
    if data.target == "regression":
        with pytest.raises(ValueError, match="the model predicts a number, which has no probabilities; use predict"):
            loaded.predict_proba(data)
    else:
        assert np.array_equal(loaded.predict_proba(data), trained.predict_proba(data))


@pytest.mark.parametrize("data", [LABELS, NUMBERS], ids=["multi-label", "regression"])
def test_an_ensemble_predicts_the_mean(data: NodeDataset) -> None:
    config = quick(epochs=5, ensemble_size=3)
    trained = TrainedModel.of(config, fit(config, data, SPLIT))
    parts = [replace(trained, model=model) for model in trained.model.models]  # type: ignore[attr-defined]

    def predictions(model: TrainedModel) -> np.ndarray:
        return model.predict(data) if data is NUMBERS else model.predict_proba(data)

    np.testing.assert_allclose(predictions(trained), np.mean([predictions(part) for part in parts], axis=0), rtol=1e-5)


def test_validation_nodes_of_one_class_are_noted() -> None:
    """Every epoch has the same ROC AUC, so the last one is kept."""
    val = (CLASSES.y == 0).nonzero()[:20, 0]
    train = torch.arange(300)[~torch.isin(torch.arange(300), val)]
    split = SPLIT._replace(train=train, val=val)
    with pytest.warns(UserWarning, match="csbm: all validation nodes have the same class; roc_auc is constant"):
        fitted = fit(quick(epochs=5, metric="roc_auc"), CLASSES, split)
    assert (fitted.val_score, fitted.epochs) == (0.5, 5)
