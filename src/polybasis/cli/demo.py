"""`polybasis demo`."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from polybasis.cli.display import console, results_table, training_bar
from polybasis.data import load, make_split
from polybasis.data.images import sample_photograph
from polybasis.experiments import figures
from polybasis.experiments.filter_learning import BASES, Learner, learn, reduced
from polybasis.report.figures import save
from polybasis.report.model_figures import draw_model
from polybasis.report.page import Page
from polybasis.train.config import default_config
from polybasis.train.graph_training import fit
from polybasis.train.runs import Run, run_splits, summarised

MODELS = ("optbasisgnn", "favardgnn", "gpr-gnn", "mlp")


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("demo"),
    splits: Annotated[int, typer.Option(help="Splits of the graph.", min=1)] = 3,
) -> None:
    """Learn filters on a photograph and classify the nodes of a made-up graph; one page has all of it."""
    page = Page("Polynomial graph filters: a demonstration")
    page.text("Made by the command polybasis demo, with nothing downloaded.")
    _filters(page, out)
    _classification(page, out, splits)
    page.write(out / "report.html")
    console.print(f"report in {out / 'report.html'}, results in {out / 'results.jsonl'}")


def _filters(page: Page, out: Path) -> None:
    console.print("Learning filters on a photograph: each colour channel has its own")
    image = sample_photograph()
    problem = reduced([image])
    page.heading("Learning filters on a photograph")
    page.text(
        "Each pixel is a node, joined to its neighbours. Brightness and the two colours pass different filters, "
        "which are to be found again from the signals before and after. All bases describe the same polynomials "
        "of degree 10; they differ in how easily an optimiser finds its way in them. In the optimal basis the "
        "answer is known at once: the closed form. The table has the error after at most 500 epochs."
    )
    finals = {basis: learn(Learner(basis, problem)).final().tolist() for basis in BASES}
    rows = [[basis, f"{statistics.mean(values):.4f}"] for basis, values in finals.items()]
    rows.append(["closed form", f"{float(problem.closed_form().mean()):.5f}"])
    page.table(["basis", "mean squared error"], rows)
    picture = save(figures.convergence(problem[[3]]), out / "convergence")[0]
    page.figure(
        picture,
        "Error by epoch on one sample. The optimal basis falls to the least error there is (dotted); monomials "
        "are still far from it after 500 epochs.",
    )
    picture = save(figures.filtered_images(image), out / "filtered-images")[0]
    page.figure(
        picture,
        "Left: the photograph after three filters, one for brightness and one for each colour. Middle: after the "
        "filters learned in closed form. Right: the difference, brightened until it can be seen; channels range "
        "over 255 steps.",
    )


def _classification(page: Page, out: Path, splits: int) -> None:
    console.print("A graph of two classes in which most edges join different ones, and features that tell a little:")
    found = []
    for model in MODELS:
        config = replace(default_config(model), epochs=300, patience=100)
        runs = [Run(config, "csbm", "per-class", i, i) for i in range(splits)]
        with training_bar(model) as report:
            found += run_splits(runs, out / "results.jsonl", report=report)
        row = summarised(found)[-1]
        console.print(f"{model}: test accuracy {row['mean']:.1f} ± {row['ci95']:.1f}")
    console.print(results_table(found))
    page.heading("Classifying nodes whose neighbours tend to differ")
    page.text(
        "A made-up graph of a thousand nodes in two classes (the contextual stochastic block model) in which most"
        f" edges join different classes. Test accuracy over {splits} random splits, with its 95 % interval."
    )
    page.table(
        ["model", "test accuracy, %", "95 % interval"],
        [[row["model"], f"{row['mean']:.2f}", f"± {row['ci95']:.2f}"] for row in summarised(found)],
    )
    dataset = load("csbm")
    config = replace(default_config("optbasisgnn"), epochs=300, patience=100)
    trained = fit(config, dataset, make_split(dataset, "per-class", 0), 0)
    pictures = {
        path.stem: path for path in draw_model(trained.model, dataset.x, dataset.graph, out) if path.suffix == ".png"
    }
    page.figure(
        pictures["responses"],
        "What the trained model does to the spectrum: the response of each channel's filter, and how they spread."
        " Behind them, in grey, where the graph's eigenvalues are. Classes that differ from their neighbours live"
        " on the left.",
    )
    page.figure(
        pictures["weight-function"],
        "The weight function each channel's basis is orthogonal to, cumulated from left to right: where on the "
        "spectrum the channel's signal has its energy. Chebyshev polynomials would weigh as the smooth line does.",
    )
