"""The flags that select data: a source, or the user's own tables. Several commands share them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from polybasis.cli.options import DataRoot, Target, Task, refuse
from polybasis.data.catalogue import CATALOGUE

if TYPE_CHECKING:
    from polybasis.train.source import Source
    from polybasis.train.trained_model import TrainedModel


def _dataset_names(incomplete: str) -> list[str]:
    return [name for name in CATALOGUE if name.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class GraphFlags:
    """A graph with features.

    A command with a parameter of this type, and the decorator :func:`with_data_flags`, has one flag for each field.
    """

    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE", help="A data set's name, a graph folder or a store.", autocompletion=_dataset_names
        ),
    ] = None
    edges: Annotated[
        Path | None,
        typer.Option(
            help="Own tables: edges as CSV, TSV, Parquet, Feather or JSON lines with columns source, target and "
            "optionally weight; or as MatrixMarket, GraphML or GEXF."
        ),
    ] = None
    features: Annotated[
        Path | None,
        typer.Option(
            help="Own tables: a table with a node column; .npy or .npz; or .json with the words of each node. "
            "Default: structure only."
        ),
    ] = None
    id: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Own tables: the node column; default: detected.")
    ] = None
    target: Target = None
    no_header: Annotated[
        bool, typer.Option("--no-header", help="Own tables: text files have no header; default: detected.")
    ] = False
    merge: Annotated[
        str | None,
        typer.Option("--merge", metavar="sum|mean|max|first", help="Own tables: how to merge repeated edges."),
    ] = None
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Own tables: a column to ignore; repeatable.")
    ] = None
    data_root: DataRoot = None

    def chosen(self, model: TrainedModel | None = None) -> Source:
        """The source that the flags select.

        Args:
            model: the model that is to be applied; own tables are read like those it was trained on.

        Raises:
            ValueError: for no source, for two sources, or for a flag that does not apply; the message gives the flag.
        """
        from polybasis.train.source import Source

        if self.source is None:
            if self.edges is None:
                raise ValueError("no data; pass a SOURCE (data set, graph folder or store) or --edges FILE")
            refuse("--data-root", self.data_root, "--edges")
            labels = getattr(self, "labels", None)
            return Source.tables(self.edges, self.features, labels, **self._table_options(model))
        for field in fields(self):
            if field.name not in ("source", "data_root"):
                flag = f"--{field.name.replace('_', '-')}"
                refuse(flag, getattr(self, field.name) or None, f"the source {self.source}")
        folder = Path(self.source)
        if (folder / "store.json").exists() or (folder / "graph.json").exists():
            refuse("--data-root", self.data_root, f"the folder {self.source}")
            return Source.folder(folder)
        if folder.exists() and self.source not in CATALOGUE:
            hint = "" if folder.is_dir() else f"; did you mean --edges {self.source}?"
            raise ValueError(f"{self.source} is neither a data set, nor a graph folder, nor a store{hint}")
        return Source.named(self.source, self.data_root)

    def arguments(self) -> list[str]:
        """The arguments of a command that selects the same graph."""
        found = [] if self.source is None else [self.source]
        for field in fields(GraphFlags):
            value = getattr(self, field.name)
            if field.name != "source" and value:
                flag = f"--{field.name.replace('_', '-')}"
                values = value if isinstance(value, list) else [value]
                found += [flag] if value is True else [word for each in values for word in (flag, str(each))]
        return found

    def _table_options(self, model: TrainedModel | None) -> dict[str, Any]:
        """The options of :func:`polybasis.data.read_tables`; with a model, a target is not a feature but not read."""
        options = {"id": self.id, "target": self.target, "merge": self.merge, "drop": self.drop}
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        if self.no_header:
            given["header"] = False
        if model is not None and model.schema is not None:
            targets = (*model.schema.target, *given.pop("target", ()))
            given["schema"] = replace(model.schema, target=targets)
        return given


@dataclass(frozen=True, kw_only=True)
class LabelledFlags(GraphFlags):
    """A graph with features and a target, to score a model."""

    labels: Annotated[
        Path | None, typer.Option(help="Own tables: a table with a node column and one or more target columns.")
    ] = None

    def _table_options(self, model: TrainedModel | None) -> dict[str, Any]:
        options = super()._table_options(model)
        if model is not None and model.schema is not None:
            options["schema"] = model.schema
            if self.target is not None:
                options["target"] = self.target
            elif self.labels is None and self.features is not None and model.schema.target:
                options["target"] = list(model.schema.target)
        if self.labels is None and "target" not in options:
            purpose = "train on" if model is None else "score against"
            raise ValueError(f"--edges needs --labels FILE, or --target COLUMN of --features, to {purpose}")
        return options if model is None else {"task": model.target, **options}


@dataclass(frozen=True, kw_only=True)
class TrainingFlags(LabelledFlags):
    """A graph with features and a target, to train a model."""

    task: Task = None
    categorical: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Own tables: a categorical column, for example of codes; repeatable."),
    ] = None
    numeric: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Own tables: a numeric column, for example of 0 and 1; repeatable."),
    ] = None

    def _table_options(self, model: TrainedModel | None) -> dict[str, Any]:
        more = {"task": self.task, "categorical": self.categorical, "numeric": self.numeric}
        return super()._table_options(model) | {name: value for name, value in more.items() if value is not None}


def with_data_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replaces the parameter of a command whose type is :class:`GraphFlags` with one parameter for each of its fields.

    Typer makes flags from a function's signature.
    """
    signature = inspect.signature(command, eval_str=True)
    (name,) = (found.name for found in signature.parameters.values() if is_dataclass(found.annotation))
    kind: Any = signature.parameters[name].annotation
    hints = get_type_hints(kind, include_extras=True)
    by_name = inspect.Parameter.KEYWORD_ONLY
    ordered = sorted(fields(kind), key=lambda flag: flag.name == "data_root")  # the last one in --help
    flags = [inspect.Parameter(f.name, by_name, default=f.default, annotation=hints[f.name]) for f in ordered]
    parameters = []
    for parameter in signature.parameters.values():
        parameters += flags if parameter.name == name else [parameter.replace(kind=by_name)]

    @wraps(command)
    def expanded(**values: Any) -> None:
        given = {flag.name: values.pop(flag.name) for flag in flags}
        command(**values, **{name: kind(**given)})

    expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded
