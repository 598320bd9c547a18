"""The paper's two tables of results on large graphs, including the cells that the paper leaves empty.

For graphs on which the paper trains in batches, the basis is precomputed into a store. All polynomial models, including
FavardGNN and BernNet, are trained on this store; the other models are trained on the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from polybasis.data.catalogue import CATALOGUE, missing_files
from polybasis.experiments.comparison import VERDICTS, compare_with_paper, dataset_sections
from polybasis.files import write_atomically
from polybasis.nn.models.names import PRECOMPUTED
from polybasis.store.blocks import OnBlockStep
from polybasis.store.named import graph_folder_of
from polybasis.store.precomputation import precompute
from polybasis.train.config import Config
from polybasis.train.fitting import OnEpoch
from polybasis.train.job import Job, OnResult, run_jobs
from polybasis.train.presets import load_preset
from polybasis.train.results import Result, read_results
from polybasis.train.source import Source

DEGREE = 10  # of the stored bases


@dataclass(frozen=True)
class LargeTable:
    """A table of the paper.

    Attributes:
        name: name of the table and of its folder of results.
        datasets, models: its columns and rows.
        stored: data sets on which polynomial models are trained with a store.
        too_large: data sets on which models can be trained only with a store.
        seeds: number of splits, or of seeds of the model if the split is fixed.
    """

    name: str
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    stored: tuple[str, ...]
    too_large: tuple[str, ...]
    seeds: int

    def cells(self, models: list[str], datasets: list[str]) -> list[tuple[str, str]]:
        """The pairs of model and data set that can be run."""
        return [
            (model, dataset)
            for dataset in datasets
            for model in models
            if not (dataset in self.too_large and model not in PRECOMPUTED)
        ]

    def on_store(self, model: str, dataset: str) -> bool:
        """Whether a cell is trained on a store."""
        return dataset in self.stored and model in PRECOMPUTED


HETEROPHILOUS = LargeTable(
    "large-heterophilous",
    ("penn94", "genius", "twitch-gamers", "pokec", "wiki"),
    ("mlp", "gcn", "gcnii", "mixhop", "link", "linkx", "gpr-gnn", "bernnet", "chebnetii", "favardgnn", "optbasisgnn"),
    ("pokec", "wiki"),
    (),
    5,
)
CITATION = LargeTable(
    "large-citation",
    ("ogbn-arxiv", "ogbn-papers100M"),
    ("gcn", "chebnet", "arma", "gpr-gnn", "bernnet", "sign", "gbp", "ndls", "chebnetii", "favardgnn", "optbasisgnn"),
    ("ogbn-arxiv", "ogbn-papers100M"),
    ("ogbn-papers100M",),
    10,
)


def config_for(table: LargeTable, model: str, dataset: str) -> Config:
    """The published hyperparameters for the graph or the store, else the defaults."""
    on_store, published = table.on_store(model, dataset), load_preset(model, dataset)
    if published is not None and published.model.precomputed == on_store:
        return published
    return Config.of(model, precomputed=on_store)


def run_table(
    table: LargeTable,
    models: list[str],
    datasets: list[str],
    folder: Path,
    *,
    seeds: int,
    stores: Path,
    memory: int,
    root: str | None,
    cluster: str | None = None,
    on_step: OnBlockStep | None = None,
    on_epoch: OnEpoch | None = None,
    on_result: OnResult | None = None,
) -> list[Result]:
    """Runs the jobs that have no result yet, writes the results page and returns the results of all jobs.

    Args:
        table: the table.
        models, datasets: the rows and columns to run.
        folder: folder of the results.
        seeds: number of splits, or of seeds of the model.
        stores: folder of the graph folders and stores, which are built if they do not exist.
        memory: memory limit for building them, in bytes.
        root: the folder of all data sets.
        cluster: address of a Ray cluster for the bases, or ``auto``.
        on_step, on_epoch, on_result: called after each step of a basis, each epoch and each result.

    Raises:
        FileNotFoundError: if files are missing; raised before anything runs, and the message lists them.
        OverflowError: if a job diverged; raised after all other jobs have finished.
    """
    cells = table.cells(models, datasets)
    if not cells:
        raise ValueError(f"{', '.join(datasets)}: too large for {', '.join(models)}; choose other models")
    for dataset in datasets:
        missing = missing_files(dataset, root)
        from_files = any(not table.on_store(model, name) for model, name in cells if name == dataset)
        if missing and (from_files or not (stores / f"{dataset}.graph").exists()):
            raise FileNotFoundError(
                f"{dataset} is not installed: {' and '.join(map(str, missing))} is missing; get it from "
                f"{CATALOGUE[dataset].source}, or choose other data sets with --datasets"
            )
    found, diverged = [], []
    for model, dataset in cells:
        source = Source.named(dataset, root)
        if table.on_store(model, dataset):
            place = stores / f"{dataset}.store"
            if not (place / "basis.json").exists():
                graph = graph_folder_of(dataset, stores, root, memory)
                precompute(graph, place, DEGREE, memory=memory, cluster=cluster, on_step=on_step)
            source = Source.folder(place)
        config, protocol = config_for(table, model, dataset), CATALOGUE[dataset].protocol
        planned = [Job(config, source, protocol, seed, seed) for seed in range(seeds)]
        try:
            found += run_jobs(planned, folder / f"{model}.jsonl", on_epoch=on_epoch, on_result=on_result)
        except OverflowError as error:
            diverged.append(str(error))
    write_readme(table, folder)
    if diverged:
        raise OverflowError(f"{len(diverged)} of {len(cells)} cells diverged; the first: {diverged[0]}")
    return found


def write_readme(table: LargeTable, folder: Path) -> None:
    """Writes a page with all results in a folder."""
    results = [result for model in table.models for result in read_results(folder / f"{model}.jsonl")]
    rows = compare_with_paper(results, table.name, table.models, table.datasets)
    parts = [
        f"# {table.name.replace('-', ' ').capitalize()}",
        "",
        f"Generated by `polybasis reproduce {table.name}` from the JSON lines in this folder. Test accuracy in percent "
        f"(ROC AUC on genius), ours with a 95% interval and the paper's with its standard error. {VERDICTS}",
        *dataset_sections(rows),
    ]
    write_atomically(folder / "README.md", ("\n".join(parts) + "\n").encode())
