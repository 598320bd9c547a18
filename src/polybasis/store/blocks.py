r"""One block of channels of an optimal basis: two vectors in memory, the graph read in order from its files.

:math:`P v_k - \beta_k v_{k-1}` is written over :math:`v_{k-1}`, and nothing of the basis is kept but the rows that are
asked for. What is given up for that is orthogonalising again: vectors are as orthogonal as the plain recurrence in
float32 with inner products in float64 leaves them.
"""

from __future__ import annotations

import json
import os
import resource
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polybasis import native
from polybasis.files import append_line, write_atomically
from polybasis.krylov.rank import basis_ends
from polybasis.store.arrays import create_array, drop_pages, open_array, pieces, read_about, zeros
from polybasis.store.basis_store import KIND, VERSION, checked_rows, checksums
from polybasis.store.graph_folder import GraphFolder

PIECE_NUMBERS = 1 << 20  # in a piece of a vector
FARTHEST_EXPONENT = 40  # of a signal's largest number; sums of squares stay far from the ends of float32
# Smallest residual relative to the largest so far. Blocks are not reorthogonalised, and vectors from smaller residuals
# are not orthogonal.
LEAST_RESIDUAL = 3e-4
Report = Callable[[int, int, int, int], None]


def block_numbers(folder: Path, number: int) -> dict[str, Any] | None:
    """What is known of a finished block: its file, gamma, sqrt_beta, rank, checksums; None where it is not finished."""
    place = folder / f"block-{number:04d}.json"
    if not place.exists():
        return None
    try:
        numbers: dict[str, Any] = json.loads(place.read_text())
        found = (folder / numbers["file"]).exists()
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{place} is damaged ({error}); remove it and run precompute again") from error
    return numbers if found else None


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
    # Two vectors and the neighbours: more than the machine has leaves no room to find them in the file cache again.
    direct = 2 * graph.nodes * max(about["blocks"]) * 4 + graph.indices.nbytes > physical_memory()
    operator = native.streamed(graph.indptr, graph.indices, direct=direct)
    drop_pages(graph.indptr)  # which it has looked through
    threads = threads or torch.get_num_threads()
    # A name of its own: another machine may be at the same block, where a cluster has given up on it too early.
    name = f"block-{number:04d}.{uuid.uuid4().hex}.npy"
    target = folder / f".{name}"
    products: list[float] = []
    try:
        kept = create_array(target, about["dtype"], (K + 1, len(rows), width))
        u, w = (memory or TwoVectors(graph.nodes)).of_width(width)
        w.fill(0)
        norms, exponents = _first_vector(graph, channels, u)
        gamma, sqrt_beta = np.zeros((K + 1, width)), np.zeros((K + 1, width))
        alive = norms > 0
        sqrt_beta[0] = norms
        scale = np.divide(1.0, np.ldexp(norms, -exponents), out=np.zeros(width), where=alive)
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
                if not np.isfinite(norm).all():
                    channel = channels.start + int((~np.isfinite(norm)).argmax())
                    raise OverflowError(f"feature {channel} of {graph.path} overflows float32: scale it down")
                ends = basis_ends(
                    torch.from_numpy(norm),
                    torch.from_numpy(gamma[: k + 1]),
                    torch.from_numpy(sqrt_beta[: k + 1]),
                    nodes=graph.nodes,
                    K=K,
                    dtype=torch.float32,
                )
                alive &= ~ends.numpy()
                alive &= norm > LEAST_RESIDUAL * sqrt_beta[1 : k + 1].max(0, initial=0)
                sqrt_beta[k + 1] = beta = np.where(alive, norm, 0.0)
                scale = np.divide(1.0, beta, out=np.zeros(width), where=alive)
                u, w = w, u
            if report is not None:
                report(number, len(about["blocks"]), k + 1, K + 1)
        kept.flush()
        numbers = {
            "file": name,
            "gamma": gamma.tolist(),
            "sqrt_beta": sqrt_beta.tolist(),
            "rank": (sqrt_beta > 0).sum(0).tolist(),
            "crc32": checksums(kept, checked_rows(about), axis=1),
        }
        del kept
        target.replace(folder / name)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    write_atomically(folder / f"block-{number:04d}.json", json.dumps(numbers).encode())
    said = {
        "block": number,
        "channels": width,
        "threads": threads,
        "seconds": round(time.monotonic() - start, 2),
        "product_seconds": [round(seconds, 3) for seconds in products],
        "peak_memory": peak_memory(),
    }
    append_line(folder / "log.jsonl", json.dumps(said))


def peak_memory() -> int:
    """The most memory that this process has had resident, in bytes."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def physical_memory() -> int:
    """The memory of this machine, in bytes, or what a container leaves of it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    said = limit.read_text().strip() if limit.exists() else "max"
    return min(memory, int(said)) if said.isdigit() else memory


def make_block_of(graph: Path, folder: Path, number: int, threads: int) -> None:
    """As make_block, somewhere on a cluster."""
    make_block(GraphFolder.open(graph), folder, number, threads)


def _first_vector(
    graph: GraphFolder, channels: slice, u: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Writes the signals in the kernels' form, divided by the roots of the degrees.

    Returns:
        Their lengths, and the powers of two they were divided by: none but for numbers near the ends of float32.
    """
    assert graph.x is not None
    width = channels.stop - channels.start
    exponents = np.zeros(width, dtype=np.int64)
    while True:
        squares, peaks = np.zeros(width), np.zeros(width)
        for rows in pieces(graph.nodes, PIECE_NUMBERS // width):
            piece = np.asarray(graph.x[rows, channels], dtype=np.float64)
            if not np.isfinite(piece).all():
                node, channel = np.argwhere(~np.isfinite(piece))[0]
                raise ValueError(f"{graph.path / 'x.npy'} has a number that is not finite at node {rows.start + node}, "
                                 f"feature {channels.start + channel}")  # fmt: skip
            squares += np.square(piece).sum(0)
            peaks = np.maximum(peaks, np.abs(piece).max(0))
            u[rows] = np.ldexp(piece, -exponents) / _root_degrees(graph, np.arange(rows.start, rows.stop))
            drop_pages(graph.x)
        _, found = np.frexp(peaks)
        needed = np.where(np.abs(found) > FARTHEST_EXPONENT, found, 0)
        if np.array_equal(needed, exponents):
            return np.sqrt(squares), exponents
        exponents = needed.astype(np.int64)


def _keep(
    graph: GraphFolder, u: NDArray[np.float32], scale: NDArray[np.float64], rows: NDArray[np.int64],
    kept: NDArray[Any],
) -> None:  # fmt: skip
    """The kept rows of a vector, from the kernels' form."""
    for places in pieces(len(rows), PIECE_NUMBERS // len(scale)):
        nodes = rows[places]
        kept[places] = u[nodes] * scale * _root_degrees(graph, nodes)
        drop_pages(kept)
    drop_pages(rows)


def _root_degrees(graph: GraphFolder, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    degrees = graph.indptr[nodes + 1] - graph.indptr[nodes]
    drop_pages(graph.indptr)
    roots: NDArray[np.float64] = np.sqrt(np.maximum(degrees, 1), dtype=np.float64)
    return roots[:, None]
