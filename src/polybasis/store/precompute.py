r"""The optimal basis of a graph larger than memory.

Channels are independent, so a block of them is a problem of its own; the graph is read in order from its mapped file,
once a product. Two vectors a channel are enough: :math:`P v_k - \beta_k v_{k-1}` is written over :math:`v_{k-1}`, and
nothing of the basis is kept but the rows that are asked for. What is given up for that is orthogonalising again:
vectors are as orthogonal as the plain recurrence in float32 with inner products in float64 leaves them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from polybasis import native
from polybasis.krylov.signal import checked_degree
from polybasis.store.basis_store import VERSION, BasisStore, block_name, checksum, open_store
from polybasis.store.graph_folder import GraphFolder
from polybasis.train.files import write_atomically

WIDTHS = (64, 48, 32, 16, 8, 4, 2, 1)  # channels of a block; the kernels take 64 at once, a cache line holds 16
FADED = 3e-4  # a residual of this share of the largest one has no digits left in float32
ROWS_AT_A_TIME = 1 << 20
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
        disk: bytes of the store.
    """

    K: int
    blocks: list[int]
    rows: int
    memory: int
    disk: int


def plan_precompute(graph: GraphFolder, K: int, *, memory: int, rows: int, dtype: str = "float32") -> Plan:
    """Cuts the channels into blocks that fit in memory.

    Raises:
        ValueError: where not even one channel fits.
    """
    checked_degree(K)
    if graph.x is None:
        raise ValueError(f"{graph.path} has no features to make a basis of")
    channels = graph.x.shape[1]
    item = np.dtype(dtype).itemsize

    def needed(width: int) -> int:
        # two vectors, the kept rows of all K + 1, the row pointers, and what a piece of the features needs
        kept = rows * (K + 1) * width * item
        return (
            2 * graph.nodes * width * 4
            + kept
            + 8 * (graph.nodes + 1)
            + 2 * min(graph.nodes, ROWS_AT_A_TIME) * width * 8
        )

    fixed = 256 << 20  # Python and torch themselves
    width = next((w for w in WIDTHS if fixed + needed(w) <= memory), 0)
    if width == 0:
        raise ValueError(f"one channel of {graph.path} needs {(fixed + needed(1)) / 2**30:.2f} GiB: allow more memory")
    width = min(width, channels)
    blocks = [min(width, channels - first) for first in range(0, channels, width)]
    return Plan(K, blocks, rows, fixed + needed(width), rows * (K + 1) * channels * item)


def kept_rows(graph: GraphFolder, keep: Keep) -> NDArray[np.int64]:
    """The nodes whose rows a store keeps, ascending."""
    if keep == "all":
        return np.arange(graph.nodes)
    if graph.y is None:
        raise ValueError(f"{graph.path} has no classes: keep all rows, or add y.npy")
    return np.flatnonzero(np.asarray(graph.y) >= 0)


