"""Computes one block of channels of a store, with two vectors in memory and the graph streamed from its files."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polybasis import native
from polybasis.checksums import Manifest, read_document, write_document
from polybasis.features import FeatureTransform
from polybasis.files import append_line, temporary_path
from polybasis.krylov.streamed import first_exponents, streamed_basis
from polybasis.store.arrays import chunks, create_array, drop_pages, open_array, read_header, zeros
from polybasis.store.basis_store import KIND, OLDEST, VERSION, block_checksums, checked_rows
from polybasis.store.graph_folder import GraphFolder

CHUNK_NUMBERS = 1 << 20  # numbers in a chunk of a vector
OnBlockStep = Callable[[int, int, int, int], None]  # block, number of blocks, step, number of steps


def finished_block(folder: Path, number: int) -> dict[str, Any] | None:
    """The record of a finished block (file, gamma, sqrt_beta, rank, checksums), or None if it is not finished."""
    place = folder / f"block-{number:04d}.json"
    if not place.exists():
        return None
    try:
        record = read_document(place)
    except ValueError as error:
        raise ValueError(f"{error}; remove it and run precompute again") from error
    if not re.fullmatch(rf"block-{number:04d}\.[0-9a-f]{{32}}\.npy", str(record.get("file"))):
        raise ValueError(f"{place} does not name its file; remove it and run precompute again")
    return record if (folder / record["file"]).exists() else None


class TwoVectors:
    """Memory for two vectors, reused by successive blocks because allocating it can take a minute."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self._memory = [zeros(0, 1), zeros(0, 1)]

    def of_width(self, width: int) -> list[NDArray[np.float32]]:
        """Two uninitialised arrays, (nodes, width)."""
        if self._memory[0].size < self.nodes * width:
            self._memory = [zeros(self.nodes, width) for _ in range(2)]
        return [memory.reshape(-1)[: self.nodes * width].reshape(self.nodes, width) for memory in self._memory]


