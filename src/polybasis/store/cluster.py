"""Blocks of a store made on a Ray cluster whose machines see the graph and the store in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from polybasis.cluster import connected
from polybasis.store.graph_folder import GraphFolder
from polybasis.store.precompute import Report, make_block


def make_blocks(
    graph: GraphFolder,
    folder: Path,
    missing: list[int],
    memory: int,
    threads: int | None,
    address: str,
    report: Report | None,
) -> None:
    """Makes blocks as Ray tasks, as many at a time as processors and memory allow; a lost machine's are made again.

    Args:
        graph, folder: on storage that all machines share, at the same path.
        missing: the blocks that are not there yet.
        memory: bytes that a block needs.
        threads: of each task.
        address: of the cluster, or ``auto``.
        report: called with every finished block.
    """
    threads = threads or torch.get_num_threads()
    with connected(address) as ray:
        task = ray.remote(_make_block).options(num_cpus=threads, memory=memory, max_retries=5)
        waiting = {task.remote(str(graph.path.absolute()), str(folder.absolute()), n, threads): n for n in missing}
        done = 0
        while waiting:
            finished, _ = ray.wait(list(waiting))
            ray.get(finished)
            done += len(finished)
            for reference in finished:
                del waiting[reference]
            if report is not None:
                report(done - 1, len(missing), 1, 1)


def _make_block(graph: str, folder: str, number: int, threads: int) -> Any:
    make_block(GraphFolder.open(graph), Path(folder), number, threads)
