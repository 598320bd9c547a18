"""`polybasis report`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from polybasis.cli.options import (
    DataRoot,
    Drop,
    Edges,
    Features,
    Id,
    Labels,
    Merge,
    ModelFile,
    ModelFolder,
    NoHeader,
    SourceName,
    Target,
    chosen_source,
    require_labels,
    table_options,
)


def report(
    model: ModelFolder,
    source: SourceName = None,
    edges: Edges = None,
    features: Features = None,
    labels: Labels = None,
    id: Id = None,
    target: Target = None,
    no_header: NoHeader = False,
    merge: Merge = None,
    drop: Drop = None,
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
    data_root: DataRoot = None,
    model_file: ModelFile = None,
) -> None:
    """Write an interactive page about a saved model: scores beside baselines, curves, filters and training.

    On the data that the model was trained on, its test nodes are scored; on other data, all labelled nodes. The page
    is one file, which needs no network.
    """
    from polybasis.cli.display import console
    from polybasis.report.model_report import write_report
    from polybasis.train.trained_model import TrainedModel

    require_labels(source, edges, labels, target, "score against")
    chosen = chosen_source(
        source, edges, features, labels, data_root, table_options(id, target, no_header, merge, drop)
    )
    columns = {"--id": id, "--target": target if labels is None else None, "--merge": merge}
    command = ["polybasis", "predict", str(model), *([] if source is None else [source])]
    for flag, value in {"--edges": edges, "--features": features, **columns, "--data-root": data_root}.items():
        command += [] if value is None else [flag, str(value)]
    command += ["--no-header"] if no_header else []
    for column in drop or ():
        command += ["--drop", column]
    command += [] if model_file is None else ["--model-file", str(model_file)]
    write_report(
        TrainedModel.load(model, model_file), chosen.open(), out, shlex.join([*command, "--out", "predictions.csv"])
    )
    console.print(f"report in {out}", highlight=False, soft_wrap=True)
