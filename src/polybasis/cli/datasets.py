"""`polybasis datasets`: known data sets, and graph folders for graphs larger than memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polybasis.cli.options import AsJson, DataRoot, parse_size, refuse
from polybasis.cli.printable import echo

if TYPE_CHECKING:
    from polybasis.store.graph_folder import GraphFolder

HELP = "List data sets; build graph folders from tables; generate graphs of any size."
app = typer.Typer(help=HELP, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
LARGE = 256 << 20  # bytes of raw files from which a data set is loaded only if it is named
Out = Annotated[Path, typer.Option(help="The graph folder.")]


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
    """List the known data sets and which of them are installed, with size and homophily.

    Sizes of very large data sets are shown only if they are named.
    """
    from rich.table import Table

    from polybasis.cli.display import print_json, print_table
    from polybasis.data.catalogue import CATALOGUE, data_root, is_installed, load, unknown_dataset
    from polybasis.data.dataset import edge_homophily

    rows: list[dict[str, Any]] = []
    for name in names or list(CATALOGUE):
        if name not in CATALOGUE:
            raise unknown_dataset(name)
        entry = CATALOGUE[name]
        row: dict[str, Any] = {"name": name, "protocol": entry.protocol, "source": entry.source}
        row["installed"] = is_installed(name, root)
        size = sum((data_root(root) / entry.folder / file).stat().st_size for file in entry.files if row["installed"])
        if row["installed"] and (names or size < LARGE):
            data = load(name, root)
            row |= {"nodes": data.graph.num_nodes, "edges": data.graph.num_edges, "features": data.num_features}
            row |= {"classes": data.num_classes, "homophily": round(edge_homophily(data), 3), "metric": data.metric}
        rows.append(row)
    if as_json:
        print_json(rows)
        return
    table = Table("data set", title=f"Data sets in {data_root(root)}")
    for column in ("nodes", "edges", "features", "classes", "homophily"):
        table.add_column(column, justify="right")
    table.add_column("protocol")
    table.add_column("installed, or source")
    for row in rows:
        sizes = [f"{row[key]:,}" if key in row else "" for key in ("nodes", "edges", "features", "classes")]
        homophily = f"{row['homophily']:.3f}" if "homophily" in row else ""
        table.add_row(row["name"], *sizes, homophily, row["protocol"], "yes" if row["installed"] else row["source"])
    print_table(table)


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
    """Generate the folder of a random graph with heavy-tailed degrees."""
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
        typer.Option(help="Classes: with --nodes, .npy, one integer per node, -1 if unknown; else .csv or .parquet."),
    ] = None,
    memory: Annotated[str | None, typer.Option(help="With --nodes: approximate memory limit; default: 2GiB.")] = None,
    as_json: AsJson = False,
) -> None:
    """Build a graph folder from tables.

    With --nodes, nodes are numbers, and the file of edges may be larger than memory. Without it, nodes have names, and
    the tables have the format of `polybasis train --edges`. Edges may be in any order and direction; duplicates and
    self-loops are dropped.
    """
    from polybasis.data.tables import edge_batches, read_node_classes, read_node_features, read_tables
    from polybasis.store.graph_writing import build_graph_folder, write_graph_folder

    if nodes is None:
        refuse("--memory", memory, "tables with named nodes, which are read into memory; pass --nodes")
        data = read_tables(edges, features, labels)
        _print(write_graph_folder(out, data), as_json)
        return

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
