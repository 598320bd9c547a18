"""`polybasis predict`, `evaluate` and `plot`: commands that use a saved model."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Annotated, TextIO

import typer

from polybasis.cli.data_flags import GraphFlags, LabelledFlags, with_data_flags
from polybasis.cli.options import (
    AsJson,
    ModelFile,
    ModelFolder,
    refuse,
)
from polybasis.cli.printable import echo, printable, spreadsheet_safe


@with_data_flags
def predict(
    model: ModelFolder,
    flags: GraphFlags,
    out: Annotated[Path | None, typer.Option(help="CSV or .parquet file; default: CSV to standard output.")] = None,
    model_file: ModelFile = None,
    spreadsheet: Annotated[
        bool,
        typer.Option("--spreadsheet-safe", help="Prefix names that a spreadsheet would evaluate as formulas with '."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict the class, labels or number of every node.

    The output has one row per node, with the prediction and the probabilities. If the model was trained with
    --calibrate and --threshold, probabilities are calibrated and predictions use the threshold. For two classes, the
    score is the probability of the second class before calibration.

    Models on a precomputed basis predict on graphs and on stores; other models predict on graphs only.
    """
    from polybasis.cli.display import console
    from polybasis.files import atomic_file
    from polybasis.train.predictions import PredictionTable
    from polybasis.train.trained_model import TrainedModel

    parquet = out is not None and out.suffix.lower() in (".parquet", ".pq")
    if parquet:
        refuse("--json", as_json, f"the Parquet file {out}")
        refuse("--spreadsheet-safe", spreadsheet, f"the Parquet file {out}")
    trained = TrainedModel.load(model, model_file)
    table = PredictionTable(trained, flags.chosen(trained).open())

    def write(file: TextIO) -> None:
        if as_json:
            file.write(json.dumps(table.to_json(), indent=1) + "\n")
        else:
            table.write_csv(file, spreadsheet_safe if spreadsheet else None)

    if out is None and sys.stdout.isatty():
        text = io.StringIO()
        write(text)
        sys.stdout.write(printable(text.getvalue()))
    elif out is None:
        write(sys.stdout)
    else:
        with atomic_file(out) as file:
            if parquet:
                table.write_parquet(file)
            else:
                text_file = io.TextIOWrapper(file, encoding="utf-8", newline="")
                write(text_file)
                text_file.flush()
                text_file.detach()
        console.print(f"{len(table)} predictions in {out}", soft_wrap=True)


@with_data_flags
def evaluate(
    model: ModelFolder,
    flags: LabelledFlags,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="NAME", help="Additional metric to print, as for `train`; repeatable."),
    ] = None,
    model_file: ModelFile = None,
    as_json: AsJson = False,
) -> None:
    """Score a saved model on labelled nodes.

    On the data that the model was trained on, training, validation and test nodes are scored separately. On other data,
    all labelled nodes are scored together.
    """
    from rich.table import Table

    from polybasis.cli.display import print_json, print_table
    from polybasis.data.metrics import as_metric
    from polybasis.train.evaluation import evaluate as scores_of
    from polybasis.train.trained_model import TrainedModel

    trained = TrainedModel.load(model, model_file)
    rows = scores_of(trained, flags.chosen(trained), [as_metric(name) for name in metric or ()])
    if as_json:
        print_json(rows)
        return
    table = Table("nodes")
    for column in ("count", *(name for name in rows[0] if name not in ("nodes", "count"))):
        table.add_column(column, justify="right")
    for row in rows:
        values = [value for name, value in row.items() if name not in ("nodes", "count")]
        table.add_row(row["nodes"], str(row["count"]), *("" if v is None else f"{v:.4f}" for v in values))
    print_table(table)


@with_data_flags
def plot(
    model: ModelFolder,
    flags: GraphFlags,
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("plots"),
    model_file: ModelFile = None,
    as_json: AsJson = False,
) -> None:
    """Plot the filters of a saved model: responses by channel, basis polynomials, weight functions."""
    from polybasis.cli.display import print_json
    from polybasis.report.model_figures import draw_model
    from polybasis.train.trained_model import TrainedModel

    trained = TrainedModel.load(model, model_file)
    paths = draw_model(trained, flags.chosen(trained).open(), out)
    if as_json:
        print_json([str(path) for path in paths])
    else:
        for path in paths:
            echo(path)
