"""Options that several commands share."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from polybasis.data.catalogue import CATALOGUE
from polybasis.data.metrics import Metric, as_metric
from polybasis.nn.models.names import MODEL_CLASSES, model_names

if TYPE_CHECKING:
    from polybasis.train.job import Source


def _dataset_names(incomplete: str) -> list[str]:
    return [name for name in CATALOGUE if name.startswith(incomplete)]


def _model_names(incomplete: str) -> list[str]:
    return [name for name in model_names() if name.startswith(incomplete)]


SourceName = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE", help="A data set's name, a graph folder or a store.", autocompletion=_dataset_names
    ),
]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.")]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|FILE.py:Class",
        help=f"One of {', '.join(MODEL_CLASSES)}; train: or auto; default: optbasisgnn. Own models: the name of an "
        "installed one, or FILE.py:Class, which runs the file.",
        autocompletion=_model_names,
    ),
]
ModelFile = Annotated[
    Path | None,
    typer.Option(help="The file of an own model, FILE.py; it runs only if the model was trained with it."),
]
Edges = Annotated[
    Path | None,
    typer.Option(
        help="Own graph: CSV, TSV, Parquet, Feather or JSON lines with columns source, target and, optionally, weight; "
        "MatrixMarket, GraphML or GEXF."
    ),
]
Features = Annotated[
    Path | None,
    typer.Option(
        help="Own graph: table with a column of nodes; .npy or .npz; .json with the words of each node. "
        "Default: structure only."
    ),
]
Labels = Annotated[Path | None, typer.Option(help="Own graph: table with a column of nodes and one of classes.")]
Id = Annotated[
    str | None, typer.Option("--id", metavar="COLUMN", help="Own graph: the column of nodes; default: guessed.")
]
Target = Annotated[
    str | None,
    typer.Option("--target", metavar="COLUMN", help="Own graph: the column of classes, in --labels or --features."),
]
NoHeader = Annotated[
    bool, typer.Option("--no-header", help="Own graph: text tables have no header; default: detected.")
]
Merge = Annotated[
    str | None, typer.Option("--merge", metavar="sum|mean|max|first", help="Own graph: weight of repeated edges.")
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Own graph: a column to leave out; repeatable.")
]
MetricName = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help=f"Metric of early stopping and scores: {', '.join(get_args(Metric))}; default: the data's.",
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        metavar="balanced|none|CLASS=W,..",
        help="Weights of the classes in the loss; balanced: the same total weight for all classes.",
    ),
]
DataRoot = Annotated[
    str | None, typer.Option("--data-root", help="Folder of all data sets; default: $POLYBASIS_DATA or a cache folder.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
Ray = Annotated[
    str | None, typer.Option("--ray", metavar="auto|ADDRESS", help="Run on a Ray cluster: its address, or auto.")
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


def parse_values(texts: list[str], **flags: Any) -> dict[str, Any]:
    """Configuration values from ``name=value`` texts and from separate flags that are not None.

    ``lr.coefficients=0.1`` sets the value of one role.

    >>> parse_values(["K=10", "early_stopping=loss", "lr.linear=0.01", "lr.recurrence=0.1"])
    {'K': 10, 'early_stopping': 'loss', 'lr': {'linear': 0.01, 'recurrence': 0.1}}
    """
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
        if table in ("name", "precomputed", "arguments", "preset", "sha256"):
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
    """The name of the model that --model selects; ``FILE.py:Class`` runs the file and registers its model."""
    if name is None or ".py:" not in name:
        return name
    from polybasis.nn.models.own_models import load_model_file

    return load_model_file(name)


def table_options(
    id: str | None, target: str | None, no_header: bool, merge: str | None, drop: list[str] | None
) -> dict[str, Any]:
    """The options of :func:`polybasis.data.read_tables` that the flags select."""
    return {
        "id": id,
        "target": target,
        "header": False if no_header else None,
        "merge": merge,
        "drop": tuple(drop or ()),
    }


def require_labels(
    source: str | None, edges: Path | None, labels: Path | None, target: str | None, purpose: str
) -> None:
    """Raises ValueError for own tables without a column of classes."""
    if source is None and edges is not None and labels is None and target is None:
        raise ValueError(f"--edges needs --labels FILE, or --target COLUMN of --features, to {purpose}")


def chosen_source(
    source: str | None,
    edges: Path | None,
    features: Path | None,
    labels: Path | None,
    data_root: str | None,
    tables: dict[str, Any],
) -> Source:
    """The source that the arguments select; ``tables`` comes from :func:`table_options`.

    Raises:
        ValueError: for no source, for two sources, or for a flag that does not apply; the message gives the flag.
    """
    from polybasis.train.job import Source

    if source is None and edges is None:
        raise ValueError("no data; pass a SOURCE (data set, graph folder or store) or --edges FILE")
    if source is None and edges is not None:
        refuse("--data-root", data_root, "--edges")
        return Source.tables(edges, features, labels, **tables)
    assert source is not None
    flags = {"--edges": edges, "--features": features, "--labels": labels, "--id": tables["id"]}
    flags |= {"--target": tables["target"], "--no-header": None if tables["header"] is None else True}
    flags |= {"--merge": tables["merge"], "--drop": tables["drop"] or None}
    for flag, value in flags.items():
        refuse(flag, value, f"the source {source}")
    folder = Path(source)
    if (folder / "store.json").exists() or (folder / "graph.json").exists():
        refuse("--data-root", data_root, f"the folder {source}")
        return Source.folder(folder)
    if folder.exists() and source not in CATALOGUE:
        hint = "" if folder.is_dir() else f"; did you mean --edges {source}?"
        raise ValueError(f"{source} is neither a data set, nor a graph folder, nor a store{hint}")
    return Source.named(source, data_root)


def refuse(flag: str, value: object, context: str) -> None:
    """Raises ValueError if a flag is set although it does not apply."""
    if value is not None and value is not False:
        raise ValueError(f"{flag} does not apply to {context}")
