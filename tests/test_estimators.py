"""scikit-learn's protocol: parameters, clones, kinds of input and callbacks."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import estimator_checks

import polybasis as pb
from polybasis.train.fitting import Progress

N = 120
DATA = pb.data.csbm(nodes=N, features=20, seed=2)
GRAPH, X, Y = DATA.graph, DATA.x.numpy(), DATA.y.numpy()
NUMBERS = (GRAPH @ DATA.x)[:, 0].numpy()
NODES = np.arange(N)
NAMES = ["red" if value else "blue" for value in Y]
KNOWN = NODES % 4 != 0
FAST: dict[str, Any] = {"hidden": 8, "K": 2, "epochs": 8}


def classifier(**changed: Any) -> pb.NodeClassifier:
    return pb.NodeClassifier(**FAST | changed)


ESTIMATORS = [
    pb.NodeClassifier("favard", seed=3, **FAST),
    pb.NodeClassifier("auto", time_limit=2.0),
    pb.NodeClassifier(config=pb.train.Config.of("gcn")),
    pb.NodeRegressor(**FAST),
    pb.GraphFilter(K=3, ridge=0.1),
]


# ---- parameters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_parameters_survive_clone_copy_and_pickle(estimator: Any) -> None:
    for other in (clone(estimator), copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator))):
        assert type(other) is type(estimator)
        assert other is not estimator
        assert other.get_params() == estimator.get_params()
        assert repr(other) == repr(estimator)


def test_arguments_of_the_model_are_parameters() -> None:
    estimator = classifier()
    assert estimator.get_params() == {"model": None, "seed": 0, "time_limit": None, "config": None, **FAST}
    other = clone(estimator).set_params(K=5, dropout=0.1, seed=4)
    assert (other.get_params()["K"], other.get_params()["dropout"], other.seed) == (5, 0.1, 4)
    assert estimator.get_params()["K"] == 2
    assert repr(other) == "NodeClassifier(seed=4, hidden=8, K=5, epochs=8, dropout=0.1)"
    changed = other.fit(GRAPH, X, Y).predict_proba()
    assert np.array_equal(changed, classifier(K=5, dropout=0.1, seed=4).fit(GRAPH, X, Y).predict_proba())
    with pytest.raises(ValueError, match="unknown key 'depth' for optbasisgnn; expected one of K"):
        classifier().set_params(depth=3).fit(GRAPH, X, Y)
    with pytest.raises(ValueError, match="GraphFilter has no parameter 'degree'; expected K, ridge"):
        pb.GraphFilter().set_params(degree=3)


@pytest.mark.parametrize("kind", [pb.NodeClassifier, pb.NodeRegressor, pb.GraphFilter])
@pytest.mark.parametrize(
    "check",
    [
        "check_parameters_default_constructible",
        "check_get_params_invariance",
        "check_set_params",
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_estimator_repr",
        "check_estimator_cloneable",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_mixin_order",
    ],
)
def test_checks_of_scikit_learn_that_need_no_graph(kind: Any, check: str) -> None:
    """``fit`` takes a graph, so that other checks apply to :class:`polybasis.OnGraph` only."""
    getattr(estimator_checks, check)(kind.__name__, kind())


def test_kinds_and_unfitted_attributes() -> None:
    assert is_classifier(classifier())
    assert is_regressor(pb.NodeRegressor())
    assert is_classifier(pb.OnGraph(classifier(), GRAPH))
    assert is_regressor(pb.OnGraph(pb.NodeRegressor(), GRAPH))
    assert not hasattr(pb.OnGraph(pb.NodeRegressor(), GRAPH), "predict_proba")
    for name in ("classes_", "model_", "val_score_", "epochs_", "config_", "history_"):
        assert not hasattr(classifier(), name)
        assert hasattr(classifier(epochs=1).fit(GRAPH, X, Y), name)
    assert not hasattr(pb.GraphFilter(), "mse_")


def test_a_pickled_fit_predicts_the_same() -> None:
    for estimator in (classifier().fit(GRAPH, X, Y), pb.NodeRegressor(**FAST).fit(GRAPH, X, NUMBERS)):
        other = pickle.loads(pickle.dumps(estimator))
        assert np.array_equal(other.predict(), estimator.predict())
        assert other.history_ == estimator.history_
    learned = pb.GraphFilter(2).fit(GRAPH, X, GRAPH @ X)
    assert np.array_equal(pickle.loads(pickle.dumps(learned)).transform(GRAPH, X), learned.transform(GRAPH, X))


def test_estimators_work_without_scikit_learn() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import polybasis as pb; data = pb.data.csbm(nodes=60, features=5)\n"
        "c = pb.NodeClassifier(epochs=1).set_params(K=2).fit(data.graph, data.x, data.y); c.get_params(); repr(c)\n"
        "try: pb.OnGraph\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "OnGraph needs scikit-learn; install it with: pip install 'polybasis[sklearn]'\n"


# ---- regression ----------------------------------------------------------------------------------------------------


def test_regression_recovers_a_filter(tmp_path: Path) -> None:
    """The target is a polynomial filter of the features, which the model contains."""
    estimator = pb.NodeRegressor("favard", K=2, hidden=16, epochs=300, lr=0.02, dropout=0.0)
    y = np.where(NODES % 3 == 0, np.nan, 100 + 5 * NUMBERS)
    estimator.fit(GRAPH, X, y)
    truth, hidden = 100 + 5 * NUMBERS, NODES % 3 == 0
    assert estimator.score(truth, hidden) == pytest.approx(r2_score(truth[hidden], estimator.predict()[hidden]))
    assert estimator.score(truth, hidden) > 0.5
    assert estimator.score(truth, np.flatnonzero(hidden)) == estimator.score(truth, hidden)
    estimator.save(tmp_path)
    assert np.array_equal(pb.NodeRegressor.load(tmp_path).predict(GRAPH, X), estimator.predict())
    with pytest.raises(ValueError, match=r"has a model for regression; use NodeRegressor\.load"):
        pb.NodeClassifier.load(tmp_path)
    with pytest.raises(ValueError, match="y has the value 'a'; expected numbers"):
        estimator.fit(GRAPH, X, ["a"] * N)


def test_clones_of_auto_choose_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice is a fitted attribute: the parameters stay those of the constructor."""
    portfolio = {"linear": ("mlp", {"layers": 1, "epochs": 5}), "favard": ("favardgnn", {"K": 2, "epochs": 20})}
    monkeypatch.setattr("polybasis.train.auto_portfolio.CANDIDATES", portfolio)
    monkeypatch.setattr("polybasis.train.auto_portfolio.INDUCTIVE_PORTFOLIO", tuple(portfolio))
    estimator = pb.NodeRegressor("auto", time_limit=1.0).fit(GRAPH, X, NUMBERS)
    assert {candidate.name for candidate in estimator.candidates_} == {"linear", "favard"}
    assert estimator.config_.model.name == estimator.candidates_[0].config.model.name
    other = clone(estimator)
    assert repr(other) == "NodeRegressor(model='auto', time_limit=1.0)"
    assert not hasattr(other, "candidates_")
    assert other.fit(GRAPH, X, NUMBERS).predict().shape == (N,)


