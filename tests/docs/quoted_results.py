"""The committed results in the words of the pages that quote them."""

from __future__ import annotations

import re
from pathlib import Path

from polybasis.experiments import honest, honest_page, paper
from polybasis.experiments.classification_against_paper import TABLE
from polybasis.experiments.classification_rows import BASELINES, Rows, score
from polybasis.experiments.comparison import difference_from_paper
from polybasis.experiments.node_classification import DATASETS, MODELS, PAPER_MODELS
from polybasis.files import read_lines
from polybasis.train.results import Difference, holm, read_results

from .documents import ROOT

README, PAGE, RESULTS = ROOT / "README.md", ROOT / "docs" / "results" / "index.md", ROOT / "results"
NAMES = {
    "gcn": "GCN", "mlp": "MLP", "chebnet": "ChebNet", "arma": "ARMA", "gpr-gnn": "GPR-GNN", "chebnetii": "ChebNetII",
    "jacobiconv": "JacobiConv", "favardgnn": "FavardGNN", "optbasisgnn": "OptBasisGNN",
    "amazon-computers": "Amazon Computers", "coauthor-cs": "Coauthor CS",
}  # fmt: skip
WORDS = [
    "none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip
SHALLOW = ("gcn", "gpr-gnn", "chebnetii", "favardgnn", "optbasisgnn")

Row = tuple[str, str]  # model and preset; the preset of the strong baselines is empty
Cell = tuple[str, str]  # model and data set
ENSEMBLE = ("favardgnn", "tuned")  # a single model on squirrel
RESIDUAL_FAVARD, RESIDUAL_GCN = ("residual-favard", ""), ("residual-gcn", "")


def _read(folder: Path) -> Rows:
    return Rows([result for model in MODELS for result in read_results(folder / f"{model}.jsonl")])


FIRST = _read(RESULTS / "node-classification")  # the first twenty splits
FRESH = _read(RESULTS / "node-classification" / "fresh")
_strong = honest._results(RESULTS / "honest")
STRONG = Rows([{**result, "model": row, "preset": ""} for row, own in _strong.items() for result in own])


def mean(rows: Rows, dataset: str, row: Row) -> float:
    """The mean test score in percent."""
    found = rows.summary(dataset, *row)
    assert found is not None, f"no results of {row} on {dataset}"
    return float(found["mean"])


def shown(rows: Rows, dataset: str, row: Row) -> str:
    """Mean and interval."""
    return score(rows.summary(dataset, *row)) or "not run"


def bold(difference: Difference | None) -> str:
    """A difference, in bold if its interval excludes zero."""
    if difference is None:
        return "not run"
    return str(difference) if difference.verdict == "agrees" else f"**{difference}**"


def named(cells: list[Cell]) -> list[str]:
    """Models and data sets, as in "OptBasisGNN on citeseer and pubmed"."""
    models = dict.fromkeys(model for model, _ in cells)
    return [f"{NAMES[model]} on {' and '.join(name for own, name in cells if own == model)}" for model in models]


def best(dataset: str, models: tuple[str, ...] = BASELINES) -> Row:
    """The single model with the highest mean on the first twenty splits."""
    return max(FIRST.single(dataset, models), key=lambda row: mean(FIRST, dataset, row))


def reported(model: str, dataset: str) -> str:
    """The paper's mean and interval."""
    return "{:.2f} ± {:.2f}".format(*paper.table(TABLE)[model][dataset])


def best_reported(dataset: str) -> str:
    """The model with the highest mean of the paper."""
    return max(MODELS, key=lambda model: float(paper.table(TABLE)[model][dataset][0]))


def from_reported(rows: Rows, dataset: str, row: Row, model: str) -> Difference:
    """Welch's difference of a row from the paper's figure for a model."""
    found = rows.summary(dataset, *row)
    assert found is not None, f"no results of {row} on {dataset}"
    paper_mean, interval = paper.table(TABLE)[model][dataset]
    return difference_from_paper(found, paper_mean, interval, TABLE)


def from_best_reported(dataset: str, row: Row) -> Difference:
    """Welch's difference of a row, on the first twenty splits, from the paper's best model."""
    return from_reported(FIRST, dataset, row, best_reported(dataset))


def agreement(rows: Rows, models: tuple[str, ...]) -> dict[Cell, Difference]:
    """Differences from the paper's cells that were run, with published hyperparameters or else tuned ones."""
    found = {}
    for model, dataset in ((model, dataset) for model in models for dataset in DATASETS):
        preset = "published" if (dataset, model, "published") in FIRST.groups else "tuned"
        if (dataset, model, preset) in rows.groups:
            found[model, dataset] = from_reported(rows, dataset, (model, preset), model)
    return found


def comparisons(rows: Rows) -> dict[Cell, Difference | None]:
    """Paired differences of the paper's models from the best tuned baseline."""
    cells = [(model, dataset) for model in PAPER_MODELS for dataset in DATASETS]
    return {(model, name): rows.difference(name, (model, "published"), best(name)) for model, name in cells}


def after_holm(rows: Rows) -> list[Cell]:
    """The comparisons that Holm's correction keeps; those that were not run count as not different."""
    found = comparisons(rows)
    adjusted = holm([1.0 if difference is None else difference.p_value for difference in found.values()])
    return [cell for cell, p in zip(found, adjusted, strict=True) if p < 0.05]


def ensembles() -> list[str]:
    """The data sets with a tuned ensemble of FavardGNN."""
    tuned = [name for name in DATASETS if (name, *ENSEMBLE) in FIRST.groups]
    return [name for name in tuned if FIRST.ensemble_size(name, *ENSEMBLE) > 1]


def best_shallow(dataset: str) -> Row | None:
    """The filter between linear layers with the highest mean on the splits of the residual networks."""
    found = [(name, "") for name in SHALLOW if STRONG.difference(dataset, (name, ""), RESIDUAL_FAVARD) is not None]
    return max(found, key=lambda row: mean(STRONG, dataset, row), default=None)


def earlier(name: str, dataset: str) -> float:
    """The mean of a residual network before it was tuned for the table of strong baselines."""
    return mean(Rows(read_results(RESULTS / "honest" / f"{name}.jsonl")), dataset, ("residual", "tuned"))


def gain(dataset: str) -> float:
    """The mean of the residual Favard network minus that of the best shallow filter."""
    shallow = best_shallow(dataset)
    assert shallow is not None
    return mean(STRONG, dataset, RESIDUAL_FAVARD) - mean(STRONG, dataset, shallow)


def best_published(dataset: str) -> tuple[float, str]:
    """The best score that others published, and its model."""
    found = honest_page.published()[dataset]
    name = max(found, key=lambda model: float(found[model][0]))
    return found[name][0], re.sub(r"(.+), tuned$", r"tuned \1", name).removesuffix("-r")


def largest_graph() -> tuple[str, str, str]:
    """Millions of nodes, minutes and GiB of the largest precomputation."""
    line = max(read_lines(RESULTS / "scale" / "sizes.jsonl"), key=lambda line: int(line["nodes"]))
    return f"{line['nodes'] / 1e6:.0f}", f"{line['seconds'] / 60:.1f}", f"{line['peak_memory'] / 2**30:.2f}"


def cells(line: str) -> list[str]:
    """The cells of a row of a Markdown table; none of another line."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
