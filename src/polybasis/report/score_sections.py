"""The parts of a report on scores: tables with intervals, baselines, classes and the confusion matrix."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from polybasis.data.metrics import Metric, metric_name, sign, value_text
from polybasis.report.charts import GREY, Chart, Series
from polybasis.report.metric_words import estimate_texts, metric_heading, metric_meaning
from polybasis.report.outcomes import ClassScores, IntArray, confusion, largest_pooled
from polybasis.report.page import Cell, Page
from polybasis.report.scored_nodes import ScoredNodes
from polybasis.train.assessment import Assessment

CONSTANT = "constant prediction"
BASELINES = {"majority": CONSTANT, "constant": CONSTANT, "columns only": "linear model without the graph"}
MOST_CLASSES = 40  # in a confusion matrix
DENSE = 12  # classes from which the cells of a matrix have no numbers
MOST_ROWS = 100  # in a table of classes
MOST_POINTS = 1000  # of a scatter plot


def add_scores(page: Page, parts: Sequence[ScoredNodes], found: Assessment | None) -> None:
    """Adds scores with intervals of some sets of nodes, and those of the baselines on test nodes.

    Args:
        page: the page.
        parts: the sets of nodes, such as validation and test nodes.
        found: the assessment on test nodes, if there is one.
    """
    page.heading("Scores")
    metrics = _metrics(parts[-1])
    rows = [[_title(metric), *(_score(part, metric, found) for part in parts)] for metric in metrics]
    page.table(["", *((part.where, f"{len(part):,}") for part in parts)], rows)
    first = metrics[0]
    meaning = metric_meaning(first, parts[-1].names if parts[-1].trained.target == "classification" else ())
    page.text(f"Figures in small type are 95% bootstrap intervals. {metric_heading(first)} is {meaning}.", "note")
    decisions = {"calibration": parts[-1].trained.calibration, "threshold": parts[-1].trained.threshold}
    later = [name for name, decision in decisions.items() if decision is not None]
    if later:
        page.text(f"These scores do not use the {' and the '.join(later)}; the sections below do.", "note")
    if found is not None:
        _add_baselines(page, found)


def _title(metric: Metric) -> str:
    return metric_heading(metric) + (" (lower is better)" if sign(metric) < 0 else "")


def _score(part: ScoredNodes, metric: Metric, found: Assessment | None) -> Cell:
    if part.where == "training nodes":
        return value_text(metric, part.score(metric))
    assessed = found is not None and part.where == "test nodes" and metric == found.metric
    return estimate_texts(metric, found.score if found is not None and assessed else part.estimate(metric))


def _metrics(part: ScoredNodes) -> list[Metric]:
    """The metric of the model, followed by others that suit the target."""
    others: tuple[Metric, ...]
    if part.trained.target == "regression":
        others = ("rmse", "mae", "r2")
    elif part.trained.target == "multi-label":
        others = ("roc_auc", "average_precision", "f1", "log_loss")
    elif part.is_binary:
        others = ("roc_auc", "average_precision", "accuracy", "balanced_accuracy", "f1", "log_loss")
    else:
        others = ("accuracy", "balanced_accuracy", "f1", "log_loss")
    return list(dict.fromkeys((part.trained.metric, *others)))


def _add_baselines(page: Page, found: Assessment) -> None:
    page.subheading("Comparison with models that ignore the graph")
    rows: list[list[Cell]] = [["this model", estimate_texts(found.metric, found.score), ""]]
    rows += [
        [
            BASELINES.get(item.name, item.name),
            estimate_texts(found.metric, item.score),
            estimate_texts(found.metric, item.advantage, "+"),
        ]
        for item in found.baselines
    ]
    page.table(["", f"test {metric_name(found.metric)}", "advantage of this model"], rows)
    page.text(
        "The intervals of advantages come from a paired bootstrap, which scores all models on the same resamples. "
        "If the interval lies above 0, the model is significantly better.",
        "note",
    )


def add_classes(page: Page, part: ScoredNodes) -> None:
    """Adds precision, recall and F1 of each class or label, and the confusion matrix of classes."""
    labels = part.trained.target == "multi-label"
    page.heading("Labels" if labels else "Classes")
    scores = ClassScores.of(part.actual, part.predicted)
    shown = np.sort(np.argsort(-scores.support, kind="stable")[:MOST_ROWS])
    rows = [
        [
            part.names[i],
            *(_share(values[i]) for values in (scores.precision, scores.recall, scores.f1)),
            f"{scores.support[i]:,}",
        ]
        for i in shown
    ]
    bars = scores.support[shown] / max(scores.support.max(), 1)
    page.table(["label" if labels else "class", "precision", "recall", "F1", part.where], rows, bars.tolist())
    threshold = part.trained.threshold
    if threshold is not None:
        page.text(f"Class {part.names[1]} is predicted from a probability of {threshold.value:.4g}.", "note")
    if len(shown) < len(part.names):
        page.text(f"The {len(shown)} most frequent of {len(part.names)}.", "note")
    if not labels:
        _add_confusion(page, part)


def _share(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def _add_confusion(page: Page, part: ScoredNodes) -> None:
    page.subheading("Confusion matrix")
    names, counts = list(part.names), confusion(part.y.numpy(), part.predicted_class, len(part.names))
    pooled = ""
    if len(names) > MOST_CLASSES:
        kept, counts = largest_pooled(counts, MOST_CLASSES)
        pooled = f" The {MOST_CLASSES} largest classes are shown; the other {len(names) - MOST_CLASSES} are pooled."
        names = [*(names[i] for i in kept), f"{len(names) - MOST_CLASSES} other classes"]
    page.text(
        f"Each row contains the {part.where} of one class, and each column those predicted as one class. Colours show "
        f"fractions of the row, so the diagonal shows recall.{pooled}"
    )
    page.add(_matrix(names, counts))


def _matrix(names: Sequence[str], counts: IntArray) -> str:
    """A confusion matrix as an HTML table, coloured by the shares of its rows."""
    dense = len(names) > DENSE
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    titles = [html.escape(name) for name in names]
    head = "".join(f"<th><span>{title}</span></th>" for title in titles)
    rows = []
    for i, title in enumerate(titles):
        cells = []
        for j, count in enumerate(counts[i].tolist()):
            kinds = (["hot"] if shares[i, j] > 0.78 else []) + (["right"] if i == j else [])
            kind = f' class="{" ".join(kinds)}"' if kinds else ""
            style = f' style="--a:{0.9 * shares[i, j]:.2f}"' if count else ""
            cells.append(f'<td{kind}{style} data-n="{count}">{count:,}</td>')
        rows.append(f"<tr><th>{title}</th>{''.join(cells)}</tr>")
    return (
        f'<div class="matrix-frame"><div class="scroll"><table class="matrix{" dense" if dense else ""}">'
        f"<thead><tr><th>class ↓<br>predicted →</th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def add_numbers(page: Page, part: ScoredNodes) -> None:
    """Adds predicted against actual numbers, and the distribution of the errors."""
    page.heading("Predictions")
    predicted, actual = part.outputs[:, 0].double().numpy(), part.y.double().numpy()
    shown = np.random.default_rng(0).permutation(len(actual))[:MOST_POINTS]
    some = f"{len(shown):,} of {len(actual):,}" if len(shown) < len(actual) else f"all {len(actual):,}"
    ends = [float(min(actual.min(), predicted.min())), float(max(actual.max(), predicted.max()))]
    heights, edges = np.histogram(predicted - actual, bins=40)
    page.charts(
        Chart(
            title="Predicted and actual values", xlabel="actual", ylabel="predicted", nearest=True,
            caption=f"{some} {part.where}. Correct predictions lie on the dashed line.",
            series=[
                Series(name="", x=ends, y=ends, colour=GREY, dashed=True),
                Series(name="node", x=actual[shown], y=predicted[shown], kind="dots", faint=True),
            ],
        ),
        Chart(
            title="Errors", xlabel="predicted minus actual", ylabel="nodes", y=(0, 1.05 * max(float(heights.max()), 1)),
            series=[Series(name="nodes", x=edges, y=heights, kind="bars")],
        ),
    )  # fmt: skip
