"""`polybasis reproduce`: the paper's node classification table, and the same models on fresh splits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from polybasis.cli.options import AsJson, DataRoot, Ray, parse_names


def node_classification(
    models: Annotated[str | None, typer.Option(help="Models, separated by commas; default: all eleven.")] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas; default: the paper's five.")
    ] = None,
    deduplicated: Annotated[
        bool,
        typer.Option(
            "--deduplicated", help="Change the defaults of --models and --datasets to those without duplicate nodes."
        ),
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
        parse_names(models, table.MODELS, "model", own[0]),
        parse_names(datasets, table.DATASETS + table.DEDUPLICATED_DATASETS, "data set", own[1]),
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

    names = tuple(parse_names(datasets, table.DATASETS, "data set"))
    planned, folder = fresh.plan_fresh_jobs(names, data_root), out / fresh.FOLDER
    total, done = sum(map(len, planned.values())), table.count_finished(planned, folder)
    console.print(f"{total} jobs, {done} of them finished")
    with jobs_bar("fresh splits", total, done) as on_result:
        found = table.run_all(planned, folder, processes=jobs, on_result=on_result)
    write_readme(out)
    print_results(found, as_json)
