"""Label reuse: the classes of training nodes are features, except of those that a training step learns from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

import polybasis as pb
from polybasis.features import Features, SparseFeatures, as_dense
from polybasis.graph import Graph
from polybasis.nn.models.label_reuse import LabelReuse
from polybasis.nn.models.model import Model
from polybasis.train import Config, fit
from polybasis.train.fitting import FullBatch

DATA = pb.data.csbm(nodes=200, features=40, seed=2)
SPLIT = DATA.split("per-class", 0)
WORDS = (DATA.x * (DATA.x > 0.2)).float()
CONFIG = Config.of("optbasisgnn", hidden=8, epochs=20, K=3, label_reuse=0.6)


class Recorder(Model):
    """Records its input; its logits are the last features, those of the classes."""

    def forward(self, x: Features, graph: Graph) -> torch.Tensor:
        self.seen = as_dense(x)
        return self.seen[:, -self.out_channels :]


@pytest.fixture(params=[False, True], ids=["dense", "sparse"])
def x(request: pytest.FixtureRequest) -> Features:
    return SparseFeatures(WORDS) if request.param else WORDS


def labelled(probability: float = 0.6) -> LabelReuse:
    model = LabelReuse(Recorder(42, 8, 2), probability, 200)
    model.set_labels(SPLIT.train, DATA.y)
    return model


def seen_by(model: LabelReuse) -> torch.Tensor:
    assert isinstance(model.model, Recorder)
    return model.model.seen


def loss_of(logits: Tensor, nodes: Tensor) -> Tensor:
    return cross_entropy(logits, DATA.y[nodes])


def test_in_evaluation_the_classes_of_all_training_nodes_and_no_others_are_features(x: Features) -> None:
    model = labelled().eval()
    model(x, DATA.graph)
    assert torch.equal(seen_by(model)[:, :40], WORDS)
    expected = torch.zeros(200, 2)
    expected[SPLIT.train] = one_hot(DATA.y[SPLIT.train], 2).float()
    assert torch.equal(seen_by(model)[:, 40:], expected)


def test_a_training_step_never_shows_the_classes_it_learns_from(x: Features) -> None:
    model = labelled().train()
    shares = []
    for _ in range(20):
        loss = model.training_loss(x, DATA.graph, SPLIT.train, loss_of)
        seen = seen_by(model)
        assert torch.equal(seen[:, :40], WORDS)
        classes = seen[:, 40:]
        shown = classes[SPLIT.train].any(dim=1)
        shares.append(float(shown.float().mean()))
        assert torch.equal(classes[SPLIT.train[shown]], one_hot(DATA.y[SPLIT.train[shown]], 2).float())
        assert not classes[SPLIT.val].any()
        assert not classes[SPLIT.test].any()
        # The logits are the shown classes, so those of the nodes that are learned from are 0: the loss is log 2.
        learned = SPLIT.train[~shown]
        torch.testing.assert_close(loss, cross_entropy(torch.zeros(len(learned), 2), DATA.y[learned]))
    assert len(set(shares)) > 5
    assert abs(np.mean(shares) - 0.6) < 0.05


def test_a_step_that_would_hide_no_node_learns_from_all() -> None:
    model = labelled(1 - 1e-12).train()
    loss = model.training_loss(WORDS, DATA.graph, SPLIT.train, loss_of)
    assert not seen_by(model)[:, 40:].any()
    torch.testing.assert_close(float(loss), float(np.log(2)), rtol=1e-5, atol=0)


def test_training_steps_do_not_change_the_precomputed_features(x: Features) -> None:
    """All steps share one matrix of features and classes."""
    model = labelled().train()
    inputs = model.precompute(x, DATA.graph)
    before = as_dense(inputs.values[0]).clone()
    for _ in range(3):
        model.training_loss(inputs, DATA.graph, SPLIT.train, loss_of)
    assert torch.equal(as_dense(inputs.values[0]), before)


def test_classes_of_other_nodes_do_not_influence_training(x: Features) -> None:
    altered = 1 - DATA.y
    altered[SPLIT.train] = DATA.y[SPLIT.train]
    scores = []
    for y in (DATA.y, altered):
        torch.manual_seed(3)
        task = FullBatch(replace(DATA, x=x, y=y), SPLIT, CONFIG)
        model = task.make_model(CONFIG)
        optimizer = CONFIG.make_optimizer(model)
        for _ in range(5):
            task.epoch(model, optimizer)
        scores.append(model.eval()(x, DATA.graph))
    assert torch.equal(*scores)


def test_sparse_and_dense_features_train_the_same_model() -> None:
    config = CONFIG.replace(dropout=0.0, dropout2=0.0, epochs=3)
    dense, sparse = (fit(config, replace(DATA, x=x), SPLIT, 0).model for x in (WORDS, SparseFeatures(WORDS)))
    torch.testing.assert_close(sparse(WORDS, DATA.graph), dense(WORDS, DATA.graph), rtol=1e-3, atol=1e-4)


def test_labels_must_be_known_and_ascending() -> None:
    model = LabelReuse(Recorder(42, 8, 2), 0.6, 200)
    with pytest.raises(ValueError, match="training nodes must be ascending and have known classes"):
        model.set_labels(SPLIT.train.flip(0), DATA.y)
    with pytest.raises(ValueError, match="training nodes must be ascending and have known classes"):
        model.set_labels(SPLIT.train, DATA.y - 1)


def test_new_labels_and_new_features_take_effect(x: Features) -> None:
    """Nothing is cached between calls; labels are part of the state."""
    model, other = labelled().eval(), labelled().eval()
    model(x, DATA.graph)
    other.set_labels(SPLIT.val, DATA.y)
    model.load_state_dict(other.state_dict())
    model(x, DATA.graph)
    assert seen_by(model)[SPLIT.val, 40:].sum() == len(SPLIT.val)
    assert not seen_by(model)[SPLIT.train, 40:].any()
    words = WORDS.clone()
    model(words, DATA.graph)
    words[0, 0] = 9
    model(words, DATA.graph)
    assert seen_by(model)[0, 0] == 9


def test_label_reuse_helps_where_features_are_noise() -> None:
    """Without informative features, the classes of neighbours are all there is to learn from."""
    data = pb.data.csbm(nodes=600, features=20, seed=1)
    data = replace(data, x=torch.randn(600, 20, generator=torch.Generator().manual_seed(0)))
    split = data.split("per-class", 0)
    config = CONFIG.replace(epochs=150, lr=0.05)
    without, with_labels = (
        fit(config.replace(label_reuse=probability), data, split, 0).val_score for probability in (None, 0.6)
    )
    assert with_labels > without + 0.05


def test_serves_only_the_graph_it_was_trained_on(tmp_path: Path) -> None:
    classifier = pb.NodeClassifier(label_reuse=0.5, K=3, hidden=8, epochs=5).fit(DATA.graph, DATA.x, DATA.y)
    classifier.save(tmp_path)
    loaded = pb.NodeClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(DATA.graph, DATA.x), classifier.predict_proba())
    other = pb.data.csbm(nodes=90, features=40)
    with pytest.raises(ValueError, match="it can predict only for the nodes it was trained on"):
        loaded.predict(other.graph, other.x)
    with pytest.raises(
        ValueError,
        match=r"x has 90 nodes; a model with label reuse can only be applied to its training graph, which has 200",
    ):
        classifier.model_(other.x, other.graph)


def test_repr() -> None:
    model = CONFIG.make_model(40, 2, 200)
    assert repr(model) == "LabelReuse(OptBasisGNN(42, 8, 2, K=3), 0.6)"
    assert model.parameter_groups().keys() == {"linear", "coefficients"}
