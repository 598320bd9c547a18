"""`polybasis results`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from polybasis.cli.printable import printable


class Format(StrEnum):
    """Formats of a table."""

    markdown = "markdown"
    latex = "latex"
    csv = "csv"


def results(
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="Results files, such as runs/*.jsonl.")],
    format: Annotated[Format, typer.Option(help="Format of the table.")] = Format.markdown,
    metric: Annotated[str | None, typer.Option(help="Use only results with this metric, such as accuracy.")] = None,
    per_run: Annotated[bool, typer.Option("--per-run", help="With --format csv: one row for each run.")] = False,
    out: Annotated[Path | None, typer.Option(help="File for the table; default: standard output.")] = None,
) -> None:
    """Print a table of results: one row for each model, one column for each data set.

    A cell has the mean test score and its 95% interval; the best mean of each column is bold. A model with several
    configurations, or on several versions of your own data, has a row for each of them.

    Examples:

      polybasis results runs/*.jsonl

      polybasis results runs/*.jsonl --format latex --out table.tex
    """
    from polybasis.cli.display import console
    from polybasis.files import write_atomically
    from polybasis.train.results_table import read_result_files, results_table, runs_csv

    if per_run and format is not Format.csv:
        raise ValueError(f"--per-run does not apply to --format {format}; use --format csv")
    found, skipped = read_result_files(files)
    for path, count in skipped.items():
        if count:
            lines = "1 line is" if count == 1 else f"{count} lines are"
            console.print(
                f"{path}: {lines} damaged or not results of training; skipped", highlight=False, soft_wrap=True
            )
    without = sum(result["test_score"] is None for result in found)
    if without and not per_run:
        console.print(f"{without} of {len(found)} results have no test score; skipped", highlight=False, soft_wrap=True)
    if per_run:
        text = runs_csv([result for result in found if metric in (None, result["metric"])])
    else:
        text = results_table(found, metric).render(format.value)
    if out is not None:
        write_atomically(out, text.encode())
        console.print(f"table in {out}", highlight=False, soft_wrap=True)
    else:
        sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
