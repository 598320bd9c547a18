"""Splits by their protocols."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import polybasis as pb
from polybasis.data.dataset import PROTOCOLS, NodeDataset


def dataset(counts: tuple[int, ...] = (50, 30, 8), unknown: int = 12) -> NodeDataset:
    y = torch.cat([torch.full((count,), c) for c, count in enumerate(counts)] + [torch.full((unknown,), -1)])
    graph = pb.Graph.from_edge_index([[0], [1]], len(y))
    masks = [torch.zeros(len(y), dtype=torch.bool) for _ in range(3)]
    for i, mask in enumerate(masks):
        mask[i::3] = True
    x = torch.ones(len(y), 1)
    return NodeDataset(name="made up", graph=graph, x=x, y=y, fixed_splits=[tuple(masks)])  # type: ignore[list-item]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_parts_are_disjoint_labelled_and_cover_all(protocol: str) -> None:
    data = dataset()
    split = data.split(protocol, 3)
    nodes = torch.cat(split)
    assert len(nodes.unique()) == len(nodes) == 88
    assert (data.y[nodes] >= 0).all()


@pytest.mark.parametrize("protocol", ["per-class", "stratified", "random", "linkx"])
def test_a_split_depends_on_the_seed_only(protocol: str) -> None:
    first, again, other = (dataset().split(protocol, seed) for seed in (5, 5, 6))
    torch.manual_seed(99)
    for a, b in zip(first, again, strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first.train, other.train)


def test_per_class_takes_as_many_training_nodes_from_each_class() -> None:
    """60% of 88 nodes over three classes is 18 each; the small class goes into training whole."""
    data = dataset()
    split = data.split("per-class", 0)
    assert torch.bincount(data.y[split.train]).tolist() == [18, 18, 8]
    assert len(split.val) == 18
    assert not (data.y[split.test] == 2).any()


def test_stratified_cuts_every_class() -> None:
    data = dataset((50, 30, 10))
    split = data.split("stratified", 0)
    assert torch.bincount(data.y[split.train]).tolist() == [30, 18, 6]
    assert torch.bincount(data.y[split.test]).tolist() == [10, 6, 2]


@pytest.mark.parametrize(("protocol", "sizes"), [("random", [60, 20, 20]), ("linkx", [50, 25, 25])])
def test_random_splits_ignore_classes(protocol: str, sizes: list[int]) -> None:
    data = dataset((60, 30, 10))
    splits = [data.split(protocol, seed) for seed in range(5)]
    assert all([len(part) for part in split] == sizes for split in splits)
    assert len({tuple(torch.bincount(data.y[split.train]).tolist()) for split in splits}) > 1


def test_a_split_can_do_without_test_nodes() -> None:
    data = dataset((40, 20))
    split = data.split("train-val", 0)
    assert torch.bincount(data.y[split.train]).tolist() == [30, 15]
    assert torch.bincount(data.y[split.val]).tolist() == [10, 5]
    assert len(split.test) == 0


def test_fixed_splits_are_cycled_through_and_leave_out_unlabelled_nodes() -> None:
    data = dataset()
    assert [part.tolist() for part in data.split("fixed", 0)] == [part.tolist() for part in data.split("fixed", 1)]
    assert data.split("fixed").train.tolist() == [i for i in range(88) if i % 3 == 0]


def test_the_protocol_of_the_data_is_the_default() -> None:
    data = replace(dataset(), protocol="linkx")
    for own, linkx in zip(data.split(seed=4), data.split("linkx", 4), strict=True):
        assert torch.equal(own, linkx)


def test_unknown_protocols_and_missing_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown split protocol 'half'; expected one of per-class"):
        dataset().split("half", 0)
    for protocol in ("per-class", "stratified", "random", "linkx", "train-val"):
        with pytest.raises(ValueError, match="made up has no labelled nodes to split"):
            dataset((), unknown=5).split(protocol)
    with pytest.raises(ValueError, match="csbm has no published splits; use a protocol other than 'fixed'"):
        pb.data.csbm(50, 10).split("fixed", 0)


def test_a_fingerprint_names_the_contents() -> None:
    """Results are found by it: other contents must never have the same one."""
    data = dataset()
    assert data.fingerprint == dataset().fingerprint
    train, val, test = data.fixed_splits[0]
    changes: list[dict[str, object]] = [
        {"y": data.y.roll(1)},
        {"x": 2 * data.x},
        {"graph": pb.Graph.from_edge_index([[0], [2]], len(data.y))},
        {"graph": pb.Graph.from_edge_index([[0, 0], [1, 2]], len(data.y), edge_weight=[1.0, 2.0])},
        {"classes": ("a", "b", "c")},
        {"metric": "roc_auc"},
        {"name": "another"},
        {"fixed_splits": [(val, train, test)]},
    ]
    found = {replace(data, **change).fingerprint for change in changes}  # type: ignore[arg-type]
    assert len(found | {data.fingerprint}) == len(changes) + 1
    assert replace(data, identity="cora").fingerprint == "cora"


def test_a_fingerprint_does_not_change_with_the_names_of_metrics() -> None:
    """The metric was called roc-auc when stores and results with this fingerprint were written."""
    data = replace(pb.data.csbm(nodes=80, features=4), metric="roc_auc")
    assert data.fingerprint == "csbm@5702d245530dbfb7"
