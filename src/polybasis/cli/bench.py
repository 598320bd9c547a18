"""`polybasis bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from polybasis import bench as benchmarks
from polybasis import native
from polybasis.bench.epochs import SIZES as EPOCH_SIZES
from polybasis.bench.filters import SIZES

REFERENCE = Path("benchmarks/message_passing.py")


def bench(
    size: Annotated[list[str] | None, typer.Option(help=f"Graph sizes: {', '.join(SIZES)}; all unless given.")] = None,
    K: Annotated[int, typer.Option("--K", help="Degree of the filters.")] = 10,
    channels: Annotated[int, typer.Option(help="Channels of the signal.")] = 64,
    repeats: Annotated[int, typer.Option(help="Runs of which the best counts.")] = 5,
    threads: Annotated[int | None, typer.Option(help="Threads; torch's number unless given.")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Message-passing code to compare with; found in a checkout unless given.")
    ] = None,
    growth: Annotated[bool, typer.Option(help="Measure how time grows with K, d and E.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Time the filters: this engine, bare sparse products, message passing, PyG's ChebConv.

    Everything runs in one process with the same threads in float32; each number is the best of several. The unit of the
    ratios is K bare products with torch's sparse CSR matrix. Peak memory is given in arrays of the signal's size.
    """
    for name in size or []:
        if name not in SIZES:
            raise ValueError(f"--size is {name!r}; expected {' or '.join(SIZES)}")
    if threads is not None:
        torch.set_num_threads(threads)
    if reference is None and REFERENCE.is_file():
        reference = REFERENCE
    console = Console(stderr=as_json)
    module = native.kernels()
    machine = {
        "threads": torch.get_num_threads(),
        "isa": module.best_isa() if module else None,
        "torch": torch.__version__,
    }
    console.print(f"{machine['threads']} threads, {machine['isa'] or 'no native kernels'}, torch {machine['torch']}")
    if reference is None:
        console.print(f"{REFERENCE} is not here: message passing and ChebConv are left out")

    rows: list[dict[str, Any]] = []
    for name in size or list(SIZES):
        with console.status(f"{name}-sized graph"):
            rows += benchmarks.bench_filters(name, channels=channels, K=K, repeats=repeats, reference=reference)
    console.print(_filters_table(rows))
    epochs: list[dict[str, Any]] = []
    for name in EPOCH_SIZES if not size else [name for name in EPOCH_SIZES if name in size]:
        with console.status(f"a training epoch, {name}-sized"):
            epochs += benchmarks.bench_epochs(name, repeats=repeats, reference=reference)
    if epochs:
        console.print(_epochs_table(epochs))
    slopes: list[dict[str, Any]] = []
    if growth:
        with console.status("growth with K, d and E"):
            slopes = benchmarks.bench_growth()
        console.print(_growth_table(slopes))
    if as_json:
        typer.echo(json.dumps({"machine": machine, "filters": rows, "epochs": epochs, "growth": slopes}, indent=1))


def _filters_table(rows: list[dict[str, Any]]) -> Table:
    table = Table("graph", "contender", title="Filters")
    for column in ("forward s", "ratio", "+ backward s", "ratio", "peak"):
        table.add_column(column, justify="right")
    for row in rows:
        step = [f"{row['step']:.4f}", f"{row['step_ratio']:.2f}"] if "step" in row else ["", ""]
        peak = f"{row['peak_vectors']:.1f}" if row.get("peak_vectors") is not None else ""
        table.add_row(
            row["graph"], row["contender"], f"{row['forward']:.4f}", f"{row['forward_ratio']:.2f}", *step, peak
        )
    return table


def _epochs_table(rows: list[dict[str, Any]]) -> Table:
    table = Table("data", "contender", "K", "seconds an epoch", "times", title="Training epochs of OptBasisGNN")
    for row in rows:
        table.add_row(row["data"], row["contender"], str(row["K"]), f"{row['seconds']:.4f}", f"{row['times']:.1f}")
    return table


def _growth_table(rows: list[dict[str, Any]]) -> Table:
    table = Table("along", "values", "seconds of a training step", "exponent", title="Growth")
    for row in rows:
        values, seconds = ", ".join(f"{v:,}" for v in row["values"]), ", ".join(f"{s:.3f}" for s in row["seconds"])
        table.add_row(row["axis"], values, seconds, f"{row['exponent']:.2f}")
    return table
