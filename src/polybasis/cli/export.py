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
        bool, typer.Option("--any-graph", help="Make the graph an input of the program instead of a part of it.")
    ] = False,
    model_file: ModelFile = None,
) -> None:
    """Export a saved model as a torch.export program.

    The program maps node features to class scores. To run it, import polybasis.operators; the code of the model is not
    needed.
    """
    from polybasis.cli.display import console
    from polybasis.train.trained_model import TrainedModel

    trained = TrainedModel.load(model, model_file)
    data = flags.chosen(trained).open()
    trained.export(out, cast("NodeDataset", data), any_graph=any_graph)
    console.print(f"program in {out}", highlight=False, soft_wrap=True)
