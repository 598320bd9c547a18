r"""The optimal basis of a graph larger than memory.

Channels are independent, so a block of them is a problem of its own; the graph is read in order from its mapped file,
once a product. Two vectors a channel are enough: :math:`P v_k - \beta_k v_{k-1}` is written over :math:`v_{k-1}`, and
nothing of the basis is kept but the rows that are asked for. What is given up for that is orthogonalising again:
vectors are as orthogonal as the plain recurrence in float32 with inner products in float64 leaves them.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from polybasis import native
from polybasis.cluster import spread
from polybasis.files import append_line, write_atomically
from polybasis.krylov.signal import checked_degree
from polybasis.store.arrays import crc32, create_array, let_go, open_array, pieces, read_about, zeros
from polybasis.store.basis_store import CHECKED_ROWS, KIND, VERSION, BasisStore, checksums, open_store
from polybasis.store.graph_folder import GraphFolder

WIDTHS = (64, 48, 32, 16, 8, 4, 2, 1)  # channels of a block; the kernels take 64 at once, a cache line holds 16
FADED = 3e-4  # a residual of this share of the largest one has no digits left in float32
OWN_MEMORY = 640 << 20  # Python, torch and pieces of files on their way
PIECE_NUMBERS = 1 << 20  # in a piece of a vector
Keep = Literal["labelled", "all"]
Report = Callable[[int, int, int, int], None]


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


def plan_precompute(graph: GraphFolder, K: int, *, memory: int, rows: int, dtype: str = "float32") -> Plan:
    """Cuts the channels into blocks of which two vectors fit in memory.

    Raises:
        ValueError: where not even one channel fits.
    """
    checked_degree(K)
    if graph.x is None:
        raise ValueError(f"{graph.path} has no features to make a basis of")
    channels = graph.x.shape[1]

    def needed(width: int) -> int:
        return OWN_MEMORY + 2 * graph.nodes * width * 4

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
    let_go(graph.y)
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
    plan = plan_precompute(graph, K, memory=memory, rows=len(rows), dtype=dtype)
    about = _claim(graph, folder, plan, rows, dtype)
    del rows
    if not (folder / "basis.json").exists():
        missing = [n for n in range(len(about["blocks"])) if not _finished(folder, n)]
        if cluster is None:
            for left in folder.glob(".block-*"):  # of a run that was killed
                left.unlink()
            vectors = TwoVectors(graph.nodes)
            for number in missing:
                make_block(graph, folder, number, threads, report, vectors)
        else:
            threads = threads or torch.get_num_threads()
            jobs = [(graph.path.absolute(), folder.absolute(), number, threads) for number in missing]
            ends = spread(_make_block, jobs, address=cluster, processors=threads, memory=plan.memory)
            for done, (_, result) in enumerate(ends):
                result()
                if report is not None:
                    report(done, len(missing), K + 1, K + 1)
        _join(folder, about)
    store = open_store(folder)
    for left in folder.glob("block-*"):
        left.unlink()
    return store


def _claim(graph: GraphFolder, folder: Path, plan: Plan, rows: NDArray[np.int64], dtype: str) -> dict[str, Any]:
    """What the store is to be: written down for a new one, compared for one that is there."""
    about = {
        "format": KIND,
        "version": VERSION,
        "name": graph.name,
        "metric": graph.metric,
        "graph": _fingerprint(graph),
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
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty and no store: choose another folder")
    np.save(folder / "rows.npy", rows)
    if graph.y is not None:
        np.save(folder / "y.npy", graph.y[rows])
    if graph.splits is not None:
        np.save(folder / "splits.npy", graph.splits[:, rows])
    write_atomically(place, json.dumps(about, indent=1).encode())
    return about


def _fingerprint(graph: GraphFolder) -> int:
    """Of sizes, and of the beginnings of the matrix and of a feature: tells graphs apart, not damage."""
    assert graph.x is not None
    value = crc32(np.array([graph.nodes, graph.nonzeros, graph.x.shape[1]]))
    for array in (graph.indptr, graph.indices, graph.x[:, 0]):
        value = crc32(array[: 1 << 16], value)
    return value


def block_file(folder: Path, number: int, ending: str) -> Path:
    """A file of a block."""
    return folder / f"block-{number:04d}.{ending}"


def _finished(folder: Path, number: int) -> bool:
    return block_file(folder, number, "json").exists() and block_file(folder, number, "npy").exists()


class TwoVectors:
    """Memory for two vectors, used by block after block: at full size it takes the system a minute to hand it out."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self._memory = [zeros(0, 1), zeros(0, 1)]

    def of_width(self, width: int) -> list[NDArray[np.float32]]:
        """Two arrays (nodes, width) with any numbers in them."""
        if self._memory[0].size < self.nodes * width:
            self._memory = [zeros(self.nodes, width) for _ in range(2)]
        return [memory.reshape(-1)[: self.nodes * width].reshape(self.nodes, width) for memory in self._memory]


