"""A graph with features and labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from polybasis.features import Features, as_features, row_normalize
from polybasis.graph import Graph

Metric = Literal["accuracy", "roc-auc"]
Masks = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class NodeDataset:
    """A graph whose nodes are to be classified.

    Attributes:
        name: its name.
        graph: undirected, without self-loops.
        x: features, (N, F), dense or sparse.
        y: classes, (N,); -1 where the class is not known.
        metric: what is reported.
        fixed_splits: boolean masks (train, validation, test) that came with the data.
    """

    name: str
    graph: Graph
    x: Features
    y: Tensor
    metric: Metric = "accuracy"
    fixed_splits: list[Masks] = field(default_factory=list)

    @property
    def num_features(self) -> int:
        """Number of features."""
        return self.x.shape[1]

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return int(self.y.max()) + 1

    @property
    def labelled(self) -> Tensor:
        """Nodes whose class is known, in ascending order."""
        return (self.y >= 0).nonzero()[:, 0]


def make_dataset(
    name: str,
    edge_index: Tensor,
    x: Tensor,
    y: Tensor,
    *,
    row_normalise: bool = False,
    metric: Metric = "accuracy",
    fixed_splits: list[Masks] | None = None,
) -> NodeDataset:
    """A data set from plain tensors: undirected, without self-loops, features sparse where that is faster."""
    graph = Graph.from_edge_index(edge_index, len(y))
    features = as_features(x.float())
    features = row_normalize(features) if row_normalise else features
    return NodeDataset(name, graph, features, y.long(), metric, fixed_splits or [])


def edge_homophily(dataset: NodeDataset) -> float:
    """The share of edges, among those with both classes known, that join nodes of one class."""
    low, high = dataset.graph.edge_index()
    known = (dataset.y[low] >= 0) & (dataset.y[high] >= 0)
    same = dataset.y[low] == dataset.y[high]
    return float(same[known].float().mean()) if known.any() else float("nan")


def fixed_masks(*masks: Tensor) -> list[Masks]:
    """PyG's masks of shape (N, splits) or (N,), taken apart."""
    columns = [mask.bool().reshape(len(mask), -1) for mask in masks]
    train, val, test = columns
    count = max(column.shape[1] for column in columns)

    def column(mask: Tensor, i: int) -> Tensor:
        return mask[:, i if mask.shape[1] > 1 else 0].contiguous()

    return [(column(train, i), column(val, i), column(test, i)) for i in range(count)]
