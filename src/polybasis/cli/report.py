"""`polybasis report`."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from polybasis.cli.data_flags import LabelledFlags, with_data_flags
from polybasis.cli.options import ModelFile, ModelFolder


@with_data_flags
def report(
    model: ModelFolder,
    flags: LabelledFlags,
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
    model_file: ModelFile = None,
) -> None:
    """Write an interactive page about a saved model: scores beside baselines, curves, filters and training.

    On the data that the model was trained on, its test nodes are scored; on other data, all labelled nodes. The page
    is one file, which needs no network.
    """
    from polybasis.cli.display import console
    from polybasis.report.model_report import write_report
    from polybasis.train.trained_model import TrainedModel

    trained = TrainedModel.load(model, model_file)
    shown = flags if flags.labels is None else replace(flags, target=None)  # a column of the labels
    own_file = [] if model_file is None else ["--model-file", str(model_file)]
    command = ["polybasis", "predict", str(model), *shown.arguments(), *own_file, "--out", "predictions.csv"]
    write_report(trained, flags.chosen(trained).open(), out, shlex.join(command))
    console.print(f"report in {out}", highlight=False, soft_wrap=True)
