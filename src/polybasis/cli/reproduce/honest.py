"""`polybasis reproduce`: filters and strong baselines without duplicate nodes, and the portfolio of auto."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polybasis.cli.options import AsJson, DataRoot, parse_names


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
        parse_names(rows, (*ROWS, *ENSEMBLES), "row", tuple(ROWS)),
        parse_names(datasets, (*sets.DATASETS, *sets.MORE_DATASETS), "data set", tuple(sets.DATASETS)),
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
    for dataset in parse_names(datasets, known + sets.MORE_DATASETS, "data set", known):
        for row in parse_names(rows, tuple(name for name in ROWS if name != AUTO), "row"):
            console.print(f"{row} on {dataset}", highlight=False)
            files.append(tune(row, dataset, presets, out, data_root, time_limit, print_candidate))
    if as_json:
        print_json([str(file) for file in files])


def portfolio(
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas; default: all that the choice is made on.")
    ] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for a candidate on a data set.", min=1)] = 10.0,
    jobs: Annotated[
        int | None, typer.Option(help="Candidates to train in parallel; default: one per core.", min=1)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/honest"),
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Choose the portfolio of --model auto: train each candidate on many graphs, compare them on validation data.

    Finished measurements are not repeated. Prints the portfolio, the candidate that serves most graphs first; and the
    one for tables, without models that can predict only for the nodes they were trained on.
    """
    import torch

    from polybasis.cli.display import console, print_json
    from polybasis.experiments import portfolio as choice

    def show(measured: choice.Measurement) -> None:
        score = "diverged" if measured["val_score"] is None else f"{100 * measured['val_score']:.2f}"
        console.print(f"{measured['row']}, {measured['setting']} on {measured['dataset']}: {score}", highlight=False)

    names = parse_names(datasets, choice.GRAPHS, "data set")
    choice.measure_all(names, out, data_root, time_limit, jobs or torch.get_num_threads(), show)
    regrets = choice.read_regrets(out / choice.MEASUREMENTS)
    chosen = {
        "all models": list(choice.portfolio(regrets)),
        "models that can predict for new nodes": list(choice.portfolio(regrets, transductive=False)),
    }
    if as_json:
        print_json(chosen)
    else:
        for title, candidates in chosen.items():
            console.print(f"Portfolio of {title}:")
            for number, name in enumerate(candidates, 1):
                console.print(f"{number}. {name}", highlight=False)
