"""`polybasis reproduce line` and `stale`: repeat a committed line, and list lines whose code has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polybasis.cli.options import AsJson, DataRoot


def line(
    place: Annotated[str, typer.Argument(metavar="FILE:NUMBER", help="A line of a results file, counted from 1.")],
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Run one committed line again, on one thread, and compare the scores; exit status 1 if they differ.

    Configuration, data set, protocol, split and seed are those that the line records.

    Example:

      polybasis reproduce line results/node-classification/gcn.jsonl:1
    """
    from rich.table import Table

    from polybasis.cli.display import console, print_json, print_table
    from polybasis.experiments.committed_lines import SCORES, parse_place, repeat_line

    path, number = parse_place(place)
    repetition = repeat_line(path, number, data_root)
    committed, new = repetition.committed, repetition.new
    if as_json:
        print_json({"line": place, **repetition.to_dict()})
    else:
        table = Table("", "committed", "new")
        for name in (*SCORES, "threads", "code"):
            table.add_row(name, str(committed.get(name, "not recorded")), str(new[name]))
        print_table(table)
    console.print("the scores are the same" if repetition.same else "the scores differ", soft_wrap=True)
    if not repetition.same:
        raise typer.Exit(1)


def stale(
    folder: Annotated[Path, typer.Argument(help="Folder of results.")] = Path("results"),
    as_json: AsJson = False,
) -> None:
    """List committed lines whose code has changed since they were computed, by the commit that they record.

    Code is native/ and the files of src/polybasis that scores depend on, uncommitted changes included. A changed
    comment counts; `reproduce line` decides whether a line still holds. Lines without a commit are unknown.
    """
    from polybasis.cli.display import print_json
    from polybasis.code_version import PACKAGE, repository_of
    from polybasis.experiments.committed_lines import as_ranges, line_statuses

    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder")
    repository = repository_of(PACKAGE)
    if repository is None:
        raise ValueError("polybasis is not installed from a git checkout (pip install -e .); nothing to compare with")
    found = line_statuses(folder, repository)
    if as_json:
        names = ("number", "code", "status", "changed")
        print_json([{"file": str(one.path), **{name: getattr(one, name) for name in names}} for one in found])
        return
    for status in ("stale", "unknown"):
        for path in dict.fromkeys(one.path for one in found if one.status == status):
            numbers = [one.number for one in found if one.path == path and one.status == status]
            typer.echo(f"{status} {path}:{as_ranges(numbers)}")
    counts = [sum(one.status == status for one in found) for status in ("stale", "unknown", "current")]
    typer.echo("{} stale, {} unknown, {} current".format(*counts))
