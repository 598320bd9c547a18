"""Progress bars on standard error, tables on standard output."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from polybasis.cli.printable import echo, printable
from polybasis.train.results import Result, summarize

if TYPE_CHECKING:
    from polybasis.checksums import OnBytes
    from polybasis.data.dataset import NodeDataset
    from polybasis.store.blocks import OnBlockStep
    from polybasis.train.auto import Candidate
    from polybasis.train.fitting import OnEpoch
    from polybasis.train.fitting import Progress as Epoch
    from polybasis.train.source import Source


class SafeConsole(Console):
    """Prints text as it is, without markup, and escapes what would control the terminal."""

    def print(self, *objects: Any, **options: Any) -> None:
        for table in (item for item in objects if isinstance(item, Table)):
            table.title = _safe(table.title)
            for column in table.columns:
                column.header, column._cells = _safe(column.header), [_safe(cell) for cell in column._cells]
        super().print(*(_safe(item) for item in objects), **options)


def _safe(item: Any) -> Any:
    return printable(item) if isinstance(item, str) else item


console = SafeConsole(stderr=True, markup=False)
LINE_SECONDS = 5.0  # between lines of a training run without a terminal
FILE_WIDTH = 200  # width of tables that are not printed to a terminal
DESCRIPTION = TextColumn("{task.description}", markup=False)


def print_notes(source: Source) -> None:
    """Prints what was read from the user's tables to standard error."""
    if source.kind == "tables":
        for note in cast("NodeDataset", source.open()).notes:
            console.print(note.replace("\n", "\\n"), highlight=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """Prints a JSON document to standard output."""
    print(json.dumps(document, indent=1))


def print_table(table: Table) -> None:
    """Prints a table to standard output. In narrow terminals, text is wrapped, not truncated."""
    for column in table.columns:
        column.overflow = "fold"
    SafeConsole(width=None if sys.stdout.isatty() else FILE_WIDTH, markup=False).print(table)


@contextmanager
def training_bar(title: str) -> Iterator[OnEpoch]:
    """A progress bar with epoch, validation score, best score and time left; lines if there is no terminal."""
    if not console.is_terminal:
        yield epoch_lines(title)
        return
    columns = (DESCRIPTION, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(title), total=None)

        def on_epoch(progress: Epoch) -> None:
            scores = f"{printable(title)}  validation {progress.val_score:.3f}, best {progress.best_score:.3f}"
            bar.update(task, description=scores, completed=progress.epoch + 1, total=progress.epochs)

        yield on_epoch


def epoch_lines(title: str, seconds: float = LINE_SECONDS) -> OnEpoch:
    """Prints a line to standard error whenever an epoch ends and some seconds have passed since the last line."""
    last = time.monotonic()

    def on_epoch(progress: Epoch) -> None:
        nonlocal last
        if time.monotonic() - last < seconds:
            return
        last = time.monotonic()
        console.print(
            f"{title}: epoch {progress.epoch + 1} of at most {progress.epochs}, validation {progress.val_score:.4f}, "
            f"best {progress.best_score:.4f} in epoch {progress.best_epoch + 1}",
            highlight=False,
            soft_wrap=True,
        )

    return on_epoch


def print_result(result: Result) -> None:
    """Prints a result on one line to standard error."""
    console.print(_line(result), highlight=False, soft_wrap=True)


def _line(result: Result) -> str:
    test = "" if result["test_score"] is None else f", test {result['test_score']:.4f}"
    return (
        f"{result['model']} on {result['dataset']}, split {result['split']}: {result['metric']} "
        f"validation {result['val_score']:.4f}{test}; {result['epochs']} epochs, {result['seconds']:.1f} s"
    )


def print_assessment(result: Result) -> None:
    """Prints the test score of a model with its interval beside those of baselines, and warnings."""
    from polybasis.data.metrics import metric_name
    from polybasis.train.assessment import Assessment

    found = Assessment.from_dict(result["assessment"])
    table = Table(f"{metric_name(found.metric)}, {found.nodes:,} test nodes")
    for column in ("score", "95% interval", "advantage of the model"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_row("model", f"{found.score.value:.4f}", f"{found.score.low:.4f} to {found.score.high:.4f}", "")
    for baseline in found.baselines:
        score, advantage = baseline.score, baseline.advantage
        interval = "" if score.low == score.high else f"{score.low:.4f} to {score.high:.4f}"
        gain = f"{advantage.value:+.4f} ({advantage.low:+.4f} to {advantage.high:+.4f})"
        table.add_row(baseline.name, f"{score.value:.4f}", interval, gain)
    print_table(table)
    for warning in found.warnings:
        console.print(f"warning: {warning}", highlight=False, soft_wrap=True)


def print_results(results: list[Result], as_json: bool, **more: Any) -> None:
    """Prints results to standard output: one line, a summary table for several results, or JSON with more entries."""
    if as_json:
        print_json({"results": results, "summary": summarize(results), **more})
        return
    if len(results) == 1:
        echo(_line(results[0]))
        return
    table = Table("model", "data", "preset", "metric")
    for column in ("splits", "validation", "test", "std", "ci95", "epochs", "seconds"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in summarize(results):
        numbers = ["" if row[name] is None else f"{row[name]:.2f}" for name in ("val", "mean", "std", "ci95")]
        numbers += [f"{row['epochs']:.0f}", f"{row['seconds']:.1f}"]
        table.add_row(row["model"], row["dataset"], row["preset"], row["metric"], str(row["splits"]), *numbers)
    print_table(table)


@contextmanager
def precompute_bar() -> Iterator[OnBlockStep | None]:
    """A progress bar with the block of channels and the time left, if standard error is a terminal."""
    if not console.is_terminal:
        yield None
        return
    columns = (DESCRIPTION, BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("precompute", total=None)

        def on_step(block: int, blocks: int, step: int, steps: int) -> None:
            description = f"block {block + 1} of {blocks}"
            bar.update(task, description=description, completed=block * steps + step, total=blocks * steps)

        yield on_step


def print_candidate(found: Candidate) -> None:
    """Prints the outcome of one candidate of a race."""
    score = "" if found.val_score is None else f"validation score {found.val_score:.4f}, "
    text = f"  {found.name}: {score}{found.epochs} epochs, {found.seconds:.1f} s, {found.status}"
    console.print(text, highlight=False, soft_wrap=True)


@contextmanager
def jobs_bar(title: str, total: int, done: int) -> Iterator[Callable[[Result], None]]:
    """Prints each result, with a progress bar over all jobs if standard error is a terminal."""
    if not console.is_terminal:
        yield print_result
        return
    columns = (DESCRIPTION, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task(printable(title), total=total, completed=done)

        def on_result(result: Result) -> None:
            print_result(result)
            bar.advance(task)

        yield on_result


@contextmanager
def bytes_bar(title: str, total: int) -> Iterator[OnBytes | None]:
    """A progress bar over the bytes of a file or folder, if standard error is a terminal."""
    if not console.is_terminal:
        yield None
        return
    columns = (DESCRIPTION, BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(title), total=total)
        yield lambda count: bar.advance(task, count)
