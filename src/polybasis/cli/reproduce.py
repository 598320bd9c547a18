"""`polybasis reproduce`: the paper's tables and figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer
from matplotlib.figure import Figure

from polybasis.cli.display import console, results_table, runs_bar, say_result, training_bar
from polybasis.cli.options import DataRoot, Ray, as_bytes
from polybasis.data.catalogue import data_root as data_root_of
from polybasis.data.catalogue import load
from polybasis.data.images import published_images, sample_photograph
from polybasis.experiments import figures, filter_results, large, node_classification, scale
from polybasis.experiments.filter_learning import Problem, reduced
from polybasis.files import read_lines
from polybasis.nn.models.precomputed import FILTERS
from polybasis.report.figures import save
from polybasis.store.graph_folder import GraphFolder
from polybasis.train.config import Settings

app = typer.Typer(no_args_is_help=True, help="Make the paper's tables and figures.")


def _problem(data_root: str | None) -> Problem:
    console.print("filtering fifteen images in four ways")
    return reduced(published_images(data_root_of(data_root)))


def _names(given: str | None, known: tuple[str, ...], what: str, otherwise: tuple[str, ...] | None = None) -> list[str]:
    """Names with commas between, all of them known; those of `otherwise`, or all, where none are given."""
    names = list(otherwise or known) if given is None else [name.strip() for name in given.split(",")]
    for name in names:
        if name not in known:
            raise ValueError(f"there is no {what} {name!r} here; expected some of {', '.join(known)}")
    return names


@app.command("node-classification")
def node_classification_(
    models: Annotated[str | None, typer.Option(help="Models, with commas between; all eleven unless given.")] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, with commas between; the paper's five unless given.")
    ] = None,
    honest: Annotated[
        bool, typer.Option("--honest", help="Unless named, models and data sets without duplicated nodes.")
    ] = False,
    splits: Annotated[int, typer.Option(help="Splits of each data set.", min=1)] = 20,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time; one for each core unless given.", min=1)] = None,
    settings: Annotated[
        Settings | None, typer.Option(help="published or tuned; unless given, published where there are any.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/node-classification"),
    ray: Ray = None,
    data_root: DataRoot = None,
) -> None:
    """Train the paper's models on its data sets: the node-classification table, or any part of it.

    What is done already is not run again. Each run has one thread, so that its digits do not depend on how many cores
    there are.
    """
    jobs = jobs or torch.get_num_threads()
    table = node_classification
    models_, sets = (table.HONEST_MODELS, table.HONEST_DATASETS) if honest else (table.MODELS, table.DATASETS)
    runs = table.planned_runs(
        _names(models, table.MODELS, "model", models_),
        _names(datasets, table.DATASETS + table.HONEST_DATASETS, "data set", sets),
        splits,
        settings,
    )
    total, done = sum(map(len, runs.values())), node_classification.done_already(runs, out)
    console.print(f"{total} runs, {done} of them done already")
    with runs_bar("node classification", total, done) as finished:
        found = node_classification.execute_runs(runs, out, root=data_root, jobs=jobs, cluster=ray, finished=finished)
    node_classification.write_readme(out)
    console.print(results_table(found))
    console.print(f"results in {out}; the table beside the paper's is in {out / 'README.md'}")


def _large(
    table: large.LargeTable,
    models: str | None,
    datasets: str | None,
    seeds: int | None,
    out: Path,
    stores: Path,
    memory: str,
    ray: str | None,
    data_root: str | None,
) -> None:
    def blocks(block: int, blocks: int, step: int, steps: int) -> None:
        if step == steps:
            console.print(f"block {block + 1} of {blocks} of the basis")

    with training_bar(table.name) as report:
        found = large.run_table(
            table,
            _names(models, table.models, "model"),
            _names(datasets, table.datasets, "data set"),
            out,
            seeds=seeds or table.seeds,
            stores=stores,
            memory=as_bytes(memory),
            root=data_root,
            cluster=ray,
            blocks=blocks,
            report=report,
            finished=say_result,
        )
    console.print(results_table(found))
    console.print(f"results in {out}; the table beside the paper's is in {out / 'README.md'}")


Models = Annotated[str | None, typer.Option(help="Models, with commas between; all of the table unless given.")]
Datasets = Annotated[str | None, typer.Option(help="Data sets, with commas between; all of the table unless given.")]
Stores = Annotated[Path, typer.Option(help="Folder of graphs and bases on disk.")]
Memory = Annotated[str, typer.Option(help="Memory to stay within in making them.")]


@app.command("large-heterophilous")
def large_heterophilous(
    models: Models = None,
    datasets: Datasets = None,
    splits: Annotated[int | None, typer.Option(help="Splits; five unless given.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/large-heterophilous"),
    stores: Stores = Path("runs/stores"),
    memory: Memory = "8GiB",
    ray: Ray = None,
    data_root: DataRoot = None,
) -> None:
    """Train on large heterophilous graphs, with FavardGNN and BernNet on pokec and wiki; goes on where it stopped."""
    _large(large.HETEROPHILOUS, models, datasets, splits, out, stores, memory, ray, data_root)


@app.command("large-citation")
def large_citation(
    models: Models = None,
    datasets: Datasets = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds of the model on the given split; ten unless given.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/large-citation"),
    stores: Stores = Path("runs/stores"),
    memory: Memory = "20GiB",
    ray: Ray = None,
    data_root: DataRoot = None,
) -> None:
    """Train on ogbn-arxiv and ogbn-papers100M, with FavardGNN and BernNet; goes on where it stopped."""
    _large(large.CITATION, models, datasets, seeds, out, stores, memory, ray, data_root)


@app.command("scale")
def scale_(
    datasets: Annotated[str | None, typer.Option(help="Data sets: cornell5, pubmed, tolokers unless given.")] = None,
    models: Annotated[str | None, typer.Option(help="Models, with commas between; all scaled-up ones.")] = None,
    splits: Annotated[int, typer.Option(help="Splits of each data set.", min=1)] = 2,
    jobs: Annotated[int, typer.Option(help="Runs on graphs at a time.", min=1)] = 1,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/scale"),
    stores: Stores = Path("runs/stores"),
    memory: Memory = "8GiB",
    data_root: DataRoot = None,
) -> None:
    """Train models on one store and on the graph: what batches and fixed bases cost; goes on where it stopped."""
    scale.compare(
        _names(datasets, scale.DATASETS, "data set"), _names(models, tuple(FILTERS), "model"), out, splits=splits,
        stores=stores, memory=as_bytes(memory), root=data_root, jobs=jobs, finished=say_result,
    )  # fmt: skip
    scale.write_readme(out)
    console.print(f"results in {out}")


@app.command("scale-size")
def scale_size(
    graph: Annotated[Path, typer.Argument(help="A graph folder.")],
    store: Annotated[Path, typer.Argument(help="A store that was made of it.")],
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/scale"),
) -> None:
    """Write down how a store was made: time, memory, bytes, from its own log."""
    row = scale.log_size(GraphFolder.open(graph), store, out)
    scale.write_readme(out)
    console.print(", ".join(f"{name} {number:,}" for name, number in row.items()))


@app.command("filter-learning")
def filter_learning(
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/filter-learning"),
    data_root: DataRoot = None,
) -> None:
    """Learn filters on sixty image samples in eight bases, and in closed form: the paper's filter-learning table."""
    start = time.monotonic()
    filter_results.make_table(_problem(data_root), out, console.print)
    filter_results.write_readme(out)
    console.print(f"results in {out} after {time.monotonic() - start:.0f} s; the table is in {out / 'README.md'}")


