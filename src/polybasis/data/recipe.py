"""Recipes that convert the columns of a table to features: fitted on some rows, applied to any, saved as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from polybasis.data.columns import KINDS, Column, Columns, Kind
from polybasis.data.schema import refuse_other_columns
from polybasis.features import MAX_DENSITY, Features, as_features

MIN_ROWS = 10  # a category of fewer rows is rare
MAX_CATEGORIES = 100  # only the commonest categories have a feature of their own


class Entries(NamedTuple):
    """Entries of a feature matrix: ``matrix[rows, features] = values``."""

    rows: NDArray[np.int64] | slice
    features: NDArray[np.int64] | int
    values: NDArray[np.float32]


@dataclass(frozen=True)
class ColumnRecipe:
    """How one column becomes features.

    Attributes:
        name, kind: the column.
        gaps: whether a last feature marks missing values, because there were some.
        fill: what replaces a missing number or boolean: the median.
        mean, scale: of the numbers, after filling gaps.
        categories: the categories with a feature of their own.
        other: whether one feature stands for all rare and unseen categories; without rare ones there is none, and
            unseen categories are all zeros.
    """

    name: str
    kind: Kind
    gaps: bool
    fill: float = 0.0
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    other: bool = False

    @property
    def width(self) -> int:
        """Number of features."""
        values = len(self.categories) + self.other if self.kind == "categorical" else 1
        return values + self.gaps

    def encode(self, column: Column) -> Iterator[Entries]:
        """The features of a column; entries that are left out are zero."""
        column = column.as_kind(self.kind)
        if self.kind == "categorical":
            index = {text: i for i, text in enumerate(self.categories)}
            elsewhere = len(self.categories) if self.other else -1
            codes = np.array([*(index.get(text, elsewhere) for text in column.categories), -1], dtype=np.int64)
            found = codes[column.values]
            rows = np.flatnonzero(found >= 0)
            yield Entries(rows, found[rows], np.ones(len(rows), dtype=np.float32))
        else:
            yield Entries(slice(None), 0, self.numbers(column))
        if self.gaps:
            yield Entries(slice(None), self.width - 1, column.missing.astype(np.float32))

    def numbers(self, column: Column) -> NDArray[np.float32]:
        """The numbers of a numeric or boolean column, filled and scaled."""
        values = column.values if self.kind == "numeric" else column.truths()
        values = np.where(np.isnan(values), np.float32(self.fill), values)
        if (self.mean, self.scale) != (0.0, 1.0):
            largest = np.finfo(np.float32).max
            values = ((values.astype(np.float64) - self.mean) / self.scale).clip(-largest, largest).astype(np.float32)
        return values

    def to_dict(self) -> dict[str, Any]:
        """Converts the recipe to a dictionary that JSON can hold."""
        document: dict[str, Any] = {"name": self.name, "kind": self.kind, "gaps": self.gaps}
        if self.kind == "categorical":
            return document | {"categories": list(self.categories), "other": self.other}
        return document | {"fill": self.fill, "mean": self.mean, "scale": self.scale}

    @classmethod
    def from_dict(cls, document: Any) -> ColumnRecipe:
        """The recipe of :meth:`to_dict`. Raises ValueError if the document is something else."""
        if not isinstance(document, dict) or not isinstance(document.get("name"), str):
            raise ValueError(f"recipe: {str(document)[:80]!r} is not a column; expected an object with a name")
        name, kind = document["name"], document.get("kind")
        if kind not in KINDS:
            raise ValueError(f"recipe: column {name!r} has kind {kind!r}; expected {', '.join(KINDS)}")
        own = {"categories": list, "other": bool} if kind == "categorical" else dict.fromkeys(("fill", "mean", "scale"))
        if set(document) != {"name", "kind", "gaps", *own}:
            raise ValueError(f"recipe: column {name!r} has {sorted(document)}; expected name, kind, gaps, {list(own)}")
        values = {key: document[key] for key in own}
        for key, value in (values | {"gaps": document["gaps"]}).items():
            if key == "categories":
                valid = isinstance(value, list) and all(isinstance(text, str) for text in value)
                valid = valid and len(set(value)) == len(value)
            elif key in ("gaps", "other"):
                valid = isinstance(value, bool)
            else:
                valid = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
                valid = valid and (key != "scale" or value > 0)
            if not valid:
                raise ValueError(f"recipe: column {name!r} has {key} {str(value)[:80]}, which is not valid")
        if kind == "categorical":
            values["categories"] = tuple(values["categories"])
        return cls(name=name, kind=kind, gaps=document["gaps"], **values)


@dataclass(frozen=True)
class Recipe:
    """Converts columns, matched by name, to features.

    Numbers are standardised, and missing ones are replaced by the median. Booleans become 0 and 1, and missing ones are
    replaced by the more common value. Categories are one-hot encoded. Rare and unseen categories share one feature; if
    no category is rare, unseen ones are all zeros. If a column has missing values, an extra feature marks them. The
    recipe depends only on the rows given to :meth:`learn`.

    Attributes:
        columns: the columns, in the order of the features.
    """

    columns: tuple[ColumnRecipe, ...]

    @classmethod
    def learn(cls, columns: Columns, rows: NDArray[np.bool_] | None = None, *, scaled: bool = True) -> Recipe:
        """Fits a recipe.

        Args:
            columns: the columns.
            rows: mask of the rows to fit the recipe on; all by default.
            scaled: standardise numbers.

        >>> import numpy as np
        >>> age = Column("age", "numeric", np.array([20, np.nan, 40, 60], dtype=np.float32))
        >>> Recipe.learn((age,)).apply((age,))
        tensor([[-1.4142,  0.0000],
                [ 0.0000,  1.0000],
                [ 0.0000,  0.0000],
                [ 1.4142,  0.0000]])
        """
        return cls(tuple(_learn(column, rows, scaled) for column in columns))

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(column.width for column in self.columns)

    def apply(self, columns: Columns) -> Features:
        """Returns the features, (N, width), float32; sparse if categorical columns make them so.

        Raises:
            ValueError: if columns are missing, not part of the recipe, or of another kind; the message names them.
        """
        found = self._matched(columns)
        nodes, width = len(columns[0].values) if columns else 0, self.width
        stored = sum(1 if column.kind == "categorical" else column.width for column in self.columns)
        sparse = width >= 64 and stored <= MAX_DENSITY * width
        x = None if sparse else np.zeros((nodes, width), dtype=np.float32)
        parts = []
        first = 0
        for recipe, column in zip(self.columns, found, strict=True):
            for rows, features, values in recipe.encode(column):
                if x is not None:
                    x[rows, features + first] = values
                else:
                    present = values.nonzero()[0]
                    at = present if isinstance(rows, slice) else rows[present]
                    parts.append((at, np.broadcast_to(features + first, len(values))[present], values[present]))
            first += recipe.width
        if x is not None:
            return as_features(torch.from_numpy(x))
        places, features, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        return as_features(sp.coo_array((values, (places, features)), shape=(nodes, width)).tocsr())

    def _matched(self, columns: Columns) -> list[Column]:
        """The columns in the order of the recipe."""
        given, names = {column.name: column for column in columns}, [column.name for column in self.columns]
        refuse_other_columns(given, names)
        return [given[name] for name in names]

    def to_dict(self) -> dict[str, Any]:
        """Converts the recipe to a dictionary that JSON can hold."""
        return {"columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def from_dict(cls, document: Any) -> Recipe:
        """Creates a recipe from a dictionary of :meth:`to_dict`.

        Args:
            document: the dictionary.

        Raises:
            ValueError: if the document is something else.
        """
        if not isinstance(document, dict) or not isinstance(document.get("columns"), list):
            raise ValueError("recipe: expected an object with a list of columns")
        columns = tuple(ColumnRecipe.from_dict(part) for part in document["columns"])
        if len({column.name for column in columns}) < len(columns):
            raise ValueError("recipe: two columns have the same name")
        return cls(columns)


def is_plain(columns: Columns) -> bool:
    """Whether columns are numbers and booleans without gaps, so that an unscaled recipe leaves them as they are."""
    return not any(column.kind == "categorical" or column.missing.any() for column in columns)


def _learn(column: Column, rows: NDArray[np.bool_] | None, scaled: bool) -> ColumnRecipe:
    values = column.values if rows is None else column.values[rows]
    if column.kind == "categorical":
        counts = np.bincount(values[values >= 0], minlength=len(column.categories))
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda i: (-counts[i], column.categories[i]))
        common = [i for i in order[:MAX_CATEGORIES] if counts[i] >= MIN_ROWS]
        categories = tuple(sorted(column.categories[i] for i in common))
        gaps, other = bool((values < 0).any()), len(common) < len(order)
        return ColumnRecipe(column.name, "categorical", gaps, categories=categories, other=other)
    learned = Column(column.name, column.kind, values, column.categories)
    numbers = learned.truths() if column.kind == "boolean" else values
    filled = numbers[~np.isnan(numbers)].astype(np.float64)
    gaps = len(filled) < len(numbers)
    fill = float(np.median(filled)) if gaps and len(filled) else 0.0
    if column.kind == "boolean":
        return ColumnRecipe(column.name, "boolean", gaps, fill=float(fill >= 0.5))
    mean, scale = 0.0, 1.0
    if scaled and len(filled):
        gap = len(numbers) - len(filled)
        complete = np.concatenate([filled, np.full(gap, fill)]) if gap else filled
        mean = float(complete.mean())
        scale = float(complete.std()) if complete.min() < complete.max() else 1.0
    return ColumnRecipe(column.name, "numeric", gaps, fill=fill, mean=mean, scale=scale)
