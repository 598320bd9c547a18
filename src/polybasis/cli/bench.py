"""`polybasis bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polybasis.cli.options import AsJson, DataRoot, Threads, refuse

if TYPE_CHECKING:
    from rich.table import Table

REFERENCE = Path("benchmarks/message_passing.py")


def bench(
    size: Annotated[list[str] | None, typer.Option(help="Graph sizes: squirrel, arxiv; default: all.")] = None,
    K: Annotated[int, typer.Option("--K", help="Degree of the filters.", min=1)] = 10,
    channels: Annotated[int, typer.Option(help="Channels of the signal.", min=1)] = 64,
    repeats: Annotated[int, typer.Option(help="Number of runs; the fastest is reported.", min=1)] = 5,
    threads: Threads = None,
    reference: Annotated[
        Path | None, typer.Option(help="Message-passing code to compare with; default: the one in a source checkout.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Time only the smaller graph and the epochs (about a minute).")
    ] = False,
    roofline: Annotated[
        bool, typer.Option("--roofline", help="Only compare the kernels with the memory bandwidth of this machine.")
    ] = False,
    growth: Annotated[bool, typer.Option(help="Measure how time grows with K, d and E.")] = True,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Benchmark the filters against bare sparse products, message passing and PyG's ChebConv.

    Everything runs in one process, in float32 and with the same number of threads. Each time is the best of several
    runs; message passing and ChebConv run twice after a warm-up on small graphs and once on large ones. Ratios are
    relative to K bare products with torch's sparse CSR matrix. Peak memory is in multiples of the signal's size. Epochs
    use the real data sets if these are installed.
    """
    import torch
    from rich.console import Console

    from polybasis import bench as benchmarks
    from polybasis import native
    from polybasis.bench.epochs import SIZES as EPOCH_SIZES
    from polybasis.bench.filters import SIZES
    from polybasis.cli.display import print_json

    if roofline:
        for flag, value in (("--reference", reference), ("--quick", quick), ("--data-root", data_root)):
            refuse(flag, value, "--roofline")
    sizes = size or (["squirrel"] if quick else list(SIZES))
    for name in sizes:
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
    document: dict[str, Any] = {"machine": machine}
    if roofline:
        document["roofline"] = []
        for name in sizes:
            with console.status(f"kernels on a {name}-sized graph"):
                found = benchmarks.bench_roofline(name, channels=channels, K=K, repeats=repeats)
            document["roofline"].append(found)
            console.print(_roofline_table(found))
    else:
        if reference is None:
            console.print(f"{REFERENCE} not found: skipping message passing and ChebConv")
        rows: list[dict[str, Any]] = []
        for name in sizes:
            with console.status(f"{name}-sized graph"):
                rows += benchmarks.bench_filters(name, channels=channels, K=K, repeats=repeats, reference=reference)
        console.print(_filters_table(rows))
        epochs: list[dict[str, Any]] = []
        for name in EPOCH_SIZES if not size else [name for name in EPOCH_SIZES if name in size]:
            with console.status(f"a training epoch, {name}"):
                epochs += benchmarks.bench_epochs(name, repeats=repeats, reference=reference, data_root=data_root)
        if epochs:
            console.print(_epochs_table(epochs, "Training epochs of OptBasisGNN"))
        deep: list[dict[str, Any]] = []
        if not size and not quick:
            with console.status("a training epoch of the residual network"):
                deep = benchmarks.bench_residual_epochs(repeats=repeats, data_root=data_root)
            console.print(_epochs_table(deep, "Training epochs of the residual network, 3 blocks, 64 channels"))
        slopes: list[dict[str, Any]] = []
        if growth and not quick:
            with console.status("growth with K, d and E"):
                slopes = benchmarks.bench_growth()
            console.print(_growth_table(slopes))
        document |= {"filters": rows, "epochs": epochs, "residual_epochs": deep, "growth": slopes}
    if as_json:
        print_json(document)


def _filters_table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

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


def _epochs_table(rows: list[dict[str, Any]], title: str) -> Table:
    from rich.table import Table

    table = Table("data", "contender", "K", "seconds per epoch", "ratio", title=title)
    for row in rows:
        table.add_row(row["data"], row["contender"], str(row["K"]), f"{row['seconds']:.4f}", f"{row['times']:.1f}")
    return table


def _growth_table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("variable", "values", "seconds per training step", "exponent", title="Growth")
    for row in rows:
        values, seconds = ", ".join(f"{v:,}" for v in row["values"]), ", ".join(f"{s:.3f}" for s in row["seconds"])
        table.add_row(row["axis"], values, seconds, f"{row['exponent']:.2f}")
    return table


def _roofline_table(found: dict[str, Any]) -> Table:
    from rich.table import Table

    title = (
        f"Kernels on a {found['graph']}-sized graph, K = {found['K']}, {found['channels']} channels; "
        f"triad {found['triad'] / 1e9:.1f} GB/s"
    )
    table = Table("kernel", title=title)
    for column in ("ms", "needed MB", "moved MB", "moved GB/s", "fraction of roof"):
        table.add_column(column, justify="right")
    for row in found["kernels"]:
        table.add_row(
            row["kernel"],
            f"{row['seconds'] * 1e3:.2f}",
            f"{row['needed'] / 1e6:.1f}",
            f"{row['moved'] / 1e6:.1f}",
            f"{row['moved'] / row['seconds'] / 1e9:.1f}",
            f"{row['share']:.0%}",
        )
    return table
