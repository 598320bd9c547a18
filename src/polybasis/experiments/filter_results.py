"""Results of filter learning: JSON lines and the README generated from them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from polybasis.code_version import code_version
from polybasis.data.dataset import NodeDataset
from polybasis.data.images import ImageSignals
from polybasis.experiments import paper
from polybasis.experiments.bumps import FILTERS, train_on_all_nodes
from polybasis.experiments.filter_learning import (
    BASES,
    VARIANTS,
    WITHOUT_LOOPS,
    Optimization,
    Problem,
    build_problem,
    table_rows,
    train_variant,
)
from polybasis.experiments.markdown import markdown_table
from polybasis.files import read_lines, write_atomically

Row = dict[str, Any]
Log = Callable[[str], None]
TABLE, CONVERGENCE, CHAMELEON = "table.jsonl", "convergence.jsonl", "chameleon.jsonl"
AUTHORS = "authors-operators.jsonl"
CURVE_STRIDE = 10  # epochs between two stored losses of a curve


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Writes rows as JSON lines, replacing the file."""
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


def run_filter_learning(problem: Problem, folder: Path, log: Log) -> None:
    """Trains every basis on every sample, with the learning rates of the paper's code (0.01) and text (0.1).

    Args:
        problem: the samples.
        folder: where to write ``table.jsonl``.
        log: called with a progress message for each learning rate.
    """
    rows = []
    for lr in (0.01, 0.1):
        log(f"{len(BASES)} bases on {len(problem.samples)} samples, learning rate {lr}")
        rows += [{**row, "code": code_version()} for row in table_rows(problem, Optimization(lr=lr))]
    write_rows(folder / TABLE, rows)


def run_authors_operators(images: list[ImageSignals], folder: Path, log: Log) -> None:
    """Trains the paper's five bases on the signals of its code, each on the operator that its layer has there.

    ChebyshevInterpolation and Bernstein are trained on both operators, to separate the effects of signals and loops.

    Args:
        images: the images, in the authors' colours.
        folder: where to write ``authors-operators.jsonl``.
        log: called with a progress message for each operator.
    """
    rows = []
    for loops in (True, False):
        bases = tuple(paper.table("filter-learning")) if loops else WITHOUT_LOOPS
        log(f"{len(bases)} bases {'with' if loops else 'without'} self-loops, integer colours")
        problem = build_problem(images, learn_with_loops=loops)
        common = {"self_loops": loops, "code": code_version()}
        rows += [{**row, **common} for row in table_rows(problem, Optimization(), bases)]
    write_rows(folder / AUTHORS, rows)


def run_convergence(problem: Problem, folder: Path, epochs: int, log: Log) -> None:
    """Trains every variant of the convergence experiment that has no result of this many epochs yet.

    Args:
        problem: the samples.
        folder: where to write ``convergence.jsonl``.
        epochs: number of epochs.
        log: called with a progress message for each variant.
    """
    rows = read_lines(folder / CONVERGENCE)
    finished = {row["variant"] for row in rows if row["epochs"] == epochs}
    for variant in VARIANTS:
        if variant.name in finished:
            continue
        log(f"{variant.name}: {epochs} epochs on {len(problem.samples)} samples")
        history = train_variant(variant, problem, epochs)
        lowest, rise = history.curves.amin(0), history.largest_rise()
        for i, (image, filters) in enumerate(problem.samples):
            rows.append(
                {
                    "variant": variant.name,
                    "image": image,
                    "filters": list(filters),
                    "epochs": epochs,
                    "largest_rise": float(rise[i]),
                    "lowest": float(lowest[i]),
                    "final": float(history.curves[-1, i]),
                    "code": code_version(),
                }
            )
        write_rows(folder / CONVERGENCE, rows)


def run_chameleon(dataset: NodeDataset, folder: Path, epochs: int, log: Log) -> None:
    """Trains every linear classifier that has no result of this many epochs yet.

    Args:
        dataset: the data set to fit.
        folder: where to write ``chameleon.jsonl``.
        epochs: number of epochs.
        log: called with a progress message for each classifier.
    """
    rows = read_lines(folder / CHAMELEON)
    finished = {row["variant"] for row in rows if row["epochs"] == epochs}
    for variant in FILTERS:
        if variant in finished:
            continue
        log(f"{variant} on {dataset.name}: {epochs} epochs")
        losses = torch.tensor(list(train_on_all_nodes(variant, dataset, epochs)), dtype=torch.float64)
        minimum = losses.cummin(0).values
        rows.append(
            {
                "variant": variant,
                "dataset": dataset.name,
                "epochs": epochs,
                "largest_rise": float(((losses - minimum) / minimum)[100:].max()),
                "lowest": float(losses.min()),
                "final": float(losses[-1]),
                "losses": losses[::CURVE_STRIDE].tolist(),
                "code": code_version(),
            }
        )
        write_rows(folder / CHAMELEON, rows)


def write_readme(folder: Path) -> None:
    """Writes ``README.md`` from the results in a folder; a section without results is omitted."""
    parts = [
        "# Filter learning",
        "",
        "Generated by `polybasis reproduce filter-learning` and `polybasis reproduce favard-convergence` from the JSON "
        "lines in this folder; [the page on results](../../docs/results/index.md) explains them.",
    ]
    parts += _table_section(read_lines(folder / TABLE))
    parts += _authors_section(read_lines(folder / AUTHORS))
    parts += _convergence_section(longest_runs(read_lines(folder / CONVERGENCE)))
    parts += _chameleon_section(longest_runs(read_lines(folder / CHAMELEON)))
    write_atomically(folder / "README.md", ("\n".join(parts) + "\n").encode())


