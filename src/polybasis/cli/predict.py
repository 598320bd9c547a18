"""`polybasis predict`, `evaluate` and `plot`: commands that use a saved model."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from polybasis.cli.options import (
    AsJson,
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
    table_options,
)
from polybasis.cli.printable import echo, printable, spreadsheet_safe


def predict(
    model: ModelFolder,
    source: SourceName = None,
    edges: Edges = None,
    features: Features = None,
    id: Id = None,
    target: Target = None,
    no_header: NoHeader = False,
    merge: Merge = None,
    drop: Drop = None,
    out: Annotated[Path | None, typer.Option(help="CSV file; default: standard output.")] = None,
    data_root: DataRoot = None,
    model_file: ModelFile = None,
    spreadsheet: Annotated[
        bool,
        typer.Option("--spreadsheet-safe", help="Prefix names that a spreadsheet would run as formulas with '."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict the class of every node; writes the node, the prediction and the probability of each class.

    Models on a precomputed basis predict on graphs and on stores; other models predict on graphs only.
    """
    from polybasis.train.trained_model import TrainedModel

    trained = TrainedModel.load(model, model_file)
    data = chosen_source(
        source, edges, features, None, data_root, table_options(id, target, no_header, merge, drop)
    ).open()
    probabilities = trained.predict_proba(data)
    names, best = data.node_names(), probabilities.argmax(axis=1)
    if as_json:
        text = _as_json(trained.classes, names, best, probabilities)
    else:
        table = io.StringIO()
        # A semicolon separates cells in some languages, so every cell is quoted for a spreadsheet.
        writer = csv.writer(table, lineterminator="\n", quoting=csv.QUOTE_ALL if spreadsheet else csv.QUOTE_MINIMAL)
        cell = spreadsheet_safe if spreadsheet else lambda value: value
        writer.writerow(["node", "prediction", *(f"probability {name}" for name in trained.classes)])
        for name, i, row in zip(names, best, probabilities, strict=True):
            writer.writerow([cell(name), cell(trained.classes[i]), *(f"{p:.6f}" for p in row)])
        text = table.getvalue()
    if out is None:
        sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
        return
    from polybasis.cli.display import console
    from polybasis.files import write_atomically

    write_atomically(out, text.encode())
    console.print(f"{len(names)} predictions in {out}", soft_wrap=True)


def _as_json(classes: tuple[Any, ...], names: list[Any], best: Any, probabilities: Any) -> str:
    import json

    rows = [
        {
            "node": name,
            "prediction": classes[i],
            "probabilities": {str(c): round(float(p), 6) for c, p in zip(classes, row, strict=True)},
        }
        for name, i, row in zip(names, best, probabilities, strict=True)
    ]
    return json.dumps(rows, indent=1) + "\n"


def evaluate(
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
    data_root: DataRoot = None,
    model_file: ModelFile = None,
    as_json: AsJson = False,
) -> None:
    """Score a saved model on labelled nodes.

    On the data that the model was trained on, training, validation and test nodes are scored separately; on other data,
    all labelled nodes are scored together.
    """
    from rich.table import Table

    from polybasis.cli.display import print_json, print_table
    from polybasis.train.evaluation import evaluate as scores_of
    from polybasis.train.trained_model import TrainedModel

    if source is None and edges is not None and labels is None and target is None:
        raise ValueError("--edges needs --labels FILE, or --target COLUMN of --features, to score against")
    chosen = chosen_source(
        source, edges, features, labels, data_root, table_options(id, target, no_header, merge, drop)
    )
    rows = scores_of(TrainedModel.load(model, model_file), chosen)
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


def plot(
    model: ModelFolder,
    source: SourceName = None,
    edges: Edges = None,
    features: Features = None,
    id: Id = None,
    target: Target = None,
    no_header: NoHeader = False,
    merge: Merge = None,
    drop: Drop = None,
    out: Annotated[Path, typer.Option(help="Folder of the figures.")] = Path("plots"),
    data_root: DataRoot = None,
    model_file: ModelFile = None,
    as_json: AsJson = False,
) -> None:
    """Plot the filters of a saved model: responses by channel, basis polynomials, weight functions."""
    from polybasis.cli.display import print_json
    from polybasis.report.model_figures import draw_model
    from polybasis.train.trained_model import TrainedModel

    trained = TrainedModel.load(model, model_file)
    paths = draw_model(
        trained,
        chosen_source(
            source, edges, features, None, data_root, table_options(id, target, no_header, merge, drop)
        ).open(),
        out,
    )
    if as_json:
        print_json([str(path) for path in paths])
    else:
        for path in paths:
            echo(path)
