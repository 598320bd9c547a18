"""Graph folders: the data set that was written is the data set that is loaded, names included; damage is found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import write_papers100m
from former_versions import to_version_2

import polybasis as pb
from polybasis import native
from polybasis.data.dataset import NodeDataset
from polybasis.data.tables import read_tables
from polybasis.features import as_dense
from polybasis.store import GraphFolder, build_graph_folder, graph_folder_of, open_store, write_graph_folder
from polybasis.store.papers100m import NpzArray, build_papers100m
from polybasis.store.precomputation import precompute

NODES = 400


@pytest.fixture
def edges() -> np.ndarray:
    return np.random.default_rng(2).integers(0, NODES, (3000, 2))


def assert_holds(folder: GraphFolder, edges: np.ndarray) -> None:
    graph = pb.Graph.from_edge_index(torch.from_numpy(edges.T.copy()), NODES, directed=False)
    assert np.array_equal(folder.indptr, graph.indptr.numpy())
    assert np.array_equal(folder.indices, graph.indices.numpy())
    folder.verify()


def assert_equal(one: NodeDataset, other: NodeDataset) -> None:
    assert torch.equal(one.graph.indptr, other.graph.indptr)
    assert torch.equal(one.graph.indices, other.graph.indices)
    assert one.graph.num_edges == other.graph.num_edges
    assert other.graph.weight is None
    assert torch.equal(as_dense(one.x), as_dense(other.x))
    assert type(one.x) is type(other.x)
    assert torch.equal(one.y, other.y)
    for name in ("name", "classes", "metric", "protocol", "structure_only", "fingerprint"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.node_names() == other.node_names()
    assert len(one.fixed_splits) == len(other.fixed_splits)
    for ours, theirs in zip(one.fixed_splits, other.fixed_splits, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    signal = torch.randn(len(one.y), 3)
    assert torch.equal(one.graph @ signal, other.graph @ signal)


def with_splits(data: NodeDataset) -> NodeDataset:
    part = torch.arange(len(data.y)) % 4
    masks = [(part == i, part == (i + 1) % 4, part == (i + 2) % 4) for i in range(2)]
    return replace(data, fixed_splits=masks, protocol="fixed")


def named(data: NodeDataset) -> NodeDataset:
    return replace(data, nodes=np.array([f"node {i}" for i in range(len(data.y))]), classes=("Käse", "Brot"))


CASES: dict[str, Callable[[], NodeDataset]] = {
    "plain": lambda: pb.data.csbm(nodes=80, features=4),
    "identity": lambda: replace(pb.data.csbm(nodes=80, features=4), identity="csbm", protocol="per-class"),
    "splits": lambda: with_splits(pb.data.csbm(nodes=80, features=4)),
    "names": lambda: named(pb.data.csbm(nodes=80, features=4)),
    "metric": lambda: replace(pb.data.csbm(nodes=80, features=4), metric="roc_auc", protocol="linkx"),
    "sparse": lambda: replace(pb.data.csbm(nodes=80, features=4), x=pb.features.as_features(torch.eye(80))),
    "some labels": lambda: replace(pb.data.csbm(nodes=80, features=4), y=torch.arange(80) % 5 - 1),
    "no labels": lambda: replace(pb.data.csbm(nodes=80, features=4), y=torch.full((80,), -1), classes=()),
    "no edges": lambda: replace(
        pb.data.csbm(nodes=80, features=4), graph=pb.Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 80)
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_folder_loads_as_the_data_set_it_was_written_from(case: str, tmp_path: Path) -> None:
    data = CASES[case]()
    assert_equal(data, write_graph_folder(tmp_path / "graph", data).load())
    GraphFolder.open(tmp_path / "graph").verify()


def test_splits_of_the_folder_are_those_of_the_data_set(tmp_path: Path) -> None:
    data = pb.data.csbm(nodes=80, features=4)
    loaded = write_graph_folder(tmp_path / "graph", data).load()
    for protocol in ("per-class", "stratified", "linkx", "train-val"):
        for ours, theirs in zip(data.split(protocol, 3), loaded.split(protocol, 3), strict=True):
            assert torch.equal(ours, theirs)


def test_other_contents_have_another_identity(edges: np.ndarray, tmp_path: Path) -> None:
    one = build_graph_folder(tmp_path / "one", [edges], NODES, x=np.ones((NODES, 1)))
    two = build_graph_folder(tmp_path / "two", [edges], NODES, x=np.zeros((NODES, 1)))
    again = build_graph_folder(tmp_path / "again", [edges[::-1]], NODES, x=np.ones((NODES, 1)))
    assert one.identity != two.identity
    assert one.identity == again.identity


def test_weights_are_refused(tmp_path: Path) -> None:
    """Folders hold the pattern only. Equal weights cancel in P and are dropped."""
    (tmp_path / "e.csv").write_text("s,t,w\na,b,1\nb,c,2\n")
    (tmp_path / "f.csv").write_text("node,f\na,1\nb,2\nc,3\n")
    with pytest.raises(ValueError, match="e has edge weights; graph folders hold unweighted graphs: drop the weights"):
        write_graph_folder(tmp_path / "graph", read_tables(tmp_path / "e.csv", tmp_path / "f.csv"))
    assert not (tmp_path / "graph").exists()
    for text in ("s,t,w\na,b,3\nb,c,3\n", "s,t,w\na,a,3\n"):
        (tmp_path / "e.csv").write_text(text)
        data = read_tables(tmp_path / "e.csv", tmp_path / "f.csv")
        loaded = write_graph_folder(tmp_path / f"equal{data.graph.num_edges}", data).load()
        signal = torch.randn(len(data.y), 1)
        torch.testing.assert_close(loaded.graph @ signal, data.graph @ signal)


# ---- `datasets build` ----------------------------------------------------------------------------------------------


def build(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "polybasis", "datasets", "build", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_named_and_numbered_nodes_give_the_same_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pairs, x, y = rng.integers(0, 50, (200, 2)), rng.random((50, 3)).astype(np.float32), rng.integers(-1, 3, 50)
    np.savetxt(tmp_path / "e.csv", pairs, fmt="%d", delimiter=",", header="s,t", comments="")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    rows = "".join(f"{i},{'' if c < 0 else c}\n" for i, c in enumerate(y))
    (tmp_path / "y.csv").write_text("node,class\n" + rows)
    given = ["--edges", tmp_path / "e.csv", "--features", tmp_path / "x.npy"]
    for name, more in (("named", ["y.csv"]), ("numbered", ["y.npy", "--nodes", "50"])):
        done = build(*given, "--out", tmp_path / name, "--labels", tmp_path / more[0], *more[1:])
        assert done.returncode == 0, done.stderr
    one, two = (GraphFolder.open(tmp_path / name) for name in ("named", "numbered"))
    one.verify()
    for name in ("indptr", "indices", "x", "y"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert one.load().node_names() == [str(i) for i in range(50)]
    assert two.load().node_names() == list(range(50))
    assert (one.classes, two.classes) == (("0", "1", "2"), (0, 1, 2))
    assert_equal(read_tables(tmp_path / "e.csv", tmp_path / "x.npy", tmp_path / "y.csv"), one.load())


@pytest.mark.parametrize("nodes", [None, 3])
def test_build_refuses_weights_in_one_line(nodes: int | None, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("s,t,w\n0,1,1\n1,2,5\n")
    (tmp_path / "f.csv").write_text("node,f\n0,1\n1,2\n2,3\n")
    given = ["--nodes", nodes] if nodes else ["--features", tmp_path / "f.csv"]
    done = build("--edges", tmp_path / "e.csv", "--out", tmp_path / "graph", *given)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "weights" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv", "f.csv"]


def test_build_names_the_bad_line(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("s,t\n0,1\n\n1\n")
    for more in ([], ["--nodes", "3"]):
        done = build("--edges", tmp_path / "e.csv", "--out", tmp_path / "graph", *more)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert "e.csv:4: " in done.stderr


@pytest.mark.skipif(native.kernels() is None, reason="polybasis was built without its native kernels")
def test_names_survive_the_way_into_a_store(tmp_path: Path) -> None:
    """Tables -> graph folder -> store: only labelled rows are kept, with their own names."""
    data = named(replace(pb.data.csbm(nodes=60, features=4), y=torch.arange(60) % 3 - 1))
    folder = write_graph_folder(tmp_path / "graph", data)
    precompute(folder, tmp_path / "store", 2)
    store = open_store(tmp_path / "store")
    assert store.node_names() == [f"node {i}" for i in range(60) if i % 3]
    assert store.classes == data.classes == folder.classes
    assert store.y.tolist() == data.y[data.y >= 0].tolist()
    whole = precompute(folder, tmp_path / "all", 2, keep="all")
    assert whole.node_names() == data.node_names()
    assert store.name == data.name
    assert data.fingerprint in store.fingerprint
    assert store.fingerprint != whole.fingerprint


# ---- the former version --------------------------------------------------------------------------------------------


@pytest.mark.skipif(native.kernels() is None, reason="polybasis was built without its native kernels")
@pytest.mark.parametrize("splits", [False, True])
def test_folders_and_stores_of_version_2_are_read(splits: bool, tmp_path: Path) -> None:
    data = pb.data.csbm(nodes=80, features=4)
    data = with_splits(data) if splits else data
    folder = write_graph_folder(tmp_path / "graph", data)
    new = precompute(folder, tmp_path / "store", 3)
    vectors = np.array(new.vectors)
    to_version_2(tmp_path / "graph", tmp_path / "store")
    with pytest.warns(UserWarning, match="written by an earlier version, without checksums"):
        GraphFolder.open(tmp_path / "graph")
    old = GraphFolder.open(tmp_path / "graph")
    old.verify()
    loaded = old.load()
    assert_equal(replace(data, identity=old.identity, protocol="fixed" if splits else "stratified"), loaded)
    store = open_store(tmp_path / "store", verify=True)
    assert store.classes == (0, 1)
    assert store.node_names() == list(range(80))
    assert store.protocol == loaded.protocol
    assert store.feature_transform is None
    for ours, theirs in zip(store.split(seed=1), loaded.split(seed=1), strict=True):
        assert torch.equal(ours, theirs)
    again = precompute(old, tmp_path / "store", 3)
    assert np.array_equal(again.vectors, vectors), "a finished store is not made again"
    with pytest.raises(ValueError, match="feature transform"):
        precompute(old, tmp_path / "store", 3, feature_transform="binarize")


@pytest.mark.skipif(native.kernels() is None, reason="polybasis was built without its native kernels")
@pytest.mark.filterwarnings("ignore:.*written by an earlier version")
def test_metrics_by_their_former_names_are_read(tmp_path: Path) -> None:
    data = CASES["metric"]()
    precompute(write_graph_folder(tmp_path / "graph", data), tmp_path / "store", 3)
    to_version_2(tmp_path / "graph", tmp_path / "store")
    for header in (tmp_path / "graph" / "graph.json", tmp_path / "store" / "store.json"):
        header.write_text(header.read_text().replace('"roc_auc"', '"roc-auc"'))
    folder = GraphFolder.open(tmp_path / "graph")
    assert folder.metric == folder.load().metric == "roc_auc"
    assert open_store(tmp_path / "store").metric == "roc_auc"
    precompute(folder, tmp_path / "store", 3)  # the store still belongs to the graph


@pytest.mark.skipif(native.kernels() is None, reason="polybasis was built without its native kernels")
def test_an_unfinished_store_of_version_2_is_refused(tmp_path: Path) -> None:
    folder = write_graph_folder(tmp_path / "graph", pb.data.csbm(nodes=80, features=70))

    class StoppedError(Exception):
        pass

    def stop(block: int, blocks: int, step: int, steps: int) -> None:
        if block == 1:
            raise StoppedError

    with pytest.raises(StoppedError):
        precompute(folder, tmp_path / "store", 3, on_step=stop)
    to_version_2(tmp_path / "graph", tmp_path / "store")
    with pytest.raises(ValueError, match="was started by an earlier version; remove"):
        precompute(GraphFolder.open(tmp_path / "graph"), tmp_path / "store", 3)


@pytest.mark.parametrize("version", [1, 5, "4", None])
def test_other_versions_are_refused(version: object, tmp_path: Path) -> None:
    folder = write_graph_folder(tmp_path / "graph", pb.data.csbm(nodes=20, features=2))
    (folder.path / "graph.json").write_text(json.dumps({**folder.header, "version": version}))
    with pytest.raises(ValueError, match=r"graph\.json has format 'polybasis graph', version .*; expected .*: rebuild"):
        GraphFolder.open(folder.path)


# ---- large inputs and damage ---------------------------------------------------------------------------------------


def test_papers100m_is_read_as_a_stream(edges: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polybasis.store.papers100m.BATCH", 800)
    root = tmp_path / "data" / "ogb" / "ogbn_papers100M"
    x, y = write_papers100m(root, edges, NODES)
    folder = graph_folder_of("ogbn-papers100M", tmp_path, tmp_path / "data")
    assert_holds(folder, edges)
    assert folder.x is not None
    assert folder.y is not None
    assert folder.splits is not None
    assert np.array_equal(folder.x, x)
    assert np.array_equal(folder.y, np.where(np.isnan(y), -1, y))
    assert (folder.splits[0] > 0).sum() == (folder.y >= 0).sum()
    assert folder.identity == "ogbn-papers100M"
    assert folder.protocol == "fixed"
    assert graph_folder_of("ogbn-papers100M", tmp_path, tmp_path / "nowhere").path == folder.path
    (root / "split" / "time" / "valid.csv.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"valid\.csv\.gz does not exist; get ogbn-papers100M from"):
        build_papers100m(root, tmp_path / "other", 1 << 30)
    with pytest.raises(ValueError, match="no array 'node_feet'"):
        NpzArray(root / "raw" / "data.npz", "node_feet", 2)


def test_a_folder_of_a_named_data_set_has_its_identity(tmp_path: Path) -> None:
    """Results on the folder are results on the data set."""
    folder = graph_folder_of("csbm", tmp_path)
    assert folder.path == tmp_path / "csbm.graph"
    assert folder.identity == "csbm"
    assert_equal(pb.data.load("csbm"), folder.load())
    with pytest.raises(ValueError, match="'nowhere' is neither a graph folder nor a data set"):
        graph_folder_of("nowhere", tmp_path)


def test_verify_finds_what_is_wrong(edges: np.ndarray, tmp_path: Path) -> None:
    folder = build_graph_folder(tmp_path / "graph", [edges], NODES)

    def with_indices(change: Callable[[np.ndarray], Any]) -> GraphFolder:
        indices = np.array(folder.indices)
        change(indices)
        np.save(folder.path / "indices.npy", indices)
        return replace(folder, indices=indices, files=None)

    original = np.array(folder.indices)

    def one_way(indices: np.ndarray) -> None:
        row = indices[: folder.indptr[1]]  # another last neighbour of node 0
        row[-1] = next(i for i in range(int(row[-2]) + 1, NODES) if i != row[-1])

    def swapped(indices: np.ndarray) -> None:
        indices[:2] = indices[1::-1]

    def outside(indices: np.ndarray) -> None:
        indices[-1] = NODES

    for change, message in ((one_way, "not symmetric"), (swapped, "unordered"), (outside, "invalid nodes")):
        with pytest.raises(ValueError, match=message):
            with_indices(change).verify()
        with pytest.raises(ValueError, match=r"indices\.npy: checksum mismatch"):
            GraphFolder.open(folder.path)
        with_indices(lambda indices: indices.__setitem__(slice(None), original)).verify()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((3, 2))}, r"x has shape \(3, 2\)"),
        ({"x": np.zeros((NODES, 2), dtype=complex)}, "x has dtype complex128; expected real numbers"),
        ({"y": np.zeros(3, dtype=np.int64)}, r"y has dtype int64, shape \(3,\); expected numbers \(400,\)"),
        ({"y": np.zeros(NODES, dtype="U1")}, r"y has dtype <U1, shape \(400,\); expected numbers"),
        ({"y": np.zeros((NODES, 2, 2))}, r"y has dtype float64, shape \(400, 2, 2\); expected numbers"),
        ({"splits": np.zeros((1, 3), dtype=np.int8)}, r"splits has shape \(1, 3\)"),
    ],
)
def test_wrong_shapes_are_named(edges: np.ndarray, arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        build_graph_folder(tmp_path / "graph", [edges], NODES, **arrays)
    assert list(tmp_path.iterdir()) == []
