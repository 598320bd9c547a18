"""Graph folders from files of all kinds: the same graph as in memory."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis.store import GraphFolder, NodeData, build_graph_folder, write_dataset
from polybasis.store.arrays import file_crc32
from polybasis.store.sources import NpzArray, build_papers100m, edge_stream, graph_of

NODES = 400


@pytest.fixture
def edges() -> np.ndarray:
    return np.random.default_rng(2).integers(0, NODES, (3000, 2))


def same(folder: GraphFolder, edges: np.ndarray) -> None:
    graph = pb.Graph.from_edge_index(torch.from_numpy(edges.T.copy()), NODES)
    assert np.array_equal(folder.indptr, graph.indptr.numpy())
    assert np.array_equal(folder.indices, graph.indices.numpy())
    folder.verify()


def test_edge_lists_of_every_kind(edges: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polybasis.store.sources.CHUNK", 700)
    np.savetxt(tmp_path / "e.csv", edges, fmt="%d", delimiter=",", header="source,target", comments="")
    np.save(tmp_path / "two.npy", edges)
    np.save(tmp_path / "rows.npy", edges.T)
    files = ["e.csv", "two.npy", "rows.npy"]
    try:
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.table({"source": edges[:, 0], "target": edges[:, 1], "weight": edges[:, 0]})
        pyarrow.parquet.write_table(table, tmp_path / "e.parquet")
        files.append("e.parquet")
    except ImportError:
        pass
    for number, name in enumerate(files):
        same(build_graph_folder(tmp_path / f"graph{number}", edge_stream(tmp_path / name), NODES), edges)


def test_bad_edge_lists_are_named(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("a,b\n1,2\n3,x\n")
    with pytest.raises(ValueError, match=r"e\.csv, at line 2 or after"):
        list(edge_stream(tmp_path / "e.csv"))
    np.save(tmp_path / "e.npy", np.zeros((3, 3), dtype=np.int64))
    with pytest.raises(ValueError, match=r"e\.npy has shape \(3, 3\)"):
        list(edge_stream(tmp_path / "e.npy"))
    with pytest.raises(ValueError, match=r"edges come as \.csv"):
        edge_stream(tmp_path / "e.txt")


def papers100m(root: Path, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A small graph in the files of OGB's binary format."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((NODES, 5)).astype(np.float32)
    y = np.where(rng.random(NODES) < 0.3, rng.integers(0, 4, NODES), np.nan)
    (root / "raw").mkdir(parents=True)
    (root / "split" / "time").mkdir(parents=True)
    np.savez(root / "raw" / "data.npz", edge_index=edges.T.copy(), node_feat=x, num_nodes_list=[NODES])
    np.savez(root / "raw" / "node-label.npz", node_label=y[:, None])
    known = np.flatnonzero(~np.isnan(y))
    for part, nodes in zip(("train", "valid", "test"), np.array_split(known, 3), strict=True):
        with gzip.open(root / "split" / "time" / f"{part}.csv.gz", "wt") as file:
            file.write("".join(f"{node}\n" for node in nodes))
    return x, y


def test_papers100m_is_read_as_a_stream(edges: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polybasis.store.sources.CHUNK", 800)
    monkeypatch.setattr("polybasis.store.arrays.PIECE", 64)
    root = tmp_path / "data" / "ogb" / "ogbn_papers100M"
    x, y = papers100m(root, edges)
    folder = graph_of("ogbn-papers100M", tmp_path, tmp_path / "data")
    same(folder, edges)
    assert folder.x is not None
    assert folder.y is not None
    assert folder.splits is not None
    assert np.array_equal(folder.x, x)
    assert np.array_equal(folder.y, np.where(np.isnan(y), -1, y))
    assert (folder.splits[0] > 0).sum() == (folder.y >= 0).sum()
    assert graph_of("ogbn-papers100M", tmp_path, tmp_path / "nowhere").path == folder.path
    (root / "split" / "time" / "valid.csv.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"valid\.csv\.gz is not there"):
        build_papers100m(root, tmp_path / "other", 1 << 30)
    with pytest.raises(ValueError, match="no array 'node_feet'"):
        NpzArray(root / "raw" / "data.npz", "node_feet")


def test_a_data_set_keeps_its_splits(tmp_path: Path) -> None:
    data = pb.data.csbm(nodes=200, features=4)
    masks = [torch.rand(200) < 0.3 for _ in range(3)]
    masks[1] &= ~masks[0]
    masks[2] &= ~masks[0] & ~masks[1]
    folder = write_dataset(tmp_path / "graph", replace(data, fixed_splits=[tuple(masks)]))  # type: ignore[arg-type]
    assert folder.splits is not None
    for part, mask in enumerate(masks, 1):
        assert np.array_equal(folder.splits[0] == part, mask.numpy())
    assert folder.name == data.name


def test_verify_finds_what_is_wrong(edges: np.ndarray, tmp_path: Path) -> None:
    folder = build_graph_folder(tmp_path / "graph", [edges], NODES)

    def with_indices(change: object) -> GraphFolder:
        indices = np.array(folder.indices)
        change(indices)  # type: ignore[operator]
        np.save(folder.path / "indices.npy", indices)
        checksum = file_crc32(folder.path / "indices.npy")
        return replace(GraphFolder.open(folder.path), checksums={"indices.npy": checksum})

    original = np.array(folder.indices)

    def one_way(indices: np.ndarray) -> None:
        row = indices[: folder.indptr[1]]  # another last neighbour of node 0
        row[-1] = next(i for i in range(int(row[-2]) + 1, NODES) if i != row[-1])

    def swapped(indices: np.ndarray) -> None:
        indices[:2] = indices[1::-1]

    def outside(indices: np.ndarray) -> None:
        indices[-1] = NODES

    for change, message in ((one_way, "not symmetric"), (swapped, "unordered"), (outside, "out of range")):
        with pytest.raises(ValueError, match=message):
            with_indices(change).verify()
        with pytest.raises(ValueError, match=r"indices\.npy is damaged"):
            GraphFolder.open(folder.path).verify()
        with_indices(lambda indices: indices.__setitem__(slice(None), original)).verify()


def test_wrong_shapes_are_named(edges: np.ndarray, tmp_path: Path) -> None:
    for data, message in (
        (NodeData(x=np.zeros((3, 2))), r"x has shape \(3, 2\)"),
        (NodeData(y=np.zeros(3, dtype=np.int64)), r"y has int64 \(3,\)"),
        (NodeData(splits=np.zeros((1, 3), dtype=np.int8)), r"splits have shape \(1, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            build_graph_folder(tmp_path / "graph", [edges], NODES, data=data)
    assert list(tmp_path.iterdir()) == []
