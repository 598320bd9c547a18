"""The output bias starts at the prior, so that rare classes are not ranked backwards while it travels there."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis.data.dataset import NodeDataset
from polybasis.data.metrics import score
from polybasis.nn.models.mlp import MLP
from polybasis.nn.models.names import MODEL_CLASSES, PRECOMPUTED
from polybasis.train import Config, fit
from polybasis.train.fitting import FullBatch
from polybasis.train.objective import Objective


def imbalanced(nodes: int, ratio: int, attachment: float, shift: float, seed: int = 0) -> NodeDataset:
    """A graph with one positive node in ``ratio + 1``.

    Args:
        nodes: number of nodes; the mean degree is 20.
        ratio: number of negative nodes for each positive one.
        attachment: probability that an edge of a positive node leads to a positive node in place of any node.
        shift: distance of the classes in each of three of the twenty features, in standard deviations.
        seed: random seed.
    """
    rng = np.random.default_rng(seed)
    y = np.zeros(nodes, dtype=np.int64)
    positive = rng.choice(nodes, nodes // (ratio + 1), replace=False)
    y[positive] = 1
    source, target = rng.integers(0, nodes, (2, 10 * nodes))
    attached = (y[source] == 1) & (rng.random(len(source)) < attachment)
    target[attached] = rng.choice(positive, attached.sum())
    x = rng.standard_normal((nodes, 20))
    x[:, :3] += shift * y[:, None]
    graph = pb.Graph.from_edge_index(torch.from_numpy(np.stack([source, target])), nodes, directed=False)
    return NodeDataset(name="rare", graph=graph, x=torch.from_numpy(x).float(), y=torch.from_numpy(y))


def final_auc(data: NodeDataset, config: Config) -> float:
    split = data.split("stratified")
    fitted = fit(config, data, split)
    assert fitted.logits is not None
    return score("roc_auc", "classification", fitted.logits[split.test], data.y[split.test])


def test_the_ranking_is_not_reversed_on_the_way_to_the_base_rate() -> None:
    """The entries of unit vectors are small, so the bias learns nearly alone, and the weights follow its gradient."""
    data = imbalanced(4000, 50, attachment=0.3, shift=0.3)
    published = Config.of("optbasisgnn", epochs=40, early_stopping="none")
    assert final_auc(data, published) < 0.5
    assert final_auc(data, published.replace(output_bias="prior")) > 0.9
    own = published.for_own_data()
    assert own.loss.output_bias == "prior"
    assert final_auc(data, own) > 0.9


# ---- ten imbalanced graphs -----------------------------------------------------------------------------------------

RATIOS = (20, 50, 100, 150, 200)


@pytest.mark.parametrize("structure", [True, False], ids=["structure tells", "columns tell"])
@pytest.mark.parametrize("ratio", RATIOS)
def test_the_default_classifier_ranks_rare_nodes(ratio: int, structure: bool) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn has the baseline of this test")
    data = imbalanced(4000, ratio, *((0.5, 0.3) if structure else (0.0, 0.8)), seed=ratio)
    split = data.split("stratified")
    masks = [torch.zeros(len(data.y), dtype=torch.bool).index_fill_(0, part, True) for part in split[:2]]
    classifier = pb.NodeClassifier(epochs=60).fit(data.graph, data.x, data.y, *masks)
    columns = linear_model.LogisticRegression().fit(data.x[split.train], data.y[split.train])

    def auc(probabilities: np.ndarray) -> float:
        logits = torch.from_numpy(probabilities).log()
        return score("roc_auc", "classification", logits, data.y[split.test])

    found = auc(classifier.predict_proba()[split.test])
    assert found > 0.5
    if structure:
        assert found > 0.1 + auc(columns.predict_proba(data.x[split.test]))


def test_copies_of_the_graph_do_not_change_the_mean_score() -> None:
    data = imbalanced(1000, 20, attachment=0.5, shift=0.3)
    classifier = pb.NodeClassifier(epochs=30).fit(data.graph, data.x, data.y)
    edges = data.graph.edge_index()
    copies = pb.Graph.from_edge_index(torch.cat([edges + 1000 * i for i in range(10)], dim=1), 10_000)
    ten = classifier.predict_proba(copies, data.x.repeat(10, 1))
    assert abs(ten[:, 1].mean() - classifier.predict_proba()[:, 1].mean()) < 1e-5


# ---- the start of every model --------------------------------------------------------------------------------------

DATA = imbalanced(1000, 49, attachment=0.3, shift=0.3)
SPLIT = DATA.split("stratified")
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in MODEL_CLASSES),
    *((name, {"precomputed": True}) for name in PRECOMPUTED),
    ("optbasisgnn", {"label_reuse": 0.5}),
    ("jacobiconv", {"a": -0.5, "b": 2.0}),
    ("gpr-gnn", {"label_reuse": 0.5}),
    ("arma", {"stacks": 3, "layers": 2}),
]


def start(config: Config, data: NodeDataset, seed: int) -> torch.Tensor:
    """The outputs of a new model."""
    task = FullBatch(data, SPLIT, config)
    torch.manual_seed(seed)
    return task.evaluate(task.make_model(config), torch.arange(len(data.y))).logits


@pytest.mark.parametrize(("name", "arguments"), CASES, ids=str)
def test_every_model_starts_at_the_prior(name: str, arguments: dict[str, Any]) -> None:
    """The other weights are random, so the mean score of a single start is only close to the prior, 0.02."""
    config = Config.of(name, **arguments, output_bias="prior")
    random = config.replace(output_bias="random")
    at_prior, at_random = (
        torch.stack([start(each, DATA, seed).softmax(1)[:, 1].mean() for seed in range(5)]).log().mean().exp()
        for each in (config, random)
    )
    assert 0.02 / 3 < at_prior < 0.02 * 3
    assert abs(at_prior.log() - math.log(0.02)) < abs(at_random.log() - math.log(0.02))


def test_the_prior_is_weighted_as_the_loss() -> None:
    """The gradient of the loss with respect to a constant output is 0 at the start."""
    three = replace(DATA, y=torch.arange(1000) % 7 // 3, classes=("a", "b", "c"), metric="accuracy")
    weighted = replace(three, sample_weight=torch.rand(1000, generator=torch.Generator().manual_seed(0)))
    labels = replace(DATA, y=torch.stack([DATA.y, 1 - DATA.y, DATA.x[:, 0] > 0], dim=1), classes=(), metric="f1")
    configs = [Config.of("mlp"), Config.of("mlp", class_weight="balanced"), Config.of("mlp", class_weight={"b": 5.0})]
    for data in (three, weighted, labels):
        for config in configs[: 2 if data is labels else 3]:
            objective = Objective.of(config, data, SPLIT.train)
            output = objective.log_prior(SPLIT.train).requires_grad_()
            objective.loss(output.expand(len(SPLIT.train), -1), SPLIT.train).backward()  # type: ignore[no-untyped-call]
            assert output.grad is not None
            assert output.grad.abs().max() < 1e-6


def test_a_class_without_training_nodes_has_a_finite_start() -> None:
    data = replace(DATA, classes=(0, 1, 2))
    prior = Objective.of(Config.of("mlp"), data, SPLIT.train).log_prior(SPLIT.train)
    assert prior.isfinite().all()
    assert prior[2] < prior[1]


def test_a_model_without_an_output_bias_starts_as_before() -> None:
    class Unbiased(MLP):
        output_bias = None

    model = Unbiased(20, 4, 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    Objective.of(Config.of("mlp"), DATA, SPLIT.train).start_output_bias(model, SPLIT.train, DATA.graph)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