# ---- kinds of input ------------------------------------------------------------------------------------------------


class PolarsLike:
    """What of a polars series or frame is used: ``to_numpy`` and, for series, ``to_list``."""

    def __init__(self, values: Any) -> None:
        self.to_numpy = lambda: np.asarray(values)
        if np.ndim(values) == 1:
            self.to_list = lambda: list(values)


@pytest.mark.parametrize(
    "features",
    [
        X,
        X.astype(np.float64)[:, ::-1][:, ::-1],
        DATA.x,
        X.tolist(),
        sp.csr_matrix(X),
        sp.coo_array(X),
        pd.DataFrame(X),
        pd.DataFrame(X).astype("Float64"),
        PolarsLike(X),
    ],
    ids=lambda value: type(value).__name__,
)
def test_features_of_every_kind_give_the_same_model(features: Any) -> None:
    fitted = classifier().fit(GRAPH, features, Y)
    np.testing.assert_array_equal(fitted.predict_proba(), classifier().fit(GRAPH, X, Y).predict_proba())
    np.testing.assert_array_equal(fitted.predict_proba(GRAPH, features), fitted.predict_proba())


def test_polars() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({str(i): column for i, column in enumerate(X.T)})
    names = pl.Series([name if known else None for name, known in zip(NAMES, KNOWN, strict=True)])
    fitted = classifier().fit(GRAPH, frame, names, pl.Series(NODES < 60), pl.Series(NODES[60:]))
    expected = classifier().fit(GRAPH, X, names.to_list(), NODES < 60, NODES >= 60)
    np.testing.assert_array_equal(fitted.predict_proba(), expected.predict_proba())
    numbers = pl.Series([float(value) if known else None for value, known in zip(NUMBERS, KNOWN, strict=True)])
    by_numpy = pb.NodeRegressor(**FAST).fit(GRAPH, X, np.where(KNOWN, NUMBERS, np.nan))
    np.testing.assert_array_equal(pb.NodeRegressor(**FAST).fit(GRAPH, frame, numbers).predict(), by_numpy.predict())
    table = frame.insert_column(0, pl.Series("node", NODES))
    adapter = pb.OnGraph(classifier(), GRAPH).fit(table, pl.Series(NAMES))
    assert adapter.feature_names_in_[0] == "node"
    with pytest.raises(ValueError, match=r"X\[5, 0\] is nan; features must be finite"):
        classifier().fit(GRAPH, pl.DataFrame({"a": [None if i == 5 else i for i in range(N)]}), Y)


