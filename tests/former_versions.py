"""Folders as earlier versions of the formats wrote them: without checksums in the header."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

GRAPH = ("format", "version", "name", "metric", "nodes", "nonzeros", "x", "y", "splits", "crc32")
STORE = ("format", "version", "name", "metric", "graph", "K", "rows", "dtype", "blocks", "y", "splits")


def to_version_2(graph: Path, store: Path) -> None:
    """Rewrites the headers of a graph folder and of a store that was built from it."""
    checksums = {path.name: zlib.crc32(path.read_bytes()) for path in sorted(graph.glob("*.npy"))}
    _rewrite(graph / "graph.json", GRAPH, crc32=checksums)
    _rewrite(store / "store.json", STORE, graph=checksums)
    if (store / "basis.json").exists():
        _rewrite(store / "basis.json", ("gamma", "sqrt_beta", "rank"))


def _rewrite(path: Path, keys: tuple[str, ...], **changes: Any) -> None:
    header = json.loads(path.read_text()) | {"version": 2} | changes
    path.write_text(json.dumps({key: header[key] for key in keys}))