def make_block(
    graph: GraphFolder,
    folder: Path,
    number: int,
    threads: int | None = None,
    on_step: OnBlockStep | None = None,
    memory: TwoVectors | None = None,
) -> None:
    """Computes one block of a store whose header exists and writes the rows to keep to a file.

    Args:
        graph: the graph, with features.
        folder: the store.
        number: index of the block.
        threads: number of threads; torch's by default.
        on_step: called after every step.
        memory: memory to use for the two vectors.

    Raises:
        OverflowError: if a feature overflows float32.
        ValueError: if a feature is not finite.
    """
    start = time.monotonic()
    header = read_header(folder / "store.json", KIND, VERSION, OLDEST)
    K, width = header["K"], header["blocks"][number]
    channels = slice(sum(header["blocks"][:number]), sum(header["blocks"][: number + 1]))
    Manifest(folder, header["files"]).verify()
    rows, exponent = open_array(folder / "rows.npy", (header["rows"],)), header.get("exponent", 0)
    # If two vectors and the neighbours exceed the machine's memory, the file cache cannot hold the neighbours.
    direct = 2 * graph.num_nodes * max(header["blocks"]) * 4 + graph.indices.nbytes > physical_memory()
    operator = native.streamed(graph.indptr, graph.indices, direct=direct)
    drop_pages(graph.indptr)  # read by the constructor
    threads = threads or torch.get_num_threads()
    # A unique name: another machine of a cluster may compute the same block if this one was presumed lost.
    name = f"block-{number:04d}.{uuid.uuid4().hex}.npy"
    target = temporary_path(folder / name)
    try:
        kept = create_array(target, header["dtype"], (K + 1, len(rows), width))
        u, w = (memory or TwoVectors(graph.num_nodes)).of_width(width)
        w.fill(0)
        norms, exponents = _first_vector(graph, channels, u, header.get("feature_transform"))

        def keep(k: int, vector: NDArray[np.float32], scale: NDArray[np.float64]) -> None:
            for part in chunks(len(rows), CHUNK_NUMBERS // width):
                nodes = rows[part]
                kept[k, part] = np.ldexp(vector[nodes] * scale * _root_degrees(graph, nodes), exponent)
                drop_pages(kept)
            drop_pages(rows)
            if on_step is not None:
                on_step(number, len(header["blocks"]), k + 1, K + 1)

        try:
            gamma, sqrt_beta, product_seconds = streamed_basis(operator, u, w, norms, exponents, K, keep, threads)
        except OverflowError as error:
            raise OverflowError(f"{graph.path}, features from {channels.start} on: {error}") from None
        kept.flush()
        record = {
            "file": name,
            "gamma": gamma.tolist(),
            "sqrt_beta": sqrt_beta.tolist(),
            "rank": (sqrt_beta > 0).sum(0).tolist(),
            "xxh3": block_checksums(kept, checked_rows(header)),
        }
        target.replace(folder / name)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    write_document(folder / f"block-{number:04d}.json", record)
    entry = {
        "block": number,
        "channels": width,
        "threads": threads,
        "seconds": round(time.monotonic() - start, 2),
        "product_seconds": [round(seconds, 3) for seconds in product_seconds],
        "peak_memory": peak_memory(),
    }
    append_line(folder / "log.jsonl", json.dumps(entry))


def make_block_remotely(graph: Path, folder: Path, number: int, threads: int) -> None:
    """:func:`make_block` for a worker of a cluster, which verifies the graph as its own machine reads it."""
    opened = GraphFolder.open(graph)
    opened.verify_files()
    make_block(opened, folder, number, threads)


def peak_memory() -> int:
    """Peak resident memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if not status.exists():
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def physical_memory() -> int:
    """Memory of this machine or its container, in bytes."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.exists() else "max"
    return min(memory, int(text)) if text.isdigit() else memory


def _first_vector(
    graph: GraphFolder, channels: slice, u: NDArray[np.float32], transform: FeatureTransform | None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Writes the signals, divided by the square roots of the degrees, to ``u``.

    Returns:
        Their norms, and the exponents of the powers of two that they were divided by: 0 except near the limits of
        float32.
    """
    assert graph.x is not None
    width = channels.stop - channels.start
    exponents = np.zeros(width, dtype=np.int64)
    while True:
        squares, peaks = np.zeros(width), np.zeros(width)
        for rows in chunks(graph.num_nodes, CHUNK_NUMBERS // width):
            signal = np.asarray(graph.x[rows, channels], dtype=np.float64)
            if not np.isfinite(signal).all():
                node, channel = np.argwhere(~np.isfinite(signal))[0]
                place = f"node {rows.start + node}, feature {channels.start + channel}"
                raise ValueError(f"{graph.path / 'x.npy'} is not finite at {place}; features must be finite")
            if transform == "binarize":
                signal = (signal != 0).astype(np.float64)
            elif transform == "row-normalize":
                signal = signal / np.maximum(_row_sums(graph, rows), 1)
            squares += np.square(signal).sum(0)
            peaks = np.maximum(peaks, np.abs(signal).max(0))
            u[rows] = np.ldexp(signal, -exponents) / _root_degrees(graph, np.arange(rows.start, rows.stop))
            drop_pages(graph.x)
        needed = first_exponents(peaks)
        if np.array_equal(needed, exponents):
            return np.sqrt(squares), exponents
        exponents = needed


def _row_sums(graph: GraphFolder, rows: slice) -> NDArray[np.float64]:
    assert graph.x is not None
    total = np.zeros((rows.stop - rows.start, 1))
    for columns in chunks(graph.x.shape[1], max(1, CHUNK_NUMBERS // len(total))):
        total[:, 0] += np.asarray(graph.x[rows, columns], dtype=np.float64).sum(1)
    return total


def _root_degrees(graph: GraphFolder, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    degrees = graph.indptr[nodes + 1] - graph.indptr[nodes]
    drop_pages(graph.indptr)
    roots: NDArray[np.float64] = np.sqrt(np.maximum(degrees, 1), dtype=np.float64)
    return roots[:, None]