def test_wide_sparse_features_stay_sparse() -> None:
    matrix = sp.random_array((N, 200), density=0.05, rng=np.random.default_rng(0), format="csc")
    fitted = classifier().fit(GRAPH, matrix, Y)
    assert isinstance(fitted._data.x, pb.features.SparseFeatures)  # type: ignore[union-attr]
    np.testing.assert_allclose(fitted.predict_proba(GRAPH, matrix.toarray()), fitted.predict_proba(), atol=1e-6)
    matrix.data[7] = np.inf
    row, column = (int(part[0]) for part in np.nonzero(np.isinf(matrix.toarray())))
    with pytest.raises(ValueError, match=rf"X\[{row}, {column}\] is inf; features must be finite"):
        classifier().fit(GRAPH, matrix, Y)


@pytest.mark.parametrize(
    "target",
    [
        pd.Series(NAMES).where(KNOWN, None),
        pd.Series(NAMES, dtype="string").where(KNOWN, pd.NA),
        pd.Series(NAMES).where(KNOWN, None).astype("category"),
        PolarsLike([name if known else None for name, known in zip(NAMES, KNOWN, strict=True)]),
        np.where(KNOWN, np.array(NAMES, dtype=object), np.nan),
    ],
    ids=["object", "string", "category", "polars", "numpy"],
)
def test_missing_classes_of_every_kind_are_unknown(target: Any) -> None:
    expected = classifier().fit(GRAPH, X, [name if k else None for name, k in zip(NAMES, KNOWN, strict=True)])
    fitted = classifier().fit(GRAPH, X, target)
    assert fitted.classes_.tolist() == ["blue", "red"]
    np.testing.assert_array_equal(fitted.predict_proba(), expected.predict_proba())
    assert fitted.score(target) == accuracy_score(np.array(NAMES)[KNOWN], fitted.predict()[KNOWN])


def test_missing_numbers_are_unknown() -> None:
    y = pd.Series(NUMBERS, dtype="Float64").where(KNOWN, pd.NA)
    expected = pb.NodeRegressor(**FAST).fit(GRAPH, X, np.where(KNOWN, NUMBERS, np.nan)).predict()
    np.testing.assert_array_equal(pb.NodeRegressor(**FAST).fit(GRAPH, X, y).predict(), expected)
    nullable = pd.Series(Y, dtype="Int64").where(KNOWN, pd.NA)
    assert classifier().fit(GRAPH, X, nullable).classes_.tolist() == [0, 1]


