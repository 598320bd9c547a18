"""Test scores with intervals, next to baselines."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis.data.dataset import NodeDataset
from polybasis.train import Config, TrainedModel, fit
from polybasis.train.assessment import assess
from polybasis.train.bootstrap import Ranking, bootstrap
from polybasis.train.columns_only import columns_only
from polybasis.train.objective import Objective

GRAPH = pb.data.csbm(nodes=600, features=12, seed=1)
SMOOTH = GRAPH.graph @ GRAPH.x
NOISE = torch.randn(600, 6, generator=torch.Generator().manual_seed(0))


def dataset(y: torch.Tensor, **values: Any) -> NodeDataset:
    return NodeDataset(name="data", graph=GRAPH.graph, x=GRAPH.x, y=y, **values)


def trained_on(data: NodeDataset, **values: Any) -> TrainedModel:
    config = Config.of("optbasisgnn", **{"hidden": 16, "epochs": 80, "dropout": 0.0, "scale": "signal", **values})
    return TrainedModel.of(config, fit(config, data, data.split("random")))


# ---- the bootstrap -------------------------------------------------------------------------------------------------


def test_intervals_of_accuracies_are_those_of_the_binomial_distribution() -> None:
    """The standard deviation of a mean of n correct or wrong predictions is sqrt(p (1 - p) / n)."""
    y = torch.zeros(400, dtype=torch.long)
    logits = torch.zeros(400, 2)
    logits[:100, 1] = 1.0  # a quarter is wrong
    drawn = bootstrap({"model": logits}, y, "accuracy", "classification", 2000, 0)["model"]
    assert drawn.mean() == pytest.approx(0.75, abs=0.005)
    assert drawn.std() == pytest.approx((0.75 * 0.25 / 400) ** 0.5, rel=0.1)


def test_every_resample_has_nodes_of_all_classes() -> None:
    y = torch.zeros(300, dtype=torch.long).index_fill(0, torch.tensor([7]), 1)
    logits = torch.zeros(300, 2).index_fill(0, torch.tensor([7]), 1.0)
    logits[:, 0] = 0
    drawn = bootstrap({"model": logits}, y, "roc_auc", "classification", 100, 0)["model"]
    assert (drawn == 1).all(), "resamples without a positive node would have 0.5"


@pytest.mark.parametrize("metric", ["roc_auc", "average_precision"])
@pytest.mark.parametrize("ties", [False, True])
def test_resampled_areas_are_those_of_scikit_learn(metric: str, ties: bool) -> None:
    oracle = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the oracle of this test")
    rng = np.random.default_rng(0)
    scores = rng.random(80).round(1 if ties else 9)
    outcomes = (rng.random(80) < 0.3).astype(np.int64)
    ranking = Ranking(torch.from_numpy(scores), torch.from_numpy(outcomes))
    for _ in range(10):
        counts = np.bincount(rng.integers(0, 80, 80), minlength=80)
        nodes = np.repeat(np.arange(80), counts)
        expected = getattr(oracle, f"{metric}_score")(outcomes[nodes], scores[nodes])
        assert getattr(ranking, metric)(counts) == pytest.approx(expected, abs=1e-12)


def test_resamples_are_shared_and_seeded() -> None:
    y = torch.arange(50) % 2
    logits = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    first = bootstrap({"a": logits, "b": logits.clone()}, y, "f1", "classification", 50, 3)
    assert np.array_equal(first["a"], first["b"])
    assert np.array_equal(bootstrap({"a": logits}, y, "f1", "classification", 50, 3)["a"], first["a"])
    assert not np.array_equal(bootstrap({"a": logits}, y, "f1", "classification", 50, 4)["a"], first["a"])


# ---- baselines -----------------------------------------------------------------------------------------------------

TARGETS = {
    "classification": dataset((SMOOTH[:, 0] > 0).long()),
    "rare": dataset((SMOOTH[:, 0] > SMOOTH[:, 0].quantile(0.9)).long()),
    "multi-label": dataset((SMOOTH[:, :3] > 0).long()),
    "regression": dataset(100 + 5 * SMOOTH[:, 0] / SMOOTH[:, 0].std()),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_model_that_uses_the_graph_beats_the_baselines(name: str) -> None:
    """The targets are functions of the features of neighbours."""
    pytest.importorskip("sklearn")
    data = TARGETS[name]
    trained = trained_on(data)
    found = assess(trained, data, data.split("random"), resamples=200)
    constant = "constant" if name in ("multi-label", "regression") else "majority"
    assert [comparison.name for comparison in found.baselines] == [constant, "columns only"]
    assert found.nodes == 120
    assert found.metric == trained.metric == data.metric
    rough = ("Only 9 of 120 test nodes are of class '1', so the score and its interval are rough. Label more nodes.",)
    assert found.warnings == (rough if name == "rare" else ())
    assert found.score.low <= found.score.value <= found.score.high
    for comparison in found.baselines:
        assert comparison.beaten
        difference = found.score.value - comparison.score.value
        assert abs(comparison.advantage.value) == pytest.approx(abs(difference))
        assert comparison.advantage.low > 0
    value = found.baselines[0].score.value
    if name == "regression":
        assert value == pytest.approx(float(data.y[data.split("random").test].std()), rel=0.1)
    else:
        assert value == pytest.approx(0.5, abs=0.1)


def test_a_model_that_does_not_beat_a_baseline_is_named() -> None:
    pytest.importorskip("sklearn")
    columns = dataset((GRAPH.x[:, 0] > 0).long())
    untrained = trained_on(columns, epochs=1, lr=1e-9)
    constant, linear = assess(untrained, columns, columns.split("random"), resamples=200).warnings
    assert re.fullmatch(
        r"The model is not clearly better than a constant prediction: test accuracy 0\.\d{4} against 0\.\d{4}, and the "
        r"difference may be due to chance \(95% interval [+-]0\.\d{4} to [+-]0\.\d{4}\)\.",
        constant,
    )
    assert linear.startswith("The model is worse than a linear model of the columns, which ignores the graph: test acc")


def test_few_test_nodes_of_a_class_are_counted() -> None:
    data = TARGETS["rare"]
    split = data.split("random")
    positive, negative = (split.test[data.y[split.test] == c] for c in (1, 0))
    few = split._replace(test=torch.cat([positive[:3], negative]).sort().values)
    trained = trained_on(data, epochs=1, lr=1e-9)
    *_, note = assess(trained, data, few, resamples=50).warnings
    assert note.startswith(
        f"Only 3 of {len(negative) + 3} test nodes are of class '1', so the score and its interval are rough"
    )
    (note,) = assess(trained, data, split._replace(test=negative), resamples=50).warnings
    assert note == "No test node is of class '1', so ROC AUC is meaningless. Label more nodes."


def test_the_baseline_is_that_of_scikit_learn_with_the_weights_of_the_model() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is the oracle of this test")
    from sklearn.preprocessing import StandardScaler

    weight = torch.rand(600, generator=torch.Generator().manual_seed(1))
    data = replace(TARGETS["rare"], sample_weight=weight)
    split = data.split("random")
    objective = Objective.of(Config.of("mlp", class_weight={"1": 7.0}), data, split.train)
    found = columns_only(objective, data, split).softmax(1)[:, 1]
    scaler = StandardScaler().fit(data.x[split.train])
    model = linear_model.LogisticRegression(class_weight={0: 1.0, 1: 7.0}, max_iter=1000)
    model.fit(scaler.transform(data.x[split.train]), data.y[split.train], sample_weight=weight[split.train])
    np.testing.assert_allclose(found, model.predict_proba(scaler.transform(data.x[split.test]))[:, 1], atol=1e-3)


def test_classes_and_labels_without_training_nodes_have_finite_outputs() -> None:
    pytest.importorskip("sklearn")
    for y in (torch.zeros(600, dtype=torch.long), torch.stack([GRAPH.y, torch.ones(600).long()], dim=1)):
        data = dataset(y, classes=("a", "b"), metric="f1")
        found = columns_only(
            Objective.of(Config.of("mlp"), data, data.split("random").train), data, data.split("random")
        )
        assert found.shape == (120, 2)
        assert found.isfinite().all()


def test_sparse_features_have_a_baseline() -> None:
    pytest.importorskip("sklearn")
    sparse = pb.features.as_features((NOISE > 1.5).float())
    data = replace(TARGETS["classification"], x=sparse)
    split = data.split("random")
    objective = Objective.of(Config.of("mlp"), data, split.train)
    assert columns_only(objective, data, split).shape == (120, 2)


def test_what_is_left_out_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    data = TARGETS["classification"]
    trained = trained_on(data, epochs=5)
    split = data.split("random")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sklearn.linear_model", None)
        found = assess(trained, data, split, resamples=20)
    assert [comparison.name for comparison in found.baselines] == ["majority"]
    assert found.warnings[-1] == "The columns-only baseline is left out: install scikit-learn to include it."
    alone = replace(data, structure_only=True)
    nodes = tuple(str(name) for name in data.node_names())
    structure = assess(replace(trained, structure_only=True, nodes=nodes), alone, split, resamples=20)
    assert structure.warnings[-1] == "The columns-only baseline is left out: the data has no features."
    with pytest.raises(ValueError, match="data has no test nodes in this split; use a protocol with test nodes"):
        assess(trained, data, data.split("train-val"))
