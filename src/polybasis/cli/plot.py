"""`polybasis plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polybasis.cli.display import console
from polybasis.cli.train import Edges, Features, trained_model
from polybasis.report.model_figures import draw_model


def plot(
    model: Annotated[Path, typer.Argument(help="The folder of a trained model.")],
    edges: Edges = None,
    features: Features = None,
    out: Annotated[Path, typer.Option(help="Folder of the pictures.")] = Path("plots"),
) -> None:
    """Draw what a trained model's filters do: responses by channel, basis polynomials, weight functions."""
    if edges is None:
        raise ValueError("plot wants --edges FILE, and --features FILE where the model was trained with features")
    classifier, own = trained_model(model, edges, features)
    for path in draw_model(classifier.model_, classifier.config.prepared(own.x), own.graph, out):
        console.print(str(path))
