"""What `polybasis train` says about the user's own tables: the plan before training, advice after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from polybasis.cli.display import console

if TYPE_CHECKING:
    from polybasis.data.dataset import NodeDataset
    from polybasis.train.job import Job


def print_plan(job: Job) -> None:
    """Prints the model, the division of the labelled nodes and the reason for the metric, to standard error."""
    if job.source.kind == "tables":
        for line in plan(job):
            console.print(line, highlight=False, soft_wrap=True)


def plan(job: Job) -> list[str]:
    """The lines of :func:`print_plan`."""
    from polybasis.data.targets import metric_reason
    from polybasis.train.early_stopping import rarer_class
    from polybasis.train.objective import scoring_metric

    config, data = job.config, cast("NodeDataset", job.source.open())
    degree = (config.hyperparameters() | config.model.arguments).get("K")
    size = f"{config.model.hidden} channels" + ("" if degree is None else f", degree {degree}")
    stopping = config.stopping
    length = f"at most {stopping.epochs} epochs, patience {stopping.patience}"
    split = data.split(job.protocol, job.split)
    train, val, test = (f"{len(part):,}" for part in split)
    division = f"split: {train} training, {val} validation and {test} test nodes"
    if data.target == "classification" and data.num_classes == 2:
        rarer = rarer_class(data.y[data.labelled])[0]
        counts = [f"{int((data.y[part] == rarer).sum()):,}" for part in split]
        division += f"; of class {str(data.classes[rarer])!r} {counts[0]}, {counts[1]} and {counts[2]}"
    metric = scoring_metric(config, data)
    reason = "as requested" if stopping.metric is not None else f"{metric_reason(data)}; change it with --metric"
    return [f"model: {config.model.name}, {size}; {length}", division, f"metric: {metric}, {reason}"]


def print_advice(job: Job, out: Path | None, calibrated: bool, thresholded: bool) -> None:
    """Prints what to do next with a model of own tables, to standard error."""
    if job.source.kind != "tables":
        return
    data = cast("NodeDataset", job.source.open())
    if data.target == "classification" and data.num_classes == 2 and not (calibrated and thresholded):
        flags = [] if calibrated else ["--calibrate auto for calibrated probabilities"]
        flags += (
            [] if thresholded else [f"--threshold precision=0.8 to decide which nodes are {str(data.classes[1])!r}"]
        )
        _say(("train again with " if out else "train again with --out FOLDER, ") + " and ".join(flags))
    elif out is None:
        _say("train again with --out FOLDER to save the model")
    if out is not None:
        _say(f"polybasis predict {out} --edges ... --out scores.csv predicts all nodes of these or other tables")
        _say(f"polybasis report {out} --edges ... --labels ... writes an HTML report on the model")


def _say(advice: str) -> None:
    console.print(f"next: {advice}", highlight=False, soft_wrap=True)
