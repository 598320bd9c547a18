"""NodeClassifier: scikit-learn's interface to training, saved models and any source of features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis import native
from polybasis.features import FeatureTransform
from polybasis.store import write_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train import Config, Job, Source, run_job
from polybasis.train.fitting import Progress
from polybasis.train.job import adapt_config

DATA = pb.data.csbm(nodes=150, features=40, seed=2)
NAMES = np.array(["blue", "red"])[DATA.y.numpy()]
TRAIN = np.arange(150) < 90


def fitted(**arguments: object) -> pb.NodeClassifier:
    return pb.NodeClassifier(hidden=8, epochs=20, **arguments).fit(DATA.graph, DATA.x, NAMES)  # type: ignore[arg-type]


def test_fit_predict_score() -> None:
    classifier = fitted(model="optbasis", K=4)
    assert classifier.classes_.tolist() == ["blue", "red"]
    assert classifier.predict_proba().shape == (150, 2)
    np.testing.assert_allclose(classifier.predict_proba().sum(1), 1, rtol=1e-5)
    assert classifier.score(NAMES) == (classifier.predict() == NAMES).mean()
    assert classifier.score(NAMES) > 0.7
    assert classifier.score(NAMES, TRAIN) == (classifier.predict() == NAMES)[TRAIN].mean()
    assert classifier.epochs_ == 20
    assert 0.5 < classifier.val_score_ <= 1
    assert repr(classifier) == "NodeClassifier(model='optbasis', hidden=8, epochs=20, K=4)"
    assert repr(classifier.model_) == "OptBasisGNN(40, 8, 2, K=4)"


def test_the_data_may_be_passed_in_several_forms() -> None:
    classifier = fitted(K=3)
    expected = classifier.predict_proba()
    assert np.array_equal(classifier.predict_proba(DATA.graph, DATA.x.numpy().astype(np.float64)), expected)
    assert np.array_equal(classifier.predict_proba(DATA), expected)
    other = pb.data.csbm(nodes=60, features=40, seed=3)
    assert classifier.predict(other.graph, other.x).shape == (60,)


@pytest.mark.parametrize(
    "config",
    [
        *(Config.of(model, hidden=8, epochs=3) for model in pb.nn.MODELS),
        Config.of("favardgnn", hidden=8, epochs=3, ensemble_size=2, label_reuse=0.5),
        Config.of("favardgnn", hidden=8, epochs=3, precomputed=True, K=3),
    ],
    ids=lambda config: config.model.name,
)
def test_a_saved_classifier_predicts_the_same_bits(config: Config, tmp_path: Path) -> None:
    classifier = pb.NodeClassifier(config=config, seed=4).fit(DATA.graph, DATA.x, NAMES)
    classifier.save(tmp_path / "model")
    loaded = pb.NodeClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(DATA.graph, DATA.x), classifier.predict_proba())
    assert loaded.classes_.tolist() == ["blue", "red"]
    assert (loaded.config, loaded.seed, loaded.val_score_) == (config, 4, classifier.val_score_)
    with pytest.raises(ValueError, match="was loaded from a file; pass the graph and X to predict on"):
        loaded.predict()


@pytest.mark.skipif(native.kernels() is None, reason="stores need the native kernels")
def test_a_model_trained_on_a_store_can_be_loaded(tmp_path: Path) -> None:
    """What a model was trained on makes no difference to its predictions."""
    store = precompute(write_graph_folder(tmp_path / "graph", DATA), tmp_path / "store", 3)
    source = Source.folder(tmp_path / "store")
    config = adapt_config(Config.of("optbasisgnn", precomputed=True, hidden=8, epochs=5), source)
    run_job(Job(config, source, "stratified", 0, 0), out=tmp_path / "model")
    loaded = pb.NodeClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict_proba(DATA.graph, DATA.x), loaded.predict_proba(store), atol=1e-5)


@pytest.mark.parametrize("transform", ["row-normalize", "binarize"])
def test_features_are_transformed_in_training_and_prediction(transform: FeatureTransform, tmp_path: Path) -> None:
    x = DATA.x.abs() * 10
    x[:, ::2] = 0
    by_hand = x / x.sum(1, keepdim=True) if transform == "row-normalize" else (x > 0).float()
    config = Config.of("optbasisgnn", hidden=8, epochs=10, K=3)
    with_transform = config.replace(feature_transform=transform)
    one = pb.NodeClassifier(config=with_transform).fit(DATA.graph, x, NAMES)
    other = pb.NodeClassifier(config=config).fit(DATA.graph, by_hand, NAMES)
    assert np.array_equal(one.predict_proba(), other.predict_proba())
    one.save(tmp_path)
    loaded = pb.NodeClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(DATA.graph, x), one.predict_proba())


def test_masks_and_unknown_classes() -> None:
    y = [None if i % 5 == 0 else name for i, name in enumerate(NAMES)]
    classifier = pb.NodeClassifier(epochs=5, hidden=8).fit(DATA.graph, DATA.x, y, TRAIN, ~TRAIN)
    assert set(classifier.predict()) <= {"blue", "red"}
    known = np.array([name is not None for name in y]) & ~TRAIN
    assert classifier.val_score_ == pytest.approx(classifier.score(NAMES, known))
    numbers = DATA.y.clone()
    numbers[:20] = -1
    assert pb.NodeClassifier(epochs=2).fit(DATA.graph, DATA.x, numbers).classes_.tolist() == [0, 1]
    floats = DATA.y.double().numpy()
    floats[:20] = np.nan
    assert pb.NodeClassifier(epochs=2).fit(DATA.graph, DATA.x, floats).classes_.tolist() == [0.0, 1.0]


def test_an_interrupted_fit_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)

    def kill(progress: Progress) -> None:
        if progress.epoch == 5:
            raise KeyboardInterrupt

    def make() -> pb.NodeClassifier:
        return pb.NodeClassifier(epochs=12, hidden=8, K=3)

    with pytest.raises(KeyboardInterrupt):
        make().fit(DATA.graph, DATA.x, NAMES, TRAIN, ~TRAIN, on_epoch=kill, checkpoints=tmp_path)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    seen: list[int] = []

    def see(progress: Progress) -> None:
        seen.append(progress.epoch)

    # Other masks are another job, which starts at its first epoch and leaves the checkpoint alone. One node more in
    # the training set and one fewer in the validation set is the smallest difference.
    more = np.arange(150) < 91
    make().fit(DATA.graph, DATA.x, NAMES, more, ~more, on_epoch=see, checkpoints=tmp_path)
    assert seen[0] == 0
    assert file.read_bytes() == content
    seen.clear()
    resumed = make().fit(DATA.graph, DATA.x, NAMES, TRAIN, ~TRAIN, on_epoch=see, checkpoints=tmp_path)
    assert seen[0] == 5
    whole = make().fit(DATA.graph, DATA.x, NAMES, TRAIN, ~TRAIN)
    assert np.array_equal(resumed.predict_proba(), whole.predict_proba())
    assert not list(tmp_path.iterdir())


def test_invalid_arguments_are_refused() -> None:
    classifier = pb.NodeClassifier(epochs=2)
    with pytest.raises(ValueError, match="has not been fitted; call fit first"):
        classifier.predict()
    with pytest.raises(ValueError, match=r"X has shape \(3, 2\); expected \(150, F\)"):
        classifier.fit(DATA.graph, np.ones((3, 2)), NAMES)
    with pytest.raises(ValueError, match="y has 2 entries; expected 150"):
        classifier.fit(DATA.graph, DATA.x, ["a", "b"])
    with pytest.raises(ValueError, match="y has 1 class; expected at least two"):
        classifier.fit(DATA.graph, DATA.x, ["a"] * 150)
    with pytest.raises(ValueError, match="pass both train_mask and val_mask, or neither"):
        classifier.fit(DATA.graph, DATA.x, NAMES, train_mask=TRAIN)
    with pytest.raises(ValueError, match=r"val_mask has shape \(3,\); expected \(150,\)"):
        classifier.fit(DATA.graph, DATA.x, NAMES, TRAIN, np.ones(3, bool))
    with pytest.raises(ValueError, match="train_mask and val_mask overlap; validation nodes must not be trained on"):
        classifier.fit(DATA.graph, DATA.x, NAMES, np.ones(150, bool), np.ones(150, bool))
    x = torch.ones(150, 4)
    x[3, 1] = torch.nan
    with pytest.raises(ValueError, match=r"X\[3, 1\] is nan; features must be finite"):
        classifier.fit(DATA.graph, x, NAMES)
    with pytest.raises(ValueError, match="unknown model 'gat'; expected one of mlp"):
        pb.NodeClassifier("gat").fit(DATA.graph, DATA.x, NAMES)
    with pytest.raises(ValueError, match="unknown key 'epoch' for optbasisgnn; did you mean 'epochs'"):
        pb.NodeClassifier(epoch=3).fit(DATA.graph, DATA.x, NAMES)
    with pytest.raises(ValueError, match="pass K as part of config, or omit config"):
        pb.NodeClassifier(config=Config.of("gcn"), K=3).fit(DATA.graph, DATA.x, NAMES)
    classifier.fit(DATA.graph, DATA.x, NAMES)
    with pytest.raises(ValueError, match="pass both graph and X, or neither"):
        classifier.predict(DATA.graph)
    with pytest.raises(ValueError, match="the data has 3 features; the model was trained with 40"):
        classifier.predict(DATA.graph, np.ones((150, 3)))


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a saved model"):
        pb.NodeClassifier.load(tmp_path)
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(ValueError, match="does not contain a readable model"):
        pb.NodeClassifier.load(tmp_path)


@pytest.mark.parametrize("copies", [2, 4, 16])
@pytest.mark.parametrize("model", ["optbasis", "favard"])
def test_predictions_do_not_change_with_the_size_of_the_graph(model: str, copies: int) -> None:
    """k copies of the training graph, with the defaults of the classifier."""
    classifier = pb.NodeClassifier(model, epochs=30).fit(DATA.graph, DATA.x, NAMES)
    alone = classifier.predict_proba(DATA.graph, DATA.x)
    edges, nodes = DATA.graph.edge_index(), DATA.graph.num_nodes
    shift = nodes * torch.arange(copies).repeat_interleave(edges.shape[1])
    together = pb.Graph.from_edge_index(edges.repeat(1, copies) + shift, copies * nodes)
    got = classifier.predict_proba(together, torch.cat([torch.as_tensor(DATA.x)] * copies))
    np.testing.assert_allclose(got, np.tile(alone, (copies, 1)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("arguments", [{}, {"ensemble_size": 2}, {"label_reuse": 0.5}], ids=str)
def test_directed_graphs_are_refused(arguments: dict[str, Any]) -> None:
    graph = pb.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]], directed=True)
    classifier = pb.NodeClassifier(**arguments)
    with pytest.raises(ValueError, match="concatenate the real and imaginary parts"):
        classifier.fit(graph, torch.rand(4, 3), [0, 1, 0, 1], [True, True, False, False], [False, False, True, True])


def test_a_node_of_weight_zero_is_not_trained_on() -> None:
    data = pb.data.csbm(nodes=300, features=20, seed=2)
    split = data.split("stratified")
    train, val = (torch.zeros(300, dtype=torch.bool).index_fill(0, nodes, True) for nodes in split[:2])
    left_out = train & (torch.arange(300) % 3 == 0)
    y = torch.where(left_out, 1 - data.y, data.y)
    values = {"hidden": 8, "K": 3, "epochs": 10, "dropout": 0.0, "dropout2": 0.0, "early_stopping": "none"}
    weighted, masked = (
        pb.NodeClassifier(**values).fit(data.graph, data.x, y, mask, val, sample_weight=weight).predict_proba()
        for mask, weight in ((train, (~left_out).float()), (train & ~left_out, None))
    )
    np.testing.assert_allclose(weighted, masked, atol=1e-4)
    everything = pb.NodeClassifier(**values).fit(data.graph, data.x, y, train, val).predict_proba()
    assert not np.allclose(everything, masked, atol=0.01)


def test_imbalanced_classes_are_validated_by_their_ranking() -> None:
    data = pb.data.csbm(nodes=300, features=20, seed=2)
    y = data.y * (torch.arange(300) % 5 == 0)
    classifier = pb.NodeClassifier(epochs=5).fit(data.graph, data.x, y)
    assert classifier._fitted().metric == "roc_auc"
    assert pb.NodeClassifier(epochs=5, metric="f1").fit(data.graph, data.x, y)._fitted().metric == "f1"
