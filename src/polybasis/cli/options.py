"""Options that several commands share."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from polybasis.data.metrics import Metric, as_metric
from polybasis.nn.models.names import MODEL_CLASSES, SHORT_NAMES, model_names


def _model_names(incomplete: str) -> list[str]:
    return [name for name in model_names() if name.startswith(incomplete)]


ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.")]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|FILE.py:Class",
        help=f"One of {', '.join(MODEL_CLASSES)}, or auto (train only); default: optbasisgnn. For a custom model, the "
        "name of an installed model or FILE.py:Class, which runs the file.",
        autocompletion=_model_names,
    ),
]
ModelFile = Annotated[
    Path | None,
    typer.Option(help="File that defines a custom model, FILE.py; it only runs if the model was trained with it."),
]
Target = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="COLUMN",
        help="Own tables: the column of classes, numbers or lists of labels, in --labels or --features; repeat it for "
        "labels that have one column of 0 and 1 each.",
    ),
]
Task = Annotated[
    str | None,
    typer.Option(
        metavar="classification|regression|multi-label", help="Own tables: type of the target; default: detected."
    ),
]
MetricName = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help=f"Metric for early stopping and scores: {', '.join(get_args(Metric))}; default: chosen by the data.",
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        metavar="balanced|none|CLASS=W,..",
        help="Class weights in the loss; balanced gives all classes the same total weight.",
    ),
]
DataRoot = Annotated[
    str | None, typer.Option("--data-root", help="Folder of data sets; default: $POLYBASIS_DATA or a cache folder.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
Ray = Annotated[
    str | None, typer.Option("--ray", metavar="auto|ADDRESS", help="Run on a Ray cluster, given its address or auto.")
]
Threads = Annotated[int | None, typer.Option(help="Number of threads; default: torch's default.", min=1)]
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def parse_size(text: str) -> int:
    """Parses a size in bytes.

    >>> parse_size("1.5GiB")
    1610612736
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]iB|)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a valid size; use for example 8GiB")
    return int(float(found[1]) * UNITS[found[2]])


def parse_names(
    given: str | None, known: tuple[str, ...], what: str, default: tuple[str, ...] | None = None
) -> list[str]:
    """Parses names separated by commas; the default names, or all, if none are given.

    >>> parse_names("gcn, mlp", ("gcn", "link", "mlp"), "model")
    ['gcn', 'mlp']
    """
    names = list(default or known) if given is None else [name.strip() for name in given.split(",")]
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; expected some of {', '.join(known)}")
    return names


def parse_values(texts: list[str], **flags: Any) -> dict[str, Any]:
    """Configuration values from ``name=value`` texts and from separate flags that are not None.

    ``lr.coefficients=0.1`` sets the value of one role.

    >>> parse_values(["K=10", "early_stopping=loss", "lr.linear=0.01", "lr.recurrence=0.1"])
    {'K': 10, 'early_stopping': 'loss', 'lr': {'linear': 0.01, 'recurrence': 0.1}}
    """
    from polybasis.train.config_sections import NOT_VALUES

    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ValueError(f"--set {text}: expected NAME=VALUE, for example K=10")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value
        table, dot, role = name.partition(".")
        if table in NOT_VALUES:
            raise ValueError(f"--set {text}: {table} cannot be set; choose the model with --model")
        if name in values or (dot and not isinstance(values.get(table, {}), dict)):
            raise ValueError(f"--set {text}: {table} is set twice")
        if dot:
            values.setdefault(table, {})[role] = parsed
        else:
            values[name] = parsed
    return values | {name: value for name, value in flags.items() if value is not None}


def parse_objective(metric: str | None, class_weight: str | None) -> dict[str, Any]:
    """Configuration values from --metric and --class-weight, those that are given.

    >>> parse_objective("f1", "no=1,yes=20")
    {'metric': 'f1', 'class_weight': {'no': 1.0, 'yes': 20.0}}
    """
    values: dict[str, Any] = {} if metric is None else {"metric": as_metric(metric)}
    if class_weight is None:
        return values
    if class_weight in ("balanced", "none"):
        return values | {"class_weight": None if class_weight == "none" else class_weight}
    weights = {}
    for text in class_weight.split(","):
        name, _, number = text.rpartition("=")
        try:
            weights[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise ValueError(f"--class-weight {class_weight}: expected balanced, none or CLASS=WEIGHT,..")
    return values | {"class_weight": weights}


def known_model(name: str | None) -> str | None:
    """The name of the model that --model selects; ``FILE.py:Class`` runs the file and registers its model.

    >>> known_model("optbasis")
    'optbasisgnn'
    """
    if name is None or ".py:" not in name:
        return name if name is None else SHORT_NAMES.get(name, name)
    from polybasis.nn.models.own_models import load_model_file

    return load_model_file(name)


def refuse(flag: str, value: object, context: str) -> None:
    """Raises ValueError if a flag is set although it does not apply."""
    if value is not None and value is not False:
        raise ValueError(f"{flag} does not apply to {context}")
