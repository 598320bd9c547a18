"""`polybasis reproduce`: the paper's tables and figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from polybasis.cli.options import AsJson, DataRoot, Ray, parse_size
from polybasis.cli.printable import echo
from polybasis.nn.models.names import PRECOMPUTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from polybasis.experiments.filter_learning import Problem
    from polybasis.experiments.large import LargeTable

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Reproduce the paper's tables and figures.",
)
Models = Annotated[str | None, typer.Option(help="Models, separated by commas; default: all in the table.")]
Datasets = Annotated[str | None, typer.Option(help="Data sets, separated by commas; default: all in the table.")]
Stores = Annotated[Path, typer.Option(help="Folder for graph folders and stores.")]
Memory = Annotated[str, typer.Option(help="Memory limit for building graph folders and stores.")]


def _problem(data_root: str | None) -> Problem:
    from polybasis.cli.display import console
    from polybasis.data.catalogue import data_root as folder_of
    from polybasis.data.images import published_images
    from polybasis.experiments.filter_learning import build_problem

    console.print("filtering fifteen images in four ways")
    return build_problem(published_images(folder_of(data_root)))


def _names(given: str | None, known: tuple[str, ...], what: str, default: tuple[str, ...] | None = None) -> list[str]:
    """Parses names separated by commas; the default names, or all, if none are given."""
    names = list(default or known) if given is None else [name.strip() for name in given.split(",")]
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; expected some of {', '.join(known)}")
    return names


@app.command("node-classification")
def node_classification(
    models: Annotated[str | None, typer.Option(help="Models, separated by commas; default: all eleven.")] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas; default: the paper's five.")
    ] = None,
    deduplicated: Annotated[
        bool,
        typer.Option("--deduplicated", help="By default, use the data sets without duplicate nodes."),
    ] = False,
    splits: Annotated[int, typer.Option(help="Splits of each data set.", min=1)] = 20,
    jobs: Annotated[int | None, typer.Option(help="Jobs to run in parallel; default: one per core.", min=1)] = None,
    preset: Annotated[
        Literal["published", "tuned"] | None,
        typer.Option(help="Hyperparameters; default: published if available, else tuned."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/node-classification"),
    ray: Ray = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Train the paper's models on its data sets: the node classification table, or any part of it.

    Finished jobs are not repeated. Each job uses one thread, so that results do not depend on the number of cores.
    """
    import torch

    from polybasis.cli.display import console, jobs_bar, print_results
    from polybasis.experiments import node_classification as table
    from polybasis.experiments.classification_page import write_readme

    own = (table.DEDUPLICATED_MODELS, table.DEDUPLICATED_DATASETS) if deduplicated else (table.MODELS, table.DATASETS)
    planned = table.plan_jobs(
        _names(models, table.MODELS, "model", own[0]),
        _names(datasets, table.DATASETS + table.DEDUPLICATED_DATASETS, "data set", own[1]),
        splits,
        preset,
        data_root,
    )
    total, done = sum(map(len, planned.values())), table.count_finished(planned, out)
    console.print(f"{total} jobs, {done} of them finished")
    with jobs_bar("node classification", total, done) as on_result:
        processes = jobs or torch.get_num_threads()
        found = table.run_all(planned, out, processes=processes, cluster=ray, on_result=on_result)
    write_readme(out)
    print_results(found, as_json)
    console.print(f"results in {out}, compared with the paper's in {out / 'README.md'}", soft_wrap=True)


