"""A page about a saved model: what was read, its scores beside baselines, calibration, thresholds and training."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from polybasis.data.dataset import NodeDataset
from polybasis.report import figures, score_figures
from polybasis.report.page import Page
from polybasis.report.score_figures import Decisions, reliability
from polybasis.train.assessment import Assessment, assess
from polybasis.train.evaluation import class_order, evaluate
from polybasis.train.job import Data, Source
from polybasis.train.trained_model import TrainedModel

RECALLS = (0.25, 0.5, 0.75, 0.9, 0.95)
MOST_CLASSES = 20  # in a confusion matrix


def write_report(trained: TrainedModel, source: Source, out: Path) -> None:
    """Writes an HTML page about a model.

    Args:
        trained: the model.
        source: data with labels. On the data that the model was trained on, its test nodes are scored; on other data,
            all labelled nodes.
        out: the file.

    Raises:
        ValueError: if the model cannot be applied to the data, or no node has a known target.
    """
    rows, data = evaluate(trained, source), source.open()
    page = Page(f"{trained.config.model.name} on {data.name}")
    _describe(page, trained, data)
    page.heading("Scores")
    names = [name for name in rows[0] if name not in ("nodes", "count")]
    page.table(
        ["nodes", "count", *names],
        [[row["nodes"], f"{row['count']:,}", *(f"{row[name]:.4f}" for name in names)] for row in rows],
    )
    nodes, where = data.labelled, "all labelled nodes"
    made = trained.provenance
    if made.get("data") == data.dataset_identity:
        split = data.split(made["protocol"], made["split"])
        if len(split.test):
            nodes, where = split.test, "test nodes"
            if isinstance(data, NodeDataset):
                _compare(page, assess(trained, data, split))
        else:
            nodes, where = split.val, "validation nodes"
    with tempfile.TemporaryDirectory() as folder:
        drawing = _Drawing(page, Path(folder))
        _draw_scores(page, drawing, trained, data, nodes, where)
        if "history" in made:
            page.heading("Training")
            drawn = score_figures.draw_history(made["history"], trained.metric)
            drawing.add(drawn, f"Training loss and validation {trained.metric} by epoch.")
    page.write(out)


class _Drawing:
    """Adds figures to a page."""

    def __init__(self, page: Page, folder: Path) -> None:
        self._page, self._folder, self._count = page, folder, 0

    def add(self, drawn: Figure, caption: str) -> None:
        self._count += 1
        _, svg = figures.save(drawn, self._folder / f"figure-{self._count}")
        self._page.figure(svg, caption)


def _describe(page: Page, trained: TrainedModel, data: Data) -> None:
    made = trained.provenance
    if isinstance(data, NodeDataset) and data.notes:
        page.heading("What was read")
        for note in data.notes:
            page.text(note)
    page.heading("Model")
    facts = [
        ("trained on", str(made.get("dataset", "unknown"))),
        ("split", f"{made.get('protocol', 'unknown')}, number {made.get('split', 'unknown')}"),
        (f"validation {trained.metric}", f"{trained.val_score:.4f}"),
        ("epochs", str(trained.epochs)),
        ("features", str(trained.num_features)),
        ("calibration", "none" if trained.calibration is None else trained.calibration.method),
    ]
    if trained.threshold is not None:
        facts.append((f"threshold for {trained.threshold.criterion}", f"{trained.threshold.value:.4g}"))
    page.table(["", ""], facts)


def _compare(page: Page, found: Assessment) -> None:
    page.text(f"Test {found.metric} of {found.nodes:,} nodes beside baselines, with 95 % bootstrap intervals:")
    rows = [["model", str(found.score), ""]]
    rows += [[item.name, str(item.score), str(item.advantage)] for item in found.baselines]
    page.table(["", found.metric, "advantage of the model"], rows)
    for warning in found.warnings:
        page.text(f"Warning: {warning}")


def _draw_scores(page: Page, drawing: _Drawing, trained: TrainedModel, data: Data, nodes: Tensor, where: str) -> None:
    outputs = trained.logits(data, nodes)
    if trained.target == "regression":
        page.heading("Predictions")
        drawn = score_figures.draw_values(outputs[:, 0].numpy(), data.y[nodes].double().numpy())
        drawing.add(drawn, f"Predicted and actual numbers of {where}.")
        return
    order = class_order(trained, data)
    before = trained.probabilities(outputs, calibrated=False).double().numpy()
    after = trained.probabilities(outputs).double().numpy()
    if trained.target == "multi-label":
        outcomes = np.zeros(after.shape, dtype=np.bool_)
        outcomes[:, order.numpy()] = data.y[nodes].numpy() > 0
        confidence = {"model": before.ravel(), "calibrated": after.ravel()}
        _draw_calibration(page, drawing, trained, confidence, outcomes.ravel(), f"the labels of {where}")
        return
    y = order[data.y[nodes]].numpy()
    if len(trained.classes) == 2:
        positive = y == 1
        if positive.any() and not positive.all():
            _draw_decisions(page, drawing, trained, before[:, 1], after[:, 1], positive, where)
        confidence = {"model": before[:, 1], "calibrated": after[:, 1]}
        _draw_calibration(page, drawing, trained, confidence, positive, f"{trained.classes[1]} among {where}")
    else:
        _show_confusion(page, trained, after.astype(np.float32), y, where)
        chosen = {"model": before, "calibrated": after}
        confidence = {name: values.max(axis=1) for name, values in chosen.items()}
        _draw_calibration(
            page, drawing, trained, confidence, after.argmax(axis=1) == y, f"the most probable class of {where}"
        )


def _draw_decisions(
    page: Page,
    drawing: _Drawing,
    trained: TrainedModel,
    scores: NDArray[np.float64],
    probabilities: NDArray[np.float64],
    positive: NDArray[np.bool_],
    where: str,
) -> None:
    name, found = trained.classes[1], Decisions(probabilities, positive)
    page.heading("Ranking and thresholds")
    caption = f"Ranking of {where} by the score of {name}; dashed: a random ranking."
    drawing.add(score_figures.draw_decisions(Decisions(scores, positive), float(positive.mean())), caption)
    page.text(f"A node is predicted to be {name} from this probability on. Share of such nodes, precision and recall:")
    rows = []
    for recall in RECALLS:
        i = int(np.argmax(found.recall >= recall))
        rows.append(_decision(f"recall {recall:.2f}", found, i))
    if trained.threshold is not None:
        i = int((found.thresholds >= trained.threshold.value).sum()) - 1
        if i >= 0:
            rows.append(_decision("of the model", found, i, trained.threshold.value))
    page.table(["", "threshold", "nodes", "precision", "recall"], rows)


def _decision(name: str, found: Decisions, i: int, threshold: float | None = None) -> list[str]:
    value = found.thresholds[i] if threshold is None else threshold
    return [name, f"{value:.4g}", f"{found.flagged[i]:.2%}", f"{found.precision[i]:.3f}", f"{found.recall[i]:.3f}"]


def _draw_calibration(
    page: Page,
    drawing: _Drawing,
    trained: TrainedModel,
    probabilities: dict[str, NDArray[np.float64]],
    outcomes: NDArray[np.bool_],
    what: str,
) -> None:
    shown = probabilities if trained.calibration is not None else {"model": probabilities["model"]}
    page.heading("Calibration")
    drawn = score_figures.draw_calibration({name: reliability(values, outcomes) for name, values in shown.items()})
    drawing.add(drawn, f"Predicted probabilities of {what} and observed shares, in bins with equal numbers of nodes.")


def _show_confusion(
    page: Page, trained: TrainedModel, probabilities: NDArray[np.float32], y: NDArray[np.int64], where: str
) -> None:
    classes = len(trained.classes)
    counts = np.bincount(classes * y + probabilities.argmax(axis=1), minlength=classes**2).reshape(classes, classes)
    page.heading("Confusion matrix")
    page.text(f"Numbers of {where} by class (rows) and predicted class (columns).")
    shown = np.argsort(-counts.sum(axis=1), kind="stable")[:MOST_CLASSES]
    if len(shown) < classes:
        page.text(f"The {MOST_CLASSES} largest of {classes} classes.")
    shown = np.sort(shown)
    names = [str(trained.classes[i]) for i in shown]
    page.table(["", *names], [[name, *map(str, counts[i, shown])] for name, i in zip(names, shown, strict=True)])
