"""`polybasis report`."""

from __future__ import annotations

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
    """Write a page about a saved model: scores beside baselines, curves, calibration, thresholds and training.

    On the data that the model was trained on, its test nodes are scored; on other data, all labelled nodes.
    """
    from polybasis.cli.display import console
    from polybasis.report.model_report import write_report
    from polybasis.train.trained_model import TrainedModel

    require_labels(source, edges, labels, target, "score against")
    chosen = chosen_source(
        source, edges, features, labels, data_root, table_options(id, target, no_header, merge, drop)
    )
    write_report(TrainedModel.load(model, model_file), chosen, out)
    console.print(f"report in {out}", highlight=False, soft_wrap=True)
