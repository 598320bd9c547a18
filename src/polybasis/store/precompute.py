"""The optimal basis of a graph larger than memory: a plan, blocks of channels one by one or on a cluster, one store."""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from polybasis import native
from polybasis.cluster import spread
from polybasis.files import append_line, write_atomically
from polybasis.recurrence import checked_degree
from polybasis.store.arrays import crc32, create_array, drop_pages, open_array, pieces, read_about
from polybasis.store.basis_store import KIND, VERSION, BasisStore, checked_rows, open_store
from polybasis.store.blocks import Report, TwoVectors, block_numbers, make_block, make_block_of, peak_memory
from polybasis.store.graph_folder import GraphFolder

WIDTHS = (64, 48, 32, 16, 8, 4, 2, 1)  # channels of a block; the kernels take 64 at once, a cache line holds 16
OWN_MEMORY = 640 << 20  # Python, torch, pieces of files on their way, and what two threads hold
THREAD_MEMORY = 120 << 20  # what each further one holds where vectors are read in stripes
Keep = Literal["labelled", "all"]


@dataclass(frozen=True)
class Plan:
    """What a precomputation needs.

    Attributes:
        K: degree.
        blocks: channels of each block.
        rows: how many rows are kept.
        memory: bytes at most, about.
        disk: bytes of the store; twice as much while it is made.
    """

    K: int
    blocks: list[int]
    rows: int
    memory: int
    disk: int


def plan_precompute(
    graph: GraphFolder, K: int, *, memory: int, rows: int, dtype: str = "float32", threads: int | None = None
) -> Plan:
    """Cuts the channels into blocks of which two vectors fit in memory; threads: torch's number unless given.

    Raises:
        ValueError: where not even one channel fits.
    """
    checked_degree(K)
    if graph.x is None:
        raise ValueError(f"{graph.path} has no features to make a basis of")
    channels = graph.x.shape[1]

    more_threads = max(0, (threads or torch.get_num_threads()) - 2)

    def needed(width: int) -> int:
        vector = graph.nodes * width * 4
        return OWN_MEMORY + 2 * vector + (more_threads * THREAD_MEMORY if vector > native.STRIPE else 0)

    width = next((w for w in WIDTHS if needed(w) <= memory), 0)
    if width == 0:
        raise ValueError(f"one channel of {graph.path} needs {needed(1) / 2**30:.2f} GiB: allow more memory")
    width = min(width, channels)
    blocks = [min(width, channels - first) for first in range(0, channels, width)]
    return Plan(K, blocks, rows, needed(width), rows * (K + 1) * channels * np.dtype(dtype).itemsize)


def kept_rows(graph: GraphFolder, keep: Keep) -> NDArray[np.int64]:
    """The nodes whose rows a store keeps, ascending."""
    if keep == "all":
        return np.arange(graph.nodes)
    if graph.y is None:
        raise ValueError(f"{graph.path} has no classes: keep all rows, or add y.npy")
    found = [np.flatnonzero(graph.y[rows] >= 0) + rows.start for rows in pieces(graph.nodes)]
    drop_pages(graph.y)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def precompute(
    graph: GraphFolder,
    out: str | Path,
    K: int,
    *,
    memory: int = 8 << 30,
    keep: Keep = "labelled",
    dtype: str = "float32",
    threads: int | None = None,
    cluster: str | None = None,
    report: Report | None = None,
) -> BasisStore:
    """Makes a store, or finishes one that was interrupted.

    Args:
        graph: the graph, with features.
        out: the store's folder.
        K: the degree.
        memory: bytes to stay within.
        keep: rows of ``labelled`` nodes, or ``all``.
        dtype: of the stored vectors, ``float32`` or ``float16``.
        threads: torch's number unless given.
        cluster: address of a Ray cluster whose nodes see both folders, or ``auto``; this machine alone unless given.
        report: called after every step with the block, the number of blocks, the step and the number of steps.
    """
    if dtype not in ("float32", "float16"):
        raise ValueError(f"dtype is {dtype!r}; expected float32 or float16")
    folder = Path(out)
    rows = kept_rows(graph, keep)
    plan = plan_precompute(graph, K, memory=memory, rows=len(rows), dtype=dtype, threads=threads)
    about = _claim(graph, folder, plan, rows, dtype)
    del rows
    with _alone(folder):
        if not (folder / "basis.json").exists():
            _check_room(folder, plan)
            missing = [n for n in range(len(about["blocks"])) if block_numbers(folder, n) is None]
            if cluster is None:
                vectors = TwoVectors(graph.nodes)
                for number in missing:
                    make_block(graph, folder, number, threads, report, vectors)
            else:
                threads = threads or torch.get_num_threads()
                jobs = [(graph.path.absolute(), folder.absolute(), number, threads) for number in missing]
                ends = spread(make_block_of, jobs, address=cluster, processors=threads, memory=plan.memory)
                for done, (_, result) in enumerate(ends):
                    result()
                    if report is not None:
                        report(done, len(missing), K + 1, K + 1)
            _join(folder, about)
        store = open_store(folder)
        for left in (*folder.glob("block-*"), *folder.glob(".block-*")):  # of this run, and of those that were killed
            left.unlink(missing_ok=True)
    return store