def _table_section(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    reported = paper.table("filter-learning")
    lines = []
    for basis in BASES:
        by_lr = {lr: [row for row in rows if row["basis"] == basis and row["lr"] == lr] for lr in (0.01, 0.1)}
        mean, std = reported.get(basis, (None, None))
        lines.append(
            [
                basis,
                _mean_and_std([row["mse"] for row in by_lr[0.01]]),
                "" if mean is None else f"{mean:.4f} ± {std:.4f}",
                f"{statistics.mean(row['epochs'] for row in by_lr[0.01]):.0f}",
                f"{statistics.median(row['condition_at_start'] for row in by_lr[0.01]):.2g}",
                _mean_and_std([row["mse"] for row in by_lr[0.1]]),
            ]
        )
    closed_form = [row["closed_form"] for row in rows if row["basis"] == BASES[0] and row["lr"] == 0.01]
    lines.append(["closed form", _mean_and_std(closed_form, digits=5), "", "", "1", ""])
    header = ["basis", "MSE, ours", "MSE, paper", "epochs", "condition number", "MSE, learning rate 0.1"]
    return [
        "",
        "## Mean squared error",
        "",
        f"Mean ± standard deviation over {len(closed_form)} samples, with Adam for at most 500 epochs and a learning "
        "rate of 0.01, as in the published code (last column: 0.1, as in the paper's text). Training on a sample stops "
        "when its loss changes by less than 1e-4. The condition number is that of the initial Hessian for the worst "
        "channel, median over the samples.",
        "",
        markdown_table(header, lines),
    ]


def _authors_section(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    reported = paper.table("filter-learning")
    lines = []
    for basis, loops in dict.fromkeys((row["basis"], row["self_loops"]) for row in rows):
        values = [row["mse"] for row in rows if (row["basis"], row["self_loops"]) == (basis, loops)]
        mean, std = reported[basis]
        in_paper = loops != (basis in WITHOUT_LOOPS)
        operator = "with" if loops else "without"
        cell = f"{mean:.4f} ± {std:.4f}" if in_paper else ""
        lines.append([basis, operator, "yes" if in_paper else "no", _mean_and_std(values), cell])
    lines.sort(key=lambda line: (BASES.index(line[0]), line[1]))
    return [
        "",
        "## Authors' operators",
        "",
        "The paper does not compare the five bases on the same operator. In the authors' code, the layers of "
        "chebyshev-interpolation and bernstein use PyG's `get_laplacian`, which removes self-loops; the targets and "
        "the layers of the other three bases include self-loops. Signals are the integer YUV colours of that code. "
        "Everything else is as above, with learning rate 0.01.",
        "",
        markdown_table(["basis", "self-loops", "as in the authors' code", "MSE, ours", "MSE, paper"], lines),
    ]


def _convergence_section(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    lines = []
    favard = {(row["image"], *row["filters"]): row["lowest"] for row in rows if row["variant"] == "favard"}
    for variant in dict.fromkeys(row["variant"] for row in rows):
        runs = [row for row in rows if row["variant"] == variant]
        rises = [100 * row["largest_rise"] for row in runs]
        worse = sum(row["final"] > favard.get((row["image"], *row["filters"]), 0) for row in runs)
        lines.append(
            [
                variant,
                f"{min(rises):.3g}",
                f"{statistics.median(rises):.3g}",
                f"{max(rises):.3g}",
                f"{statistics.mean(row['lowest'] for row in runs):.4f}",
                f"{statistics.mean(row['final'] for row in runs):.4f}",
                str(worse),
            ]
        )
    header = [
        "variant",
        "rise: minimum, %",
        "median, %",
        "maximum, %",
        "lowest MSE",
        "final MSE",
        "final MSE above favard's lowest",
    ]
    return [
        "",
        f"## {rows[0]['epochs']:,} epochs without early stopping",
        "",
        "*Rise* is the largest relative increase of a sample's loss above its running minimum after epoch 100 "
        "(minimum, median and maximum over the samples). *Lowest* and *final MSE* are means over the samples. The last "
        "column counts the samples whose final MSE exceeds the lowest MSE of `favard` in any epoch. A rise of at most "
        "0.5% is the limit that backtracking imposes (`slack` = 0.005), not a property of the basis.",
        "",
        markdown_table(header, lines),
    ]


def _chameleon_section(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    lines = [
        [row["variant"], f"{100 * row['largest_rise']:.3g}", f"{row['lowest']:.2e}", f"{row['final']:.2e}"]
        for row in rows
    ]
    return [
        "",
        f"## Linear classifier on all nodes of {rows[0]['dataset']}, {rows[0]['epochs']:,} epochs",
        "",
        "Cross entropy of a linear layer, a filter and a linear layer, without dropout and ReLU.",
        "",
        markdown_table(["variant", "largest rise after epoch 100, %", "lowest loss", "final loss"], lines),
    ]


def longest_runs(rows: list[Row]) -> list[Row]:
    """Returns the rows with the largest number of epochs."""
    return [row for row in rows if row["epochs"] == max(row["epochs"] for row in rows)]


def _mean_and_std(values: list[float], digits: int = 4) -> str:
    return f"{statistics.mean(values):.{digits}f} ± {statistics.pstdev(values):.{digits}f}" if values else ""
