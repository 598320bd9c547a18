"""`--calibrate` and `--threshold`: the probabilities and the decisions of a saved model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from polybasis.train.calibration import Method
    from polybasis.train.job import Job
    from polybasis.train.source import Data

Calibrate = Annotated[
    str | None,
    typer.Option(
        metavar="auto|temperature|isotonic",
        help="Calibrate the probabilities of the saved model on validation nodes; auto uses isotonic if it is better.",
    ),
]
ThresholdFor = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        metavar="precision=P|recall=R|cost=FP,FN",
        help="For two classes: choose the decision threshold of the saved model on validation nodes, for a given "
        "precision or recall of the second class, or for the costs of a false positive and a false negative.",
    ),
]


def check_decisions(calibrate: str | None, threshold: str | None, out: Path | None, data: Data) -> None:
    """Checks before training that --calibrate and --threshold can be applied.

    Raises:
        ValueError: if they cannot; the message gives the flag.
    """
    for flag, value in (("--calibrate", calibrate), ("--threshold", threshold)):
        if value is not None and out is None:
            raise ValueError(f"{flag} changes the saved model; pass --out FOLDER")
        if value is not None and data.target == "regression":
            raise ValueError(f"{flag} applies to classes; the target of {data.name} is a number")
    if calibrate not in (None, "auto", "temperature", "isotonic"):
        raise ValueError(f"--calibrate is {calibrate}; expected auto, temperature or isotonic")
    if threshold is not None:
        parse_threshold(threshold)
        if data.target != "classification" or data.num_classes != 2:
            raise ValueError(f"--threshold applies to two classes; {data.name} has {data.num_classes}")


def parse_threshold(text: str) -> dict[str, Any]:
    """The criterion of a threshold.

    >>> parse_threshold("cost=1,10")
    {'cost': (1.0, 10.0)}
    """
    name, _, value = text.partition("=")
    try:
        numbers = tuple(float(part) for part in value.split(","))
    except ValueError:
        numbers = ()
    if name in ("precision", "recall") and len(numbers) == 1 and 0 < numbers[0] <= 1:
        return {name: numbers[0]}
    if name == "cost" and len(numbers) == 2 and all(0 < number < float("inf") for number in numbers):
        return {name: numbers}
    raise ValueError(f"--threshold is {text}; expected for example precision=0.8, recall=0.9 or cost=1,10")


def decide(job: Job, out: Path, calibrate: str | None, threshold: str | None) -> str | None:
    """Gives the saved model of a job the calibration and the threshold that were asked for, and no others.

    Returns:
        A sentence about them; None if there are none.

    Raises:
        ValueError: if no threshold meets the criterion; the model is then saved without one.
    """
    from polybasis.train.trained_model import TrainedModel

    saved = TrainedModel.load(out)
    if calibrate is None and threshold is None and saved.calibration is None and saved.threshold is None:
        return None
    data, said = job.source.open(), []
    val = data.split(job.protocol, job.split).val
    trained = replace(saved, calibration=None, threshold=None)
    if calibrate is not None:
        trained = trained.calibrated(data, val, None if calibrate == "auto" else cast("Method", calibrate))
        assert trained.calibration is not None
        said.append(f"probabilities are calibrated ({trained.calibration.method})")
    trained.save(out)
    if threshold is not None:
        try:
            trained = trained.with_threshold(data, val, **parse_threshold(threshold))
        except ValueError as error:
            raise ValueError(f"--threshold {threshold}: {error}; the model in {out} has no threshold") from error
        trained.save(out)
        found = trained.threshold
        assert found is not None
        said.append(
            f"predicts {trained.classes[1]} from probability {found.value:.4g}: precision {found.precision:.3f}, "
            f"recall {found.recall:.3f} on validation nodes"
        )
    return "; ".join(said) or None
