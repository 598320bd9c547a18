"""Which format a store should have: blocks of channels, whole rows, or Zarr v3, read in batches.

    python benchmarks/store_formats.py FOLDER [ROWS]

Every format holds the same numbers, ROWS x 11 x 128 float32. A batch of 50,000 rows is read at random places, and in
runs of 256 rows in random order; from the file cache, and from disk. The best of three.
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

DEGREES, CHANNELS, BATCH, RUN, WIDTH = 11, 128, 50_000, 256, 16
Read = Callable[[np.ndarray], object]
MAPPED: list[np.memmap] = []


def make(folder: Path, rows: int) -> dict[str, Read]:
    shape = (rows, DEGREES, CHANNELS)
    rng = np.random.default_rng(0)
    whole = np.lib.format.open_memmap(folder / "whole.npy", mode="w+", dtype=np.float32, shape=shape)
    parts = [
        np.lib.format.open_memmap(folder / f"part{i}.npy", mode="w+", dtype=np.float32, shape=(rows, DEGREES, WIDTH))
        for i in range(CHANNELS // WIDTH)
    ]
    chunked = {
        f"zarr, {height} rows a chunk, {'zstd' if packed else 'plain'}": zarr.create_array(
            folder / f"zarr-{height}-{packed}",
            shape=shape,
            chunks=(height, DEGREES, CHANNELS),
            dtype=np.float32,
            compressors="auto" if packed else None,
        )
        for height, packed in ((64, False), (1024, False), (1024, True))
    }
    for first in range(0, rows, 1 << 14):
        here = slice(first, min(first + (1 << 14), rows))
        piece = rng.standard_normal((here.stop - here.start, DEGREES, CHANNELS), dtype=np.float32)
        whole[here] = piece
        for i, part in enumerate(parts):
            part[here] = piece[:, :, i * WIDTH : (i + 1) * WIDTH]
        for array in chunked.values():
            array[here] = piece
    MAPPED.extend([whole, *parts])
    out = np.empty((BATCH, DEGREES, CHANNELS), dtype=np.float32)

    def from_whole(places: np.ndarray) -> object:
        return np.take(whole, places, axis=0, out=out, mode="clip")

    def from_parts(places: np.ndarray) -> object:
        for i, part in enumerate(parts):
            out[:, :, i * WIDTH : (i + 1) * WIDTH] = part[places]
        return out

    readers: dict[str, Read] = {"one array": from_whole, f"arrays of {WIDTH} channels": from_parts}
    for name, array in chunked.items():
        readers[name] = lambda places, array=array: array.oindex[places]
    return readers


def forget(folder: Path) -> None:
    """Takes the files out of the system's cache."""
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
        for name, read in make(folder, rows).items():
            line: dict[str, object] = {"format": name, "rows": rows}
            for order in ("random", "runs"):
                for cache in ("cached", "disk"):
                    best = float("inf")
                    for _ in range(3):
                        if order == "random":
                            places = np.sort(rng.choice(rows, BATCH, replace=False))
                        else:
                            starts = rng.choice(rows // RUN, -(-BATCH // RUN), replace=False) * RUN
                            places = (np.sort(starts)[:, None] + np.arange(RUN)).ravel()[:BATCH]
                        if cache == "disk":
                            forget(folder)
                        else:
                            read(places)
                        start = time.perf_counter()
                        read(places)
                        best = min(best, time.perf_counter() - start)
                    line[f"{order}, {cache}"] = round(best, 3)
            print(json.dumps(line), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