@app.command("line")
def line(
    place: Annotated[str, typer.Argument(metavar="FILE:NUMBER", help="A line of a results file, counted from 1.")],
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Run one committed line again, on one thread, and compare the scores; exit status 1 if they differ.

    Configuration, data set, protocol, split and seed are those that the line records.

    Example:

      polybasis reproduce line results/node-classification/gcn.jsonl:1
    """
    from rich.table import Table

    from polybasis.cli.display import console, print_json, print_table
    from polybasis.experiments.committed_lines import SCORES, parse_place, repeat_line

    path, number = parse_place(place)
    repetition = repeat_line(path, number, data_root)
    committed, new = repetition.committed, repetition.new
    if as_json:
        print_json({"line": place, **repetition.to_dict()})
    else:
        table = Table("", "committed", "new")
        for name in (*SCORES, "threads", "code"):
            table.add_row(name, str(committed.get(name, "not recorded")), str(new[name]))
        print_table(table)
    console.print("the scores are the same" if repetition.same else "the scores differ", soft_wrap=True)
    if not repetition.same:
        raise typer.Exit(1)


@app.command("stale")
def stale(
    folder: Annotated[Path, typer.Argument(help="Folder of results.")] = Path("results"),
    as_json: AsJson = False,
) -> None:
    """List committed lines whose code has changed since they were computed, by the commit that they record.

    Code is native/ and the files of src/polybasis that scores depend on, uncommitted changes included. A changed
    comment counts; `reproduce line` decides whether a line still holds. Lines without a commit are unknown.
    """
    from polybasis.cli.display import print_json
    from polybasis.code_version import PACKAGE, repository_of
    from polybasis.experiments.committed_lines import as_ranges, line_statuses

    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder")
    repository = repository_of(PACKAGE)
    if repository is None:
        raise ValueError("polybasis is not installed from a git checkout (pip install -e .); nothing to compare with")
    found = line_statuses(folder, repository)
    if as_json:
        names = ("number", "code", "status", "changed")
        print_json([{"file": str(one.path), **{name: getattr(one, name) for name in names}} for one in found])
        return
    for status in ("stale", "unknown"):
        for path in dict.fromkeys(one.path for one in found if one.status == status):
            numbers = [one.number for one in found if one.path == path and one.status == status]
            typer.echo(f"{status} {path}:{as_ranges(numbers)}")
    counts = [sum(one.status == status for one in found) for status in ("stale", "unknown", "current")]
    typer.echo("{} stale, {} unknown, {} current".format(*counts))


@app.command("fresh-splits")
def fresh_splits(
    datasets: Annotated[str | None, typer.Option(help="Data sets, separated by commas; default: all five.")] = None,
    jobs: Annotated[int, typer.Option(help="Jobs to run in parallel.", min=1)] = 1,
    out: Annotated[Path, typer.Option(help="Folder of the node classification results.")] = Path(
        "results/node-classification"
    ),
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Train the paper's models and the best tuned baseline of each data set on twenty splits that no search has used.

    Finished jobs are not repeated. Each job uses one thread.
    """
    from polybasis.cli.display import console, jobs_bar, print_results
    from polybasis.experiments import fresh_splits as fresh
    from polybasis.experiments import node_classification as table
    from polybasis.experiments.classification_page import write_readme

    names = tuple(_names(datasets, table.DATASETS, "data set"))
    planned, folder = fresh.plan_fresh_jobs(names, data_root), out / fresh.FOLDER
    total, done = sum(map(len, planned.values())), table.count_finished(planned, folder)
    console.print(f"{total} jobs, {done} of them finished")
    with jobs_bar("fresh splits", total, done) as on_result:
        found = table.run_all(planned, folder, processes=jobs, on_result=on_result)
    write_readme(out)
    print_results(found, as_json)


@app.command("honest")
def honest(
    rows: Annotated[
        str | None,
        typer.Option(
            help="Rows of the table, separated by commas, such as residual-favard; default: all but ensembles."
        ),
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas; default: those of the table.")
    ] = None,
    splits: Annotated[
        int | None, typer.Option(help="Splits of each data set; default: ten, five of a campus.", min=1)
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Jobs to run in parallel; default: one per core.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/honest"),
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Train filters and strong baselines on data sets without duplicate nodes, all on the same splits.

    Hyperparameters are tuned ones if the package includes them, else the model's defaults. Finished jobs are not
    repeated. Each job uses one thread, so that results do not depend on the number of cores.
    """
    import torch

    from polybasis.cli.display import console, jobs_bar, print_results
    from polybasis.experiments import honest as table
    from polybasis.experiments import honest_sets as sets
    from polybasis.experiments.node_classification import count_finished, run_all
    from polybasis.experiments.settings import ENSEMBLES, ROWS

    processes = jobs or torch.get_num_threads()
    planned = table.plan_jobs(
        _names(rows, (*ROWS, *ENSEMBLES), "row", tuple(ROWS)),
        _names(datasets, (*sets.DATASETS, *sets.MORE_DATASETS), "data set", tuple(sets.DATASETS)),
        splits,
        out,
        data_root,
        processes=processes,
        on_race=lambda dataset, split: console.print(f"chose a model for split {split} of {dataset}", highlight=False),
    )
    total, done = sum(map(len, planned.values())), count_finished(planned, out)
    console.print(f"{total} jobs, {done} of them finished")
    try:
        with jobs_bar("honest table", total, done) as on_result:
            found = run_all(planned, out, processes=processes, on_result=on_result)
    finally:
        table.write_readme(out)
    print_results(found, as_json)
    console.print(f"results in {out}, tables in {out / 'README.md'}", soft_wrap=True)


@app.command("tune-honest")
def tune_honest(
    rows: Annotated[str | None, typer.Option(help="Rows of the table, separated by commas; default: all.")] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas; default: those of the table, and one campus.")
    ] = None,
    presets: Annotated[Path, typer.Option(help="Folder of the presets.")] = Path("src/polybasis/presets/honest"),
    time_limit: Annotated[float, typer.Option(help="Seconds for the settings of a row on a data set.", min=1)] = 60.0,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/honest"),
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Tune the rows of `reproduce honest` on validation data: as many settings and as much time for each.

    Existing presets are kept. All campuses of the table share the configuration that is tuned on another campus.
    """
    import torch

    from polybasis.cli.display import console, print_candidate, print_json
    from polybasis.experiments import honest_sets as sets
    from polybasis.experiments.honest import tune
    from polybasis.experiments.settings import AUTO, ROWS

    torch.set_num_threads(1)
    files = []
    known = (*(name for name in sets.DATASETS if name not in sets.CAMPUSES), sets.TUNING_CAMPUS)
    for dataset in _names(datasets, known + sets.MORE_DATASETS, "data set", known):
        for row in _names(rows, tuple(name for name in ROWS if name != AUTO), "row"):
            console.print(f"{row} on {dataset}", highlight=False)
            files.append(tune(row, dataset, presets, out, data_root, time_limit, print_candidate))
    if as_json:
        print_json([str(file) for file in files])


@app.command("portfolio")
def portfolio(
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas; default: all that the choice is made on.")
    ] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for a candidate on a data set.", min=1)] = 20.0,
    jobs: Annotated[
        int | None, typer.Option(help="Candidates to train in parallel; default: one per core.", min=1)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/honest"),
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Choose the portfolio of --model auto: train each candidate on many graphs, compare them on validation data.

    Finished measurements are not repeated. Prints the portfolio, the candidate that serves most graphs first.
    """
    import torch

    from polybasis.cli.display import console, print_json
    from polybasis.experiments import portfolio as choice

    def show(measured: choice.Measurement) -> None:
        score = "diverged" if measured["val_score"] is None else f"{100 * measured['val_score']:.2f}"
        console.print(f"{measured['row']}, {measured['setting']} on {measured['dataset']}: {score}", highlight=False)

    names = _names(datasets, choice.GRAPHS, "data set")
    choice.measure_all(names, out, data_root, time_limit, jobs or torch.get_num_threads(), show)
    chosen = list(choice.portfolio(choice.read_regrets(out / choice.MEASUREMENTS)))
    if as_json:
        print_json(chosen)
    else:
        for number, name in enumerate(chosen, 1):
            console.print(f"{number}. {name}", highlight=False)


@app.command("campuses")
def campuses(
    models: Annotated[str | None, typer.Option(help="Models, separated by commas; default: all five.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Jobs to run in parallel; default: one per core.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/campuses"),
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Train on twenty campuses of facebook100 and test on eight others; also train on each of the eight alone.

    Finished runs are not repeated. Each run uses one thread, so that results do not depend on the number of cores.
    """
    import torch

    from polybasis.cli.display import console, jobs_bar, print_result, print_results, training_bar
    from polybasis.experiments import campuses as table
    from polybasis.experiments.node_classification import count_finished, run_all

    rows = _names(models, tuple(table.MODELS), "model")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    planned = {f"{row}-{table.ALONE}": table.alone_jobs(row, data_root) for row in rows}
    total, done = sum(map(len, planned.values())), count_finished(planned, out)
    try:
        with jobs_bar("campuses alone", total, done) as on_result:
            found = run_all(planned, out, processes=jobs or threads, on_result=on_result)
        for row in rows:
            with training_bar(f"{row} on twenty campuses") as on_epoch:
                found += table.train_together(row, out, data_root, on_epoch, print_result)
    finally:
        table.write_readme(out)
    print_results(found, as_json)
    console.print(f"results in {out}, tables in {out / 'README.md'}", soft_wrap=True)


def _large(
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
            _names(models, table.models, "model"),
            _names(datasets, table.datasets, "data set"),
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


@app.command("large-heterophilous")
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

    _large(HETEROPHILOUS, models, datasets, splits, out, stores, memory, ray, data_root, as_json)


@app.command("large-citation")
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

    _large(CITATION, models, datasets, seeds, out, stores, memory, ray, data_root, as_json)


@app.command("scale")
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
        _names(datasets, experiment.DATASETS, "data set"), _names(models, PRECOMPUTED, "model"), out, splits=splits,
        stores=stores, memory=parse_size(memory), root=data_root, processes=jobs, on_result=print_result,
    )  # fmt: skip
    experiment.write_readme(out)
    if as_json:
        names = (experiment.ON_STORE, experiment.ON_GRAPH)
        print_json({name.removesuffix(".jsonl"): summarize(read_results(out / name)) for name in names})
    console.print(f"results in {out}", soft_wrap=True)


@app.command("scale-size")
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


@app.command("filter-learning")
def filter_learning(
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/filter-learning"),
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Learn filters on sixty image samples in eight bases and in closed form: the paper's filter learning table.

    A second table has the signals and operators of the authors' code, in which two bases lack self-loops.
    """
    from polybasis.cli.display import console, print_json
    from polybasis.data.catalogue import data_root as folder_of
    from polybasis.data.images import published_images
    from polybasis.experiments import filter_results
    from polybasis.experiments.committed_lines import one_thread
    from polybasis.files import read_lines

    start = time.monotonic()
    with one_thread():
        filter_results.run_filter_learning(_problem(data_root), out, console.print)
        images = published_images(folder_of(data_root), colours="integer-yuv")
        filter_results.run_authors_operators(images, out, console.print)
    filter_results.write_readme(out)
    console.print(f"results in {out} after {time.monotonic() - start:.0f} s; the table is in {out / 'README.md'}")
    if as_json:
        print_json(read_lines(out / filter_results.TABLE))


@app.command("favard-convergence")
def favard_convergence(
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/filter-learning"),
    epochs: Annotated[int, typer.Option(help="Epochs of each training run.", min=200)] = 10_000,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Train learned bases for many epochs, with the paper's method and with better ones; resumes if interrupted."""
    from polybasis.cli.display import console, print_json
    from polybasis.data.catalogue import load
    from polybasis.experiments import filter_results
    from polybasis.files import read_lines

    filter_results.run_convergence(_problem(data_root), out, epochs, console.print)
    filter_results.run_chameleon(load("chameleon", data_root), out, epochs, console.print)
    filter_results.write_readme(out)
    console.print(f"results in {out}")
    if as_json:
        names = (filter_results.CONVERGENCE, filter_results.CHAMELEON)
        print_json({name.removesuffix(".jsonl"): read_lines(out / name) for name in names})


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
    names: Annotated[list[str] | None, typer.Argument(help=f"Figures: {', '.join(FIGURES)}; default: all.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the figures.")] = Path("docs/figures"),
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/filter-learning"),
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Draw the paper's figures and additional ones as PNG and SVG."""
    from polybasis.cli.display import print_json
    from polybasis.data.catalogue import load
    from polybasis.data.images import sample_photograph
    from polybasis.experiments import figures, filter_results
    from polybasis.files import read_lines
    from polybasis.report.figures import save

    wanted = names or list(FIGURES)
    for name in wanted:
        if name not in FIGURES:
            raise ValueError(f"unknown figure {name!r}; expected some of {', '.join(FIGURES)}")
    problem = _problem(data_root) if {*wanted} - WITHOUT_SAMPLES else None

    def chameleon() -> Figure:
        rows = filter_results.longest_runs(read_lines(results / filter_results.CHAMELEON))
        if not rows:
            raise FileNotFoundError(
                f"{results / filter_results.CHAMELEON} does not exist; run `polybasis reproduce favard-convergence`"
            )
        return figures.chameleon_bumps(rows, filter_results.CURVE_STRIDE)

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
    paths = []
    for name in wanted:
        for path in save(drawn[name](), out / name):
            paths.append(str(path))
            if not as_json:
                echo(path)
    if as_json:
        print_json(paths)
