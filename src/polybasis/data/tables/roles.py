"""Which column of a table is the node, the target, the ends of an edge or its weight."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from polybasis.data.columns import Kind
from polybasis.data.metrics import TargetKind
from polybasis.data.schema import TableSchema
from polybasis.data.tables.table import TableFile

SAMPLE_ROWS = 200

NODE_NAMES = ("node", "node_id", "nodeid", "id", "user_id", "userid", "account_id", "customer_id", "user", "account")
TARGET_NAMES = ("target", "class", "label", "y")
SOURCE_NAMES = ("source", "src", "from", "sender", "from_id", "source_id", "node_1", "id_1", "node1", "id1", "u")
END_NAMES = ("target", "dst", "to", "receiver", "to_id", "target_id", "node_2", "id_2", "node2", "id2", "v")
WEIGHT_NAMES = ("weight", "edge_weight", "weights", "w")
KNOWN_NAMES = frozenset((*NODE_NAMES, *TARGET_NAMES, *SOURCE_NAMES[:-1], *END_NAMES[:-1], *WEIGHT_NAMES[:-1]))


@dataclass(frozen=True)
class Choices:
    """What the user, or the schema of a model, says about the tables.

    Attributes:
        header: whether text tables have a header; None to detect it.
        id: name of the column of nodes; None to guess it.
        target: names of the columns of the target; none to guess them.
        task: kind of the target; None to guess it.
        drop: names of columns to leave out.
        kinds: kinds of some columns.
        schema: the schema of tables that these are to be read like.
        columns: the columns of each table, recorded when it is opened.
    """

    header: bool | None = None
    id: str | None = None
    target: tuple[str, ...] = ()
    task: TargetKind | None = None
    drop: frozenset[str] = frozenset()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    schema: TableSchema | None = None
    columns: dict[Path, tuple[str, ...]] = field(default_factory=dict)

    def kept(self, file: TableFile) -> list[int]:
        """The columns that are not dropped."""
        self.columns[file.path] = file.names
        dropped = self.drop if self.schema is None else self.drop.union(self.schema.drop)
        return [i for i, name in enumerate(file.names) if name not in dropped]

    def node_column(self, file: TableFile, among: list[int], known: pa.Array | None) -> tuple[int, str]:
        """The column of the nodes, chosen by name or guessed, and its name for a note."""
        self.columns[file.path] = file.names
        if self.id is not None and self.id in file.names:
            return find_column(file, self.id, "id"), repr(self.id)
        if self.schema is not None and self.schema.id in [file.names[i] for i in among]:
            return find_column(file, str(self.schema.id), "id"), repr(self.schema.id)
        guessed = guess_node(file, among, known)
        return guessed, f"{file.names[guessed]!r} (guessed)"

    def unknown(self, names: Iterable[str], flag: str, files: Iterable[Path | None]) -> str:
        """Says that none of some files has columns of these names, and which they have; "" if there are all."""
        tables = [path for path in dict.fromkeys(files) if path in self.columns]
        columns = list(dict.fromkeys(name for path in tables for name in self.columns[path]))
        missing = sorted(set(names).difference(columns))
        if not missing:
            return ""
        if not tables:
            return f"no table has the column {listed(missing)} ({flag}, --{flag})"
        where = " and ".join(str(path) for path in tables)
        return f"{where}: no column {listed(missing)} ({flag}, --{flag}); the columns are {listed(columns)}"

    def target_columns(self, file: TableFile, among: list[int]) -> tuple[list[int], bool]:
        """The columns of the target in a table of labels, chosen by name or guessed, and whether they are guessed."""
        learned = () if self.schema is None else self.schema.target
        names = self.target or (learned if set(learned) <= set(file.names) else ())
        if names:
            return [find_column(file, name, "target") for name in names], False
        return among if self.task == "multi-label" else [guess_target(file, among)], True


def find_column(file: TableFile, name: str, flag: str) -> int:
    """The index of a column by its exact name.

    Raises:
        ValueError: if there is none, or two.
    """
    if file.names.count(name) != 1:
        found = "several columns" if name in file.names else "no column"
        raise ValueError(f"{file.path}: {found} {name!r} ({flag}, --{flag}); the columns are {listed(file.names)}")
    return file.names.index(name)


def guess_node(file: TableFile, among: Collection[int], known: pa.Array | None) -> int:
    """The column of the nodes: by its name, else by its values, else the first.

    Args:
        file: the table.
        among: indices of the columns to choose from.
        known: names of nodes in other files.
    """
    shares = _shares_of_nodes(file, among, known)
    best = max(shares.values())
    for name in NODE_NAMES:
        for i in among:
            if file.names[i].casefold() == name and (shares[i] > 0 or best == 0):
                return i
    return next(i for i in among if shares[i] == best)


def _shares_of_nodes(file: TableFile, among: Collection[int], known: pa.Array | None) -> dict[int, float]:
    """The fraction of known nodes among the first cells of each column; 0 if cells repeat."""
    columns = {i: [row[i].strip() for row in file.sample[:SAMPLE_ROWS] if i < len(row)] for i in among}
    if known is None:
        return dict.fromkeys(among, 0.0)
    cells = pa.array([cell for column in columns.values() for cell in column], pa.string())
    found = pc.is_in(cells, value_set=known).to_numpy(zero_copy_only=False)
    shares, first = {}, 0
    for i, column in columns.items():
        distinct = len(set(column)) == len(column) > 0
        shares[i] = float(found[first : first + len(column)].mean()) if distinct else 0.0
        first += len(column)
    return shares


def guess_target(file: TableFile, among: Collection[int]) -> int:
    """The column of the target in a table of labels: by its name, else the last."""
    names = {i: file.names[i].casefold() for i in among}
    exact = [i for target in TARGET_NAMES for i, name in names.items() if name == target]
    ending = [i for i, name in names.items() if name.endswith(tuple(f"_{target}" for target in TARGET_NAMES[:3]))]
    return [*exact, *ending, *reversed(list(among))][0]


def edge_columns(names: tuple[str, ...], among: list[int]) -> tuple[int, int, list[int]]:
    """The ends of the edges, by name or the first two columns, and the remaining columns."""
    folded = [names[i].casefold() for i in among]
    for start, end in zip(SOURCE_NAMES, END_NAMES, strict=True):
        if start in folded and end in folded:
            source, target = among[folded.index(start)], among[folded.index(end)]
            return source, target, [i for i in among if i not in (source, target)]
    return among[0], among[1], among[2:]


def too_few_columns(file: TableFile, kept: list[int], expected: str) -> ValueError:
    """The error for a table with fewer than two columns."""
    found = f"{counted(len(kept), 'column')} ({listed([file.names[i] for i in kept])})"
    advice = "" if file.line is None else ", separated by commas, tabs, semicolons or |"
    return ValueError(f"{file.origin}: found {found}; expected {expected}{advice}")


def counted(number: int, noun: str) -> str:
    """A number and a noun.

    >>> counted(1, "edge"), counted(2000, "class")
    ('1 edge', '2,000 classes')
    """
    plural = f"{noun}es" if noun.endswith("s") else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def listed(names: Collection[str]) -> str:
    """The first names of a list, in quotes."""
    shown = ", ".join(repr(name) for name in list(names)[:10])
    return shown + (f" and {len(names) - 10:,} more" if len(names) > 10 else "")
