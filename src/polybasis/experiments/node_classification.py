"""The paper's node classification experiment: eleven models on five data sets, and some models on newer data sets."""

from __future__ import annotations

from pathlib import Path

from polybasis.data.catalogue import CATALOGUE, unknown_dataset
from polybasis.experiments.committed_lines import one_thread
from polybasis.train.config import Config
from polybasis.train.job import Job, OnResult, run_jobs
from polybasis.train.presets import Preset, load_preset
from polybasis.train.results import Result, read_results
from polybasis.train.source import Source

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
# Data sets with fixed splits and without the duplicate nodes of the Wikipedia graphs, and the two smallest of GPR-GNN.
DEDUPLICATED_DATASETS = ("chameleon-filtered", "tolokers", "texas", "cornell")
DEDUPLICATED_MODELS = ("mlp", "gcn", "gpr-gnn", "chebnetii", "favardgnn", "optbasisgnn")
FIXED_SPLITS = 10  # splits that come with a data set


def config_for(model: str, dataset: str, preset: Preset | None = None) -> Config:
    """The configuration of a model on a data set.

    Args:
        model, dataset: their names.
        preset: the preset; by default the published one, else the tuned one, else the model's defaults.

    Raises:
        ValueError: if there is no such preset.
    """
    if preset is not None:
        config = load_preset(model, dataset, preset)
        if config is None:
            raise ValueError(f"{model} has no {preset} hyperparameters for {dataset}")
        return config
    return load_preset(model, dataset, "published") or load_preset(model, dataset, "tuned") or Config.of(model)


def plan_jobs(
    models: list[str], datasets: list[str], splits: int, preset: Preset | None = None, root: str | None = None
) -> dict[str, list[Job]]:
    """All jobs by model; the splits of a data set are in sequence."""
    for name in datasets:
        if name not in CATALOGUE:
            raise unknown_dataset(name)
    return {
        model: [
            Job(config_for(model, dataset, preset), Source.named(dataset, root), CATALOGUE[dataset].protocol, i, i)
            for dataset in datasets
            for i in range(min(splits, FIXED_SPLITS) if CATALOGUE[dataset].protocol == "fixed" else splits)
        ]
        for model in models
    }


def run_all(
    jobs: dict[str, list[Job]],
    folder: Path,
    *,
    processes: int,
    cluster: str | None = None,
    on_result: OnResult | None = None,
) -> list[Result]:
    """Runs the jobs that have no result yet and returns the results of all jobs.

    Each job uses one thread: the order of summation in dense products depends on the number of threads, and the
    differences become visible after hundreds of epochs.

    Raises:
        OverflowError: if a job diverged; raised after all other jobs have finished.
    """
    found, diverged = [], []
    with one_thread():
        for model, own in jobs.items():
            file = folder / f"{model}.jsonl"
            try:
                found += run_jobs(own, file, processes=processes, cluster=cluster, on_result=on_result)
            except OverflowError as error:
                diverged.append(str(error))
    if diverged:
        raise OverflowError(f"{len(diverged)} of {len(jobs)} models diverged; the first: {diverged[0]}")
    return found


def count_finished(jobs: dict[str, list[Job]], folder: Path) -> int:
    """The number of jobs that have a result."""
    count = 0
    for model, own in jobs.items():
        keys = {result["key"] for result in read_results(folder / f"{model}.jsonl")}
        count += sum(job.key in keys for job in own)
    return count
