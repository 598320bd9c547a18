"""`polybasis reproduce`: the paper's filter learning table, and the convergence of learned bases."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polybasis.cli.options import AsJson, DataRoot

if TYPE_CHECKING:
    from polybasis.experiments.filter_learning import Problem


def published_problem(data_root: str | None) -> Problem:
    """The filter learning problem on the published images."""
    from polybasis.cli.display import console
    from polybasis.data.catalogue import data_root as folder_of
    from polybasis.data.images import published_images
    from polybasis.experiments.filter_learning import build_problem

    console.print("filtering fifteen images in four ways")
    return build_problem(published_images(folder_of(data_root)))


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
        filter_results.run_filter_learning(published_problem(data_root), out, console.print)
        images = published_images(folder_of(data_root), colours="integer-yuv")
        filter_results.run_authors_operators(images, out, console.print)
    filter_results.write_readme(out)
    console.print(f"results in {out} after {time.monotonic() - start:.0f} s; the table is in {out / 'README.md'}")
    if as_json:
        print_json(read_lines(out / filter_results.TABLE))


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

    filter_results.run_convergence(published_problem(data_root), out, epochs, console.print)
    filter_results.run_chameleon(load("chameleon", data_root), out, epochs, console.print)
    filter_results.write_readme(out)
    console.print(f"results in {out}")
    if as_json:
        names = (filter_results.CONVERGENCE, filter_results.CHAMELEON)
        print_json({name.removesuffix(".jsonl"): read_lines(out / name) for name in names})
