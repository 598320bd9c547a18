"""The tables of the results page and of the README quote the committed results.

Each table is computed again from ``results/`` and compared cell by cell.
"""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest

from polybasis.experiments import honest_page, paper
from polybasis.experiments.node_classification import DATASETS, PAPER_MODELS
from polybasis.files import read_lines

from . import quoted_results as quoted
from .quoted_results import ENSEMBLE, FIRST, FRESH, NAMES, PAGE, README, RESIDUAL_FAVARD, RESIDUAL_GCN, RESULTS, STRONG

COMPARED = ("tolokers", "chameleon-filtered", "amazon-computers", "coauthor-cs", "texas", "cornell")
Table = list[list[str]]  # header and rows


def best_reported(dataset: str) -> str:
    model = quoted.best_reported(dataset)
    return f"{quoted.reported(model, dataset)} ({NAMES[model]})"


def paired_table() -> Table:
    table = [["data set", "baseline", "FavardGNN, first 20", "fresh 20", "OptBasisGNN, first 20", "fresh 20"]]
    first, fresh = quoted.comparisons(FIRST), quoted.comparisons(FRESH)
    for name in DATASETS:
        cells = [quoted.bold(part[model, name]) for model in PAPER_MODELS for part in (first, fresh)]
        table.append([name, NAMES[quoted.best(name)[0]], *cells])
    return table


def agreement_table() -> Table:
    columns = ["FavardGNN, first 20", "fresh 20", "paper", "OptBasisGNN, first 20", "fresh 20", "paper"]
    table = [["data set", *columns]]
    for name in DATASETS:
        cells = []
        for model in PAPER_MODELS:
            cells += [quoted.shown(rows, name, (model, "published")) for rows in (FIRST, FRESH)]
            cells.append(quoted.reported(model, name))
        table.append([name, *cells])
    return table


def best_single_table() -> Table:
    table = [["data set", "row", "ours", "paper's best", "difference", "verdict"]]
    for name in DATASETS:
        row = quoted.best(name, ("favardgnn",))
        difference = quoted.from_best_reported(name, row)
        cells = [quoted.shown(FIRST, name, row), best_reported(name), str(difference), difference.verdict]
        table.append([name, f"`{row[1]}`", *cells])
    return table


def strong_table() -> Table:
    columns = ["residual Favard", "residual GCN", "paired difference", "best shallow filter here", "published"]
    table = [["data set", *columns]]
    for name in COMPARED:
        cells = [quoted.shown(STRONG, name, row) for row in (RESIDUAL_FAVARD, RESIDUAL_GCN)]
        cells.append(quoted.bold(STRONG.difference(name, RESIDUAL_FAVARD, RESIDUAL_GCN)))
        shallow = quoted.best_shallow(name)
        cells.append(f"{quoted.shown(STRONG, name, shallow)} ({NAMES[shallow[0]]})" if shallow else "not run")
        cells.append("{:.2f} ({})".format(*quoted.best_published(name)) if name in honest_page.published() else "")
        table.append([NAMES.get(name, name), *cells])
    return table


def ensemble_table() -> Table:
    columns = ["models", "ensemble", "one published model, paired difference", "paper's best single model"]
    table = [["data set", *columns]]
    for name in quoted.ensembles():
        cells = [str(FIRST.ensemble_size(name, *ENSEMBLE)), quoted.shown(FIRST, name, ENSEMBLE)]
        difference = FIRST.difference(name, ENSEMBLE, ("favardgnn", "published"))
        table.append([name, *cells, str(difference), best_reported(name)])
    return table


def other_table() -> Table:
    """Filter learning in closed form, and the largest precomputation."""
    samples = [line for line in read_lines(RESULTS / "filter-learning" / "table.jsonl") if line["lr"] == 0.01]
    errors = [line["closed_form"] for line in samples if line["basis"] == "optimal"]
    error = f"{statistics.mean(errors):.5f} ± {statistics.pstdev(errors):.5f}"
    best = "{:.4f} ± {:.4f} (paper's best basis, Adam)".format(*min(paper.table("filter-learning").values()))
    size, minutes, memory = quoted.largest_graph()
    graph = f"a graph with {size} million nodes, 128 features, two cores"
    return [
        ["", "here", "compared with"],
        [f"mean squared error of filter learning, {len(errors)} samples, closed form", error, best],
        [f"optimal basis of {graph}", f"{minutes} min, {memory} GiB", ""],
    ]


def readme_table() -> Table:
    table = [["data set", "FavardGNN", "paper", "OptBasisGNN", "paper", "best tuned baseline"]]
    for name in (name for name in DATASETS if (name, "favardgnn", "published") in FRESH.groups):
        cells = []
        for model in PAPER_MODELS:
            cells += [quoted.shown(FRESH, name, (model, "published")), quoted.reported(model, name)]
        baseline = quoted.best(name)
        table.append([name, *cells, f"{quoted.shown(FRESH, name, baseline)} ({NAMES[baseline[0]]})"])
    return table


TABLES = {
    "paired": (PAGE, "Are the paper's models ahead of tuned baselines?", paired_table),
    "agreement": (PAGE, "What agrees with the paper, and what does not?", agreement_table),
    "best single": (PAGE, "What goes beyond the paper?", best_single_table),
    "other": (PAGE, "What goes beyond the paper?", other_table),
    "strong": (PAGE, "Against strong baselines", strong_table),
    "ensembles": (PAGE, "Ensembles", ensemble_table),
    "README": (README, "Results", readme_table),
}


def tables(document: Path, heading: str) -> list[Table]:
    """The tables of a section."""
    section = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", document.read_text(), re.MULTILINE | re.DOTALL)
    assert section, f"{document.name} has no section {heading!r}"
    found = [text.splitlines() for text in re.findall(r"(?:^\|.*\|\n)+", section[1], re.MULTILINE)]
    return [[[cell.strip() for cell in line[1:-1].split("|")] for line in (lines[0], *lines[2:])] for lines in found]


@pytest.mark.parametrize("name", TABLES)
def test_cells_are_computed_from_the_committed_lines(name: str) -> None:
    document, heading, compute = TABLES[name]
    header, *rows = compute()
    pages = [table for table in tables(document, heading) if table[0] == header]
    assert len(pages) == 1, f"{document.name}, {heading!r}: {len(pages)} tables have the columns {header}"
    page = {row[0]: row for row in pages[0][1:]}
    assert list(page) == [row[0] for row in rows], f"{document.name}, {heading!r}: other rows"
    stale = [
        f"row {row[0]!r}, column {number} ({column!r}): the page has {found!r}, the results give {cell!r}"
        for row in rows
        for number, (column, found, cell) in enumerate(zip(header, page[row[0]], row, strict=True), 1)
        if found != cell
    ]
    assert not stale, "\n".join([f"{document.name}, {heading!r}:", *stale])
