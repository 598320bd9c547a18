"""The parts of a report on probabilities: ranking, thresholds and calibration."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator

import numpy as np

from polybasis.report.charts import GREY, Chart, Series
from polybasis.report.metric_words import threshold_reason
from polybasis.report.outcomes import Decisions, FloatArray, IntArray, Reliability, thinned
from polybasis.report.page import Page
from polybasis.report.scored_nodes import ScoredNodes

RECALLS = (0.25, 0.5, 0.75, 0.9, 0.95)
MOST_CURVES = 10
POINTS = 150  # of a curve
CALIBRATIONS = {"isotonic": "isotonic regression", "temperature": "temperature scaling"}


def add_ranking(page: Page, part: ScoredNodes) -> None:
    """Adds ROC and precision-recall curves: of the second of two classes, or of each class or label against the rest.

    There is no section for more than ten classes, or if no class has both positive and negative nodes.
    """
    curves = list(_curves(part))
    if not curves or len(curves) > MOST_CURVES:
        return
    page.heading("Ranking")
    roc = [Series(name="random", x=[0, 1], y=[0, 1], colour=GREY, dashed=True, tooltip=False)]
    pr = []
    for colour, (name, found) in enumerate(curves):
        x, y = _with_origin(found.false_positive_rate), _with_origin(found.recall)
        kept = thinned(x, y, POINTS)
        notes = ["", *(f"from probability {t:.3g} on" for t in found.thresholds)]
        roc.append(
            Series(
                name=f"{name}: AUC {found.roc_auc:.3f}",
                x=x[kept],
                y=y[kept],
                colour=colour,
                notes=[notes[i] for i in kept],
            )
        )
        x, y = _with_origin(found.recall), np.concatenate([found.precision[:1], found.precision])
        kept = thinned(x, y, POINTS)
        average = f"{name}: average precision {found.average_precision:.3f}"
        pr.append(
            Series(name=average, x=x[kept], y=y[kept], kind="step", colour=colour, notes=[notes[i] for i in kept])
        )
    if len(curves) == 1:
        share = curves[0][1].positives / curves[0][1].nodes
        pr.insert(0, Series(name="random", x=[0, 1], y=[share] * 2, colour=GREY, dashed=True, tooltip=False))
    what = f"Class {curves[0][0]}" if len(curves) == 1 else "Each class against the rest"
    page.charts(
        Chart(
            title="ROC curve", xlabel="false positive rate", ylabel="recall", series=roc, x=(0, 1), y=(0, 1),
            nearest=True, caption=f"{what}; {part.where}, ranked by probability before calibration.",
        ),
        Chart(
            title="Precision and recall", xlabel="recall", ylabel="precision", series=pr, x=(0, 1), y=(0, 1),
            nearest=True, caption="Precision is the fraction of flagged nodes that belong to the class; recall is the "
            "fraction of the class that is flagged.",
        ),
    )  # fmt: skip


def _with_origin(values: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], values])


def _curves(part: ScoredNodes) -> Iterator[tuple[str, Decisions]]:
    """The rankings of classes or labels with both outcomes."""
    columns = [1] if part.is_binary else range(len(part.names))
    for i in columns:
        positive = part.actual[:, i]
        if positive.any() and not positive.all():
            yield part.names[i], Decisions(part.uncalibrated[:, i], positive)


def add_thresholds(page: Page, part: ScoredNodes) -> None:
    """Adds the outcomes of thresholds on the probability of the second of two classes, to explore with a slider."""
    positive = part.actual[:, 1]
    if positive.all() or not positive.any():
        return
    name, found = part.names[1], Decisions(part.probabilities[:, 1], positive)
    page.heading("Thresholds")
    threshold = part.trained.threshold
    used = 0.5 if threshold is None else threshold.value
    page.text(
        f"A node is flagged as class {name} if its probability reaches a threshold. The model uses {used:.4g}"
        + f", {'the most probable class' if threshold is None else threshold_reason(threshold)}"
        + f". Move the slider to see the effect of another threshold on the {part.where}."
    )
    page.add(_explorer(name, found, used))
    rows = [
        _decision(
            f"recall\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}{recall:.2f}", found, int(np.argmax(found.recall >= recall))
        )
        for recall in RECALLS
    ]
    if found.at(used) >= 0:
        rows.append(_decision("this model", found, found.at(used), used))
    page.table(["", "threshold", "flagged", "precision", "recall"], rows)


def _decision(name: str, found: Decisions, i: int, threshold: float | None = None) -> list[str]:
    value = found.thresholds[i] if threshold is None else threshold
    share = found.flagged[i] / found.nodes
    return [name, f"{value:.4g}", f"{share:.2%}", f"{found.precision[i]:.3f}", f"{found.recall[i]:.3f}"]


def _steps(found: Decisions, start: int) -> IntArray:
    """The thresholds of the slider: even in the logarithm of the number of flagged nodes."""
    wanted = np.geomspace(found.flagged[0], found.nodes, POINTS)
    return np.union1d(np.searchsorted(found.flagged, wanted.round()).clip(0, len(found.flagged) - 1), [start])


def _explorer(name: str, found: Decisions, used: float) -> str:
    """The slider with its numbers and the curves behind it."""
    start = max(found.at(used), 0)
    steps = _steps(found, start)
    flagged, hits, thresholds = found.flagged[steps], found.hits[steps], found.thresholds[steps]
    thresholds[steps == start] = min(used, found.thresholds[start])
    data = {
        "threshold": [float(f"{t:.5g}") for t in thresholds], "flagged": flagged.tolist(),
        "hits": hits.tolist(), "nodes": found.nodes, "positives": found.positives,
    }  # fmt: skip
    at, share = int(np.searchsorted(steps, start)), 100 * flagged / found.nodes
    n, k = int(flagged[at]), int(hits[at])
    values = [
        ("threshold", "threshold", f"{thresholds[at]:.4g}"),
        ("flagged", "nodes flagged", f"{n:,} ({100 * n / found.nodes:.3g}%)"),
        ("precision", f"precision: flagged nodes of class {name}", f"{100 * k / n:.3g}%"),
        ("recall", f"recall: nodes of class {name} that are flagged", f"{100 * k / found.positives:.3g}%"),
        ("wrong", "flagged wrongly", f"{n - k:,}"),
        ("missed", f"nodes of class {name} missed", f"{found.positives - k:,}"),
    ]
    shown = "".join(
        f'<div><dt>{html.escape(what)}</dt><dd data-value="{key}">{html.escape(value)}</dd></div>'
        for key, what, value in values
    )
    chart = Chart(
        title="Outcomes by number of flagged nodes", xlabel="nodes flagged, %", ylabel="share, %",
        x=(0, 100), y=(0, 100),
        series=[
            Series(name="precision", x=share, y=100 * hits / flagged),
            Series(name="recall", x=share, y=100 * hits / found.positives, colour=1),
            Series(name="chosen threshold", x=[share[at]], kind="rule", colour=GREY),
        ],
    )  # fmt: skip
    return (
        f'<div class="explorer" data-decisions="{html.escape(json.dumps(data, separators=(",", ":")))}">'
        f'<div class="panel"><label>Threshold, from strict to permissive'
        f'<input type="range" min="0" max="{len(steps) - 1}" value="{at}"></label><dl>{shown}</dl></div>'
        f"{chart.html()}</div>"
    )


def add_calibration(page: Page, part: ScoredNodes) -> None:
    """Adds predicted probabilities and observed shares, before and after calibration."""
    versions = {"before calibration": part.uncalibrated, "after calibration": part.probabilities}
    if part.trained.calibration is None:
        versions = {"model": part.uncalibrated}
    counted = "pairs of node and label" if part.trained.target == "multi-label" else "nodes"
    series, histograms = [], []
    for colour, (name, probabilities) in enumerate(versions.items()):
        if part.trained.target == "multi-label":
            confidence, outcomes = probabilities.ravel(), part.actual.ravel()
            what = "a label"
        elif part.is_binary:
            confidence, outcomes, what = probabilities[:, 1], part.actual[:, 1], f"class {part.names[1]}"
        else:
            likely = probabilities.argmax(axis=1)
            confidence, outcomes, what = probabilities.max(axis=1), likely == part.y.numpy(), "the most probable class"
        found = Reliability.of(confidence, outcomes)
        notes = [
            f"{n:,} {counted}, 95% interval {low:.3f} to {high:.3f}"
            for n, low, high in zip(found.counts, found.low, found.high, strict=True)
        ]
        bounds = Series(
            name="", x=found.predicted, y=found.low, upper=found.high, kind="bounds", colour=colour, faint=True
        )
        line = Series(name="", x=found.predicted, y=found.observed, colour=colour, faint=True)
        dots = Series(name=name, x=found.predicted, y=found.observed, kind="dots", colour=colour, notes=notes)
        series += [bounds, line, dots]
        heights, edges = np.histogram(confidence, bins=40, range=(0, 1))
        histograms.append(Series(name=name, x=edges, y=heights, kind="bars", colour=colour))
    method = "The model is not calibrated."
    if part.trained.calibration is not None:
        method = f"Calibrated with {CALIBRATIONS[part.trained.calibration.method]} on the validation nodes."
    top = min(1.0, 1.05 * max(float(np.max(s.x if s.upper is None else s.upper)) for s in series))
    page.heading("Calibration")
    page.charts(
        Chart(
            title="Calibration curve", xlabel="mean predicted probability", ylabel="observed frequency",
            x=(0, top), y=(0, top), nearest=True,
            series=[Series(name="", x=[0, 1], y=[0, 1], colour=GREY, dashed=True), *series],
            caption=f"Bins with equal numbers of {part.where} and 95% intervals. Probabilities on the dashed line "
            f"are correct on average. {method}",
        ),
        Chart(
            title="Distribution of probabilities", xlabel=f"probability of {what}", ylabel=counted, x=(0, 1),
            y=(0, 1.05 * max(float(max(np.max(s.y) for s in histograms)), 1)), series=histograms,
        ),
    )  # fmt: skip
