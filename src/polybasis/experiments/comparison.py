"""Comparison of results with the paper's tables."""

from __future__ import annotations

from typing import Any

from polybasis.experiments import paper
from polybasis.experiments.markdown import markdown_table
from polybasis.train.results import Result, summarize

Row = dict[str, Any]
HEADER = ["model", "preset", "splits", "ours", "paper", "difference", "verdict", "validation", "epochs", "s"]


def compare_with_paper(
    results: list[Result], table: str, models: tuple[str, ...], datasets: tuple[str, ...]
) -> list[Row]:
    """Averages results over splits and compares them with a table of the paper.

    Args:
        results: one result per split.
        table: name of the table, see :func:`polybasis.experiments.paper.table`.
        models, datasets: the order of the rows; data sets that are not listed come last.

    Returns:
        One row per model, data set and preset: the summary, ``paper`` and ``paper_ci`` (None if the paper has no such
        cell), and ``verdict``: ``above`` the paper's mean, ``within`` its interval below the mean, or ``below`` that.

    Raises:
        ValueError: if a result is of a model that is not listed.
    """
    reported = paper.table(table)
    rows = []
    for row in summarize(results):
        mean, interval = reported.get(row["model"], {}).get(row["dataset"], (None, None))
        verdict = ""
        if mean is not None:
            verdict = "above" if row["mean"] > mean else "within" if row["mean"] >= mean - interval else "below"
        rows.append({**row, "paper": mean, "paper_ci": interval, "verdict": verdict})
    order = {name: i for i, name in enumerate(datasets)}
    return sorted(rows, key=lambda row: (order.get(row["dataset"], len(order)), models.index(row["model"])))


def dataset_sections(rows: list[Row]) -> list[str]:
    """Formats the rows of :func:`compare_with_paper` as a heading and a Markdown table for each data set.

    Returns:
        The lines of the sections, each table as one string.
    """
    parts = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        lines = []
        for row in (row for row in rows if row["dataset"] == dataset):
            has_paper = row["paper"] is not None
            lines.append(
                [
                    row["model"],
                    row["preset"],
                    str(row["splits"]),
                    f"{row['mean']:.2f} ± {row['ci95']:.2f}",
                    f"{row['paper']:.2f} ± {row['paper_ci']:.2f}" if has_paper else "",
                    f"{row['mean'] - row['paper']:+.2f}" if has_paper else "",
                    row["verdict"],
                    f"{row['val']:.2f}",
                    f"{row['epochs']:.0f}",
                    f"{row['seconds']:.1f}",
                ]
            )
        parts += ["", f"## {dataset}", "", markdown_table(HEADER, lines)]
    return parts
