"""`polybasis precompute`."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from polybasis import native
from polybasis.cli.display import console
from polybasis.data.catalogue import CATALOGUE, load
from polybasis.nn.features import as_dense
from polybasis.store.graph_folder import GraphFolder, build_graph_folder, synthetic_edges, write_graph_folder
from polybasis.store.precompute import Keep, Plan, kept_rows, plan_precompute
from polybasis.store.precompute import precompute as make_store

UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def as_bytes(text: str) -> int:
    """A size such as 8GiB.

    >>> as_bytes("1.5GiB")
    1610612736
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]iB|)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size; write it as 8GiB or 512MiB")
    return int(float(found[1]) * UNITS[found[2]])


def precompute(
    source: Annotated[str, typer.Argument(help="A data set's name, or a graph folder.")],
    out: Annotated[Path, typer.Option(help="Folder of the store.")],
    degree: Annotated[int, typer.Option("--K", help="Degree of the basis.", min=0)] = 10,
    memory: Annotated[str, typer.Option(help="Memory to stay within.")] = "8GiB",
    rows: Annotated[Keep, typer.Option(help="Rows that are kept: labelled or all.")] = "labelled",
    dtype: Annotated[str, typer.Option(help="float32 or float16.")] = "float32",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan only.")] = False,
    data_root: Annotated[str | None, typer.Option(help="Folder of all data sets.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Compute the optimal basis of a graph once, block by block under a memory limit; goes on where it was stopped.

    One store serves every polynomial filter: pb.open_store(path).
    """
    graph = _graph(source, out, data_root)
    limit = as_bytes(memory)
    plan = plan_precompute(graph, degree, memory=limit, rows=len(kept_rows(graph, rows)), dtype=dtype)
    seconds = _expected_seconds(graph, plan)
    said = {
        "nodes": graph.nodes,
        "nonzeros": graph.nonzeros,
        "K": degree,
        "blocks": plan.blocks,
        "rows": plan.rows,
        "memory": plan.memory,
        "disk": plan.disk,
        "seconds": round(seconds, 1),
    }
    if as_json and dry_run:
        typer.echo(json.dumps(said))
    else:
        console.print(
            f"{graph.nodes:,} nodes, {graph.nonzeros:,} nonzeros, {sum(plan.blocks)} channels in {len(plan.blocks)} "
            f"blocks of {plan.blocks[0]}; memory {plan.memory / 2**30:.2f} GiB, disk {plan.disk / 2**30:.2f} GiB for "
            f"{plan.rows:,} rows; about {seconds:.0f} s"
        )
    if dry_run:
        return
    start = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("precompute", total=len(plan.blocks) * (degree + 1))

        def report(block: int, blocks: int, step: int, steps: int) -> None:
            bar.update(task, description=f"block {block + 1} of {blocks}", completed=block * (steps + 1) + step)

        store = make_store(graph, out, degree, memory=limit, keep=rows, dtype=dtype, report=report)
    if as_json:
        typer.echo(json.dumps({**said, "store": str(store.path), "seconds": round(time.monotonic() - start, 1)}))
    else:
        console.print(f"store of {len(store):,} rows and {store.channels} channels in {store.path}")


def synth(
    nodes: Annotated[int, typer.Option(help="Nodes.", min=2)],
    edges: Annotated[int, typer.Option(help="Edges that are drawn; loops and repetitions are dropped.", min=1)],
    features: Annotated[int, typer.Option(help="Features.", min=1)],
    out: Annotated[Path, typer.Option(help="The graph folder.")],
    labelled: Annotated[float, typer.Option(help="Share of nodes with a class.", min=0, max=1)] = 0.0135,
    memory: Annotated[str, typer.Option(help="Memory to stay within, about.")] = "2GiB",
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
) -> None:
    """Make a graph folder of any size with unequal degrees, seeded."""
    rng = np.random.default_rng([seed, 1])
    y = np.where(rng.random(nodes) < labelled, rng.integers(0, 10, nodes), -1)
    place = out.parent / f".{out.name}.x.npy"
    place.parent.mkdir(parents=True, exist_ok=True)
    x = np.lib.format.open_memmap(place, mode="w+", dtype=np.float16, shape=(nodes, features))
    for first in range(0, nodes, 1 << 18):
        x[first : first + (1 << 18)] = rng.standard_normal((min(1 << 18, nodes - first), features), dtype=np.float32)
    try:
        graph = build_graph_folder(out, synthetic_edges(nodes, edges, seed), nodes, memory=as_bytes(memory), x=x, y=y)
    finally:
        place.unlink()
    console.print(f"{graph.nodes:,} nodes and {graph.nonzeros:,} nonzeros in {out}")


def _graph(source: str, out: Path, data_root: str | None) -> GraphFolder:
    if Path(source).is_dir():
        return GraphFolder.open(source)
    if source not in CATALOGUE:
        raise ValueError(f"{source!r} is neither a graph folder nor a data set; see `polybasis datasets`")
    folder = out.parent / f"{source}.graph"
    if not folder.exists():
        data = load(source, data_root)
        write_graph_folder(folder, data.graph, as_dense(data.x).numpy(), data.y.numpy())
    return GraphFolder.open(folder)


def _expected_seconds(graph: GraphFolder, plan: Plan) -> float:
    """From one product on as much of the graph as a second has room for."""
    rows = int(np.searchsorted(graph.indptr, min(graph.nonzeros, 20_000_000), side="right")) - 1
    rows = max(1, min(rows, graph.nodes))
    indptr = np.array(graph.indptr[: rows + 1])
    indices = np.array(graph.indices[: int(indptr[-1])]) % rows  # its neighbours, folded into what is here
    operator, width = native.streamed(indptr, indices), plan.blocks[0]
    u, w = np.zeros((rows, width), dtype=np.float32), np.zeros((rows, width), dtype=np.float32)
    numbers, sums = np.ones(width), np.zeros(width)
    best = float("inf")
    for _ in range(2):
        start = time.monotonic()
        operator.product(u, numbers, numbers, w, sums, torch.get_num_threads())
        operator.subtract(u, numbers, numbers, w, sums, torch.get_num_threads())
        best = min(best, time.monotonic() - start)
    share = (rows + int(indptr[-1])) / (graph.nodes + graph.nonzeros)
    return best / share * (plan.K + 1) * len(plan.blocks)
