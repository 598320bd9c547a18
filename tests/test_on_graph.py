"""OnGraph: a node estimator with a graph bound to it works in scikit-learn's tools and passes its checks."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import polybasis as pb

N = 120
DATA = pb.data.csbm(nodes=N, features=20, seed=2)
GRAPH, X, Y = DATA.graph, DATA.x.numpy(), DATA.y.numpy()
NUMBERS = (GRAPH @ DATA.x)[:, 0].numpy()
NODES = np.arange(N)
TABLE = np.column_stack([NODES, X])
FAST: dict[str, Any] = {"hidden": 8, "K": 2, "epochs": 8}
BOUND = pb.OnGraph(pb.NodeClassifier(**FAST), GRAPH, X)


def test_the_adapter_is_the_estimator_on_the_given_nodes() -> None:
    train = np.random.default_rng(0).permutation(N)[:80]
    y = np.full(N, None, dtype=object)
    y[train] = Y[train]
    alone = pb.NodeClassifier(**FAST).fit(GRAPH, X, y)
    fitted = clone(BOUND).fit(train, Y[train])
    np.testing.assert_array_equal(fitted.predict(NODES[::-1]), alone.predict()[::-1])
    np.testing.assert_allclose(fitted.predict_proba(NODES[:7].reshape(-1, 1)), alone.predict_proba()[:7], atol=1e-6)
    assert fitted.score(train, Y[train]) == accuracy_score(Y[train], alone.predict()[train])
    assert fitted.estimator_.history_ == alone.history_


def test_targets_of_other_nodes_are_not_used() -> None:
    """Cross-validation scores are those of a loop in which the labels of the fold do not exist."""
    folds = StratifiedKFold(3)
    scores = []
    for train, test in folds.split(NODES, Y):
        y = np.where(np.isin(NODES, train), Y, -1)
        scores.append((pb.NodeClassifier(**FAST).fit(GRAPH, X, y).predict() == Y)[test].mean())
    np.testing.assert_allclose(cross_val_score(BOUND, NODES, Y, cv=folds), scores)
    random = np.random.default_rng(0).integers(0, 2, N)
    chance = cross_val_score(clone(BOUND).set_params(estimator__epochs=30), NODES, random, cv=folds).mean()
    assert abs(chance - 0.5) < 0.15


def test_grid_search() -> None:
    grid = {"estimator__K": [1, 2], "estimator__model": ["optbasis", "mlp"]}
    with pytest.raises(ValueError, match="unknown key 'K' for mlp; expected one of layers"):
        GridSearchCV(BOUND, grid, cv=2, error_score="raise").fit(NODES, Y)
    search = GridSearchCV(BOUND, {"estimator__K": [1, 2], "estimator__lr": [1e-6, 0.05]}, cv=2).fit(NODES, Y)
    assert search.best_params_["estimator__lr"] == 0.05
    best = clone(BOUND).set_params(**search.best_params_)
    assert search.best_score_ == pytest.approx(cross_val_score(best, NODES, Y, cv=2).mean())
    np.testing.assert_array_equal(search.predict(NODES), best.fit(NODES, Y).predict(NODES))


def test_a_pipeline_scales_the_features_of_a_table() -> None:
    """Scaling inside the pipeline undoes scaling of the table."""
    scale = ColumnTransformer([("node", "passthrough", [0])], remainder=StandardScaler())
    pipeline = make_pipeline(scale, pb.OnGraph(pb.NodeClassifier(**FAST), GRAPH))
    scaled = np.column_stack([NODES, 3 + X * np.geomspace(1e-3, 1e3, X.shape[1])])
    expected = cross_val_predict(pipeline, TABLE, Y, cv=3, method="predict_proba")
    got = cross_val_predict(pipeline, scaled, Y, cv=3, method="predict_proba")
    np.testing.assert_allclose(got, expected, atol=1e-3)
    alone = cross_val_predict(pipeline[-1], scaled, Y, cv=3, method="predict_proba")
    assert not np.allclose(alone, expected, atol=1e-3)
    frame = pd.DataFrame(TABLE, columns=["node", *(f"word{i}" for i in range(X.shape[1]))])
    by_name = ColumnTransformer([("node", "passthrough", ["node"])], remainder=StandardScaler())
    named = make_pipeline(by_name, pipeline[-1])
    np.testing.assert_array_equal(cross_val_predict(named, frame, Y, cv=3, method="predict_proba"), expected)


def test_nodes_without_a_row_have_the_mean_of_the_columns() -> None:
    rows = NODES % 3 > 0
    table = pb.OnGraph(pb.NodeClassifier(**FAST), GRAPH).fit(TABLE[rows], Y[rows])
    filled = np.where(rows[:, None], X, X[rows].astype(np.float64).mean(axis=0))
    y = np.where(rows, Y, -1)
    alone = pb.NodeClassifier(**FAST).fit(GRAPH, filled, y)
    np.testing.assert_allclose(table.predict_proba(TABLE[rows]), alone.predict_proba()[rows], atol=1e-6)
    everything = alone.predict_proba(GRAPH, X)
    np.testing.assert_allclose(table.predict_proba(TABLE[~rows]), everything[~rows], atol=1e-6)


def test_calibration() -> None:
    train, test = NODES[:80], NODES[80:]
    longer = clone(BOUND).set_params(estimator__epochs=40)
    calibrated = CalibratedClassifierCV(longer, cv=3).fit(train, Y[train])
    probabilities = calibrated.predict_proba(test)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert len(calibrated.calibrated_classifiers_) == 3
    assert accuracy_score(Y[test], calibrated.predict(test)) > 0.6


def test_regression() -> None:
    regressor = pb.OnGraph(pb.NodeRegressor("favard", K=2, hidden=16, epochs=200, lr=0.02, dropout=0.0), GRAPH, X)
    scores = cross_val_score(regressor, NODES, NUMBERS, cv=3)
    assert scores.mean() > 0.3
    fitted = regressor.fit(NODES, NUMBERS)
    assert fitted.score(NODES, NUMBERS) == pytest.approx(r2_score(NUMBERS, fitted.predict(NODES)))


def test_clones_share_the_graph_and_pickles_predict_the_same() -> None:
    other = clone(BOUND)
    assert other.graph is BOUND.graph
    assert other.features is BOUND.features
    assert other.estimator is not BOUND.estimator
    fitted = other.fit(NODES, Y)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(NODES), fitted.predict_proba(NODES))


def test_a_class_named_minus_one_is_a_class() -> None:
    signs = 2 * Y - 1
    fitted = clone(BOUND).fit(NODES, signs)
    np.testing.assert_array_equal(fitted.predict(NODES), 2 * clone(BOUND).fit(NODES, Y).predict(NODES) - 1)


def test_weights_of_rows() -> None:
    weights = np.random.default_rng(0).random(80)
    nodes = NODES[::-1][:80]
    everywhere = np.zeros(N)
    everywhere[nodes] = weights
    y = np.where(np.isin(NODES, nodes), Y, -1)
    alone = pb.NodeClassifier(**FAST).fit(GRAPH, X, y, sample_weight=everywhere)
    np.testing.assert_array_equal(clone(BOUND).fit(nodes, Y[nodes], weights).predict(NODES), alone.predict())


def test_invalid_rows_are_refused() -> None:
    table = pb.OnGraph(pb.NodeClassifier(**FAST), GRAPH)
    with pytest.raises(NotFittedError):
        clone(BOUND).predict(NODES)
    for adapter, rows, message in (
        (BOUND, NODES + 1, rf"X\[{N - 1}, 0\] is {N}; expected the index of a node, from 0 to {N - 1}"),
        (BOUND, NODES + 0.5, r"X\[0, 0\] is 0.5; expected the index of a node"),
        (BOUND, NODES // 2, "X has node 0 more than once; expected one row for each node"),
        (BOUND, TABLE, "X has 21 columns .* features are bound; expected only the index of the node"),
        (table, NODES.reshape(-1, 1), "features are not bound; expected the index of the node and features"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(adapter).fit(rows, Y)


# ---- check_estimator -----------------------------------------------------------------------------------------------


class Numbered(pb.OnGraph):
    """Numbers the rows of any table 0, 1, .., on a graph without edges: what check_estimator can be applied to."""

    def _divide(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(len(table)), table


NO_EDGES = pb.Graph.from_edge_index(np.zeros((2, 0), dtype=np.int64), 1000)
DOES_NOT_APPLY = {
    "check_estimators_overwrite_params": "joblib's hash of a tensor and of its copy differ; tested below",
    "check_sample_weight_equivalence_on_dense_data": "a quarter of the rows, drawn at random, is for early stopping",
}


@parametrize_with_checks(
    [
        Numbered(pb.NodeClassifier("mlp", hidden=16, epochs=100, lr=0.05, dropout=0.0), NO_EDGES),
        Numbered(pb.NodeRegressor("mlp", hidden=16, epochs=100, lr=0.05, dropout=0.0), NO_EDGES),
    ],
    expected_failed_checks=lambda estimator: DOES_NOT_APPLY,
    xfail_strict=True,
)
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_fit_does_not_change_parameters() -> None:
    adapter = pb.OnGraph(pb.NodeClassifier(**FAST), pb.Graph.from_edge_index(GRAPH.edge_index(), N), X.copy())
    adapter.fit(NODES, Y)
    assert adapter.estimator.get_params() == pb.NodeClassifier(**FAST).get_params()
    assert not hasattr(adapter.estimator, "model_")
    assert (adapter.graph.adjacency() != GRAPH.adjacency()).nnz == 0
    assert np.array_equal(adapter.features, X)
