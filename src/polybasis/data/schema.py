"""The roles of the columns in the user's tables, saved with a model so that it reads further tables the same way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from polybasis.data.columns import Kind
from polybasis.data.metrics import TargetKind

Merge = Literal["sum", "mean", "max", "first"]
MERGES: tuple[Merge, ...] = get_args(Merge)


@dataclass(frozen=True)
class TableSchema:
    """The roles of the columns of tables.

    Attributes:
        id: column of nodes in the table of features; None without such a column.
        target: columns of the target.
        task: kind of the target; None if it is unknown.
        drop: columns that were left out.
        merge: how the weights of repeated edges were combined.
        kinds: kind of each feature column by name; None if the features are not columns of a table.

    >>> schema = TableSchema(id="user", target=("fraud",), merge="sum")
    >>> schema.to_dict()
    {'id': 'user', 'target': ['fraud'], 'drop': [], 'merge': 'sum'}
    """

    id: str | None = None
    target: tuple[str, ...] = ()
    task: TargetKind | None = None
    drop: tuple[str, ...] = ()
    merge: Merge | None = None
    kinds: Mapping[str, Kind] | None = field(default=None, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Converts the schema to a dictionary for JSON, without ``task`` and ``kinds``, which the model records."""
        return {"id": self.id, "target": list(self.target), "drop": list(self.drop), "merge": self.merge}

    @classmethod
    def from_dict(cls, document: Any, task: TargetKind, kinds: Mapping[str, Kind] | None) -> TableSchema:
        """Creates a schema from a dictionary of :meth:`to_dict`.

        Args:
            document: the dictionary.
            task: kind of the target, which the dictionary does not hold.
            kinds: kinds of the feature columns, which it does not hold either.

        Raises:
            ValueError: if the document is something else.
        """
        if not isinstance(document, dict) or set(document) != {"id", "target", "drop", "merge"}:
            raise ValueError(f"tables: {str(document)[:80]!r}; expected an object with id, target, drop and merge")
        lists = [document["target"], document["drop"]]
        texts = [name for names in lists if isinstance(names, list) for name in names]
        if not all(isinstance(names, list) for names in lists) or not all(isinstance(name, str) for name in texts):
            raise ValueError("tables: target and drop must be lists of names")
        if not isinstance(document["id"], str | None) or document["merge"] not in (None, *MERGES):
            raise ValueError(f"tables: id is {document['id']!r} and merge is {document['merge']!r}, which is not valid")
        target, drop = map(tuple, lists)
        return cls(document["id"], target, task, drop, cast("Merge | None", document["merge"]), kinds)


def refuse_other_columns(given: Collection[str], expected: Collection[str], table: str = "the table") -> None:
    """Refuses a table whose feature columns are not those that a model was trained with.

    Args:
        given: names of the columns.
        expected: names of those that the model was trained with.
        table: the table, for the message.

    Raises:
        ValueError: if columns are missing or unknown; the message names them.
    """
    missing = [name for name in expected if name not in given]
    if missing:
        raise ValueError(f"{table} lacks {_columns(missing)}; the model was trained with {_columns(list(expected))}")
    unknown = [name for name in given if name not in expected]
    if unknown:
        raise ValueError(
            f"{table} has {_columns(unknown)}, which the model was not trained with; drop such columns with "
            "drop=[..] or --drop"
        )


def _columns(names: list[str]) -> str:
    """The first names of a list, in quotes, after the word column.

    >>> _columns(["a", "b"])
    "columns 'a', 'b'"
    """
    shown = ", ".join(repr(name) for name in names[:10])
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"{'columns' if len(names) > 1 else 'column'} {shown}{more}"
