"""Compares file formats for a store by the time to read a batch: whole rows, blocks of channels, and Zarr v3.

    python benchmarks/store_formats.py FOLDER [ROWS]

Every format holds the same array, ROWS x 11 x 128 in float32. A batch has 50,000 rows: random ones, or random runs of
256 consecutive rows; read from the page cache, and from disk. Reports the best of three runs.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr

DEGREES, CHANNELS, BATCH, RUN, BLOCK = 11, 128, 50_000, 256, 16
Read = Callable[[np.ndarray], object]
MAPPED: list[np.memmap] = []


def write_formats(folder: Path, rows: int) -> dict[str, Read]:
    """Writes the same random rows in every format and returns a function per format that reads rows by index."""
    shape = (rows, DEGREES, CHANNELS)
    rng = np.random.default_rng(0)
    whole = np.lib.format.open_memmap(folder / "whole.npy", mode="w+", dtype=np.float32, shape=shape)
    parts = [
        np.lib.format.open_memmap(folder / f"part{i}.npy", mode="w+", dtype=np.float32, shape=(rows, DEGREES, BLOCK))
        for i in range(CHANNELS // BLOCK)
    ]
    chunked = {
        f"zarr, {height} rows per chunk, {'zstd' if compressed else 'uncompressed'}": zarr.create_array(
            folder / f"zarr-{height}-{compressed}",
            shape=shape,
            chunks=(height, DEGREES, CHANNELS),
            dtype=np.float32,
            compressors="auto" if compressed else None,
        )
        for height, compressed in ((64, False), (1024, False), (1024, True))
    }
    for first in range(0, rows, 1 << 14):
        chunk = slice(first, min(first + (1 << 14), rows))
        values = rng.standard_normal((chunk.stop - chunk.start, DEGREES, CHANNELS), dtype=np.float32)
        whole[chunk] = values
        for i, part in enumerate(parts):
            part[chunk] = values[:, :, i * BLOCK : (i + 1) * BLOCK]
        for array in chunked.values():
            array[chunk] = values
    MAPPED.extend([whole, *parts])
    out = np.empty((BATCH, DEGREES, CHANNELS), dtype=np.float32)

    def read_whole(indices: np.ndarray) -> object:
        return np.take(whole, indices, axis=0, out=out, mode="clip")

    def read_parts(indices: np.ndarray) -> object:
        for i, part in enumerate(parts):
            out[:, :, i * BLOCK : (i + 1) * BLOCK] = part[indices]
        return out

    readers: dict[str, Read] = {"one array": read_whole, f"arrays of {BLOCK} channels": read_parts}
    for name, array in chunked.items():
        readers[name] = lambda indices, array=array: array.oindex[indices]
    return readers


def evict(folder: Path) -> None:
    """Evicts the files of a folder from the page cache."""
    os.sync()
    for array in MAPPED:
        array._mmap.madvise(mmap.MADV_DONTNEED)
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    folder = Path(sys.argv[1]) / "formats"
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 200_000
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    try:
        for name, read in write_formats(folder, rows).items():
            line: dict[str, object] = {"format": name, "rows": rows}
            for order in ("random", "runs"):
                for cache in ("cached", "disk"):
                    best = float("inf")
                    for _ in range(3):
                        if order == "random":
                            indices = np.sort(rng.choice(rows, BATCH, replace=False))
                        else:
                            starts = rng.choice(rows // RUN, -(-BATCH // RUN), replace=False) * RUN
                            indices = (np.sort(starts)[:, None] + np.arange(RUN)).ravel()[:BATCH]
                        if cache == "disk":
                            evict(folder)
                        else:
                            read(indices)
                        start = time.perf_counter()
                        read(indices)
                        best = min(best, time.perf_counter() - start)
                    line[f"{order}, {cache}"] = round(best, 3)
            print(json.dumps(line), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
