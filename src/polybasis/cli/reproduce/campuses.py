"""`polybasis reproduce`: training on some campuses of facebook100 and testing on others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polybasis.cli.options import AsJson, DataRoot, parse_names


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

    rows = parse_names(models, tuple(table.MODELS), "model")
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
