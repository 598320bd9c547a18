"""`polybasis demo`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polybasis.cli.options import AsJson

if TYPE_CHECKING:
    from polybasis.report.page import Page

MODELS = ("optbasisgnn", "favardgnn", "gpr-gnn", "mlp")


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("demo"),
    splits: Annotated[int, typer.Option(help="Splits of the graph.", min=1)] = 3,
    as_json: AsJson = False,
) -> None:
    """Learn filters on a photograph and classify the nodes of a synthetic graph; writes one HTML page."""
    from polybasis.cli.display import print_json
    from polybasis.report.page import Page

    page = Page("Polynomial graph filters: a demonstration")
    page.text("Made by the command polybasis demo, without downloads.")
    _filters(page, out)
    _classification(page, out, splits)
    page.write(out / "report.html")
    if as_json:
        print_json({"report": str(out / "report.html"), "results": str(out / "results.jsonl")})
    else:
        typer.echo(f"report in {out / 'report.html'}, results in {out / 'results.jsonl'}")


def _filters(page: Page, out: Path) -> None:
    from polybasis.cli.display import console
    from polybasis.data.images import sample_photograph
    from polybasis.experiments import figures
    from polybasis.experiments.filter_learning import BASES, Learner, build_problem, learn
    from polybasis.report.figures import save

    console.print("Learning filters on a photograph, one for each colour channel")
    image = sample_photograph()
    problem = build_problem([image])
    page.heading("Learning filters on a photograph")
    page.text(
        "Each pixel is a node, connected to its neighbours. Brightness and the two colour channels pass through "
        "different filters, which are learned from the signals before and after. All bases describe the same "
        "polynomials of degree 10; they differ in how fast an optimiser converges. In the optimal basis the solution "
        "has a closed form. The table shows the error after at most 500 epochs."
    )
    finals = {basis: learn(Learner(basis, problem)).final().tolist() for basis in BASES}
    rows = [[basis, f"{statistics.mean(values):.4f}"] for basis, values in finals.items()]
    rows.append(["closed form", f"{float(problem.closed_form().mean()):.5f}"])
    page.table(["basis", "mean squared error"], rows)
    picture = save(figures.convergence(problem[[3]]), out / "convergence")[0]
    page.figure(
        picture,
        "Error by epoch on one sample. The optimal basis reaches the smallest possible error (dotted); monomials "
        "are still far from it after 500 epochs.",
    )
    picture = save(figures.filtered_images(image), out / "filtered-images")[0]
    page.figure(
        picture,
        "Left: the photograph after three filters, one for brightness and one for each colour. Middle: the output of "
        "the filters learned in closed form. Right: the difference, amplified until it is visible; channels have 255 "
        "levels.",
    )


def _classification(page: Page, out: Path, splits: int) -> None:
    from polybasis.cli.display import console, training_bar
    from polybasis.report.model_figures import draw_model
    from polybasis.train.config import Config
    from polybasis.train.job import Job, Source, run_jobs
    from polybasis.train.results import summarize
    from polybasis.train.trained_model import TrainedModel

    console.print("Classifying the nodes of a graph whose edges mostly join different classes")
    source, found = Source.named("csbm"), []
    for model in MODELS:
        config = Config.of(model, epochs=300, patience=100)
        jobs = [Job(config, source, "per-class", i, i) for i in range(splits)]
        with training_bar(model) as on_epoch:
            found += run_jobs(jobs, out / "results.jsonl", on_epoch=on_epoch)
        row = summarize(found)[-1]
        console.print(f"{model}: test accuracy {row['mean']:.1f} ± {row['ci95']:.1f}")
    page.heading("Classifying nodes on a heterophilous graph")
    page.text(
        "A synthetic graph of a thousand nodes in two classes (contextual stochastic block model) whose edges mostly"
        f" join different classes. Test accuracy over {splits} random splits, with its 95 % interval."
    )
    page.table(
        ["model", "test accuracy, %", "95 % interval"],
        [[row["model"], f"{row['mean']:.2f}", f"± {row['ci95']:.2f}"] for row in summarize(found)],
    )
    config = Config.of(MODELS[0], epochs=300, patience=100)
    run_jobs([Job(config, source, "per-class", 0, 0)], out / "results.jsonl", out=out / "model")
    pictures = draw_model(TrainedModel.load(out / "model"), source.open(), out)
    by_name = {path.stem: path for path in pictures if path.suffix == ".png"}
    page.figure(
        by_name["responses"],
        "The frequency response of each channel's filter, and their distribution. In grey: the density of the graph's"
        " eigenvalues. Signals that change from node to node are on the left.",
    )
    page.figure(
        by_name["weight-function"],
        "The cumulative weight function with respect to which each channel's basis is orthogonal: where on the "
        "spectrum the channel's signal has its energy. The smooth line is that of Chebyshev polynomials.",
    )
