"""Kinds of targets: which nodes are known, how they are split, and which metric suits them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import polybasis as pb
from polybasis.data.dataset import PROTOCOLS, NodeDataset, edge_homophily
from polybasis.data.metrics import Metric
from polybasis.data.targets import default_metric, metric_reason
from polybasis.store import write_graph_folder

DATA = pb.data.csbm(nodes=200, features=5)
NUMBERS = torch.randn(200, generator=torch.Generator().manual_seed(0)).index_fill(0, torch.arange(0, 200, 4), torch.nan)
LABELS = torch.stack([DATA.y, 1 - DATA.y, DATA.x[:, 0] > 0], dim=1).index_fill(0, torch.arange(0, 200, 4), -1)


def with_target(y: Tensor) -> NodeDataset:
    return NodeDataset(name="target", graph=DATA.graph, x=DATA.x, y=y)


@pytest.mark.parametrize("y", [NUMBERS, LABELS, LABELS.float().where(LABELS >= 0, torch.nan)], ids=["a", "b", "c"])
def test_the_kind_of_a_target_is_that_of_its_tensor(y: Tensor) -> None:
    data = with_target(y)
    assert data.target == ("regression" if y.ndim == 1 else "multi-label")
    assert data.labelled.tolist() == [node for node in range(200) if node % 4]
    assert data.num_outputs == (1 if y.ndim == 1 else 3)
    assert data.classes == (() if y.ndim == 1 else (0, 1, 2))
    assert data.metric == ("rmse" if y.ndim == 1 else "roc_auc")
    assert edge_homophily(data) != edge_homophily(data)  # NaN: there are no classes


@pytest.mark.parametrize("y", [NUMBERS, LABELS], ids=["regression", "multi-label"])
@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name != "fixed"])
def test_splits_divide_the_known_nodes(protocol: str, y: Tensor) -> None:
    data = with_target(y)
    split = data.split(protocol, 3)
    assert torch.equal(torch.cat(split).sort().values, data.labelled)
    shares = {"train-val": (0.75, 0.25, 0), "linkx": (0.5, 0.25, 0.25)}.get(protocol, (0.6, 0.2, 0.2))
    assert [len(part) for part in split] == pytest.approx([150 * share for share in shares], abs=1)
    assert torch.equal(split.train, data.split(protocol, 3).train)
    assert not torch.equal(split.train, data.split(protocol, 4).train)


def test_fixed_splits_have_known_nodes_only() -> None:
    mask = torch.ones(200, dtype=torch.bool)
    for y in (NUMBERS, LABELS):
        data = replace(with_target(y), fixed_splits=[(mask, mask, mask)])
        assert torch.equal(data.split("fixed").test, data.labelled)


@pytest.mark.parametrize(
    ("counts", "metric"),
    [
        ((50, 50), "accuracy"),
        ((80, 20), "accuracy"),
        ((81, 19), "roc_auc"),
        ((2, 98), "roc_auc"),
        ((40, 40, 20), "accuracy"),
        ((50, 40, 10), "balanced_accuracy"),
        ((0, 0), "accuracy"),
    ],
)
def test_the_default_metric_depends_on_the_balance(counts: tuple[int, ...], metric: Metric) -> None:
    y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    assert default_metric(torch.cat([y, torch.tensor([-1, -1])]), len(counts)) == metric


def test_invalid_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the target of node 3 is infinite; use NaN if it is unknown"):
        with_target(NUMBERS.index_fill(0, torch.tensor([3]), torch.inf))
    with pytest.raises(ValueError, match=r"node 5 has the labels \[0, -1, 1\]; expected 0 or 1, or all -1 if unknown"):
        with_target(LABELS.index_put((torch.tensor([5]),), torch.tensor([0, -1, 1])))
    with pytest.raises(ValueError, match=r"node 5 has the labels \[0, 2, 1\]"):
        with_target(LABELS.index_put((torch.tensor([5]),), torch.tensor([0, 2, 1])))
    with pytest.raises(ValueError, match="metric is 'accuracy', which does not apply to regression"):
        replace(with_target(NUMBERS), metric="accuracy")
    with pytest.raises(ValueError, match="csbm has sample weights, which graph folders cannot hold"):
        write_graph_folder(tmp_path / "graph", replace(DATA, sample_weight=torch.ones(200)))


def test_weights_are_part_of_the_fingerprint() -> None:
    assert replace(DATA, sample_weight=torch.ones(200)).fingerprint != DATA.fingerprint


@pytest.mark.parametrize(
    ("y", "classes", "reason"),
    [
        ([0, 1] * 10, ("a", "b"), "because the classes are about equally frequent"),
        ([0] * 19 + [1], ("a", "b"), "because only 5% of the labelled nodes are of class 'b'"),
        ([0] * 10 + [2] * 9 + [1], ("a", "b", "c"), "because only 5% of the labelled nodes are of class 'b'"),
        ([0.5] * 20, (), "because the target is a number"),
        ([[0, 1]] * 20, ("a", "b"), "because a node may have several labels"),
    ],
)
def test_the_metric_has_a_reason(y: list[Any], classes: tuple[str, ...], reason: str) -> None:
    graph = pb.Graph.from_edge_index(torch.tensor([[0], [1]]), 20)
    data = pb.data.NodeDataset(name="d", graph=graph, x=torch.zeros(20, 1), y=torch.tensor(y), classes=classes)
    assert metric_reason(data) == reason
