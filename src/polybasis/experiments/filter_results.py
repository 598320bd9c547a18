"""The results of filter learning as files: JSON lines and the page that is made of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from polybasis.data.dataset import NodeDataset
from polybasis.experiments import paper
from polybasis.experiments.bumps import FILTERS, long_classification
from polybasis.experiments.filter_learning import BASES, WAYS, Problem, Settings, long_training, table_rows
from polybasis.experiments.markdown import markdown_table
from polybasis.files import read_lines, write_atomically

Row = dict[str, Any]
Say = Callable[[str], None]
TABLE, LONG, CHAMELEON = "table.jsonl", "long.jsonl", "chameleon.jsonl"
KEPT_EVERY = 10  # epochs, of a long curve


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Replaces a file of JSON lines."""
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


def make_table(problem: Problem, folder: Path, say: Say) -> None:
    """Every basis on every sample, with the learning rate of the paper's code and with that of its text."""
    rows = []
    for lr in (0.01, 0.1):
        say(f"{len(BASES)} bases on {len(problem.samples)} samples, learning rate {lr}")
        rows += table_rows(problem, Settings(lr=lr))
    write_rows(folder / TABLE, rows)


def make_long(problem: Problem, folder: Path, epochs: int, say: Say) -> None:
    """Every way to train a learned basis for long; what is done already is kept."""
    rows = read_lines(folder / LONG)
    done = {row["way"] for row in rows if row["epochs"] == epochs}
    for way in WAYS:
        if way.name in done:
            continue
        say(f"{way.name}: {epochs} epochs on {len(problem.samples)} samples")
        history = long_training(way, problem, epochs)
        lowest, rise = history.curves.amin(0), history.largest_rise()
        for i, (image, filters) in enumerate(problem.samples):
            rows.append(
                {
                    "way": way.name,
                    "image": image,
                    "filters": list(filters),
                    "epochs": epochs,
                    "largest_rise": float(rise[i]),
                    "lowest": float(lowest[i]),
                    "final": float(history.curves[-1, i]),
                }
            )
        write_rows(folder / LONG, rows)


def make_chameleon(dataset: NodeDataset, folder: Path, epochs: int, say: Say) -> None:
    """The classifier without dropout and ReLU, trained for long; what is done already is kept."""
    rows = read_lines(folder / CHAMELEON)
    done = {row["way"] for row in rows if row["epochs"] == epochs}
    for way in FILTERS:
        if way in done:
            continue
        say(f"{way} on {dataset.name}: {epochs} epochs")
        losses = torch.tensor(list(long_classification(way, dataset, epochs)), dtype=torch.float64)
        lowest = losses.cummin(0).values
        rows.append(
            {
                "way": way,
                "dataset": dataset.name,
                "epochs": epochs,
                "largest_rise": float(((losses - lowest) / lowest)[100:].max()),
                "lowest": float(losses.min()),
                "final": float(losses[-1]),
                "losses": losses[::KEPT_EVERY].tolist(),
            }
        )
        write_rows(folder / CHAMELEON, rows)


def write_readme(folder: Path) -> None:
    """The page over all results that are there."""
    parts = [
        "# Filter learning",
        "",
        "Made by `polybasis reproduce filter-learning` and `polybasis reproduce favard-convergence` from the JSON "
        "lines in this folder; see [the page on results](../../docs/results.md) for what it means.",
    ]
    parts += _table_part(read_lines(folder / TABLE))
    parts += _long_part(longest(read_lines(folder / LONG)))
    parts += _chameleon_part(longest(read_lines(folder / CHAMELEON)))
    write_atomically(folder / "README.md", ("\n".join(parts) + "\n").encode())


def _table_part(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    reported = paper.table("filter-learning")
    lines = []
    for basis in BASES:
        mine = {lr: [row for row in rows if row["basis"] == basis and row["lr"] == lr] for lr in (0.01, 0.1)}
        mean, std = reported.get(basis, (None, None))
        first = mine[0.01]
        lines.append(
            [
                basis,
                _spread([row["mse"] for row in first]),
                "" if mean is None else f"{mean:.4f} ± {std:.4f}",
                f"{statistics.mean(row['epochs'] for row in first):.0f}",
                f"{statistics.median(row['condition_at_start'] for row in first):.2g}",
                _spread([row["mse"] for row in mine[0.1]]),
            ]
        )
    closed = [row["closed_form"] for row in rows if row["basis"] == BASES[0] and row["lr"] == 0.01]
    lines.append(["closed form", f"{statistics.mean(closed):.5f} ± {statistics.pstdev(closed):.5f}", "", "", "1", ""])
    header = ["basis", "MSE, ours", "MSE, paper", "epochs", "condition number", "MSE at learning rate 0.1"]
    return [
        "",
        "## Mean squared error over the samples",
        "",
        f"{len(closed)} samples, mean ± standard deviation; Adam, learning rate 0.01 (the published code's; the "
        "paper's text says 0.1, whose figures are in the last column), at most 500 epochs, end when the loss changes "
        "by less than 1e-4. Condition number: of the Hessian at the start, median over the samples of the worst "
        "channel.",
        "",
        markdown_table(header, lines),
    ]


def _long_part(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    lines = []
    plain = {(row["image"], *row["filters"]): row["lowest"] for row in rows if row["way"] == "favard"}
    for way in dict.fromkeys(row["way"] for row in rows):
        mine = [row for row in rows if row["way"] == way]
        rises = [100 * row["largest_rise"] for row in mine]
        worse = sum(row["final"] > plain.get((row["image"], *row["filters"]), 0) for row in mine)
        lines.append(
            [
                way,
                f"{min(rises):.3g}",
                f"{statistics.median(rises):.3g}",
                f"{max(rises):.3g}",
                f"{statistics.mean(row['lowest'] for row in mine):.4f}",
                f"{statistics.mean(row['final'] for row in mine):.4f}",
                str(worse),
            ]
        )
    header = [
        "way",
        "rise: least, %",
        "median, %",
        "largest, %",
        "lowest MSE",
        "final MSE",
        "final above favard's lowest",
    ]
    return [
        "",
        f"## {rows[0]['epochs']:,} epochs without a stop",
        "",
        "Largest rise of the loss above its lowest so far, after epoch 100, over the samples; means of the lowest and "
        "the final error; on how many samples the final error is above the lowest that plain Favard ever had.",
        "",
        markdown_table(header, lines),
    ]


def _chameleon_part(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    lines = [
        [row["way"], f"{100 * row['largest_rise']:.3g}", f"{row['lowest']:.2e}", f"{row['final']:.2e}"] for row in rows
    ]
    return [
        "",
        f"## All nodes of {rows[0]['dataset']}, {rows[0]['epochs']:,} epochs, no dropout and no ReLU",
        "",
        "Cross entropy of linear layer, filter, linear layer.",
        "",
        markdown_table(["way", "largest rise after epoch 100, %", "lowest loss", "final loss"], lines),
    ]


def longest(rows: list[Row]) -> list[Row]:
    """Those with the most epochs; rows of shorter trainings stay in their file."""
    return [row for row in rows if row["epochs"] == max(row["epochs"] for row in rows)]


def _spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.4f} ± {statistics.pstdev(values):.4f}" if values else ""
