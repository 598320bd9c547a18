"""`polybasis reproduce`: training on stores of large graphs, and stores compared with their graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polybasis.cli.options import AsJson, DataRoot, Ray, parse_names, parse_size
from polybasis.nn.models.names import PRECOMPUTED

if TYPE_CHECKING:
    from polybasis.experiments.large import LargeTable

Models = Annotated[str | None, typer.Option(help="Models, separated by commas; default: all in the table.")]
Datasets = Annotated[str | None, typer.Option(help="Data sets, separated by commas; default: all in the table.")]
Stores = Annotated[Path, typer.Option(help="Folder for graph folders and stores.")]
Memory = Annotated[str, typer.Option(help="Memory limit for building graph folders and stores.")]


def _run(
    table: LargeTable,
    models: str | None,
    datasets: str | None,
    seeds: int | None,
    out: Path,
    stores: Path,
    memory: str,
    ray: str | None,
    data_root: str | None,
    as_json: bool,
) -> None:
    from polybasis.cli.display import console, print_result, print_results, training_bar
    from polybasis.experiments.large import run_table

    def on_step(block: int, blocks: int, step: int, steps: int) -> None:
        if step == steps:
            console.print(f"block {block + 1} of {blocks} of the basis")

    with training_bar(table.name) as on_epoch:
        found = run_table(
            table,
            parse_names(models, table.models, "model"),
            parse_names(datasets, table.datasets, "data set"),
            out,
            seeds=seeds or table.seeds,
            stores=stores,
            memory=parse_size(memory),
            root=data_root,
            cluster=ray,
            on_step=on_step,
            on_epoch=on_epoch,
            on_result=print_result,
        )
    print_results(found, as_json)
    console.print(f"results in {out}, compared with the paper's in {out / 'README.md'}", soft_wrap=True)


def large_heterophilous(
    models: Models = None,
    datasets: Datasets = None,
    splits: Annotated[int | None, typer.Option(help="Number of splits; default: five.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/large-heterophilous"),
    stores: Stores = Path("runs/stores"),
    memory: Memory = "8GiB",
    ray: Ray = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Train on large heterophilous graphs, with FavardGNN and BernNet on pokec and wiki; resumes if interrupted."""
    from polybasis.experiments.large import HETEROPHILOUS

    _run(HETEROPHILOUS, models, datasets, splits, out, stores, memory, ray, data_root, as_json)


def large_citation(
    models: Models = None,
    datasets: Datasets = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds of the model; default: ten.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/large-citation"),
    stores: Stores = Path("runs/stores"),
    memory: Memory = "20GiB",
    ray: Ray = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Train on ogbn-arxiv and ogbn-papers100M, with FavardGNN and BernNet; resumes if interrupted."""
    from polybasis.experiments.large import CITATION

    _run(CITATION, models, datasets, seeds, out, stores, memory, ray, data_root, as_json)


def scale(
    datasets: Annotated[str | None, typer.Option(help="Data sets; default: cornell5, pubmed, tolokers.")] = None,
    models: Annotated[str | None, typer.Option(help="Models; default: all with a precomputed version.")] = None,
    splits: Annotated[int, typer.Option(help="Splits of each data set.", min=1)] = 2,
    jobs: Annotated[int, typer.Option(help="Jobs on graphs to run in parallel.", min=1)] = 1,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/scale"),
    stores: Stores = Path("runs/stores"),
    memory: Memory = "8GiB",
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Train models both on a store and on its graph and compare the scores; resumes if interrupted."""
    from polybasis.cli.display import console, print_json, print_result
    from polybasis.experiments import scale as experiment
    from polybasis.train.results import read_results, summarize

    experiment.compare(
        parse_names(datasets, experiment.DATASETS, "data set"),
        parse_names(models, PRECOMPUTED, "model"),
        out,
        splits=splits,
        stores=stores,
        memory=parse_size(memory),
        root=data_root,
        processes=jobs,
        on_result=print_result,
    )
    experiment.write_readme(out)
    if as_json:
        names = (experiment.ON_STORE, experiment.ON_GRAPH)
        print_json({name.removesuffix(".jsonl"): summarize(read_results(out / name)) for name in names})
    console.print(f"results in {out}", soft_wrap=True)


def scale_size(
    graph: Annotated[Path, typer.Argument(help="A graph folder.")],
    store: Annotated[Path, typer.Argument(help="The store built from it.")],
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/scale"),
    as_json: AsJson = False,
) -> None:
    """Record the time, memory and disk space that building a store took, from its log."""
    from polybasis.cli.display import print_json
    from polybasis.experiments import scale as experiment
    from polybasis.store.graph_folder import GraphFolder

    row = experiment.log_size(GraphFolder.open(graph), store, out)
    experiment.write_readme(out)
    if as_json:
        print_json(row)
    else:
        typer.echo(", ".join(f"{name} {number:,}" for name, number in row.items()))
