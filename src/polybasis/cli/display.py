"""Progress and tables, quiet where nobody is looking."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from polybasis.train.fitting import Progress as Epoch
from polybasis.train.fitting import Report
from polybasis.train.runs import Result, summary

console = Console(stderr=True)


@contextmanager
def training_bar(title: str) -> Iterator[Report | None]:
    """A bar with epoch, validation score, best and time left; nothing where standard error is no terminal."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)

        def report(progress: Epoch) -> None:
            scores = f"{title}  validation {progress.val_score:.3f}, best {progress.best_score:.3f}"
            bar.update(task, description=scores, completed=progress.epoch + 1, total=progress.epochs)

        yield report


def results_table(results: list[Result]) -> Table:
    """Mean, standard deviation and half the 95 % interval over n splits, in percent; mean epochs and seconds."""
    table = Table("model", "data", "settings")
    for column in ("n", "val", "test", "std", "ci95", "epochs", "s"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in summarised(results):
        numbers = [f"{row[name]:.2f}" for name in ("val", "mean", "std", "ci95")]
        numbers += [f"{row['epochs']:.0f}", f"{row['seconds']:.1f}"]
        table.add_row(row["model"], row["dataset"], row["settings"], str(row["splits"]), *numbers)
    return table


def summarised(results: list[Result]) -> list[dict[str, Any]]:
    """One row for each model, data set and settings; scores in percent."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result["model"], result["dataset"], result["settings"]), []).append(result)
    rows = []
    for (model, dataset, settings), members in groups.items():
        test = summary([100 * member["test_accuracy"] for member in members])
        rows.append(
            {
                "model": model,
                "dataset": dataset,
                "settings": settings,
                "splits": len(members),
                "val": statistics.mean(100 * member["val_accuracy"] for member in members),
                **test,
                "epochs": statistics.mean(member["epochs"] for member in members),
                "seconds": statistics.mean(member["seconds"] for member in members),
            }
        )
    return rows
