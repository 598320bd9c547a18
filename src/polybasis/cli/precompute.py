"""`polybasis precompute`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from polybasis.cli.options import AsJson, DataRoot, Ray, parse_size, refuse
from polybasis.cli.printable import echo

if TYPE_CHECKING:
    from polybasis.store.graph_folder import GraphFolder
    from polybasis.store.precomputation import Plan


def precompute(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A data set's name or a graph folder.")],
    out: Annotated[Path, typer.Option(help="Store to write, a folder.")],
    degree: Annotated[int, typer.Option("--K", help="Degree of the basis.", min=0)] = 10,
    memory: Annotated[str, typer.Option(help="Memory limit.")] = "8GiB",
    rows: Annotated[Literal["labelled", "all"], typer.Option(help="Which rows to keep.")] = "labelled",
    dtype: Annotated[Literal["float32", "float16"], typer.Option(help="Data type of the vectors.")] = "float32",
    feature_transform: Annotated[
        Literal["row-normalize", "binarize"] | None, typer.Option(help="Transform of the features.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan.")] = False,
    ray: Ray = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Precompute the optimal basis of a graph's features under a memory limit; resumes if interrupted.

    Every polynomial filter can use the resulting store: polybasis train STORE, or pb.open_store(path) in Python.
    """
    from polybasis.cli.display import console, precompute_bar, print_json
    from polybasis.store.named import graph_folder_of
    from polybasis.store.precomputation import kept_rows, plan_precompute
    from polybasis.store.precomputation import precompute as make_store

    if (Path(source) / "graph.json").exists():
        refuse("--data-root", data_root, f"the folder {source}")
    limit = parse_size(memory)
    with tempfile.TemporaryDirectory() as scratch:
        parent = Path(scratch) if dry_run and not (out.parent / f"{source}.graph").exists() else out.parent
        graph = graph_folder_of(source, parent, data_root, limit)
        plan = plan_precompute(graph, degree, memory=limit, rows=len(kept_rows(graph, rows)), dtype=dtype)
        seconds = _expected_seconds(graph, plan)
    document = {
        "nodes": graph.num_nodes,
        "nonzeros": graph.nonzeros,
        "K": degree,
        "blocks": plan.blocks,
        "rows": plan.rows,
        "memory": plan.memory,
        "disk": plan.disk,
        "seconds": round(seconds, 1),
    }
    text = (
        f"{graph.num_nodes:,} nodes, {graph.nonzeros:,} nonzeros, {sum(plan.blocks)} channels in blocks of "
        f"{plan.blocks[0]}; memory {plan.memory / 2**30:.2f} GiB, disk {plan.disk / 2**30:.2f} GiB for "
        f"{plan.rows:,} rows; about {seconds:.0f} s"
    )
    if dry_run:
        print_json(document) if as_json else echo(text)
        return
    console.print(text, soft_wrap=True, highlight=False)
    start = time.monotonic()
    with precompute_bar() as on_step:
        store = make_store(
            graph, out, degree, memory=limit, keep=rows, dtype=dtype, feature_transform=feature_transform,
            cluster=ray, on_step=on_step,
        )  # fmt: skip
    if as_json:
        print_json({**document, "store": str(store.path), "seconds": round(time.monotonic() - start, 1)})
    else:
        echo(f"store of {len(store):,} rows and {store.channels} channels in {store.path}")


def _expected_seconds(graph: GraphFolder, plan: Plan) -> float:
    """An estimate from one product with a part of the graph and vectors too large for the cache.

    It is too low for the largest graphs, whose neighbours are also sorted into stripes and read from disk.
    """
    import numpy as np
    import torch

    from polybasis import native
    from polybasis.store.arrays import drop_pages, zeros

    width = plan.blocks[0]
    nodes = min(graph.num_nodes, 1 << 24, (1 << 30) // (4 * width))
    indptr = np.minimum(graph.indptr[: nodes + 1], 20_000_000)
    indices = np.array(graph.indices[: int(indptr[-1])]) % nodes  # map neighbours to nodes of the part
    drop_pages(graph.indptr)
    drop_pages(graph.indices)
    operator = native.streamed(indptr, indices)
    u, w = zeros(nodes, width), zeros(nodes, width)
    u.fill(1)  # pages that were never written are not read from memory
    numbers, sums = np.ones(width), np.zeros(width)
    best = float("inf")
    for _ in range(2):
        start = time.monotonic()
        operator.product(u, numbers, numbers, w, sums, torch.get_num_threads())
        operator.subtract(u, numbers, numbers, w, sums, torch.get_num_threads())
        best = min(best, time.monotonic() - start)
    share = (nodes + int(indptr[-1])) / (graph.num_nodes + graph.nonzeros)
    return best / share * plan.K * len(plan.blocks)