def make_block(
    graph: GraphFolder,
    folder: Path,
    number: int,
    threads: int | None = None,
    report: Report | None = None,
    memory: TwoVectors | None = None,
) -> None:
    """Makes one block of a store that has been begun: two vectors in memory, the kept rows into its file."""
    start = time.monotonic()
    about = read_about(folder / "store.json", KIND, VERSION)
    K, width = about["K"], about["blocks"][number]
    channels = slice(sum(about["blocks"][:number]), sum(about["blocks"][: number + 1]))
    rows = open_array(folder / "rows.npy", (about["rows"],))
    operator = native.streamed(graph.indptr, graph.indices)
    let_go(graph.indptr)  # which it has looked through
    threads = threads or torch.get_num_threads()
    # Another process may be at the same block, where a cluster has given up on it too early.
    target = folder / f".block-{number:04d}.{os.getpid()}.npy"
    products: list[float] = []
    try:
        kept = create_array(target, about["dtype"], (K + 1, len(rows), width))
        u, w = (memory or TwoVectors(graph.nodes)).of_width(width)
        norms = _first_vector(graph, channels, u)
        gamma, sqrt_beta = np.zeros((K + 1, width)), np.zeros((K + 1, width))
        alive = norms > 0
        sqrt_beta[0], scale = norms, np.divide(1.0, norms, out=np.zeros(width), where=alive)
        beta, sums = np.zeros(width), np.zeros(width)
        for k in range(K + 1):
            _keep(graph, u, scale, rows, kept[k])
            if k < K:
                begun = time.monotonic()
                operator.product(u, scale, beta, w, sums, threads)
                gamma[k] = sums * scale
                products.append(time.monotonic() - begun)
                operator.subtract(u, scale, gamma[k], w, sums, threads)
                norm = np.sqrt(sums)
                alive &= norm > FADED * np.maximum(sqrt_beta[1 : k + 1].max(0, initial=0.0), 1e-6)
                sqrt_beta[k + 1] = beta = np.where(alive, norm, 0.0)
                scale = np.divide(1.0, beta, out=np.zeros(width), where=alive)
                u, w = w, u
            if report is not None:
                report(number, len(about["blocks"]), k + 1, K + 1)
        kept.flush()
        numbers = {
            "gamma": gamma.tolist(),
            "sqrt_beta": sqrt_beta.tolist(),
            "rank": (sqrt_beta > 0).sum(0).tolist(),
            "crc32": checksums(kept, axis=1),
        }
        del kept
        target.replace(block_file(folder, number, "npy"))
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    write_atomically(block_file(folder, number, "json"), json.dumps(numbers).encode())
    said = {
        "block": number,
        "channels": width,
        "threads": threads,
        "seconds": round(time.monotonic() - start, 2),
        "product_seconds": [round(seconds, 3) for seconds in products],
        "peak_memory": _peak_memory(),
    }
    append_line(folder / "log.jsonl", json.dumps(said))


def _peak_memory() -> int:
    """The most memory that this process has had resident, in bytes."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def _make_block(graph: Path, folder: Path, number: int, threads: int) -> None:
    """As make_block, somewhere on a cluster."""
    make_block(GraphFolder.open(graph), folder, number, threads)


def _first_vector(graph: GraphFolder, channels: slice, u: NDArray[np.float32]) -> NDArray[np.float64]:
    """Writes the signals in the kernels' form, divided by the roots of the degrees; returns their lengths."""
    assert graph.x is not None
    width = channels.stop - channels.start
    squares = np.zeros(width)
    for rows in pieces(graph.nodes, PIECE_NUMBERS // width):
        piece = np.asarray(graph.x[rows, channels], dtype=np.float64)
        if not np.isfinite(piece).all():
            node, channel = np.argwhere(~np.isfinite(piece))[0]
            raise ValueError(f"{graph.path / 'x.npy'} has a number that is not finite at node {rows.start + node}, "
                             f"feature {channels.start + channel}")  # fmt: skip
        squares += np.square(piece).sum(0)
        u[rows] = piece / _root_degrees(graph, np.arange(rows.start, rows.stop))
        let_go(graph.x)
    lengths: NDArray[np.float64] = np.sqrt(squares)
    return lengths


def _keep(
    graph: GraphFolder, u: NDArray[np.float32], scale: NDArray[np.float64], rows: NDArray[np.int64],
    kept: NDArray[Any],
) -> None:  # fmt: skip
    """The kept rows of a vector, from the kernels' form."""
    for places in pieces(len(rows), PIECE_NUMBERS // len(scale)):
        nodes = rows[places]
        kept[places] = u[nodes] * scale * _root_degrees(graph, nodes)
        let_go(kept)
    let_go(rows)


def _root_degrees(graph: GraphFolder, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    degrees = graph.indptr[nodes + 1] - graph.indptr[nodes]
    let_go(graph.indptr)
    roots: NDArray[np.float64] = np.sqrt(np.maximum(degrees, 1), dtype=np.float64)
    return roots[:, None]


def _join(folder: Path, about: dict[str, Any]) -> None:
    """Makes one array of all blocks, in which a node's numbers lie together; refuses a damaged block by its name."""
    K, rows, widths = about["K"], about["rows"], about["blocks"]
    numbers, blocks = [], []
    for number, width in enumerate(widths):
        place = block_file(folder, number, "json")
        try:
            numbers.append(json.loads(place.read_text()))
        except ValueError as error:
            raise ValueError(f"{place} is damaged ({error}); remove it and run precompute again") from error
        blocks.append(open_array(block_file(folder, number, "npy"), (K + 1, rows, width)))
    target = folder / ".vectors.npy"
    try:
        vectors = create_array(target, about["dtype"], (rows, K + 1, sum(widths)))
        found = []
        for piece, here in enumerate(pieces(rows, CHECKED_ROWS)):
            first = 0
            for number, block in enumerate(blocks):
                part = block[:, here]
                if crc32(part) != numbers[number]["crc32"][piece]:
                    raise ValueError(f"{block_file(folder, number, 'npy')} is damaged: its checksum is another; remove "
                                     "it and run precompute again")  # fmt: skip
                vectors[here, :, first : first + widths[number]] = part.transpose(1, 0, 2)
                first += widths[number]
                let_go(block)
            found.append(crc32(vectors[here]))
            let_go(vectors)
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
    write_atomically(folder / "basis.json", json.dumps({**joined, "crc32": found}).encode())
