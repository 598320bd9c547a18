"""Typed columns of a table of nodes: numbers, booleans and categories, each with gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Kind = Literal["numeric", "boolean", "categorical"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TRUE = frozenset(("1", "true", "t", "yes", "y", "on"))
FALSE = frozenset(("0", "false", "f", "no", "n", "off"))


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table, one value per node.

    Attributes:
        name: its name in the table.
        kind: what its values are.
        values: numbers as float32, NaN where missing, (N,); for the other kinds, indices into ``categories`` as int32,
            -1 where missing.
        categories: the distinct texts of a boolean or categorical column, as spelled in the table.
    """

    name: str
    kind: Kind
    values: NDArray[Any]
    categories: tuple[str, ...] = ()

    @property
    def missing(self) -> NDArray[np.bool_]:
        """The rows without a value."""
        mask: NDArray[np.bool_] = np.isnan(self.values) if self.kind == "numeric" else self.values < 0
        return mask

    def truths(self) -> NDArray[np.float32]:
        """The values of a boolean column as 0 and 1, NaN where missing."""
        table = np.array([*(float(bool(truth(text))) for text in self.categories), np.nan], dtype=np.float32)
        values: NDArray[np.float32] = table[self.values]  # -1 selects the last entry
        return values

    def as_kind(self, kind: Kind) -> Column:
        """The column as another kind, as far as its values permit: a small table may not show what a column is.

        Raises:
            ValueError: for a value that the other kind does not permit; the message gives the column and the value.
        """
        if self.kind == kind:
            return self
        if kind == "categorical":
            if self.kind == "boolean":
                return Column(self.name, kind, self.values, self.categories)
            distinct, codes = np.unique(self.values, return_inverse=True)  # NaN, if there is any, comes last
            texts = tuple(f"{value:.9g}" for value in distinct if not np.isnan(value))
            codes = np.where(codes < len(texts), codes, -1).astype(np.int32)
            return Column(self.name, kind, codes, texts)
        if self.kind == "numeric":
            wrong = [f"{value:.9g}" for value in np.unique(self.values[~self.missing])[:3] if value not in (0, 1)]
        else:
            accepted = truth if kind == "boolean" else as_number
            used = np.unique(self.values[self.values >= 0])
            wrong = [self.categories[i] for i in used if accepted(self.categories[i]) is None]
        if wrong:
            expected = "true or false" if kind == "boolean" else "numbers"
            raise ValueError(f"column {self.name!r} has the value {wrong[0]!r}; expected {expected}")
        if kind == "boolean":
            if self.kind == "categorical":
                return Column(self.name, kind, self.values, self.categories)
            return Column(self.name, kind, np.where(self.missing, -1, self.values).astype(np.int32), ("0", "1"))
        numbers = np.array([*((as_number(text) or 0.0) for text in self.categories), np.nan], dtype=np.float32)
        return Column(self.name, kind, numbers[self.values])


Columns = tuple[Column, ...]


def truth(text: str) -> bool | None:
    """The boolean that a text spells, or None.

    >>> truth("Yes"), truth("F"), truth("maybe")
    (True, False, None)
    """
    folded = text.casefold()
    return True if folded in TRUE else False if folded in FALSE else None


def as_number(text: str) -> float | None:
    """The number that a text spells, or None.

    >>> as_number("+1e3"), as_number("1_000"), as_number("one")
    (1000.0, None, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