def precompute(
    graph: GraphFolder,
    out: str | Path,
    K: int,
    *,
    memory: int = 8 << 30,
    keep: Keep = "labelled",
    dtype: str = "float32",
    threads: int | None = None,
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
        report: called after every step with the block, the number of blocks, the step and the number of steps.
    """
    if dtype not in ("float32", "float16"):
        raise ValueError(f"dtype is {dtype!r}; expected float32 or float16")
    rows = kept_rows(graph, keep)
    plan = plan_precompute(graph, K, memory=memory, rows=len(rows), dtype=dtype)
    folder = Path(out)
    about = {
        "format": "polybasis store",
        "version": VERSION,
        "K": K,
        "rows": len(rows),
        "keep": keep,
        "dtype": dtype,
        "blocks": plan.blocks,
        "graph": {"nodes": graph.nodes, "nonzeros": graph.nonzeros},
    }
    _claim(folder, about, rows)
    first = 0
    for number, width in enumerate(plan.blocks):
        if not (folder / block_name(number)).with_suffix(".json").exists():
            steps = _Steps(report, number, len(plan.blocks), K)
            _make_block(graph, folder, number, slice(first, first + width), rows, K, dtype, threads, steps)
        first += width
    return open_store(folder)


def _claim(folder: Path, about: dict[str, Any], rows: NDArray[np.int64]) -> None:
    place = folder / "store.json"
    if place.exists():
        if json.loads(place.read_text()) != about:
            raise ValueError(
                f"{place} is of another graph, degree or memory: remove {folder}, or choose another folder"
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty and no store: choose another folder")
    np.save(folder / "rows.npy", rows)
    write_atomically(place, json.dumps(about, indent=1).encode())


@dataclass
class _Steps:
    report: Report | None
    block: int
    blocks: int
    total: int

    def done(self, step: int) -> None:
        if self.report is not None:
            self.report(self.block, self.blocks, step, self.total)


def _make_block(
    graph: GraphFolder,
    folder: Path,
    number: int,
    channels: slice,
    rows: NDArray[np.int64],
    K: int,
    dtype: str,
    threads: int | None,
    steps: _Steps,
) -> None:
    start = time.monotonic()
    operator = native.streamed(graph.indptr, graph.indices)
    threads = threads or torch.get_num_threads()
    width = channels.stop - channels.start
    root = np.sqrt(np.maximum(graph.indptr[rows + 1] - graph.indptr[rows], 1), dtype=np.float64)
    u, norms = _first_vector(graph, channels)
    w = _vector(graph.nodes, width)
    w[:] = 0
    target = folder / f".{block_name(number)}.npy"
    kept = np.lib.format.open_memmap(target, mode="w+", dtype=dtype, shape=(len(rows), K + 1, width))
    gamma, sqrt_beta = np.zeros((K + 1, width)), np.zeros((K + 1, width))
    alive = norms > 0
    sqrt_beta[0], scale = norms, np.divide(1.0, norms, out=np.zeros(width), where=alive)
    beta, sums = np.zeros(width), np.zeros(width)
    for k in range(K + 1):
        kept[:, k] = u[rows] * scale * root[:, None]
        operator.product(u, scale, beta, w, sums, threads)
        gamma[k] = sums * scale
        if k < K:
            operator.subtract(u, scale, gamma[k], w, sums, threads)
            norm = np.sqrt(sums)
            alive &= norm > FADED * np.maximum(sqrt_beta[1 : k + 1].max(0, initial=0.0), 1e-6)
            beta = np.where(alive, norm, 0.0)
            sqrt_beta[k + 1] = beta
            scale = np.divide(1.0, beta, out=np.zeros(width), where=alive)
            u, w = w, u
        steps.done(k + 1)
    kept.flush()
    value = checksum(kept)
    os.replace(target, (folder / block_name(number)).with_suffix(".npy"))
    about = {
        "gamma": gamma.tolist(),
        "sqrt_beta": sqrt_beta.tolist(),
        "rank": (sqrt_beta > 0).sum(0).tolist(),
        "crc32": value,
        "seconds": round(time.monotonic() - start, 2),
    }
    write_atomically((folder / block_name(number)).with_suffix(".json"), json.dumps(about).encode())


def _vector(nodes: int, width: int) -> NDArray[np.float32]:
    array = np.empty((nodes, width), dtype=np.float32)
    module = native.kernels()
    assert module is not None
    module.ask_for_huge_pages(array)
    return array


def _first_vector(graph: GraphFolder, channels: slice) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The signals in the kernels' form, divided by the roots of the degrees, and their lengths."""
    assert graph.x is not None
    width = channels.stop - channels.start
    u, squares = _vector(graph.nodes, width), np.zeros(width)
    for first in range(0, graph.nodes, ROWS_AT_A_TIME):
        here = slice(first, min(first + ROWS_AT_A_TIME, graph.nodes))
        piece = np.asarray(graph.x[here, channels], dtype=np.float64)
        if not np.isfinite(piece).all():
            node, channel = np.argwhere(~np.isfinite(piece))[0]
            raise ValueError(f"{graph.path / 'x.npy'} has a number that is not finite at node {first + node}, "
                             f"feature {channels.start + channel}")  # fmt: skip
        squares += np.square(piece).sum(0)
        degree = np.maximum(np.diff(graph.indptr[here.start : here.stop + 1]), 1)
        u[here] = piece / np.sqrt(degree)[:, None]
    return u, np.sqrt(squares)
