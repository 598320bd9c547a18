"""The paper's two tables of large graphs, and the cells in which it has a dash.

Graphs that the paper trains in batches are computed once, into a store; all polynomial models are trained on it,
FavardGNN and BernNet too. The other models are trained on the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polybasis.data.catalogue import CATALOGUE, missing_files
from polybasis.experiments.comparison import compared, sections
from polybasis.files import write_atomically
from polybasis.nn.models.precomputed import FILTERS
from polybasis.store.basis_store import BasisStore
from polybasis.store.blocks import Report as BlockReport
from polybasis.store.precompute import precompute
from polybasis.store.sources import graph_of
from polybasis.train.config import Config, default_config, stored_config
from polybasis.train.fitting import Report
from polybasis.train.runs import Result, Run, read_results, run_splits
from polybasis.train.store_training import scaled_config, train_on_store

DEGREE = 10  # of the stored bases


@dataclass(frozen=True)
class LargeTable:
    """A table of the paper.

    Attributes:
        name: of the table and of its folder of results.
        datasets, models: its columns and rows.
        stored: data sets whose polynomial models are trained on a store.
        too_large: data sets that no model can be trained on without a store.
        seeds: how many splits, or seeds of the model where the split is given.
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
            if not (dataset in self.too_large and model not in FILTERS)
        ]

    def on_store(self, model: str, dataset: str) -> bool:
        """Whether a cell is trained on a store."""
        return dataset in self.stored and model in FILTERS


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
    """Published settings where there are any, else the defaults of the way it is trained."""
    if table.on_store(model, dataset):
        return scaled_config(model, dataset)
    return stored_config(model, dataset) or default_config(model)


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
    blocks: BlockReport | None = None,
    report: Report | None = None,
    finished: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Runs what is not done yet, writes the page, and returns the results of all of it.

    Args:
        table: which table.
        models, datasets: the part of it.
        folder: of the results.
        seeds: splits, or seeds of the model.
        stores: folder of the graphs and bases on disk, made where they are not there.
        memory: bytes to stay within in making them.
        root: the folder of all data sets.
        cluster: address of a Ray cluster for the bases, or ``auto``.
        blocks, report, finished: called with steps of a basis, epochs of a training, and results.

    Raises:
        FileNotFoundError: before anything is run, with the files that are missing.
        OverflowError: where trainings diverged, after all others have been done.
    """
    cells = table.cells(models, datasets)
    if not cells:
        raise ValueError(f"{', '.join(datasets)}: too large to train {', '.join(models)} on; choose other models")
    for dataset in datasets:
        missing = missing_files(dataset, root)
        from_files = any(not table.on_store(model, name) for model, name in cells if name == dataset)
        if missing and (from_files or not (stores / f"{dataset}.graph").exists()):
            raise FileNotFoundError(
                f"{dataset} is not there: {' and '.join(map(str, missing))} is missing; get it from "
                f"{CATALOGUE[dataset].source}, or choose other data sets with --datasets"
            )
    found, diverged = [], []
    opened: dict[str, BasisStore] = {}
    for model, dataset in cells:
        config, results = config_for(table, model, dataset), folder / f"{model}.jsonl"
        if not table.on_store(model, dataset):
            protocol = CATALOGUE[dataset].protocol
            runs = [Run(config, dataset, protocol, seed, seed) for seed in range(seeds)]
            try:
                found += run_splits(runs, results, root=root, report=report, finished=finished)
            except OverflowError as error:
                diverged.append(str(error))
            continue
        if dataset not in opened:
            graph = graph_of(dataset, stores, root, memory)
            place = stores / f"{dataset}.store"
            opened[dataset] = precompute(graph, place, DEGREE, memory=memory, cluster=cluster, report=blocks)
        try:
            found += train_on_store(
                config, opened[dataset], protocol=CATALOGUE[dataset].protocol, splits=seeds, results=results,
                report=report, finished=finished,
            )  # fmt: skip
        except OverflowError as error:
            diverged.append(str(error))
    write_readme(table, folder)
    if diverged:
        raise OverflowError(f"{len(diverged)} of {len(cells)} cells diverged, the first: {diverged[0]}")
    return found


def write_readme(table: LargeTable, folder: Path) -> None:
    """The page over all results in a folder."""
    results = [result for model in table.models for result in read_results(folder / f"{model}.jsonl")]
    rows = compared(results, table.name, table.models, table.datasets)
    parts = [
        f"# {table.name.replace('-', ' ').capitalize()}",
        "",
        f"Made by `polybasis reproduce {table.name}` from the JSON lines in this folder. Test accuracy in percent (ROC "
        "AUC on genius), ours with a 95 % interval, the paper's with its standard error. Verdict: *above* the paper's "
        "mean, *within* its error below it, or *below* that.",
        *sections(rows),
    ]
    write_atomically(folder / "README.md", ("\n".join(parts) + "\n").encode())
