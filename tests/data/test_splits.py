"""Splits by their protocols."""

from __future__ import annotations

import pytest
import torch

import polybasis as pb
from polybasis.data.dataset import NodeDataset
from polybasis.data.splits import PROTOCOLS, make_split


def dataset(counts: tuple[int, ...] = (50, 30, 8), unknown: int = 12) -> NodeDataset:
    y = torch.cat([torch.full((count,), c) for c, count in enumerate(counts)] + [torch.full((unknown,), -1)])
    graph = pb.Graph.from_edge_index([[0], [1]], len(y))
    masks = [torch.zeros(len(y), dtype=torch.bool) for _ in range(3)]
    for i, mask in enumerate(masks):
        mask[i::3] = True
    return NodeDataset("made up", graph, torch.ones(len(y), 1), y, fixed_splits=[tuple(masks)])  # type: ignore[list-item]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_parts_are_disjoint_labelled_and_cover_all(protocol: str) -> None:
    data = dataset()
    split = make_split(data, protocol, 3)
    nodes = torch.cat(split)
    assert len(nodes.unique()) == len(nodes) == 88
    assert (data.y[nodes] >= 0).all()


@pytest.mark.parametrize("protocol", ["per-class", "stratified", "linkx"])
def test_a_split_depends_on_the_seed_and_nothing_else(protocol: str) -> None:
    first, again, other = (make_split(dataset(), protocol, seed) for seed in (5, 5, 6))
    torch.manual_seed(99)
    for a, b in zip(first, again, strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first.train, other.train)


def test_per_class_takes_as_many_training_nodes_from_each_class() -> None:
    """60 % of 88 nodes over three classes is 18 each; the small class goes into training whole."""
    data = dataset()
    split = make_split(data, "per-class", 0)
    assert torch.bincount(data.y[split.train]).tolist() == [18, 18, 8]
    assert len(split.val) == 18
    assert not (data.y[split.test] == 2).any()


def test_stratified_cuts_every_class() -> None:
    data = dataset((50, 30, 10))
    split = make_split(data, "stratified", 0)
    assert torch.bincount(data.y[split.train]).tolist() == [30, 18, 6]
    assert torch.bincount(data.y[split.test]).tolist() == [10, 6, 2]


def test_refused() -> None:
    with pytest.raises(ValueError, match="no split protocol 'half'"):
        make_split(dataset(), "half", 0)
    with pytest.raises(ValueError, match="came without splits"):
        make_split(pb.data.csbm(50, 10), "fixed", 0)
