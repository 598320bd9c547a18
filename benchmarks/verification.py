"""Measures what the verification of a store costs: opening it and the first epoch, and each later epoch.

    python benchmarks/verification.py FOLDER [ROWS]

Trains OptBasisGNN on a store of ROWS x 11 x 128 numbers in float32, with and without verification in alternation, and
writes the best of several runs to results/reliability/cost.jsonl. An epoch includes the scores of the validation rows,
as in training. A cold start reads the store from disk, a warm one from the page cache. Other programs disturb elapsed
time; processor time, and that spent inside the functions that verify, are steadier.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from polybasis.checksums import VerifiedFile
from polybasis.store import make_synthetic, open_store, precompute
from polybasis.train import Config
from polybasis.train.mini_batch import MiniBatches

FEATURES, DEGREE, RUNS = 128, 10, 5
CONFIG = Config.of("optbasisgnn", precomputed=True, K=DEGREE, batch_size=10_000)
RESULTS = Path(__file__).parents[1] / "results" / "reliability" / "cost.jsonl"


@contextmanager
def verification(enabled: bool) -> Iterator[list[float]]:
    """Times the functions that verify, or switches them off, which the package has no option for.

    Yields:
        A list of the processor times of their calls.
    """
    spent: list[float] = []

    def timed(function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            began = time.thread_time()
            if enabled:
                function(*arguments)
            spent.append(time.thread_time() - began)

        return call

    names = ("verify", "verify_ranges")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(patch.object(VerifiedFile, name, timed(getattr(VerifiedFile, name))))
        yield spent


class Stopwatch:
    """Elapsed time and processor time since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._began[0], time.process_time() - self._began[1]


def measure(folder: Path, cold: bool, verified: bool) -> dict[str, list[float]]:
    """Elapsed time, processor time and time of verification of a start, and of a later epoch."""
    if cold:
        for path in folder.iterdir():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with verification(verified) as spent:
        watch = Stopwatch()
        store = open_store(folder)
        torch.manual_seed(0)
        task = MiniBatches(store, store.split(), CONFIG)
        model = task.make_model(CONFIG)
        optimizer = CONFIG.make_optimizer(model)

        def epoch() -> None:
            task.epoch(model, optimizer)
            task.evaluate(model, task.split.val)

        epoch()
        first = [*watch.read(), sum(spent)]
        spent.clear()
        watch = Stopwatch()
        epoch()
        return {"cold start" if cold else "warm start": first, "later epoch": [*watch.read(), sum(spent)]}


def main(folder: Path, rows: int) -> None:
    graph = make_synthetic(folder / "graph", rows, 10 * rows, FEATURES, labelled=1.0)
    store = precompute(graph, folder / "store", DEGREE, keep="all")
    size = store.vectors.nbytes
    del store
    best: dict[tuple[str, bool], list[float]] = {}
    measure(folder / "store", cold=False, verified=True)
    for run in range(4 * RUNS):
        verified = bool(run & 2)
        for name, times in measure(folder / "store", bool(run & 1), verified).items():
            best[name, verified] = [min(pair) for pair in zip(times, best.get((name, verified), times), strict=True)]
    lines = []
    for name in ("cold start", "warm start", "later epoch"):
        before, after = best[name, False], best[name, True]
        line = {"case": name, "rows": rows, "bytes": size, "runs": RUNS, "threads": torch.get_num_threads()}
        line |= {"seconds": [before[0], after[0]], "processor": [before[1], after[1]], "verification": after[2]}
        lines.append(line)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for line in lines:
        print(line)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