def _check_room(folder: Path, plan: Plan) -> None:
    """Refuses to begin what the disk has no room for: blocks, and beside them the array they are joined to."""
    there = sum(path.stat().st_size for path in folder.iterdir())
    needed, free = 2 * plan.disk - there, shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"{folder} needs {needed / 2**30:.2f} GiB more while it is made; the disk has {free / 2**30:.2f} GiB"
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds a store for one process; a second one would take away what the first is at."""
    with (folder / "store.json").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another process is making {folder}: wait for it") from None
        yield


def _claim(graph: GraphFolder, folder: Path, plan: Plan, rows: NDArray[np.int64], dtype: str) -> dict[str, Any]:
    """What the store is to be: written down for a new one, compared for one that is there."""
    about = {
        "format": KIND,
        "version": VERSION,
        "name": graph.name,
        "metric": graph.metric,
        "graph": graph.checksums,
        "K": plan.K,
        "rows": plan.rows,
        "dtype": dtype,
        "blocks": plan.blocks,
        "y": int(graph.y is not None),
        "splits": 0 if graph.splits is None else len(graph.splits),
    }
    place = folder / "store.json"
    if place.exists():
        found = read_about(place, KIND, VERSION)
        if {**found, "blocks": 0} != {**about, "blocks": 0}:
            raise ValueError(f"{place} is of another graph, degree, data type or choice of rows: remove {folder}, or "
                             "choose another folder")  # fmt: skip
        if max(found["blocks"]) > max(plan.blocks) and not (folder / "basis.json").exists():
            raise ValueError(f"{place} was begun with blocks of {max(found['blocks'])} channels, which need more "
                             f"memory: allow it, or remove {folder}")  # fmt: skip
        return found
    folder.mkdir(parents=True, exist_ok=True)
    begun = {"rows.npy", "y.npy", "splits.npy"}  # what a run that was killed right here has left
    if any(path.name not in begun and not path.name.startswith(".store.json.") for path in folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty and no store: choose another folder")
    for path in folder.iterdir():
        path.unlink()
    np.save(folder / "rows.npy", rows)
    if graph.y is not None:
        np.save(folder / "y.npy", graph.y[rows])
        drop_pages(graph.y)
    if graph.splits is not None:
        np.save(folder / "splits.npy", graph.splits[:, rows])
        drop_pages(graph.splits)
    write_atomically(place, json.dumps(about, indent=1).encode())
    return about


def _join(folder: Path, about: dict[str, Any]) -> None:
    """Makes one array of all blocks, in which a node's numbers lie together; refuses a damaged block by its name."""
    K, rows, widths = about["K"], about["rows"], about["blocks"]
    start = time.monotonic()
    numbers, blocks = [], []
    for number, width in enumerate(widths):
        found = block_numbers(folder, number)
        assert found is not None
        numbers.append(found)
        blocks.append(open_array(folder / found["file"], (K + 1, rows, width)))
    target = folder / ".vectors.npy"
    try:
        vectors = create_array(target, about["dtype"], (rows, K + 1, sum(widths)))
        checks = []
        for piece, here in enumerate(pieces(rows, checked_rows(about))):
            first = 0
            for number, block in enumerate(blocks):
                part = block[:, here]
                if crc32(part) != numbers[number]["crc32"][piece]:
                    place = folder / numbers[number]["file"]
                    raise ValueError(f"{place} is damaged: its checksum is another; remove it and run precompute again")
                vectors[here, :, first : first + widths[number]] = part.transpose(1, 0, 2)
                first += widths[number]
                drop_pages(block)
            checks.append(crc32(vectors[here]))
            drop_pages(vectors)
        vectors.flush()
        del vectors, blocks
        target.replace(folder / "vectors.npy")
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    joined: dict[str, Any] = {
        key: np.concatenate([np.asarray(part[key]) for part in numbers], axis=-1).tolist()
        for key in ("gamma", "sqrt_beta", "rank")
    }
    write_atomically(folder / "basis.json", json.dumps({**joined, "crc32": checks}).encode())
    said = {"joined": True, "seconds": round(time.monotonic() - start, 2), "peak_memory": peak_memory()}
    append_line(folder / "log.jsonl", json.dumps(said))
