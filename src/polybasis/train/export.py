"""Exports trained models as ``torch.export`` programs."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from polybasis.data.dataset import NodeDataset
from polybasis.features import FeatureTransform, as_dense, transform_features
from polybasis.files import write_atomically
from polybasis.graph import Graph
from polybasis.nn.graph_cache import graph_of
from polybasis.nn.models.model import Model

if TYPE_CHECKING:
    from polybasis.train.trained_model import TrainedModel

TOLERANCE = 1e-3  # of the scores of a program, relative to the largest score of the model


class OnGraph(torch.nn.Module):
    """A model with its feature transform and its graph."""

    def __init__(self, model: Model, transform: FeatureTransform | None, graph: Graph) -> None:
        super().__init__()
        self.model, self._transform, self._graph = model, transform, graph

    def forward(self, x: Tensor) -> Tensor:
        """Returns the class scores of all nodes, (N, classes)."""
        scores: Tensor = self.model(transform_features(x, self._transform), self._graph)
        return scores


class OnEdges(torch.nn.Module):
    """A model with its feature transform, for any graph."""

    def __init__(self, model: Model, transform: FeatureTransform | None) -> None:
        super().__init__()
        self.model, self._transform = model, transform

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Returns the class scores of all nodes, (N, classes)."""
        graph = graph_of(edge_index, x.shape[0], edge_weight)
        scores: Tensor = self.model(transform_features(x, self._transform), graph)
        return scores


def export(trained: TrainedModel, path: Path, data: NodeDataset, *, any_graph: bool = False) -> None:
    """Writes a trained model as a program; see :meth:`polybasis.train.TrainedModel.export`."""
    name = trained.config.model.name
    if path.suffix != ".pt2":
        raise ValueError(f"{path} does not end with .pt2, the suffix of torch.export programs")
    if not isinstance(data, NodeDataset):
        raise ValueError(f"{data.name} is a store; export needs the graph: a data set, graph folder or tables")
    if trained.config.model.precomputed:
        raise ValueError(f"{name} on a precomputed basis cannot be exported; train it on the graph itself")
    if trained.structure_only:
        raise ValueError("a model on structure only cannot be exported, because it has no features as inputs")
    if any_graph and trained.nodes is not None:
        raise ValueError(f"{name} is transductive, so it cannot be exported for any graph; omit --any-graph")
    expected, x = trained.logits(data), as_dense(data.x)
    inputs: dict[str, Tensor] = {"x": x}
    module: torch.nn.Module
    shapes: dict[str, Any] | None = None
    if any_graph:
        inputs |= _edges(data.graph)
        nodes, edges = torch.export.Dim("nodes"), torch.export.Dim("edges")
        shapes = {"x": {0: nodes}, "edge_index": {1: edges}, "edge_weight": {0: edges}}
        shapes = {key: shapes[key] for key in inputs}
        module = OnEdges(trained.model, trained.config.feature_transform)
    else:
        module = OnGraph(trained.model, trained.config.feature_transform, data.graph)
    try:
        with _quiet():
            program = torch.export.export(module.eval(), tuple(inputs.values()), dynamic_shapes=shapes)
            got = program.module()(*inputs.values())
    except Exception as error:
        advice = "; omit --any-graph to export it with its graph" if any_graph else ""
        raise ValueError(f"{name} cannot be exported by torch ({type(error).__name__}){advice}") from error
    if not (got - expected).abs().max() <= TOLERANCE * expected.abs().max():
        raise ValueError(f"the scores of the exported program differ from those of {name}; it was not written")
    about = {"model": name, "classes": list(trained.classes), "features": trained.num_features, "inputs": list(inputs)}
    content = io.BytesIO()
    with _quiet():
        torch.export.save(program, content, extra_files={"polybasis.json": json.dumps(about)})
    write_atomically(path, content.getvalue())


def _edges(graph: Graph) -> dict[str, Tensor]:
    """Returns every edge in both directions, and the weights if there are any."""
    found = {"edge_index": graph.edge_index()}
    return found if graph.weight is None else found | {"edge_weight": graph.weight.float()}


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses warnings about constants of the program, and the pages that torch prints where it cannot trace."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
