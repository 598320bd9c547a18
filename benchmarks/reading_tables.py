"""Time and memory to read tables: a million weighted edges between named nodes, and 50,000 nodes with 64 numbers.

    python benchmarks/reading_tables.py

Each table is read in a process of its own that has read a small table before, so that imports do not count. CPU time is
that of the process, with all its threads. Peak memory is the growth of the resident memory while reading, in multiples
of the arrays that the table holds: for edges, the ends as int64 and the weights as float64 (24 bytes an edge); for
features, float32.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

NODES, EDGES, FEATURES = 50_000, 1_000_000, 64


def write_tables(folder: Path, nodes: int, edges: int) -> None:
    """Writes ``edges.csv`` and ``features.csv``."""
    rng = np.random.default_rng(0)
    names = [f"user-{i:07d}" for i in range(nodes)]
    keys = rng.choice(nodes * (nodes - 1) // 2, edges, replace=False)
    high = ((1 + np.sqrt(1 + 8.0 * keys)) / 2).astype(np.int64)  # the key of a pair is high (high - 1) / 2 + low
    high -= high * (high - 1) // 2 > keys
    low = keys - high * (high - 1) // 2
    with (folder / "edges.csv").open("w") as file:
        file.write("source,target,weight\n")
        rows = zip(low.tolist(), high.tolist(), rng.exponential(size=edges).tolist(), strict=True)
        file.writelines(f"{names[a]},{names[b]},{weight:.4f}\n" for a, b, weight in rows)
    with (folder / "features.csv").open("w") as file:
        file.write(f"node,{','.join(f'f{i}' for i in range(FEATURES))}\n")
        for name, row in zip(names, rng.normal(size=(nodes, FEATURES)), strict=True):
            file.write(f"{name},{','.join(f'{value:.6g}' for value in row)}\n")


def measure(folder: Path, what: str) -> dict[str, float]:
    """Reads a table in this process; ``what`` is edges, features or both."""
    from polybasis.data import read_tables
    from polybasis.data.tables.nodes import read_nodes
    from polybasis.data.tables.problems import Problems
    from polybasis.data.tables.roles import Choices

    def read(place: Path) -> object:
        if what == "features":
            return read_nodes(place / "features.csv", Choices(), False, None, Problems())
        data = read_tables(place / "edges.csv", place / "features.csv" if what == "both" else None)
        return data, data.x if what == "both" else None

    read(folder / "small")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before, start, wall = _memory("VmRSS"), time.process_time(), time.perf_counter()
    found = read(folder)
    row = {"cpu": time.process_time() - start, "wall": time.perf_counter() - wall}
    size = {"edges": EDGES * 24, "features": NODES * FEATURES * 4, "both": EDGES * 24 + NODES * FEATURES * 4}[what]
    row |= {"peak": (_memory("VmHWM") - before) / size}
    del found
    return row


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory to read tables.")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each table; the least values are printed")
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "WHAT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(Path(arguments.measure[0]), arguments.measure[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder), NODES, EDGES)
        (Path(folder) / "small").mkdir()
        write_tables(Path(folder) / "small", 1000, 2000)
        print(f"{'table':10} {'CPU s':>7} {'wall s':>7} {'peak / arrays':>14}")
        for what in ("edges", "features", "both"):
            command = [sys.executable, __file__, "--measure", folder, what]
            rows = [json.loads(subprocess.check_output(command)) for _ in range(arguments.repeats)]
            best = {key: min(row[key] for row in rows) for key in rows[0]}
            print(f"{what:10} {best['cpu']:7.2f} {best['wall']:7.2f} {best['peak']:14.1f}")


if __name__ == "__main__":
    main()
