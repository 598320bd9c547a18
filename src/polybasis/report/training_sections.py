"""The parts of a report on training: curves, configuration, provenance and use."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from polybasis.data.metrics import metric_name
from polybasis.report.axes import FloatArray, Scale
from polybasis.report.charts import GREY, Chart, Series
from polybasis.report.metric_words import threshold_reason
from polybasis.report.page import Page
from polybasis.train.trained_model import TrainedModel


def add_training(page: Page, trained: TrainedModel) -> None:
    """Adds loss and validation score by epoch, with the kept epoch; of every model of an ensemble."""
    made = trained.provenance
    page.heading("Training")
    if not made.get("history"):
        page.text("The model was saved without a training history.")
        return
    history = np.asarray(made["history"], dtype=np.float64)
    length, ensemble = trained.config.stopping.epochs, trained.config.ensemble_size > 1
    number, history[:, 0] = (history[:, 0] // length).astype(int), history[:, 0] % length + 1
    losses, scores = ({int(i): history[number == i][:, [0, column]] for i in np.unique(number)} for column in (1, 2))
    kept = {epoch // length: epoch % length + 1 for epoch in made.get("kept_epochs", ())}
    if number[0] > 0 or history[0, 0] > 1:
        model = f" of model {number[0] + 1}" if ensemble else ""
        page.text(f"The record starts at epoch {history[0, 0]:.0f}{model}; earlier epochs are not recorded.", "note")
    epochs = f"Trained for {trained.epochs:,} epochs" + (
        f" by {trained.config.ensemble_size} models" if ensemble else ""
    )
    page.text(f"{epochs}; validation {metric_name(trained.metric)} of the saved model: {trained.val_score:.4g}.")
    page.charts(
        _curves("Training loss", "loss", losses, kept, ensemble, "log" if (history[:, 1] > 0).all() else "linear"),
        _curves("Validation score", metric_name(trained.metric), scores, kept, ensemble, "linear"),
    )


def _curves(
    title: str, what: str, curves: dict[int, FloatArray], kept: dict[int, int], ensemble: bool, yscale: Scale
) -> Chart:
    """A quantity of every model by its epoch, (n, 2) each, and the epochs that were kept."""
    series = []
    for i, curve in curves.items():
        name = f"model {i + 1}" if ensemble else what
        series.append(Series(name=name, x=curve[:, 0], y=curve[:, 1], colour=i))
    for i, epoch in kept.items():
        if i not in curves or not curves[i][0, 0] <= epoch <= curves[i][-1, 0]:
            continue  # it precedes the record
        name = f"kept epoch {epoch}" + (f" of model {i + 1}" if ensemble else "")
        series.append(Series(name=name, x=[epoch], kind="rule", colour=i if ensemble else GREY))
    return Chart(title=title, xlabel="epoch", ylabel=what, series=series, yscale=yscale)


def add_configuration(page: Page, trained: TrainedModel) -> None:
    """Adds the model, its configuration and where it comes from."""
    made = trained.provenance
    page.heading("Configuration")
    facts = [("model", repr(trained.model))]
    if trained.calibration is not None:
        method = trained.calibration.method
        facts.append(
            (
                "calibration",
                method + (f", T = {trained.calibration.temperature:.4g}" if method == "temperature" else ""),
            )
        )
    if trained.threshold is not None:
        facts.append(("threshold", f"{trained.threshold.value:.4g}, {threshold_reason(trained.threshold)}"))
    for section, values in trained.config.to_dict().items():
        for name, value in (values if isinstance(values, dict) else {section: values}).items():
            if value is not None and value != {}:
                facts.append((f"{section}.{name}" if isinstance(values, dict) else name, _text(value)))
    page.facts(facts)
    page.subheading("Provenance")
    names = ("dataset", "data", "protocol", "split", "seed", "key", "model_file", "versions", "code")
    known = [(name, _text(made[name])) for name in names if made.get(name) is not None]
    page.facts(known)
    missing = [name for name in ("dataset", "protocol", "split") if made.get(name) is None]
    if missing:
        page.text(f"Not recorded in the model: {', '.join(missing)}.", "note")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    return value if isinstance(value, str) else json.dumps(value)


def add_use(page: Page, trained: TrainedModel, command: str) -> None:
    """Adds how to predict with the model.

    Args:
        page: the page.
        trained: the model.
        command: the command or code.
    """
    page.heading("Predict")
    what = {"classification": "class", "multi-label": "labels", "regression": "number"}[trained.target]
    extra = "" if trained.target == "regression" else ", with probabilities"
    page.text(f"The {what} of every node{extra}:")
    page.code(command)
    if trained.nodes is not None:
        page.text("The model is transductive: it only predicts the nodes of the graph it was trained on.", "note")
