"""Our results compared with the paper's."""

from __future__ import annotations

from typing import Any

from polybasis.experiments import paper
from polybasis.experiments.markdown import markdown_table
from polybasis.train.results import Result, summarize

Row = dict[str, Any]
HEADER = ["model", "preset", "splits", "ours", "paper", "difference", "verdict", "validation", "epochs", "s"]


def compared(results: list[Result], table: str, models: tuple[str, ...], datasets: tuple[str, ...]) -> list[Row]:
    """Means over splits compared with a table of the paper, one row for each model, data set and preset."""
    reported = paper.table(table)
    rows = []
    for row in summarize(results):
        mean, interval = reported.get(row["model"], {}).get(row["dataset"], (None, None))
        verdict = ""
        if mean is not None:
            verdict = "above" if row["mean"] > mean else "within" if row["mean"] >= mean - interval else "below"
        rows.append({**row, "paper": mean, "paper_ci": interval, "verdict": verdict})
    place = {name: i for i, name in enumerate(datasets)}
    return sorted(rows, key=lambda row: (place.get(row["dataset"], len(place)), models.index(row["model"])))


def sections(rows: list[Row]) -> list[str]:
    """A heading and a Markdown table for each data set."""
    parts = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        lines = []
        for row in (row for row in rows if row["dataset"] == dataset):
            known = row["paper"] is not None
            lines.append(
                [
                    row["model"],
                    row["preset"],
                    str(row["splits"]),
                    f"{row['mean']:.2f} ± {row['ci95']:.2f}",
                    f"{row['paper']:.2f} ± {row['paper_ci']:.2f}" if known else "",
                    f"{row['mean'] - row['paper']:+.2f}" if known else "",
                    row["verdict"],
                    f"{row['val']:.2f}",
                    f"{row['epochs']:.0f}",
                    f"{row['seconds']:.1f}",
                ]
            )
        parts += ["", f"## {dataset}", "", markdown_table(HEADER, lines)]
    return parts
