"""Writes small tables for tests, and compares what is read from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import torch

from polybasis.data.dataset import NodeDataset
from polybasis.features import as_dense

EDGES = "source,target\na,b\nb,c\n"
FEATURES = "node,f1,f2\na,1,0\nb,0,1\nc,1,1\nd,0,0\n"
LABELS = "node,class\na,red\nb,blue\nc,\n"


def write(folder: Path, **contents: str | bytes) -> dict[str, Path]:
    """Writes ``name.csv`` for each argument; ``__`` in a name stands for another suffix, as in ``edges__tsv``."""
    paths = {}
    for name, content in contents.items():
        stem, _, suffix = name.partition("__")
        paths[stem] = folder / f"{stem}.{suffix.replace('_', '.') or 'csv'}"
        paths[stem].write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths


def parquet(path: Path, **columns: Any) -> Path:
    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


def assert_same_graph(one: NodeDataset, other: NodeDataset) -> None:
    """The same nodes, classes, edges and numbers."""
    assert one.node_names() == other.node_names()
    assert one.classes == other.classes
    assert torch.equal(one.y, other.y)
    assert torch.equal(one.graph.indptr, other.graph.indptr)
    assert torch.equal(one.graph.indices, other.graph.indices)
    assert (one.graph.weight is None) == (other.graph.weight is None)
    if one.graph.weight is not None and other.graph.weight is not None:
        assert torch.equal(one.graph.weight, other.graph.weight)
    assert torch.equal(as_dense(one.x), as_dense(other.x))
    assert one.structure_only == other.structure_only
