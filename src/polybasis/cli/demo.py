"""`polybasis demo`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polybasis.cli.options import AsJson
from polybasis.cli.printable import echo

if TYPE_CHECKING:
    from polybasis.report.page import Page

SAMPLE = 3  # combination of filters that is drawn
MODELS = ("optbasisgnn", "favardgnn", "gpr-gnn", "mlp")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo"),
    splits: Annotated[int, typer.Option(help="Number of splits of the graph.", min=1)] = 3,
    as_json: AsJson = False,
) -> None:
    """Train models on a synthetic graph, learn filters on a photograph, and write a report as one HTML page."""
    import polybasis.report.figures  # noqa: F401 (without Matplotlib, fail before training)
    from polybasis.cli.display import print_json

    page = _classification(out, splits)
    _filters(page, out)
    path = out / "report.html"
    page.write(path)
    if as_json:
        print_json({"report": str(path), "results": str(out / "results.jsonl"), "model": str(out / "model")})
    else:
        echo(f"report in {path}, results in {out / 'results.jsonl'}, model in {out / 'model'}")


def _classification(out: Path, splits: int) -> Page:
    """Compares models on a graph; returns the report on one of them."""
    from polybasis.cli.display import console, training_bar
    from polybasis.report.model_report import model_page
    from polybasis.train.config import Config
    from polybasis.train.job import Job, run_jobs
    from polybasis.train.results import summarize
    from polybasis.train.source import Source
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
    config = Config.of(MODELS[0], epochs=300, patience=100)
    run_jobs([Job(config, source, "per-class", 0, 0)], out / "results.jsonl", out=out / "model")
    trained, data = TrainedModel.load(out / "model"), source.open()
    command = shlex.join(["polybasis", "predict", str(out / "model"), source.name, "--out", "predictions.csv"])
    page = model_page(trained, data, trained.split_of(data), command)
    page.heading("Comparison")
    page.text(
        "polybasis demo wrote this page without downloading any data. The graph is synthetic (contextual stochastic "
        "block model): a thousand nodes in two classes, with edges that mostly join different classes. The table shows "
        f"the test accuracy of four models over {splits} random splits with its 95% interval."
    )
    page.table(
        ["model", "test accuracy, %"],
        [[row["model"], (f"{row['mean']:.2f}", f"± {row['ci95']:.2f}")] for row in summarize(found)],
    )
    return page


def _filters(page: Page, out: Path) -> None:
    """Adds filters learned on a photograph."""
    from polybasis.cli.display import console
    from polybasis.data.images import sample_photograph
    from polybasis.experiments.figures import filtered_images
    from polybasis.experiments.filter_learning import BASES, Learner, build_problem, learn
    from polybasis.report.charts import GREY, Chart, Series
    from polybasis.report.figures import save

    console.print("Learning filters on a photograph, one for each colour channel")
    image = sample_photograph()
    problem = build_problem([image])
    page.heading("Photograph")
    page.text(
        "Each pixel is a node that is connected to its neighbours. Brightness and the two colour channels pass through "
        "different filters, which are learned from the signals before and after filtering. All bases span the same "
        "polynomials of degree 10, but they differ in how fast an optimiser converges. In the optimal basis, the "
        "solution has a closed form. The table shows the error after at most 500 epochs."
    )
    learned = {basis: learn(Learner(basis, problem)) for basis in BASES}
    rows = [[basis, f"{float(found.final().mean()):.4f}"] for basis, found in learned.items()]
    closed_form = problem.closed_form()
    rows.append(["closed form", f"{float(closed_form.mean()):.5f}"])
    page.table(["basis", "mean squared error"], rows)
    lines = []
    for colour, (basis, found) in enumerate(learned.items()):
        curve = found.curves[:, SAMPLE].numpy()
        lines.append(Series(name=basis, x=range(1, len(curve) + 1), y=curve, colour=colour))
    floor = [float(closed_form[SAMPLE])] * 2
    lines.append(Series(name="closed form", x=[1, len(curve)], y=floor, colour=GREY, dashed=True))
    filters = " / ".join(problem.samples[SAMPLE][1])
    page.charts(
        Chart(
            title="Error by epoch on one sample", xlabel="epoch", ylabel="mean squared error", xscale="log",
            yscale="log", series=lines, caption=f"The sample passed through the filters {filters}.",
        )
    )  # fmt: skip
    picture = save(filtered_images(image), out / "filtered-images")[0]
    page.figure(
        picture,
        "Left: the photograph after three filters, one for brightness and one for each colour. Middle: the output of "
        "the filters learned in closed form. Right: the difference, amplified to make it visible; channels have 255 "
        "levels.",
    )
