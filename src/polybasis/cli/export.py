"""`polybasis export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from polybasis.cli.options import (
    DataRoot,
    Drop,
    Edges,
    Features,
    Id,
    Merge,
    ModelFile,
    ModelFolder,
    NoHeader,
    SourceName,
    Target,
    chosen_source,
    table_options,
)

if TYPE_CHECKING:
    from polybasis.data.dataset import NodeDataset


def export(
    model: ModelFolder,
    source: SourceName = None,
    edges: Edges = None,
    features: Features = None,
    id: Id = None,
    target: Target = None,
    no_header: NoHeader = False,
    merge: Merge = None,
    drop: Drop = None,
    out: Annotated[Path, typer.Option(help="File of the program, NAME.pt2.")] = Path("model.pt2"),
    any_graph: Annotated[
        bool, typer.Option("--any-graph", help="Take the graph as an input instead of making it part of the program.")
    ] = False,
    data_root: DataRoot = None,
    model_file: ModelFile = None,
) -> None:
    """Export a saved model as a program of torch.export.

    The program maps the features of the graph's nodes to class scores. It runs without the model's code, where
    polybasis.operators is imported.
    """
    from polybasis.cli.display import console
    from polybasis.train.trained_model import TrainedModel

    trained = TrainedModel.load(model, model_file)
    tables = table_options(id, target, no_header, merge, drop)
    data = chosen_source(source, edges, features, None, data_root, tables).open()
    trained.export(out, cast("NodeDataset", data), any_graph=any_graph)
    console.print(f"program in {out}", highlight=False, soft_wrap=True)