def test_masks_are_booleans_or_indices() -> None:
    train, val = NODES < 60, NODES >= 90
    expected = classifier().fit(GRAPH, X, Y, train, val).predict_proba()
    for convert in (np.flatnonzero, pd.Series, torch.from_numpy, lambda mask: np.flatnonzero(mask)[::-1].tolist()):
        got = classifier().fit(GRAPH, X, Y, convert(train), convert(val)).predict_proba()
        np.testing.assert_array_equal(got, expected)
    for wrong, message in (
        ([0, 1, N], rf"train_mask has node {N}; expected nodes from 0 to {N - 1}"),
        ([0, -1], "train_mask has node -1"),
        (train.astype(int), "train_mask has node 0 more than once; if it is a mask, convert it to booleans"),
        (train.astype(float), "train_mask has dtype float64"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier().fit(GRAPH, X, Y, wrong, val)


def test_invalid_tables_are_refused() -> None:
    frame = pd.DataFrame(X).astype("Float64")
    frame.iloc[5, 3] = pd.NA
    with pytest.raises(ValueError, match=r"X\[5, 3\] is nan; features must be finite"):
        classifier().fit(GRAPH, frame, Y)
    with pytest.raises(ValueError, match="X has the value 'blue'; expected numbers: encode categories first"):
        classifier().fit(GRAPH, pd.DataFrame({"a": X[:, 0], "b": NAMES}), Y)
    with pytest.raises(ValueError, match="y has several columns"):
        classifier().fit(GRAPH, X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match="y has the class 1 among classes of another type"):
        classifier().fit(GRAPH, X, ["a", 1] * (N // 2))


def test_signals_may_be_columns_of_a_table() -> None:
    x, y = pd.DataFrame(X.astype(float)), pd.DataFrame(GRAPH @ X.astype(float))
    learned = pb.GraphFilter(2).fit(GRAPH, x, y)
    assert learned.mse_ < 1e-12
    np.testing.assert_array_equal(learned.transform(GRAPH, x[0]), learned.transform(GRAPH, x[0].to_numpy()))


# ---- callbacks -----------------------------------------------------------------------------------------------------


def stop_after(epoch: int) -> Callable[[Progress], None]:
    def on_epoch(progress: Progress) -> None:
        if progress.epoch == epoch:
            raise pb.StopTraining

    return on_epoch


def test_history_is_what_callbacks_see() -> None:
    seen: list[Progress] = []
    fitted = classifier().fit(GRAPH, X, Y, on_epoch=seen.append)
    assert [row["epoch"] for row in fitted.history_] == list(range(8))
    assert [(row["train_loss"], row["val_score"]) for row in fitted.history_] == [
        (progress.train_loss, progress.val_score) for progress in seen
    ]
    assert fitted.val_score_ == max(row["val_score"] for row in fitted.history_)


@pytest.mark.parametrize(
    "changed",
    [{}, {"ema_decay": 0.9}, {"early_stopping": "none"}, {"early_stopping": "loss"}, {"label_reuse": 0.5}],
    ids=str,
)
def test_stopped_training_keeps_the_best_model(changed: dict[str, Any]) -> None:
    """The same model as with as many epochs in the first place."""
    stopped = classifier(epochs=40, **changed).fit(GRAPH, X, Y, on_epoch=stop_after(9))
    short = classifier(epochs=10, **changed).fit(GRAPH, X, Y)
    assert stopped.epochs_ == 10
    assert stopped.val_score_ == short.val_score_
    assert stopped.history_ == short.history_
    np.testing.assert_allclose(stopped.predict_proba(), short.predict_proba(), atol=1e-6)


def test_a_stopped_ensemble_keeps_its_models(tmp_path: Path) -> None:
    """The second of three models stops after its fourth epoch."""
    stopped = classifier(ensemble_size=3).fit(GRAPH, X, Y, on_epoch=stop_after(8 + 3))
    second = classifier(epochs=4, seed=1_000_000).fit(GRAPH, X, Y, *split_of(0)).predict_proba()
    first = classifier().fit(GRAPH, X, Y, *split_of(0)).predict_proba()
    np.testing.assert_allclose(stopped.predict_proba(), (first + second) / 2, atol=1e-5)
    assert stopped.epochs_ == 12
    stopped.save(tmp_path / "model")
    loaded = pb.NodeClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(GRAPH, X), stopped.predict_proba())


def split_of(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The default split of a seed."""
    data = pb.data.dataset.NodeDataset(name="graph", graph=GRAPH, x=DATA.x, y=DATA.y)
    train, val, _ = data.split("train-val", seed)
    return train.numpy(), val.numpy()


def test_training_stopped_after_a_resume_keeps_the_best_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best epoch may be one before the interruption."""
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)

    def interrupt(progress: Progress) -> None:
        if progress.epoch == 25:
            raise KeyboardInterrupt

    def make() -> pb.NodeClassifier:
        return classifier(epochs=60, lr=0.3, early_stopping="loss")

    with pytest.raises(KeyboardInterrupt):
        make().fit(GRAPH, X, Y, on_epoch=interrupt, checkpoints=tmp_path)
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        if progress.epoch == 27:
            raise pb.StopTraining

    stopped = make().fit(GRAPH, X, Y, on_epoch=stop, checkpoints=tmp_path)
    assert seen[0].epoch == 25
    assert seen[-1].best_epoch < 25
    whole = make().fit(GRAPH, X, Y, on_epoch=stop_after(27))
    np.testing.assert_allclose(stopped.predict_proba(), whole.predict_proba(), atol=1e-6)
    assert not list(tmp_path.iterdir())


# ---- graphs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (GRAPH.edge_index(), "graph is a Tensor; expected a Graph; use pb.Graph.from_edge_index(edge_index)"),
        (GRAPH.edge_index().tolist(), "graph is a list; expected a Graph; use pb.Graph.from_edge_index(edge_index)"),
        (sp.eye_array(N).tocsr(), "graph is a csr_array; expected a Graph; use pb.Graph.from_adjacency(adjacency)"),
    ],
    ids=["tensor", "list", "matrix"],
)
def test_edges_in_place_of_a_graph_are_refused(graph: Any, message: str) -> None:
    fitted, fitted_filter = classifier().fit(GRAPH, X, Y), pb.GraphFilter(2).fit(GRAPH, X, X)
    for call in (
        lambda: classifier().fit(graph, X, Y),
        lambda: pb.NodeRegressor(**FAST).fit(graph, X, NUMBERS),
        lambda: fitted.predict(graph, X),
        lambda: pb.GraphFilter(2).fit(graph, X, X),
        lambda: fitted_filter.transform(graph, X),
        lambda: pb.OnGraph(classifier(), graph, X).fit(NODES, Y),
    ):
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            call()
