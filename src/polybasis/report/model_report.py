"""A page about a saved model: how good it is, beside baselines, what it has learned and how it was trained."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, searchsorted

from polybasis.data.dataset import NodeDataset, Split
from polybasis.data.metrics import metric_name, value_text
from polybasis.report.curve_sections import add_calibration, add_ranking, add_thresholds
from polybasis.report.data_sections import add_data
from polybasis.report.filter_sections import add_filters
from polybasis.report.metric_words import metric_heading, metric_meaning
from polybasis.report.page import Page
from polybasis.report.score_sections import BASELINES, add_classes, add_numbers, add_scores
from polybasis.report.scored_nodes import ScoredNodes
from polybasis.report.training_sections import add_configuration, add_training, add_use
from polybasis.train.assessment import Assessment, assess
from polybasis.train.evaluation import check_labelled
from polybasis.train.source import Data
from polybasis.train.trained_model import TrainedModel


def write_report(trained: TrainedModel, data: Data, out: Path, command: str = "") -> None:
    """Writes an HTML page about a model.

    Args:
        trained: the model.
        data: data with labels; see :func:`model_page`.
        out: the file.
        command: a command or code that predicts with the model.

    Raises:
        ValueError: if the model cannot be applied to the data, or no node has a known target.
    """
    model_page(trained, data, trained.split_of(data), command).write(out)


def model_page(trained: TrainedModel, data: Data, split: Split | None, command: str = "") -> Page:
    """A page about a model.

    Args:
        trained: the model.
        data: data with labels.
        split: the nodes it was trained on, validated on and tested on; None if the data is other data, of which all
            labelled nodes are scored.
        command: a command or code that predicts with the model.

    Raises:
        ValueError: if the model cannot be applied to the data, or no node has a known target.
    """
    check_labelled(trained, data)
    prepared = trained.prepared(data)
    parts = _scored(trained, prepared, split)
    best, found = parts[-1], None
    if split is not None and len(split.test) and isinstance(prepared, NodeDataset):
        known = trained.provenance.get("assessment")
        found = assess(trained, prepared, split) if known is None else Assessment.from_dict(known)
    page = Page(f"{trained.config.model.name} on {data.name}")
    _add_headline(page, trained, parts, found)
    add_scores(page, parts, found)
    if trained.target == "regression":
        add_numbers(page, best)
    else:
        add_classes(page, best)
        add_ranking(page, best)
        if best.is_binary:
            add_thresholds(page, best)
        add_calibration(page, best)
    add_filters(page, trained, data)
    add_training(page, trained)
    add_data(page, trained, data, split)
    add_configuration(page, trained)
    if command:
        add_use(page, trained, command)
    return page


def _scored(trained: TrainedModel, data: Data, split: Split | None) -> list[ScoredNodes]:
    """The sets of nodes that are scored; the last is the one that the page is about."""
    sets: dict[str, Tensor] = {"labelled nodes": data.labelled}
    if split is not None:
        every = {"training nodes": split.train, "validation nodes": split.val, "test nodes": split.test}
        sets = {where: nodes for where, nodes in every.items() if len(nodes)}
    outputs = trained.logits(data, data.labelled)
    return [
        ScoredNodes.of(trained, data, nodes, where, outputs[searchsorted(data.labelled, nodes)])
        for where, nodes in sets.items()
    ]


def _add_headline(page: Page, trained: TrainedModel, parts: list[ScoredNodes], found: Assessment | None) -> None:
    """What was trained, one sentence of how good it is, and warnings."""
    best, metric = parts[-1], trained.metric
    score = best.estimate(metric) if found is None else found.score
    what = {
        "classification": f"which of {len(best.names)} classes each node has",
        "multi-label": f"which of {len(best.names)} labels each node has",
        "regression": "a number for each node",
    }[trained.target]
    text = f"The model predicts {what}."
    if len(parts) > 1:
        text += f" It was trained on {len(parts[0]):,} nodes."
        kept = {"score": "best score", "loss": "lowest loss"}.get(trained.config.stopping.early_stopping)
        if kept is not None:
            text += f" The epoch with the {kept} on {len(parts[1]):,} validation nodes was kept."
    page.text(text)
    interval = f"(95% interval {value_text(metric, score.low)} to {value_text(metric, score.high)})"
    unseen = ", which were not used in training," if best.where == "test nodes" else ","
    page.text(
        f"On {len(best):,} {best.where}{unseen} its {metric_name(metric)} is "
        f"{value_text(metric, score.value)} {interval}, "
        f"{metric_meaning(metric, best.names)}.",
        "lead",
    )
    baselines = () if found is None else found.baselines
    better = [BASELINES.get(item.name, item.name) for item in baselines if item.beaten]
    if better:
        page.verdict("Significantly better", f"than a {' and a '.join(better)}.", good=True)
    for warning in () if found is None else found.warnings:
        page.verdict("Note:" if "left out" in warning else "Warning:", warning, good=False)
    if best.where == "validation nodes":
        text = "there are no test nodes. The score on the validation nodes, which early stopping used, is optimistic."
        page.verdict("Warning:", text, good=False)
    elif best.where == "labelled nodes":
        page.text("This is not the data that the model was trained on, so all labelled nodes are scored.", "note")
    name = metric_heading(metric)
    tiles = [
        (name, value_text(metric, score.value), f"{value_text(metric, score.low)} to {value_text(metric, score.high)}")
    ]
    for item in baselines:
        title = BASELINES.get(item.name, item.name)
        tiles.append((title[:1].upper() + title[1:], value_text(metric, item.score.value), name))
    page.tiles(
        [
            *tiles,
            (best.where[:1].upper() + best.where[1:], f"{len(best):,}", f"of {sum(map(len, parts)):,} labelled nodes"),
        ]
    )
