"""Precomputes the optimal basis of a graph larger than memory, in blocks of channels, here or on a cluster."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from polybasis import native
from polybasis.checksums import Manifest, digest, write_document
from polybasis.cluster import map_on_ray
from polybasis.data.metrics import as_metric
from polybasis.data.targets import is_known
from polybasis.features import FeatureTransform
from polybasis.files import append_line, exclusive, remove_stale_files, temporary_path
from polybasis.krylov.filters import checked_degree
from polybasis.processes import noting_interruption
from polybasis.store.arrays import chunks, create_array, drop_pages, open_array, read_header, save_array
from polybasis.store.basis_store import KIND, OLDEST, VERSION, BasisStore, checked_rows, open_store, scale_exponent
from polybasis.store.blocks import (
    OnBlockStep,
    TwoVectors,
    finished_block,
    make_block,
    make_block_remotely,
    peak_memory,
)
from polybasis.store.graph_folder import GraphFolder

WIDTHS = (64, 48, 32, 16, 8, 4, 2, 1)  # channels of a block; the kernels process 64 at once, a cache line holds 16
BASE_MEMORY = 640 << 20  # Python, torch, file chunks in flight, and the buffers of two threads
THREAD_MEMORY = 120 << 20  # buffers of each additional thread if vectors are read in stripes
Keep = Literal["labelled", "all"]


@dataclass(frozen=True)
class Plan:
    """The blocks, memory and disk space of a precomputation.

    Attributes:
        K: degree.
        blocks: channels of each block.
        rows: number of rows to keep.
        memory: approximate peak memory in bytes.
        disk: size of the store in bytes; building it takes twice as much.
    """

    K: int
    blocks: list[int]
    rows: int
    memory: int
    disk: int


def plan_precompute(
    graph: GraphFolder, K: int, *, memory: int, rows: int, dtype: str = "float32", threads: int | None = None
) -> Plan:
    """Divides the channels into blocks so that two vectors per channel of a block fit in memory.

    Args:
        graph: the graph, with features.
        K: the degree.
        memory: memory limit in bytes.
        rows: number of rows to keep.
        dtype: data type of the stored vectors.
        threads: number of threads; torch's by default.

    Raises:
        ValueError: if not even one channel fits.
    """
    checked_degree(K)
    if graph.x is None:
        raise ValueError(f"{graph.path} has no features to compute a basis from")
    channels = graph.x.shape[1]

    more_threads = max(0, (threads or torch.get_num_threads()) - 2)

    def needed(width: int) -> int:
        vector = graph.num_nodes * width * 4
        return BASE_MEMORY + 2 * vector + (more_threads * THREAD_MEMORY if vector > native.STRIPE else 0)

    width = next((w for w in WIDTHS if needed(w) <= memory), 0)
    if width == 0:
        raise ValueError(
            f"one channel of {graph.path} needs {-(-needed(1) >> 20)} MiB, but the limit is {memory >> 20} MiB; "
            "raise the memory limit"
        )
    width = min(width, channels)
    blocks = [min(width, channels - first) for first in range(0, channels, width)]
    return Plan(K, blocks, rows, needed(width), rows * (K + 1) * channels * np.dtype(dtype).itemsize)


def kept_rows(graph: GraphFolder, keep: Keep) -> NDArray[np.int64]:
    """The nodes whose rows a store keeps, ascending.

    Raises:
        ValueError: if no node has a target and ``keep`` is ``labelled``.
    """
    if keep == "all":
        return np.arange(graph.num_nodes)
    if graph.y is None:
        raise ValueError(f"{graph.path} has no labels; keep all rows (--rows all)")
    known = [is_known(torch.from_numpy(np.array(graph.y[rows]))).numpy() for rows in chunks(graph.num_nodes)]
    drop_pages(graph.y)
    rows = np.flatnonzero(np.concatenate(known))
    if len(rows) == 0:
        raise ValueError(f"no node of {graph.path} has a label; keep all rows (--rows all)")
    return rows


def precompute(
    graph: GraphFolder,
    out: str | Path,
    K: int,
    *,
    memory: int = 8 << 30,
    keep: Keep = "labelled",
    dtype: str = "float32",
    feature_transform: FeatureTransform | None = None,
    threads: int | None = None,
    cluster: str | None = None,
    on_step: OnBlockStep | None = None,
) -> BasisStore:
    """Builds a store, or resumes an interrupted build; waits for other processes that build the same store.

    Args:
        graph: the graph, with features.
        out: the store's folder.
        K: the degree.
        memory: memory limit in bytes.
        keep: which rows to store: those of ``labelled`` nodes, or ``all``.
        dtype: data type of the stored vectors, ``float32`` or ``float16``.
        feature_transform: transform of the features; recorded in the store and in models trained on it.
        threads: number of threads; torch's by default.
        cluster: address of a Ray cluster whose machines share both folders, or ``auto``; by default this machine.
        on_step: called after every step with the block, the number of blocks, the step and the number of steps.

    Raises:
        ValueError: if the folder contains another store, or the memory limit is too low.
        OSError: if the disk has too little space.
    """
    if dtype not in ("float32", "float16"):
        raise ValueError(f"dtype is {dtype!r}; expected float32 or float16")
    folder = Path(out)
    graph.verify_files()
    rows = kept_rows(graph, keep)
    plan = plan_precompute(graph, K, memory=memory, rows=len(rows), dtype=dtype, threads=threads)
    with exclusive(folder, f"is building {folder}"), noting_interruption(lambda: _kept(folder)):
        remove_stale_files(folder)
        header = _start(graph, folder, plan, rows, dtype, feature_transform)
        del rows
        if not (folder / "basis.json").exists():
            _check_disk_space(folder, plan)
            missing = [n for n in range(len(header["blocks"])) if finished_block(folder, n) is None]
            if cluster is None:
                vectors = TwoVectors(graph.num_nodes)
                for number in missing:
                    make_block(graph, folder, number, threads, on_step, vectors)
            else:
                threads = threads or torch.get_num_threads()
                jobs = [(graph.path.absolute(), folder.absolute(), number, threads) for number in missing]
                ends = map_on_ray(make_block_remotely, jobs, address=cluster, processors=threads, memory=plan.memory)
                for done, (_, result) in enumerate(ends):
                    result()
                    if on_step is not None:
                        on_step(done, len(missing), K + 1, K + 1)
            _merge_blocks(folder, header)
        store = open_store(folder)
        for left in (*folder.glob("block-*"), *folder.glob(".block-*")):  # from this run and from killed runs
            left.unlink(missing_ok=True)
    return store


def _kept(folder: Path) -> str:
    """Says what an interrupted build keeps; removes what workers of a cluster left."""
    remove_stale_files(folder)
    blocks = len(list(folder.glob("block-*.json")))
    return f"{blocks} blocks are saved in {folder}; run the same command again to resume"


def _check_disk_space(folder: Path, plan: Plan) -> None:
    """Raises OSError if the disk has too little space for the blocks and the array they are merged into."""
    used = sum(path.stat().st_size for path in folder.iterdir())
    needed, free = 2 * plan.disk - used, shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(f"building {folder} needs {needed / 2**30:.2f} GiB; the disk has {free / 2**30:.2f} GiB free")


def _start(
    graph: GraphFolder,
    folder: Path,
    plan: Plan,
    rows: NDArray[np.int64],
    dtype: str,
    feature_transform: FeatureTransform | None,
) -> dict[str, Any]:
    """Writes the header and the node data of a new store, or checks those of an existing one."""
    header: dict[str, Any] = {
        "format": KIND,
        "version": VERSION,
        "name": graph.name,
        "identity": graph.identity,
        "metric": graph.metric,
        "classes": list(graph.classes),
        "protocol": graph.protocol,
        "feature_transform": feature_transform,
        "graph": graph.header.get("crc32") or graph.checksum,
        "K": plan.K,
        "rows": plan.rows,
        "dtype": dtype,
        "exponent": scale_exponent(graph.num_nodes) if dtype == "float16" else 0,
        "blocks": plan.blocks,
        "y": int(graph.y is not None),
        "splits": 0 if graph.splits is None else len(graph.splits),
        "named": graph.nodes is not None,
    }
    place = folder / "store.json"
    if place.exists():
        found = read_header(place, KIND, VERSION, OLDEST)
        common = {key: header[key] for key in found if key not in ("version", "blocks") and key in header}
        expected = found | {"metric": as_metric(found["metric"])}
        if common != {key: expected[key] for key in common} or found.get("feature_transform") != feature_transform:
            degree = f"degree {found['K']}, not {plan.K}" if found["K"] != plan.K else "another graph"
            raise ValueError(
                f"{place} belongs to {degree}, or to a different data type, feature transform or choice of rows; "
                f"remove {folder} or choose another folder"
            )
        if found["version"] < VERSION and not (folder / "basis.json").exists():
            raise ValueError(f"{place} was started by an earlier version; remove {folder} and run precompute again")
        if max(found["blocks"]) > max(plan.blocks) and not (folder / "basis.json").exists():
            raise ValueError(
                f"{place} was started with blocks of {max(found['blocks'])} channels, which need more memory; "
                f"raise the memory limit or remove {folder}"
            )
        return found
    folder.mkdir(parents=True, exist_ok=True)
    leftovers = {"rows.npy", "y.npy", "splits.npy", "nodes.npy"}  # from a run that was killed in the lines below
    if any(path.name not in leftovers and not path.name.startswith(".store.json.") for path in folder.iterdir()):
        raise FileExistsError(f"{folder} is neither empty nor a store; choose another folder")
    for path in folder.iterdir():
        path.unlink()
    save_array(folder / "rows.npy", rows)
    if graph.y is not None:
        save_array(folder / "y.npy", graph.y[rows])
        drop_pages(graph.y)
    if graph.splits is not None:
        save_array(folder / "splits.npy", graph.splits[:, rows])
        drop_pages(graph.splits)
    if graph.nodes is not None:
        save_array(folder / "nodes.npy", graph.nodes[rows])
    header["files"] = Manifest.records(folder, (path.name for path in folder.glob("*.npy")))
    write_document(place, header)
    return header


def _merge_blocks(folder: Path, header: dict[str, Any]) -> None:
    """Verifies the checksums of the blocks and merges them into one array in which a node's values are contiguous."""
    K, rows, widths = header["K"], header["rows"], header["blocks"]
    start = time.monotonic()
    records, blocks = [], []
    for number, width in enumerate(widths):
        record = finished_block(folder, number)
        assert record is not None
        records.append(record)
        blocks.append(open_array(folder / record["file"], (K + 1, rows, width)))
    target = temporary_path(folder / "vectors.npy")
    try:
        vectors = create_array(target, header["dtype"], (rows, K + 1, sum(widths)))
        for chunk, here in enumerate(chunks(rows, checked_rows(header))):
            first = 0
            for number, block in enumerate(blocks):
                part = block[:, here]
                if digest(np.ascontiguousarray(part)) != records[number]["xxh3"][chunk]:
                    place = folder / records[number]["file"]
                    raise ValueError(f"{place}: checksum mismatch; remove it and run precompute again")
                vectors[here, :, first : first + widths[number]] = part.transpose(1, 0, 2)
                first += widths[number]
                drop_pages(block)
            drop_pages(vectors)
        vectors.flush()
        del vectors, blocks
        target.replace(folder / "vectors.npy")
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    merged: dict[str, Any] = {
        key: np.concatenate([np.asarray(record[key]) for record in records], axis=-1).tolist()
        for key in ("gamma", "sqrt_beta", "rank")
    }
    write_document(folder / "basis.json", {**merged, "files": Manifest.records(folder, ["vectors.npy"])})
    entry = {"merged": True, "seconds": round(time.monotonic() - start, 2), "peak_memory": peak_memory()}
    append_line(folder / "log.jsonl", json.dumps(entry))
