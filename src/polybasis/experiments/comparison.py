"""Comparison of results with the paper's tables."""

from __future__ import annotations

from typing import Any

from polybasis.experiments import paper
from polybasis.experiments.markdown import markdown_table
from polybasis.train.results import Difference, Result, summarize, welch_difference

Row = dict[str, Any]
HEADER = ["model", "preset", "splits", "ours", "paper", "difference", "verdict", "validation", "epochs", "s"]
VERDICTS = (
    "The verdict states whether the 95% interval of the difference between the two means (Welch) is *above* zero, "
    "contains it (*agrees*), or is *below* it."
)


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
        cell), ``difference`` (a :class:`~polybasis.train.results.Difference`, or None) and its ``verdict``: ``above``,
        ``agrees`` or ``below``, or empty.

    Raises:
        ValueError: if a result is of a model that is not listed.
    """
    reported = paper.table(table)
    rows = []
    for row in summarize(results):
        mean, uncertainty = reported.get(row["model"], {}).get(row["dataset"], (None, None))
        difference = None if mean is None else difference_from_paper(row, mean, uncertainty, table)
        verdict = "" if difference is None else difference.verdict
        rows.append({**row, "paper": mean, "paper_ci": uncertainty, "difference": difference, "verdict": verdict})
    order = {name: i for i, name in enumerate(datasets)}
    return sorted(rows, key=lambda row: (order.get(row["dataset"], len(order)), models.index(row["model"])))


def difference_from_paper(row: Row, mean: float, uncertainty: float, table: str) -> Difference:
    """The difference between a row of :func:`~polybasis.train.results.summarize` and a cell of the paper.

    Args:
        row: our mean, with its standard deviation and number of splits.
        mean, uncertainty: the paper's cell.
        table: the paper's table, which determines what the uncertainty is.
    """
    return welch_difference(
        row["mean"],
        row["std"] / row["splits"] ** 0.5,
        row["splits"],
        mean,
        uncertainty * paper.ERRORS_PER_UNCERTAINTY[table],
        paper.REPETITIONS[table],
    )


def dataset_sections(rows: list[Row], level: int = 2) -> list[str]:
    """Formats the rows of :func:`compare_with_paper` as a heading and a Markdown table for each data set.

    Args:
        rows: the rows.
        level: level of the headings.

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
                    str(row["difference"]) if has_paper else "",
                    row["verdict"],
                    f"{row['val']:.2f}",
                    f"{row['epochs']:.0f}",
                    f"{row['seconds']:.1f}",
                ]
            )
        parts += ["", f"{'#' * level} {dataset}", "", markdown_table(HEADER, lines)]
    return parts
