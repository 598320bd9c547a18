"""Progress and tables, quiet where nobody is looking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from polybasis.store.blocks import Report as BlockReport
from polybasis.train.fitting import Progress as Epoch
from polybasis.train.fitting import Report
from polybasis.train.runs import Result, summarised

console = Console(stderr=True)


@contextmanager
def training_bar(title: str | None) -> Iterator[Report | None]:
    """A bar with epoch, validation score, best and time left; nothing without a title or a terminal to show it in."""
    if title is None or not console.is_terminal:
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


def say_result(result: Result) -> None:
    """One run in a line."""
    console.print(
        f"{result['model']} on {result['dataset']}, split {result['split_seed']}: validation "
        f"{result['val_accuracy']:.4f}, test {result['test_accuracy']:.4f}, {result['epochs']} epochs, "
        f"{result['seconds']:.1f} s"
    )


@contextmanager
def precompute_bar() -> Iterator[BlockReport | None]:
    """A bar with the block of channels and the time left; nothing where standard error is no terminal."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("precompute", total=None)

        def report(block: int, blocks: int, step: int, steps: int) -> None:
            said = f"block {block + 1} of {blocks}"
            bar.update(task, description=said, completed=block * steps + step, total=blocks * steps)

        yield report


@contextmanager
def runs_bar(title: str, total: int, done: int) -> Iterator[Callable[[Result], None]]:
    """Says each result as it comes, with a bar of all runs and the time left where standard error is a terminal."""

    if not console.is_terminal:
        yield say_result
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task(title, total=total, completed=done)

        def advance(result: Result) -> None:
            say_result(result)
            bar.advance(task)

        yield advance
