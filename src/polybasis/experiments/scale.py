"""The cost of precomputation by graph size, and a comparison of training on a store with training on the graph."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

from polybasis.code_version import code_version
from polybasis.data.catalogue import CATALOGUE
from polybasis.experiments.markdown import markdown_table
from polybasis.files import append_line, read_lines, write_atomically
from polybasis.nn.models.names import PRECOMPUTED
from polybasis.store.basis_store import open_store
from polybasis.store.graph_folder import GraphFolder
from polybasis.store.named import graph_folder_of
from polybasis.store.precomputation import precompute
from polybasis.train.config import Config
from polybasis.train.job import Job, OnResult, run_jobs
from polybasis.train.presets import load_preset
from polybasis.train.results import Result, read_results, summarize
from polybasis.train.source import Source

SIZES, ON_GRAPH, ON_STORE = "sizes.jsonl", "on-graph.jsonl", "on-store.jsonl"
DATASETS = ("cornell5", "pubmed", "tolokers")
DEGREE = 10
# Chosen by the validation score of optbasisgnn on one split.
HIDDEN = {"cornell5": 64, "pubmed": 64, "tolokers": 256}
BATCH_SIZE = {"cornell5": 1000, "pubmed": 1000, "tolokers": 500}


def log_size(graph: GraphFolder, store: Path, folder: Path) -> dict[str, Any]:
    """Records the sizes, time and memory of building a store, from its log."""
    opened = open_store(store)
    lines = read_lines(store / "log.jsonl")
    blocks = list({line["block"]: line for line in lines if "block" in line}.values())
    merged = [line for line in lines if "merged" in line][-1]
    products = [(seconds, block["channels"]) for block in blocks for seconds in block["product_seconds"]]
    row = {
        "nodes": graph.num_nodes,
        "nonzeros": graph.nonzeros,
        "channels": opened.channels,
        "K": opened.K,
        "rows": len(opened),
        "blocks": len(blocks),
        "block_channels": max(block["channels"] for block in blocks),
        "threads": blocks[0]["threads"],
        "seconds": round(sum(line["seconds"] for line in (*blocks, merged)), 1),
        "product_seconds": round(mean(seconds for seconds, _ in products), 3),
        "nanoseconds_per_nonzero_and_channel": round(
            1e9 * sum(seconds for seconds, _ in products) / sum(width for _, width in products) / graph.nonzeros, 4
        ),
        "peak_memory": max(line["peak_memory"] for line in (*blocks, merged)),
        "graph_bytes": _bytes(graph.path),
        "store_bytes": _bytes(store),
        "code": code_version(),
    }
    append_line(folder / SIZES, json.dumps(row))
    return row


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def graph_config(model: str, dataset: str) -> Config:
    """The configuration for training on the graph: the published one, else the defaults with early stopping.

    Features are not transformed, as in the store.
    """
    config = load_preset(model, dataset) or Config.of(model, epochs=500, patience=100)
    return config.replace(feature_transform=None)


def store_config(model: str, dataset: str) -> Config:
    """The configuration for training on the store."""
    config = Config.of(
        model, precomputed=True, hidden=HIDDEN[dataset], batch_size=BATCH_SIZE[dataset], epochs=100,
        weight_decay={"linear": 0.0, "coefficients": 0.0, "recurrence": 0.0},
    )  # fmt: skip
    if dataset == "cornell5" and model in ("favardgnn", "optbasisgnn"):
        # These models have a filter for each of thousands of one-hot features, most of them rare. Use one batch with
        # all training nodes, and weight decay on the coefficients, which see few examples. Chosen by the validation
        # score of favardgnn on one split.
        return config.replace(
            batch_size=10_000,
            lr={"linear": 0.01, "coefficients": 0.02, "recurrence": 0.001},
            weight_decay={"linear": 0.0005, "coefficients": 0.001, "recurrence": 0.0},
        )
    if dataset == "pubmed" and model == "favardgnn":  # validation accuracy 90.3; 89.9 from the optimal basis
        config = config.replace(start="chebyshev")
    return config.replace(lr={**config.optimizer.lr, "linear": 0.003})


def compare(
    datasets: list[str],
    models: list[str],
    folder: Path,
    *,
    splits: int,
    stores: Path,
    memory: int,
    root: str | None,
    processes: int,
    on_result: OnResult | None = None,
) -> None:
    """Trains models on a store and on the graph, with the same splits; finished jobs are not repeated."""
    for dataset in datasets:
        place, protocol = stores / f"{dataset}.store", CATALOGUE[dataset].protocol
        if not (place / "basis.json").exists():
            graph = graph_folder_of(dataset, stores, root, memory)
            precompute(graph, place, DEGREE, memory=memory, keep="all")
        on_store, on_graph = Source.folder(place), Source.named(dataset, root)
        planned = [
            Job(store_config(model, dataset), on_store, protocol, split, split)
            for model in models
            for split in range(splits)
        ]
        run_jobs(planned, folder / ON_STORE, on_result=on_result)
        planned = [
            Job(graph_config(model, dataset), on_graph, protocol, split, split)
            for model in models
            for split in range(splits)
        ]
        run_jobs(planned, folder / ON_GRAPH, processes=processes, on_result=on_result)


def write_readme(folder: Path) -> None:
    """Writes a page with all results in a folder."""
    sizes: dict[tuple[int, ...], list[Result]] = {}
    for row in read_lines(folder / SIZES):
        sizes.setdefault((row["nonzeros"], row["nodes"], row["channels"], row["K"]), []).append(row)
    parts = [
        "# Graphs larger than memory",
        "",
        "Generated by `polybasis reproduce scale` and `polybasis reproduce scale-size` from the JSON lines in this "
        "folder; [the page on stores](../../docs/explanation/stores.md) explains the method.",
        "",
        "## Precomputation",
        "",
        "Synthetic graphs with power-law degrees and random neighbours. *a product* is the time to multiply the graph "
        "matrix by one block of channels, and *width* is the number of channels in a block. *ns* is nanoseconds per "
        "nonzero and channel, which also depends on the width. For several runs, the table shows mean times and the "
        "largest peak memory.",
        "",
    ]
    lines = [
        [
            f"{runs[0]['nodes']:,}",
            f"{runs[0]['nonzeros']:,}",
            str(runs[0]["channels"]),
            str(runs[0]["K"]),
            str(len(runs)),
            str(runs[0]["blocks"]),
            str(runs[0].get("block_channels", -(-runs[0]["channels"] // runs[0]["blocks"]))),
            f"{mean(run['seconds'] for run in runs) / 60:.1f} min",
            f"{mean(run['product_seconds'] for run in runs):.2f} s",
            f"{mean(run['nanoseconds_per_nonzero_and_channel'] for run in runs):.3f}",
            f"{max(run['peak_memory'] for run in runs) / 2**30:.2f} GiB",
            f"{runs[0]['graph_bytes'] / 2**30:.1f} GiB",
            f"{runs[0]['rows']:,}",
            f"{runs[0]['store_bytes'] / 2**30:.2f} GiB",
        ]
        for _, runs in sorted(sizes.items())
    ]
    header = [
        "nodes",
        "nonzeros",
        "channels",
        "K",
        "runs",
        "blocks",
        "width",
        "time",
        "a product",
        "ns",
        "peak memory",
        "graph",
    ]
    parts.append(markdown_table([*header, "rows kept", "store"], lines))
    parts += [
        "",
        "## Trained on a store and on the graph",
        "",
        f"All models use one store of degree {DEGREE}. Test scores are in percent (ROC AUC on tolokers) on the same "
        "splits. *width* is the number of hidden channels. Widths, learning rates and stopping differ between the two "
        "sides, so the differences do not only reflect where the data is stored.",
    ]
    ours = {(row["model"], row["dataset"]): row for row in summarize(read_results(folder / ON_STORE))}
    graph = {(row["model"], row["dataset"]): row for row in summarize(read_results(folder / ON_GRAPH))}
    for dataset in DATASETS:
        lines = []
        for model in PRECOMPUTED:
            if (model, dataset) not in ours or (model, dataset) not in graph:
                continue
            one, other = ours[model, dataset], graph[model, dataset]
            lines.append(
                [
                    model,
                    str(one["splits"]),
                    f"{one['mean']:.2f}",
                    f"{other['mean']:.2f}",
                    f"{one['mean'] - other['mean']:+.2f}",
                    f"{one['val']:.2f}",
                    f"{other['val']:.2f}",
                    f"{one['seconds']:.0f}",
                    f"{other['seconds']:.0f}",
                    _widths(folder / ON_STORE, model, dataset),
                    _widths(folder / ON_GRAPH, model, dataset),
                ]
            )
        header = ["model", "splits", "store", "graph", "difference", "validation, store", "graph", "s, store", "graph"]
        header += ["width, store", "graph"]
        parts += ["", f"### {dataset}", "", markdown_table(header, lines)]
    write_atomically(folder / "README.md", ("\n".join(parts) + "\n").encode())


def _widths(path: Path, model: str, dataset: str) -> str:
    """The hidden widths of a model's results on a data set."""
    found = [row for row in read_results(path) if (row["model"], row["dataset"]) == (model, dataset)]
    return ", ".join(sorted({str(row["config"]["model"].get("hidden", "")) for row in found}))
