"""`polybasis reproduce`: the paper's figures and additional ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polybasis.cli.options import AsJson, DataRoot
from polybasis.cli.printable import echo
from polybasis.cli.reproduce.filter_learning import published_problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from polybasis.experiments.filter_learning import Problem

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
    problem = published_problem(data_root) if {*wanted} - WITHOUT_SAMPLES else None

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