@app.command("favard-convergence")
def favard_convergence(
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/filter-learning"),
    epochs: Annotated[int, typer.Option(help="Epochs of each training.", min=200)] = 10_000,
    data_root: DataRoot = None,
) -> None:
    """Train learned bases for long, in the paper's way and in better ones; goes on where it was stopped."""
    filter_results.make_long(_problem(data_root), out, epochs, console.print)
    filter_results.make_chameleon(load("chameleon", data_root), out, epochs, console.print)
    filter_results.write_readme(out)
    console.print(f"results in {out}")


WITHOUT_SAMPLES = {"representation", "bumps-chameleon", "filtered-images", "responses", "weight-functions"}
FIGURES = (
    "representation",
    "convergence",
    "convergence-more",
    "bumps",
    "bumps-chameleon",
    "filtered-images",
    "conditions",
    "responses",
    "weight-functions",
)


@app.command("figure")
def figure(
    names: Annotated[list[str] | None, typer.Argument(help=f"Figures: {', '.join(FIGURES)}; all unless given.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the pictures.")] = Path("docs/figures"),
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/filter-learning"),
    data_root: DataRoot = None,
) -> None:
    """Draw figures of the paper, and new ones, as PNG and SVG."""
    wanted = names or list(FIGURES)
    for name in wanted:
        if name not in FIGURES:
            raise ValueError(f"there is no figure {name!r}; expected some of {', '.join(FIGURES)}")
    problem = _problem(data_root) if {*wanted} - WITHOUT_SAMPLES else None

    def chameleon() -> Figure:
        rows = filter_results.longest(read_lines(results / filter_results.CHAMELEON))
        if not rows:
            raise FileNotFoundError(
                f"{results / filter_results.CHAMELEON} is not there: run `polybasis reproduce favard-convergence`"
            )
        return figures.chameleon_bumps(rows, filter_results.KEPT_EVERY)

    def samples(*numbers: int) -> Problem:
        assert problem is not None
        return problem[list(numbers)]

    drawn: dict[str, Callable[[], Figure]] = {
        "representation": figures.representation,
        "convergence": lambda: figures.convergence(samples(3)),
        "convergence-more": lambda: figures.convergence(samples(4, 9, 18, 31)),
        "bumps": lambda: figures.bumps(samples(3)),
        "bumps-chameleon": chameleon,
        "filtered-images": lambda: figures.filtered_images(sample_photograph()),
        "conditions": lambda: figures.conditions(samples(*range(60))),
        "responses": lambda: figures.learned_responses(load("chameleon", data_root)),
        "weight-functions": lambda: figures.learned_weight_functions(load("chameleon", data_root)),
    }
    for name in wanted:
        console.print(", ".join(str(path) for path in save(drawn[name](), out / name)))
