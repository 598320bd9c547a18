"""Data sets: graphs with node features, a target for each node, and splits.

A split depends only on the data set, the protocol and the seed.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.data import metrics
from polybasis.data.columns import Columns
from polybasis.data.metrics import Metric, TargetKind
from polybasis.data.on_first_use import OnFirstUse
from polybasis.data.recipe import Recipe
from polybasis.data.schema import TableSchema
from polybasis.data.targets import check_target, default_metric, is_known, target_kind
from polybasis.features import Features, SparseFeatures, as_features, row_normalize
from polybasis.graph import Graph

Masks = tuple[Tensor, Tensor, Tensor]
PROTOCOLS = {
    "per-class": "60/20/20 of GPR-GNN: the same number of training nodes from every class",
    "stratified": "60/20/20 of every class",
    "random": "60/20/20 of the labelled nodes",
    "train-val": "75/25 of every class, no test nodes",
    "fixed": "the splits that come with the data",
    "linkx": "50/25/25 of the labelled nodes",
}


class Split(NamedTuple):
    """Training, validation and test nodes, each a sorted (n,) tensor of nodes with a known target.

    >>> import polybasis as pb
    >>> train, val, test = pb.data.csbm(nodes=100, features=8).split("random", seed=0)
    >>> len(train), len(val), len(test)
    (60, 20, 20)
    """

    train: Tensor
    val: Tensor
    test: Tensor


class LabelledNodes:
    """Nodes with targets and splits: the common base of data sets in memory and stores on disk.

    Attributes:
        name: name of the data set.
        y: target of each node: its class as an index into ``classes``, (N,), -1 if unknown; or labels or a number, see
            :mod:`polybasis.data.targets`.
        classes: the classes or labels, in the order of a model's outputs; empty for regression.
        nodes: names of the nodes, (N,); None if nodes are named by their numbers.
        metric: the metric for early stopping and reported scores.
        fixed_splits: boolean masks (train, validation, test) that come with the data.
        protocol: default split protocol.
        num_features: number of features.
        structure_only: whether the data has no features, so that the features are the identity matrix.
        sample_weight: weight of each node in the training loss, (N,); None if all are equal.
    """

    name: str
    y: Tensor
    classes: tuple[Any, ...]
    nodes: NDArray[np.str_] | None
    metric: Metric
    fixed_splits: list[Masks]
    protocol: str
    num_features: int
    structure_only: bool
    sample_weight: Tensor | None = None

    @property
    def num_classes(self) -> int:
        """Number of classes or labels."""
        return len(self.classes)

    @property
    def target(self) -> TargetKind:
        """The kind of the target."""
        return target_kind(self.y)

    @property
    def num_outputs(self) -> int:
        """Number of outputs of a model: classes or labels, or 1 for regression."""
        return 1 if self.target == "regression" else len(self.classes)

    @property
    def labelled(self) -> Tensor:
        """Nodes with a known target, in ascending order."""
        return is_known(self.y).nonzero()[:, 0]

    @property
    def node_ids(self) -> NDArray[Any]:
        """The name of every node, or its number in the graph, (N,)."""
        return np.arange(len(self.y)) if self.nodes is None else self.nodes

    def node_names(self) -> list[Any]:
        """The name of every node, or its number in the graph, as a list."""
        names: list[Any] = self.node_ids.tolist()
        return names

    def split(self, protocol: str | None = None, seed: int = 0) -> Split:
        """Splits the labelled nodes into training, validation and test nodes.

        ``per-class`` draws the same number of training nodes from every class, 60% of N divided by the number of
        classes, and 20% of N for validation from the rest. If a class is smaller than its share, all of its nodes
        become training nodes. The class is then never tested, and scores on very imbalanced data (actor, texas) do not
        include it. Published results use this protocol. Without classes, ``per-class`` and ``stratified`` are the same
        as ``random``.

        Args:
            protocol: one of ``PROTOCOLS``; by default that of the data set.
            seed: random seed; with ``fixed``, the index of the split, modulo the number of splits.

        Raises:
            ValueError: if the protocol is unknown, if it is ``fixed`` and the data has no splits, or if no node has a
                known class.
        """
        protocol = protocol or self.protocol
        if protocol not in PROTOCOLS:
            raise ValueError(f"unknown split protocol {protocol!r}; expected one of {', '.join(PROTOCOLS)}")
        if protocol == "fixed":
            if not self.fixed_splits:
                raise ValueError(f"{self.name} has no published splits; use a protocol other than 'fixed'")
            masks = self.fixed_splits[seed % len(self.fixed_splits)]
            return Split(*((mask & is_known(self.y)).nonzero()[:, 0] for mask in masks))
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode()), zlib.crc32(protocol.encode())])
        nodes = self.labelled.numpy()
        if len(nodes) == 0:
            raise ValueError(f"{self.name} has no labelled nodes to split")
        label = self.y.numpy()[nodes] if self.target == "classification" else np.zeros_like(nodes)
        if protocol == "per-class":
            return _per_class(nodes, label, rng)
        if protocol in ("random", "linkx"):
            return _cut(rng.permutation(nodes), *((0.6, 0.2) if protocol == "random" else (0.5, 0.25)))
        shares = (0.75, 0.25) if protocol == "train-val" else (0.6, 0.2)
        parts = [_cut(rng.permutation(nodes[label == c]), *shares) for c in np.unique(label)]
        return Split(*(torch.cat(part).sort().values for part in zip(*parts, strict=True)))

    def score(self, outputs: Tensor, nodes: Tensor, metric: Metric | None = None) -> float:
        """Computes a metric on some nodes, by default the metric of the data set.

        Args:
            outputs: logits, (len(nodes), num_classes), or values for regression, (len(nodes), 1).
            nodes: the nodes.
            metric: the metric.
        """
        return metrics.score(metric or self.metric, self.target, outputs, self.y[nodes])


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeDataset(LabelledNodes):
    """A graph with features and a target for each node.

    The default metric depends on the target and its balance; see :func:`polybasis.data.targets.default_metric`.

    Attributes in addition to those of :class:`LabelledNodes`:
        graph: undirected, without self-loops.
        x: features, (N, F), dense or sparse; may be given as a function that is called on first use.
        identity: identifies the contents; by default a hash of them.
        columns: the typed columns that the features come from; None if they do not come from a table.
        recipe: the recipe that converted ``columns`` to ``x``; None until :meth:`prepared` is called. Until then, ``x``
            is encoded with a recipe fitted on all nodes, and numbers are unscaled.
        notes: a summary of how the user's files were read, line by line.
        schema: the roles of the columns in the user's tables; None if the data does not come from tables.

    >>> import torch, polybasis as pb
    >>> graph = pb.Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
    >>> data = pb.data.NodeDataset(name="path", graph=graph, x=torch.rand(4, 2), y=torch.tensor([0, 0, 1, -1]))
    >>> data.num_classes, data.labelled.tolist()
    (2, [0, 1, 2])
    """

    name: str
    graph: Graph
    x: OnFirstUse[Features] = OnFirstUse()  # noqa: RUF009
    y: Tensor
    classes: tuple[Any, ...] = ()
    nodes: NDArray[np.str_] | None = None
    metric: Metric = None  # type: ignore[assignment]
    fixed_splits: list[Masks] = field(default_factory=list)
    protocol: str = "stratified"
    structure_only: bool = False
    sample_weight: Tensor | None = None
    identity: str = ""
    columns: Columns | None = None
    recipe: Recipe | None = None
    notes: tuple[str, ...] = ()
    schema: TableSchema | None = None

    def __post_init__(self) -> None:
        check_target(self.y)
        if not self.classes and len(self.y) and self.target != "regression":
            count = int(self.y.max()) + 1 if self.target == "classification" else self.y.shape[1]
            object.__setattr__(self, "classes", tuple(range(count)))
        if self.metric is None:
            object.__setattr__(self, "metric", default_metric(self.y, self.num_classes))
        metrics.check_metric(self.metric, self.target)

    @property
    def num_features(self) -> int:  # type: ignore[override]
        """Number of features."""
        return self.x.shape[1]

    def prepared(self, split: Split) -> NodeDataset:
        """Returns the data set to train on, with a feature recipe that is fitted without validation and test nodes.

        Data sets whose features are not columns of a table are returned unchanged.
        """
        if self.columns is None:
            return self
        rows = np.ones(len(self.y), dtype=np.bool_)
        rows[torch.cat([split.val, split.test]).numpy()] = False
        recipe = Recipe.learn(self.columns, rows)
        return replace(self, x=recipe.apply(self.columns), recipe=recipe)

    @property
    def dataset_identity(self) -> str:
        """Identifies the data set."""
        return self.fingerprint

    @cached_property
    def fingerprint(self) -> str:
        """Equal for two data sets if and only if they have the same contents."""
        if self.identity:
            return self.identity
        metric = self.metric.replace("_", "-")  # as in earlier versions, so that fingerprints stay the same
        digest = hashlib.sha256(f"{self.name} {metric} {list(self.classes)}".encode())
        parts = [self.y.numpy(), self.graph.indptr.numpy(), self.graph.indices.numpy()]
        if self.graph.weight is not None:
            parts.append(self.graph.weight.numpy())
        if self.graph.directed or self.graph.normalization != "sym":
            digest.update(repr((self.graph, self.graph.lambda_max)).encode())
            parts.append(self.graph.adjacency().data)
        if self.columns is not None:
            digest.update(repr([(column.name, column.kind, column.categories) for column in self.columns]).encode())
            parts += [column.values for column in self.columns]
        elif isinstance(self.x, SparseFeatures):
            matrix = self.x.to_scipy()
            parts += [matrix.indptr, matrix.indices, matrix.data]
        else:
            parts.append(self.x.numpy())
        parts += [mask.numpy() for masks in self.fixed_splits for mask in masks]
        if self.sample_weight is not None:
            parts.append(self.sample_weight.numpy())
        for part in parts:
            digest.update(np.ascontiguousarray(part).data)
        return f"{self.name}@{digest.hexdigest()[:16]}"


def make_dataset(
    name: str,
    edge_index: Tensor,
    x: Tensor | sp.csr_array,
    y: Tensor,
    *,
    row_normalized: bool = False,
    metric: Metric = "accuracy",
    fixed_splits: list[Masks] | None = None,
) -> NodeDataset:
    """Builds a data set from tensors: undirected, without self-loops, and with sparse features if that is faster.

    Args:
        name: name of the data set.
        edge_index: pairs of nodes, (2, E).
        x: features, (N, F), a tensor or a sparse matrix.
        y: classes, (N,); -1 if unknown.
        row_normalized: divide each row of ``x`` by its sum where the sum exceeds 1.
        metric: metric to report.
        fixed_splits: masks that come with the data; see :func:`fixed_masks`.

    Raises:
        ValueError: if shapes do not match, a class or a node of an edge is out of range, or a feature is not finite.
    """
    if x.ndim != 2 or y.shape != tuple(x.shape[:1]):
        raise ValueError(
            f"features of shape {tuple(x.shape)} and classes of shape {tuple(y.shape)}; expected N of each"
        )
    if len(y):
        refuse_classes(int(y.min()), int(y.max()), len(y))
    values = x if isinstance(x, Tensor) else torch.from_numpy(x.data)
    if values.numel() and not torch.isfinite(torch.stack(values.aminmax())).all():
        raise ValueError("a feature is not finite; features must be finite")
    graph = Graph.from_edge_index(edge_index, len(y), directed=False)
    features = as_features(x.float() if isinstance(x, Tensor) else x)
    return NodeDataset(
        name=name,
        graph=graph,
        x=row_normalize(features) if row_normalized else features,
        y=y.long(),
        metric=metric,
        fixed_splits=fixed_splits or [],
    )


def refuse_classes(lowest: int, largest: int, nodes: int) -> None:
    """Raises ValueError for invalid class indices: below -1, or implying far more classes than nodes."""
    most = max(nodes, 1000)
    if lowest < -1 or largest >= most:
        wrong = lowest if lowest < -1 else largest
        raise ValueError(f"class {wrong}; expected class indices from 0 to {most - 1}, or -1 if unknown")


def edge_homophily(dataset: NodeDataset) -> float:
    """Returns the fraction of edges that join nodes of the same class, among edges between nodes of known class.

    Args:
        dataset: nodes with classes; the result is NaN for other targets.

    >>> import polybasis as pb
    >>> heterophilous = pb.data.csbm(nodes=500, features=8, phi=-0.8)
    >>> pb.data.edge_homophily(heterophilous) < 0.3
    True
    """
    if dataset.target != "classification":
        return float("nan")
    low, high = dataset.graph.edge_index()
    known = (dataset.y[low] >= 0) & (dataset.y[high] >= 0)
    same = dataset.y[low] == dataset.y[high]
    return float(same[known].float().mean()) if known.any() else float("nan")


def fixed_masks(*masks: Tensor) -> list[Masks]:
    """Converts PyG's train, validation and test masks of shape (N, splits) or (N,) to one triple per split."""
    columns = [mask.bool().reshape(len(mask), -1) for mask in masks]
    train, val, test = columns
    count = max(column.shape[1] for column in columns)

    def column(mask: Tensor, i: int) -> Tensor:
        return mask[:, i if mask.shape[1] > 1 else 0].contiguous()

    return [(column(train, i), column(val, i), column(test, i)) for i in range(count)]


def masks_of(splits: NDArray[np.int8] | None) -> list[Masks]:
    """Converts splits of shape (splits, N) (1 training, 2 validation, 3 test) to one triple of masks per split."""
    rows = [] if splits is None else [torch.from_numpy(np.array(row)) for row in splits]
    return [(row == 1, row == 2, row == 3) for row in rows]


def _cut(nodes: NDArray[np.int64], train: float, val: float) -> Split:
    ends = [round(train * len(nodes)), round((train + val) * len(nodes))]
    return Split(*(torch.from_numpy(np.sort(part)) for part in np.split(nodes, ends)))


def _per_class(nodes: NDArray[np.int64], label: NDArray[np.int64], rng: np.random.Generator) -> Split:
    classes = np.unique(label)
    share = round(0.6 * len(nodes) / len(classes))
    shuffled = [rng.permutation(nodes[label == c]) for c in classes]
    train = np.concatenate([part[:share] for part in shuffled])
    rest = rng.permutation(np.concatenate([part[share:] for part in shuffled]))
    val = rest[: round(0.2 * len(nodes))]
    test = rest[len(val) :]
    return Split(*(torch.from_numpy(np.sort(part)) for part in (train, val, test)))
