"""The paper's node classification: eleven models on five data sets, and on sets the field has moved to since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from polybasis.data.catalogue import CATALOGUE
from polybasis.experiments.comparison import compared, sections
from polybasis.files import write_atomically
from polybasis.report.figures import draw_agreement, save
from polybasis.train.config import Config, Settings, default_config, stored_config
from polybasis.train.runs import Result, Run, read_results, run_splits

MODELS = (
    "mlp",
    "gcn",
    "chebnet",
    "arma",
    "appnp",
    "gpr-gnn",
    "bernnet",
    "chebnetii",
    "jacobiconv",
    "favardgnn",
    "optbasisgnn",
)
PAPER_MODELS = ("favardgnn", "optbasisgnn")
DATASETS = ("chameleon", "squirrel", "actor", "citeseer", "pubmed")
# Without the duplicated nodes of the wikipedia graphs, with given splits; and the two smallest of GPR-GNN's sets.
HONEST_DATASETS = ("chameleon-filtered", "tolokers", "texas", "cornell")
GIVEN_SPLITS = 10  # that come with a data set
HONEST_MODELS = ("mlp", "gcn", "gpr-gnn", "chebnetii", "favardgnn", "optbasisgnn")


def config_for(model: str, dataset: str, settings: Settings | None = None) -> Config:
    """The configuration of a model on a data set.

    Args:
        model, dataset: their names.
        settings: which of the stored ones; unless given, published ones, else tuned ones, else the model's defaults.
    """
    if settings is not None:
        config = stored_config(model, dataset, settings)
        if config is None:
            raise ValueError(f"there are no {settings} settings of {model} for {dataset}")
        return config
    return stored_config(model, dataset, "published") or stored_config(model, dataset, "tuned") or default_config(model)


def planned_runs(
    models: list[str], datasets: list[str], splits: int, settings: Settings | None = None
) -> dict[str, list[Run]]:
    """All runs by model, the splits of a data set next to one another."""
    for name in datasets:
        if name not in CATALOGUE:
            raise ValueError(f"there is no data set {name!r}; expected some of {', '.join(CATALOGUE)}")
    return {
        model: [
            Run(config_for(model, dataset, settings), dataset, CATALOGUE[dataset].protocol, split, split)
            for dataset in datasets
            for split in range(min(splits, GIVEN_SPLITS) if CATALOGUE[dataset].protocol == "fixed" else splits)
        ]
        for model in models
    }


def execute_runs(
    runs: dict[str, list[Run]],
    folder: Path,
    *,
    root: str | None,
    jobs: int,
    cluster: str | None = None,
    finished: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Runs what is not done yet, and returns the results of all of it.

    Each run has one thread: dense products add in another order with more, and after hundreds of epochs that shows.
    """
    found, threads = [], torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for model, mine in runs.items():
            file = folder / f"{model}.jsonl"
            found += run_splits(mine, file, root=root, jobs=jobs, cluster=cluster, finished=finished)
    finally:
        torch.set_num_threads(threads)
    return found


def done_already(runs: dict[str, list[Run]], folder: Path) -> int:
    """How many of the runs have a result."""
    count = 0
    for model, mine in runs.items():
        keys = {result["key"] for result in read_results(folder / f"{model}.jsonl")}
        count += sum(run.key() in keys for run in mine)
    return count


def _minutes(results: list[Result]) -> float:
    return float(sum(result["seconds"] for result in results)) / 60


def write_readme(folder: Path) -> None:
    """The page over all results in a folder, and the picture of ours against the paper's."""
    results = [result for model in MODELS for result in read_results(folder / f"{model}.jsonl")]
    rows = compared(results, "node-classification", MODELS, (*DATASETS, *HONEST_DATASETS))
    parts = [
        "# Node classification",
        "",
        "Made by `polybasis reproduce node-classification` from the JSON lines in this folder; see "
        "[the page on results](../../docs/results.md) for what it means. Test accuracy in percent (ROC AUC on "
        "tolokers), mean and 95 % interval over the splits. Verdict: *above* the paper's mean, *within* its interval "
        "below it, or *below* that. Epochs and seconds are those of one run with one thread, of all its members where "
        "it has some.",
    ]
    parts += sections(rows)
    parts += ["", f"{len(results)} runs, {_minutes(results) / 60:.2f} hours of training in all."]
    published = [
        result
        for result in results
        if result["model"] in PAPER_MODELS and result["dataset"] in DATASETS and result["settings"] == "published"
    ]
    if published:
        parts[-1] += (
            f" {' and '.join(PAPER_MODELS)} with their published settings on the paper's data sets: {len(published)} "
            f"runs, {_minutes(published):.1f} minutes, one thread each."
        )
    compared_rows = [row for row in rows if row["paper"] is not None]
    if compared_rows:
        save(draw_agreement(compared_rows), folder / "agreement")
        parts += ["", "![Our means against the paper's, with both intervals](agreement.png)"]
    write_atomically(folder / "README.md", ("\n".join(parts) + "\n").encode())
