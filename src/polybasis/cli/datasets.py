"""`polybasis datasets`: known data sets, and graph folders for graphs larger than memory."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polybasis.cli.options import AsJson, DataRoot, Target, Task, parse_size, refuse
from polybasis.cli.printable import echo

if TYPE_CHECKING:
    from polybasis.store.graph_folder import GraphFolder

HELP = "List data sets, build graph folders from tables, and generate graphs of any size."
app = typer.Typer(help=HELP, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
STATISTICS = ("nodes", "edges", "features", "classes", "homophily")
Out = Annotated[Path, typer.Option(help="Graph folder to write.")]


@app.callback(invoke_without_command=True)
def datasets(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_()


datasets.__doc__ = HELP


@app.command("list")
def list_(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; default: all.")] = None,
    root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """List the known data sets with their size and homophily, and show which are installed.

    If you name data sets, the installed ones are loaded and measured, and their task and paper are listed too.
    Otherwise, sizes come from the catalogue. A star marks published statistics, which may count edges differently.
    """
    from rich.table import Table

    from polybasis.cli.display import print_json, print_table
    from polybasis.data.catalogue import CATALOGUE, data_root, unknown_dataset
    from polybasis.data.entries import CAMPUSES

    if unknown := [name for name in names or [] if name not in CATALOGUE]:
        raise unknown_dataset(unknown[0])
    rows = [_row(name, root, measure=bool(names)) for name in names or CATALOGUE]
    if as_json:
        print_json(rows)
        return
    table = Table("data set", title=f"Data sets in {data_root(root)}")
    for column in STATISTICS:
        table.add_column(column, justify="right")
    table.add_column("protocol")
    table.add_column("installed, or source")
    for row in rows:
        if names or row["name"] not in CAMPUSES:
            table.add_row(*_cells(row))
        elif row["name"] == CAMPUSES[0]:
            table.add_row(*_cells_of_campuses([row for row in rows if row["name"] in CAMPUSES]))
    print_table(table)
    if names:
        for row in rows:
            print(f"{row['name']}: {row['task']}. {row['paper']}")
    else:
        print(fill(f"Campuses of facebook100: {', '.join(CAMPUSES)}.", 120))
        print("* published statistics; the source may count edges differently.")


def _cells(row: dict[str, Any]) -> list[str]:
    digits = ".3f" if row["measured"] else "g"
    homophily = "" if row["homophily"] is None else f"{row['homophily']:{digits}}"
    sizes = [f"{row[key]:,}" for key in STATISTICS[:-1]]
    name = row["name"] if row["measured"] else f"{row['name']} *"
    return [name, *sizes, homophily, row["protocol"], "yes" if row["installed"] else row["source"]]


def _cells_of_campuses(rows: list[dict[str, Any]]) -> list[str]:
    """The smallest and largest numbers of all campuses."""
    cells = [f"{len(rows)} campuses"]
    for key in STATISTICS:
        low, high = min(row[key] for row in rows), max(row[key] for row in rows)
        cells.append(f"{low:,}" if low == high else f"{low:,} - {high:,}")
    installed = sum(row["installed"] for row in rows)
    place = rows[0]["source"] if installed == 0 else f"{installed} of {len(rows)}" if installed < len(rows) else "yes"
    return [*cells, rows[0]["protocol"], place]


def _row(name: str, root: str | None, measure: bool) -> dict[str, Any]:
    from polybasis.data.catalogue import CATALOGUE, is_installed, load

    entry, installed = CATALOGUE[name], is_installed(name, root)
    about = entry.description
    row: dict[str, Any] = {"name": name, "protocol": entry.protocol, "source": entry.source, "installed": installed}
    row |= {"task": about.task, "paper": about.paper, "measured": about.measured}
    row |= {key: getattr(about, key) for key in STATISTICS}
    if measure and installed:
        from polybasis.data.dataset import edge_homophily

        data = load(name, root)
        row |= {"nodes": data.graph.num_nodes, "edges": data.graph.num_edges, "features": data.num_features}
        row |= {"classes": data.num_classes, "homophily": round(edge_homophily(data), 3), "metric": data.metric}
        row["measured"] = True
    return row


@app.command("synth")
def synth(
    nodes: Annotated[int, typer.Option(help="Number of nodes.", min=2)],
    edges: Annotated[int, typer.Option(help="Number of edges to draw; self-loops and duplicates are dropped.", min=1)],
    features: Annotated[int, typer.Option(help="Number of features.", min=1)],
    out: Out,
    labelled: Annotated[float, typer.Option(help="Fraction of nodes with a class.", min=0, max=1)] = 0.0135,
    memory: Annotated[str, typer.Option(help="Approximate memory limit.")] = "2GiB",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Generate a graph folder with a random graph of heavy-tailed degrees."""
    from polybasis.store.synthetic import make_synthetic

    limit = parse_size(memory)
    _print(make_synthetic(out, nodes, edges, features, labelled=labelled, memory=limit, seed=seed), as_json)


@app.command("build")
def build(
    edges: Annotated[Path, typer.Option(help="Edges: .csv or .parquet with source and target; or .npy.")],
    out: Out,
    nodes: Annotated[
        int | None, typer.Option(help="Number of nodes; edges are then pairs of node numbers, counted from 0.", min=1)
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Features: .npy, one row per node; without --nodes also .csv or .parquet.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Targets: with --nodes, .npy with a class per node, -1 if unknown; else .csv or .parquet."),
    ] = None,
    target: Target = None,
    task: Task = None,
    memory: Annotated[str | None, typer.Option(help="With --nodes: approximate memory limit; default: 2GiB.")] = None,
    as_json: AsJson = False,
) -> None:
    """Build a graph folder from tables.

    With --nodes, nodes are identified by numbers, and the edge file may be larger than memory. Without it, nodes have
    names, and the tables have the same formats as in `polybasis train --edges`, but no weights or unused columns.
    Edges may be in any order and direction. Duplicates and self-loops are dropped.
    """
    from polybasis.data.tables import TableError, edge_batches, read_node_classes, read_node_features, read_tables
    from polybasis.data.targets import as_task
    from polybasis.store.graph_writing import build_graph_folder, write_graph_folder

    if nodes is None:
        refuse("--memory", memory, "tables with named nodes, which are read into memory; pass --nodes")
        try:
            data = read_tables(edges, features, labels, target=target, task=None if task is None else as_task(task))
        except TableError as error:
            lacking = [
                flag for flag in ("--drop", "--merge", "--id", "--categorical", "--numeric") if flag in str(error)
            ]
            if lacking:
                error.add_note(f"`datasets build` has no {' or '.join(lacking)}: change the tables instead")
            raise
        _print(write_graph_folder(out, data), as_json)
        return
    refuse("--target", target, "--nodes: nodes and columns of arrays have no names")
    refuse("--task", task, "--nodes: classes are integers")
    folder = build_graph_folder(
        out,
        edge_batches(edges, nodes),
        nodes,
        x=None if features is None else read_node_features(features, nodes),
        y=None if labels is None else read_node_classes(labels, nodes),
        name=out.name,
        memory=parse_size(memory or "2GiB"),
    )
    _print(folder, as_json)


def _print(folder: GraphFolder, as_json: bool) -> None:
    from polybasis.cli.display import print_json

    if as_json:
        print_json({"folder": str(folder.path), "nodes": folder.num_nodes, "nonzeros": folder.nonzeros})
    else:
        echo(f"{folder.num_nodes:,} nodes and {folder.nonzeros:,} nonzeros in {folder.path}")
