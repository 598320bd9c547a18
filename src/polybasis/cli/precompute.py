"""`polybasis precompute`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from polybasis import native
from polybasis.cli.display import console, precompute_bar
from polybasis.cli.options import AsJson, DataRoot, Ray, as_bytes
from polybasis.store.arrays import drop_pages, zeros
from polybasis.store.graph_folder import GraphFolder
from polybasis.store.precompute import Keep, Plan, kept_rows, plan_precompute
from polybasis.store.precompute import precompute as make_store
from polybasis.store.sources import graph_of


def precompute(
    source: Annotated[str, typer.Argument(help="A data set's name, or a graph folder.")],
    out: Annotated[Path, typer.Option(help="Folder of the store.")],
    degree: Annotated[int, typer.Option("--K", help="Degree of the basis.", min=0)] = 10,
    memory: Annotated[str, typer.Option(help="Memory to stay within.")] = "8GiB",
    rows: Annotated[Keep, typer.Option(help="Rows that are kept: labelled or all.")] = "labelled",
    dtype: Annotated[str, typer.Option(help="float32 or float16.")] = "float32",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan only.")] = False,
    ray: Ray = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Compute the optimal basis of a graph once, block by block under a memory limit; goes on where it was stopped.

    One store serves every polynomial filter: pb.open_store(path).
    """
    limit = as_bytes(memory)
    graph = graph_of(source, out.parent, data_root, limit)
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
    with precompute_bar() as report:
        store = make_store(graph, out, degree, memory=limit, keep=rows, dtype=dtype, cluster=ray, report=report)
    if as_json:
        typer.echo(json.dumps({**said, "store": str(store.path), "seconds": round(time.monotonic() - start, 1)}))
    else:
        console.print(f"store of {len(store):,} rows and {store.channels} channels in {store.path}")


def _expected_seconds(graph: GraphFolder, plan: Plan) -> float:
    """From one product on a part of the graph, with vectors too large for the cache.

    On the largest graphs neighbours are also sorted into stripes, and read from disk: that takes longer.
    """
    width = plan.blocks[0]
    nodes = min(graph.nodes, 1 << 24, (1 << 30) // (4 * width))
    indptr = np.minimum(graph.indptr[: nodes + 1], 20_000_000)
    indices = np.array(graph.indices[: int(indptr[-1])]) % nodes  # neighbours, folded into what is here
    drop_pages(graph.indptr)
    drop_pages(graph.indices)
    operator = native.streamed(indptr, indices)
    u, w = zeros(nodes, width), zeros(nodes, width)
    u.fill(1)  # memory that nobody has written to is not read either
    numbers, sums = np.ones(width), np.zeros(width)
    best = float("inf")
    for _ in range(2):
        start = time.monotonic()
        operator.product(u, numbers, numbers, w, sums, torch.get_num_threads())
        operator.subtract(u, numbers, numbers, w, sums, torch.get_num_threads())
        best = min(best, time.monotonic() - start)
    share = (nodes + int(indptr[-1])) / (graph.nodes + graph.nonzeros)
    return best / share * plan.K * len(plan.blocks)
