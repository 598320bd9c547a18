"""`polybasis datasets`: what there is, and graph folders for graphs larger than memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from polybasis.cli.display import console
from polybasis.cli.options import AsJson, DataRoot, as_bytes
from polybasis.data.catalogue import CATALOGUE, data_root, load, present
from polybasis.data.dataset import edge_homophily
from polybasis.store.graph_folder import GraphFolder, NodeData, build_graph_folder
from polybasis.store.sources import edge_stream
from polybasis.store.synthetic import make_synthetic

app = typer.Typer(help="List data sets; build graph folders from edge lists; make graphs of any size.")
Memory = Annotated[str, typer.Option(help="Memory to stay within, about.")]
Out = Annotated[Path, typer.Option(help="The graph folder.")]


@app.callback(invoke_without_command=True)
def datasets(context: typer.Context) -> None:
    """List data sets; build graph folders from edge lists; make graphs of any size."""
    if context.invoked_subcommand is None:
        list_()


@app.command("list")
def list_(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; all unless given.")] = None,
    root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """List the data sets: size, homophily, and whether their files are here."""
    rows: list[dict[str, Any]] = []
    for name in names or list(CATALOGUE):
        if name not in CATALOGUE:
            raise ValueError(f"there is no data set {name!r}; expected one of {', '.join(CATALOGUE)}")
        entry = CATALOGUE[name]
        row: dict[str, Any] = {"name": name, "splits": entry.protocol, "source": entry.source}
        row["present"] = present(name, root)
        if row["present"]:
            data = load(name, root)
            row |= {"nodes": data.graph.num_nodes, "edges": data.graph.num_edges, "features": data.num_features}
            row |= {"classes": data.num_classes, "homophily": round(edge_homophily(data), 3), "metric": data.metric}
        rows.append(row)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    table = Table("data set", title=f"Data sets in {data_root(root)}")
    for column in ("nodes", "edges", "features", "classes", "homophily"):
        table.add_column(column, justify="right")
    table.add_column("splits")
    table.add_column("present, or where to get it")
    for row in rows:
        sizes = [f"{row[key]:,}" if key in row else "" for key in ("nodes", "edges", "features", "classes")]
        homophily = f"{row['homophily']:.3f}" if "homophily" in row else ""
        table.add_row(row["name"], *sizes, homophily, row["splits"], "yes" if row["present"] else row["source"])
    console.print(table)


@app.command("synth")
def synth(
    nodes: Annotated[int, typer.Option(help="Nodes.", min=2)],
    edges: Annotated[int, typer.Option(help="Edges that are drawn; loops and repetitions are dropped.", min=1)],
    features: Annotated[int, typer.Option(help="Features.", min=1)],
    out: Out,
    labelled: Annotated[float, typer.Option(help="Share of nodes with a class.", min=0, max=1)] = 0.0135,
    memory: Memory = "2GiB",
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
) -> None:
    """Make a graph folder of any size with unequal degrees, seeded."""
    graph = make_synthetic(out, nodes, edges, features, labelled=labelled, memory=as_bytes(memory), seed=seed)
    _say(graph)


@app.command("build")
def build(
    edges: Annotated[Path, typer.Option(help="Edges by node numbers: .csv with a header, .parquet, or .npy.")],
    nodes: Annotated[int, typer.Option(help="Nodes; edges have numbers below.", min=1)],
    out: Out,
    features: Annotated[Path | None, typer.Option(help="Features: .npy, one row a node.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Classes: .npy, one whole number a node, -1: unknown.")] = None,
    memory: Memory = "2GiB",
) -> None:
    """Build a graph folder from a list of edges that may be larger than memory.

    Edges come in any order and direction, once or several times; self-loops are dropped.
    """

    def array(path: Path | None) -> Any:
        if path is None:
            return None
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError) as error:
            raise ValueError(f"{path} cannot be read ({error})") from error

    data = NodeData(array(features), array(labels), name=out.name)
    _say(build_graph_folder(out, edge_stream(edges), nodes, memory=as_bytes(memory), data=data))


def _say(graph: GraphFolder) -> None:
    console.print(f"{graph.nodes:,} nodes and {graph.nonzeros:,} nonzeros in {graph.path}")
