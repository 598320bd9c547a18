"""`polybasis export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from polybasis.cli.data_flags import GraphFlags, with_data_flags
from polybasis.cli.options import (
    ModelFile,
    ModelFolder,
)

if TYPE_CHECKING:
    from polybasis.data.dataset import NodeDataset


@with_data_flags
def export(
    model: ModelFolder,
    flags: GraphFlags,
    out: Annotated[Path, typer.Option(help="File of the program, NAME.pt2.")] = Path("model.pt2"),
    any_graph: Annotated[
        bool, typer.Option("--any-graph", help="Take the graph as an input instead of making it part of the program.")
    ] = False,
    model_file: ModelFile = None,
) -> None:
    """Export a saved model as a program of torch.export.

    The program maps the features of the graph's nodes to class scores. It runs without the model's code, where
    polybasis.operators is imported.
    """
    from polybasis.cli.display import console
    from polybasis.train.trained_model import TrainedModel

    trained = TrainedModel.load(model, model_file)
    data = flags.chosen(trained).open()
    trained.export(out, cast("NodeDataset", data), any_graph=any_graph)
    console.print(f"program in {out}", highlight=False, soft_wrap=True)
