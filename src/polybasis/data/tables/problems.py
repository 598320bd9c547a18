"""Problems in the user's files: collected, so that one run reports twenty of them together, some of every kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from polybasis.data.tables.table import Table

LIMIT = 20


class TableError(ValueError):
    """Raised for files that cannot be used; lists the first problems.

    Args:
        problems: the first problems, one line each, with file, line, column and node.
        advice: what to do about each problem, in the same order; empty, or left out at the end, where an earlier one
            says it.
        more: number of further problems.

    >>> print(TableError(["e.csv:2: a", "e.csv:3: b"], ["do c"], more=7))
    9 problems in the files:
    e.csv:2: a; do c
    e.csv:3: b
    and 7 more
    """

    def __init__(self, problems: Sequence[str], advice: Sequence[str] = (), more: int = 0) -> None:
        super().__init__(problems, advice, more)
        self.problems, self.advice, self.more = list(problems), list(advice), more

    @property
    def lines(self) -> list[str]:
        """The lines of the message."""
        pairs = zip_longest(self.problems, self.advice, fillvalue="")
        lines = ["; ".join(filter(None, pair)) for pair in pairs]
        count = len(lines) + self.more
        more = [f"and {self.more:,} more"] if self.more else []
        return lines if count == 1 else [f"{count:,} problems in the files:", *lines, *more]

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class _Problem:
    """One problem: in a row of a table, or elsewhere, if ``table`` is None.

    ``earlier`` is the row that a duplicate repeats.
    """

    what: str
    advice: str
    table: Table | None = None
    row: int = -1
    earlier: int | None = None


class Problems:
    """Collects problems and raises them together."""

    def __init__(self) -> None:
        self._found: list[_Problem] = []
        self._more = 0

    def add(self, what: str, advice: str = "") -> None:
        """Adds a problem; ``what`` names the file."""
        self._found.append(_Problem(what, advice))

    def add_row(self, table: Table, row: int, what: str, advice: str) -> None:
        """Adds a problem in a row of a table."""
        self._found.append(_Problem(what, advice, table, row))

    def add_rows(
        self,
        table: Table,
        wrong: Any,
        what: Callable[[int], str],
        advice: str,
        earlier: Callable[[int], int] | None = None,
    ) -> bool:
        """Adds a problem for every row of a mask, and returns whether there is one.

        Args:
            table: the table.
            wrong: mask of its rows.
            what: describes the problem in a row.
            advice: what to do.
            earlier: the row that a row repeats.
        """
        rows = np.flatnonzero(wrong)
        for row in rows[:LIMIT].tolist():
            before = None if earlier is None else earlier(row)
            self._found.append(_Problem(what(row), advice, table, row, before))
        self._more += max(0, len(rows) - LIMIT)
        return len(rows) > 0

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collects the error that a reader raises. A file that does not exist ends the run at once."""
        try:
            yield
        except TableError as error:
            advice = [*error.advice, *[""] * len(error.problems)]
            self._found += [_Problem(what, advice[i]) for i, what in enumerate(error.problems)]
            self._more += error.more
        except ValueError as error:
            self._found.append(_Problem(str(error), ""))

    def raise_if_any(self) -> None:
        """Raises TableError if there are problems."""
        if not self._found:
            return
        order: dict[Path | None, int] = {}
        for problem in self._found:
            order.setdefault(problem.table.path if problem.table else None, len(order))
        found = sorted(_some_of_each(self._found), key=lambda p: (order[p.table.path if p.table else None], p.row))
        places = _places(found)
        lines: list[str] = []
        advice: list[str] = []
        for problem in found:
            line = problem.what
            if problem.table is not None:
                line = f"{places[id(problem.table), problem.row]}: {line}"
                if problem.earlier is not None:
                    first = places[id(problem.table), problem.earlier].removeprefix(f"{problem.table.path}:")
                    line += f" (first {'on line ' if first.isdigit() else 'in'}{first})"
            lines.append(line)
            advice.append("" if problem.advice in advice else problem.advice)
        raise TableError(lines, advice, self._more + len(self._found) - len(found))


def _some_of_each(problems: list[_Problem]) -> list[_Problem]:
    """At most LIMIT problems: a frequent one does not hide those of other kinds or in other files."""
    kinds: Counter[tuple[int, str]] = Counter()
    ranked = []
    for problem in problems:
        kind = (id(problem.table), problem.advice)
        ranked.append((kinds[kind], problem))
        kinds[kind] += 1
    return [problem for _, problem in sorted(ranked, key=lambda pair: pair[0])[:LIMIT]]


def _places(problems: list[_Problem]) -> dict[tuple[int, int], str]:
    """File and line of every row that problems refer to; each file is read once."""
    rows: dict[int, tuple[Table, set[int]]] = {}
    for problem in problems:
        if problem.table is not None:
            _, known = rows.setdefault(id(problem.table), (problem.table, set()))
            known.update({problem.row} if problem.earlier is None else {problem.row, problem.earlier})
    return {(key, row): place for key, (table, known) in rows.items() for row, place in table.places(known).items()}
