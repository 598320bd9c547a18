"""Classes of training nodes as features: shown to all but those that are learned from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot

import polybasis as pb
from polybasis.data.splits import Split, make_split
from polybasis.features import Features, SparseFeatures, as_dense
from polybasis.graph import Graph
from polybasis.nn.models.label_reuse import LabelReuse
from polybasis.nn.models.model import Model
from polybasis.train.config import Config
from polybasis.train.graph_training import GraphTask, fit

DATA = pb.data.csbm(nodes=200, features=40, seed=2)
SPLIT = make_split(DATA, "per-class", 0)
WORDS = (DATA.x * (DATA.x > 1)).float()
CONFIG = Config("optbasisgnn", hidden=8, epochs=20, arguments={"K": 3}, labels=0.6)


class Watched(Model):
    """Keeps what it is given."""

    def forward(self, x: Features, graph: Graph) -> torch.Tensor:
        self.seen = as_dense(x)
        return self.seen[:, -self.out_channels :]


@pytest.fixture(params=[False, True], ids=["dense", "sparse"])
def x(request: pytest.FixtureRequest) -> Features:
    return SparseFeatures(WORDS) if request.param else WORDS


def told() -> LabelReuse:
    model = LabelReuse(Watched(42, 8, 2), 0.6, 200)
    model.tell(SPLIT.train, DATA.y)
    return model


def test_all_training_nodes_are_shown_in_evaluation_and_no_others(x: Features) -> None:
    model = told().eval()
    model(x, DATA.graph)
    assert torch.equal(model.model.seen[:, :40], WORDS)
    expected = torch.zeros(200, 2)
    expected[SPLIT.train] = one_hot(DATA.y[SPLIT.train], 2).float()
    assert torch.equal(model.model.seen[:, 40:], expected)


def test_a_node_that_is_learned_from_is_not_shown(x: Features) -> None:
    model = told().train()
    shares = []
    for _ in range(20):
        scores = model(x, DATA.graph)
        assert torch.equal(model.model.seen[:, :40], WORDS)
        shown = scores[SPLIT.train].any(dim=1)
        shares.append(float(shown.float().mean()))
        assert torch.equal(scores[SPLIT.train[shown]], one_hot(DATA.y[SPLIT.train[shown]], 2).float())
        assert not scores[SPLIT.val].any()
        assert not scores[SPLIT.test].any()
        # The loss knows the hidden nodes by their place among the training nodes.
        other, y = torch.randn(len(SPLIT.train), 2), DATA.y[SPLIT.train]
        torch.testing.assert_close(model.loss(other, y), cross_entropy(other[~shown], y[~shown]))
    assert len(set(shares)) > 5
    assert abs(np.mean(shares) - 0.6) < 0.05


def test_somebody_is_always_learned_from() -> None:
    model = LabelReuse(Watched(42, 8, 2), 1 - 1e-12, 200).train()
    model.tell(SPLIT.train, DATA.y)
    model(WORDS, DATA.graph)
    assert torch.isfinite(model.loss(torch.randn(len(SPLIT.train), 2), DATA.y[SPLIT.train]))


def test_classes_of_other_nodes_do_not_matter(x: Features) -> None:
    lied = 1 - DATA.y
    lied[SPLIT.train] = DATA.y[SPLIT.train]
    scores = []
    for y in (DATA.y, lied):
        torch.manual_seed(3)
        task = GraphTask(replace(DATA, x=x, y=y), SPLIT)
        model = task.make_model(CONFIG)
        optimizer = CONFIG.make_optimizer(model)
        for _ in range(5):
            task.epoch(model, optimizer)
        scores.append(model.eval()(x, DATA.graph))
    assert torch.equal(*scores)


def test_sparse_features_train_the_model_that_dense_ones_do() -> None:
    config = replace(CONFIG, arguments={"K": 3, "dropout": 0.0, "dropout2": 0.0}, epochs=3)
    dense, sparse = (fit(config, replace(DATA, x=x), SPLIT, 0).model for x in (WORDS, SparseFeatures(WORDS)))
    torch.testing.assert_close(sparse(WORDS, DATA.graph), dense(WORDS, DATA.graph), rtol=1e-3, atol=1e-4)


def test_what_it_has_to_be_told(x: Features) -> None:
    model = LabelReuse(Watched(42, 8, 2), 0.6, 200)
    with pytest.raises(ValueError, match="has not been told any classes"):
        model.train()(x, DATA.graph)
    with pytest.raises(ValueError, match="in ascending order"):
        model.tell(SPLIT.train.flip(0), DATA.y)
    with pytest.raises(ValueError, match="classes that are known"):
        model.tell(SPLIT.train, DATA.y - 1)


def test_other_classes_and_other_features_are_seen(x: Features) -> None:
    """What is kept of sparse features from call to call is let go of when the classes change."""
    model, other = told().eval(), told().eval()
    model(x, DATA.graph)
    other.tell(SPLIT.val, DATA.y)
    model.load_state_dict(other.state_dict())
    model(x, DATA.graph)
    assert model.model.seen[SPLIT.val, 40:].sum() == len(SPLIT.val)
    assert not model.model.seen[SPLIT.train, 40:].any()
    words = WORDS.clone()
    model(words, DATA.graph)
    words[0, 0] = 9
    model(words, DATA.graph)
    assert model.model.seen[0, 0] == 9


def test_known_classes_help() -> None:
    """Where features are noise, classes of neighbours are all there is to learn from."""
    data = pb.data.csbm(nodes=600, features=20, seed=1)
    noise = torch.randn(600, 20, generator=torch.Generator().manual_seed(0))
    data = replace(data, x=noise)
    split: Split = make_split(data, "per-class", 0)
    config = replace(CONFIG, epochs=150, lr={"linear": 0.05})
    without, with_them = (
        fit(replace(config, labels=labels), data, split, 0).val_score for labels in (None, CONFIG.labels)
    )
    assert with_them > without + 0.05


def test_only_the_graph_it_was_trained_on(tmp_path: Path) -> None:
    classifier = pb.NodeClassifier(labels=0.5, K=3, hidden=8, epochs=5).fit(DATA.graph, DATA.x, DATA.y)
    classifier.save(tmp_path)
    loaded = pb.NodeClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(DATA.graph, DATA.x), classifier.predict_proba())
    other = pb.data.csbm(nodes=90, features=40)
    with pytest.raises(ValueError, match="x has 90 nodes; a model with labels serves only the graph"):
        loaded.predict(other.graph, other.x)


def test_repr() -> None:
    model = CONFIG.make_model(40, 2, 200)
    assert repr(model) == "LabelReuse(OptBasisGNN(42, 8, 2, K=3), 0.6)"
    assert model.parameter_groups().keys() == {"linear", "coefficients"}
