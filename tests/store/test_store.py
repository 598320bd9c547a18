"""Graphs and bases on disk: equal to those in memory, resumed after interruptions, with damaged files named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from conftest import random_graph

import polybasis as pb
from polybasis import native
from polybasis.checksums import read_document, write_document
from polybasis.data.dataset import NodeDataset
from polybasis.store import (
    GraphFolder,
    build_graph_folder,
    graph_writing,
    make_synthetic,
    open_store,
    plan_precompute,
    synthetic_edges,
    write_graph_folder,
)
from polybasis.store.precomputation import precompute

if native.kernels() is None:
    pytest.skip("polybasis was built without its native kernels", allow_module_level=True)

MEMORY = 1 << 30


def write(path: Path, graph: pb.Graph, x: np.ndarray | None = None, y: np.ndarray | None = None) -> GraphFolder:
    """The folder of a graph with features and classes."""
    features = torch.zeros(graph.num_nodes, 1) if x is None else torch.from_numpy(x)
    classes = torch.full((graph.num_nodes,), -1) if y is None else torch.from_numpy(y)
    return write_graph_folder(path, NodeDataset(name="graph", graph=graph, x=features, y=classes))


def folder(tmp_path: Path, nodes: int = 300, channels: int = 70) -> tuple[pb.Graph, GraphFolder]:
    graph = random_graph(nodes, 5 * nodes)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((nodes, channels)).astype(np.float32)
    x[:, 2] = 0  # a channel without a basis
    y = rng.integers(-1, 3, nodes)
    return graph, write(tmp_path / "graph", graph, x, y)


def assert_same_store(one: Path, two: Path) -> None:
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted(path.name for path in two.iterdir())
    for name in names:
        if name != "log.jsonl":
            assert (one / name).read_bytes() == (two / name).read_bytes()


@pytest.mark.parametrize("memory", [1 << 20, 1 << 30])
def test_a_folder_built_from_a_stream_is_the_graph(tmp_path: Path, memory: int) -> None:
    """Directions, duplicates and self-loops in any order."""
    rng = np.random.default_rng(1)
    edges = rng.integers(0, 700, (5000, 2))
    built = build_graph_folder(tmp_path / "graph", np.array_split(edges, 7), 700, memory=memory)
    graph = pb.Graph.from_edge_index(torch.from_numpy(edges.T.copy()), 700, directed=False)
    assert np.array_equal(built.indptr, graph.indptr.numpy())
    assert np.array_equal(built.indices, graph.indices.numpy())
    assert sorted(path.name for path in (tmp_path / "graph").iterdir()) == ["graph.json", "indices.npy", "indptr.npy"]


def test_synthetic_graphs_are_seeded_and_skewed(tmp_path: Path) -> None:
    one = build_graph_folder(tmp_path / "one", synthetic_edges(5000, 40_000, seed=3), 5000)
    two = build_graph_folder(tmp_path / "two", synthetic_edges(5000, 40_000, seed=3), 5000)
    assert np.array_equal(one.indices, two.indices)
    degree = np.sort(np.diff(one.indptr))
    assert degree[-50:].mean() > 4 * np.median(degree)


def test_bad_edges_are_refused_and_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"edge \(3, 9\) has a node outside 0 \.\. 8"):
        build_graph_folder(tmp_path / "graph", [np.array([[0, 1], [3, 9]])], 9)
    with pytest.raises(ValueError, match="raise the memory limit"):
        build_graph_folder(tmp_path / "graph", [np.random.default_rng(0).integers(0, 9, (500, 2))], 9, memory=100)
    assert list(tmp_path.iterdir()) == []
    build_graph_folder(tmp_path / "graph", [np.array([[0, 1]])], 2)
    with pytest.raises(FileExistsError, match="exists; remove it or choose another folder"):
        build_graph_folder(tmp_path / "graph", [np.array([[0, 1]])], 2)
    weighted = pb.Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), edge_weight=torch.tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="weights"):
        write(tmp_path / "weighted", weighted)
    loops = pb.Graph.from_edge_index(torch.tensor([[0, 1], [1, 1]]), self_loops="keep")
    with pytest.raises(ValueError, match="self-loops"):
        write(tmp_path / "loops", loops)


def test_a_store_has_the_optimal_basis(tmp_path: Path) -> None:
    graph, on_disk = folder(tmp_path)
    K = 6
    store = precompute(on_disk, tmp_path / "store", K, memory=MEMORY)
    basis = pb.optimal_basis(graph, torch.from_numpy(np.array(on_disk.x)), K)
    assert np.array_equal(store.rows, np.flatnonzero(np.asarray(on_disk.y) >= 0))
    assert json.loads((store.path / "store.json").read_text())["blocks"] == [64, 6]
    assert torch.equal(store.rank, basis.rank)
    torch.testing.assert_close(store.gamma[:-1], basis.gamma[:-1], atol=1e-5, rtol=0)
    torch.testing.assert_close(store.sqrt_beta, basis.sqrt_beta, atol=1e-4, rtol=1e-5)
    rows = store.row_indices(store.rows[[5, 17, 3]])
    torch.testing.assert_close(
        store.batch(rows), basis.vectors[:, store.rows[[5, 17, 3]]].permute(1, 0, 2), atol=1e-4, rtol=0
    )
    store.verify()
    unlabelled = np.flatnonzero(np.asarray(on_disk.y) < 0)[:1]
    with pytest.raises(ValueError, match=f"node {unlabelled[0]} is not among the"):
        store.row_indices(unlabelled)


@pytest.mark.parametrize("name", ["monomial", "chebyshev", "bernstein", "chebyshev-interpolation", "jacobi", "favard"])
def test_every_filter_from_the_store_is_the_filter_on_the_graph(name: str, tmp_path: Path) -> None:
    graph, on_disk = folder(tmp_path, channels=20)
    K = 8
    store = precompute(on_disk, tmp_path / "store", K, memory=MEMORY, keep="all")
    torch.manual_seed(0)
    if name == "favard":
        layer: torch.nn.Module = pb.nn.FavardConv(20, K)
        with torch.no_grad():
            layer.gamma.uniform_(-0.2, 0.2)
            layer.sqrt_beta.uniform_(0.4, 0.9)
        basis = layer.basis
    else:
        basis = pb.bases.named_basis(name, K, 0.5, 0.25)
        layer = pb.nn.PolyConv(20, K, basis)
    with torch.no_grad():
        layer.alpha.normal_()
        expected = layer(torch.from_numpy(np.array(on_disk.x)), graph)
        coordinates = torch.einsum("jkd,kd->jd", store.coordinates(basis), layer.alpha.double())
        filtered = torch.einsum("nkd,kd->nd", store.batch(np.arange(len(store))).double(), coordinates)
    assert float((filtered - expected).norm() / expected.norm()) < 1e-5


def test_the_plan_follows_the_memory(tmp_path: Path) -> None:
    _, on_disk = folder(tmp_path, nodes=200_000 // 100)
    large = replace(on_disk, num_nodes=10_000_000)
    plans = [plan_precompute(large, 10, memory=gib << 30, rows=10_000) for gib in (1, 2, 4, 8)]
    widths = [plan.blocks[0] for plan in plans]
    assert widths == sorted(widths)
    assert len(set(widths)) == 4
    for gib, plan in zip((1, 2, 4, 8), plans, strict=True):
        assert plan.memory <= gib << 30
        assert sum(plan.blocks) == 70
    many, few = (plan_precompute(large, 10, memory=4 << 30, rows=10, threads=threads) for threads in (32, 2))
    assert many.blocks[0] < few.blocks[0]  # each thread holds something too
    with pytest.raises(ValueError, match="needs 717 MiB, but the limit is 256 MiB; raise the memory limit"):
        plan_precompute(large, 10, memory=1 << 28, rows=10_000)


@pytest.mark.slow
def test_an_interrupted_run_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    """Killed with SIGKILL at several moments, then run again."""
    _, on_disk = folder(tmp_path)
    precompute(on_disk, tmp_path / "whole", 5, memory=MEMORY)
    script = """
        import os, signal, sys
        from polybasis.store import GraphFolder
        from polybasis.store.precomputation import precompute
        moment = int(sys.argv[3])
        def on_step(block, blocks, step, steps):
            if block * steps + step == moment:
                os.kill(os.getpid(), signal.SIGKILL)
        precompute(GraphFolder.open(sys.argv[1]), sys.argv[2], 5, memory=1 << 30, on_step=on_step)
    """
    for moment in (2, 6, 9):
        out = tmp_path / f"killed-{moment}"
        run = [sys.executable, "-c", textwrap.dedent(script), str(on_disk.path), str(out), str(moment)]
        assert subprocess.run(run, check=False).returncode == -9
        with pytest.raises(ValueError, match="unfinished; run precompute again"):
            open_store(out)
        precompute(on_disk, out, 5, memory=MEMORY)
        assert_same_store(tmp_path / "whole", out)


def test_threads_do_not_change_a_store(tmp_path: Path) -> None:
    _, on_disk = folder(tmp_path, nodes=40_000, channels=4)
    precompute(on_disk, tmp_path / "one", 3, memory=MEMORY, threads=1)
    precompute(on_disk, tmp_path / "three", 3, memory=MEMORY, threads=3)
    assert_same_store(tmp_path / "one", tmp_path / "three")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    _, on_disk = folder(tmp_path, channels=5)
    whole = tmp_path / "whole"
    precompute(on_disk, whole, 3, memory=MEMORY)

    def damaged(name: str) -> Path:
        copy = tmp_path / f"copy-{name}"
        shutil.copytree(whole, copy)
        return copy

    flipped = damaged("flipped")
    content = bytearray((flipped / "vectors.npy").read_bytes())
    content[-7] ^= 1
    (flipped / "vectors.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"vectors\.npy: checksum mismatch in bytes 0 to"):
        open_store(flipped, verify=True)
    cut = damaged("cut")
    (cut / "vectors.npy").write_bytes(content[:-100])
    with pytest.raises(ValueError, match=r"vectors\.npy has .* bytes; expected"):
        open_store(cut)
    newer = damaged("newer")
    about = json.loads((newer / "store.json").read_text())
    (newer / "store.json").write_text(json.dumps({**about, "version": 99}))
    with pytest.raises(ValueError, match=r"store\.json: checksum mismatch"):
        open_store(newer)
    del about["checksum"]
    (newer / "store.json").write_text(json.dumps({**about, "version": 99}))
    with pytest.raises(ValueError, match=r"store\.json has format 'polybasis store', version 99; expected"):
        open_store(newer)
    (newer / "store.json").write_text("{")
    with pytest.raises(ValueError, match=r"store\.json is damaged"):
        open_store(newer)
    with pytest.raises(FileNotFoundError, match=r"store\.json does not exist"):
        open_store(on_disk.path)
    gone = damaged("gone")
    (gone / "rows.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"rows\.npy"):
        open_store(gone)
    with pytest.raises(ValueError, match="belongs to degree 3, not 4"):
        precompute(on_disk, whole, 4, memory=MEMORY)
    with pytest.raises(FileExistsError, match="neither empty nor a store"):
        precompute(on_disk, on_disk.path, 3, memory=MEMORY)


@pytest.fixture(scope="module")
def several_blocks() -> pb.Graph:
    """Of several blocks, with stripes and without, whose neighbours are read in several parts."""
    return random_graph(300_000, 3_000_000)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("stripe", [1 << 30, 3_000_000, 1_000_000])
def test_stripes_of_columns_change_nothing_but_rounding(several_blocks: pb.Graph, stripe: int, index: type) -> None:
    graph, nodes, width, rng = several_blocks, several_blocks.num_nodes, 12, np.random.default_rng(0)
    indptr, indices = graph.indptr.numpy().astype(np.int64), graph.indices.numpy().astype(index)
    u, before = rng.standard_normal((2, nodes, width)).astype(np.float32)
    scale, beta = rng.random((2, width))
    degrees = np.maximum(np.diff(indptr), 1)[:, None]
    adjacency = scipy.sparse.csr_array((np.ones(len(indices)), indices, indptr))
    expected = scale * (adjacency @ u.astype(np.float64)) / degrees - beta * before
    found = []
    for threads in (1, 2):
        operator = native.streamed(indptr, indices, stripe_bytes=stripe)
        for _ in ("forward", "backward"):
            w, sums = before.copy(), np.zeros(width)
            operator.product(u, scale, beta, w, sums, threads)
            found.append((w.tobytes(), sums.tobytes()))
            np.testing.assert_allclose(w, expected, atol=1e-5)
            np.testing.assert_allclose(sums, (expected * u * degrees).sum(0), rtol=1e-4)
    assert len(set(found)) == 1


@pytest.mark.parametrize("isa", ["plain", "avx2", "avx512"])
@pytest.mark.parametrize("width", [0, 1, 3, 4, 24, 64])
@pytest.mark.parametrize("stripe", [1 << 30, 50_000])
def test_stripes_of_any_width(width: int, stripe: int, isa: str) -> None:
    """On rows without neighbours and one that is longer than what is read at a time."""
    sets = ["plain", "avx2", "avx512"]
    if sets.index(isa) > sets.index(native.kernels().best_isa()):
        pytest.skip(f"this processor has no {isa}")
    nodes, rng = 3000, np.random.default_rng(2)
    counts = rng.integers(0, 20, nodes)
    counts[[0, 7, 8, -1]] = 0, 1_100_000, 0, 0
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = rng.integers(0, nodes, indptr[-1]).astype(np.int32)
    u = rng.standard_normal((nodes, width)).astype(np.float32)
    expected = scipy.sparse.csr_array((np.ones(len(indices)), indices, indptr), (nodes, nodes)) @ u.astype(np.float64)
    w, sums = np.zeros_like(u), np.zeros(width)
    operator = native.streamed(indptr, indices, stripe_bytes=stripe, isa=isa)
    operator.product(u, np.ones(width), np.zeros(width), w, sums, 2)
    np.testing.assert_allclose(w, expected / np.maximum(counts, 1)[:, None], atol=3e-6)


@pytest.mark.parametrize("stripe", [1 << 30, 1_000_000])
@pytest.mark.parametrize("direct", [False, True])
def test_neighbours_read_from_their_file_are_those_in_memory(
    tmp_path: Path, several_blocks: pb.Graph, stripe: int, direct: bool
) -> None:
    nodes, width, rng = several_blocks.num_nodes, 12, np.random.default_rng(1)
    on_disk = write(tmp_path / "graph", several_blocks)
    u = rng.standard_normal((nodes, width)).astype(np.float32)
    found = []
    for indptr, indices in ((on_disk.indptr, on_disk.indices), (np.array(on_disk.indptr), np.array(on_disk.indices))):
        operator = native.streamed(indptr, indices, direct=direct, stripe_bytes=stripe)
        if direct and isinstance(indices, np.memmap) and not operator.direct:
            pytest.skip("this file system has no reading past its cache")
        for threads in (1, 2):  # forward and backward
            w, sums = np.zeros_like(u), np.zeros(width)
            operator.product(u, np.ones(width), np.zeros(width), w, sums, threads)
            found.append((w.tobytes(), sums.tobytes()))
    assert len(set(found)) == 1


def test_a_store_is_the_same_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, on_disk = folder(tmp_path)
    precompute(on_disk, tmp_path / "one", 3, memory=MEMORY)
    monkeypatch.setattr("polybasis.store.blocks.physical_memory", lambda: 0)
    precompute(on_disk, tmp_path / "two", 3, memory=MEMORY)
    assert_same_store(tmp_path / "one", tmp_path / "two")


def test_a_part_of_a_mapped_array_is_not_taken_for_its_file(tmp_path: Path) -> None:
    _, on_disk = folder(tmp_path, channels=3)
    np.save(tmp_path / "longer.npy", np.concatenate([np.zeros(7, dtype=np.int32), on_disk.indices]))
    u = np.random.default_rng(0).standard_normal((on_disk.num_nodes, 1)).astype(np.float32)
    found = []
    for indices in (on_disk.indices, np.load(tmp_path / "longer.npy", mmap_mode="r")[7:]):
        w = np.zeros_like(u)
        native.streamed(on_disk.indptr, indices).product(u, np.ones(1), np.zeros(1), w, np.zeros(1), 1)
        found.append(w)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("direct", [False, True])
def test_a_truncated_file_is_named(tmp_path: Path, direct: bool) -> None:
    _, on_disk = folder(tmp_path, channels=3)
    operator = native.streamed(on_disk.indptr, on_disk.indices, direct=direct)
    os.truncate(on_disk.path / "indices.npy", 200)
    u = np.zeros((on_disk.num_nodes, 1), dtype=np.float32)
    with pytest.raises(ValueError, match=r"indices\.npy: unexpected end of file"):
        operator.product(u, np.ones(1), np.zeros(1), u.copy(), np.zeros(1), 2)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("stripe", [1 << 30, 4])
def test_rows_out_of_order_or_out_of_range_in_stripes(stripe: int, index: type) -> None:
    indptr = np.array([0, 3, 4, 5, 6])
    u, sums = np.arange(4, dtype=np.float32)[:, None] + 1, np.zeros(1)

    def product(indices: list[int]) -> np.ndarray:
        w = np.zeros((4, 1), dtype=np.float32)
        operator = native.streamed(indptr, np.array(indices, dtype=index), stripe_bytes=stripe)
        operator.product(u, np.ones(1), np.zeros(1), w, sums, 1)
        return w[:, 0]

    np.testing.assert_allclose(product([3, 1, 2, 0, 0, 0]), [3, 1, 1, 1])
    for wrong in (-1, 4, np.iinfo(index).max):
        with pytest.raises(ValueError, match="node out of range"):
            product([3, wrong, 2, 0, 0, 0])


def test_indices_out_of_range_never_leave_the_arrays(tmp_path: Path) -> None:
    """A mapped file may have been changed by anyone."""
    _, on_disk = folder(tmp_path, channels=5)
    indices = np.array(on_disk.indices)
    for wrong in (-1, on_disk.num_nodes, np.iinfo(np.int32).max):
        indices[len(indices) // 2] = wrong
        np.save(on_disk.path / "indices.npy", indices)
        with pytest.raises(ValueError, match=r"indices\.npy: checksum mismatch"):
            GraphFolder.open(on_disk.path)
        with pytest.raises(ValueError, match="node out of range"):
            precompute(replace(on_disk, files=None), tmp_path / f"store{wrong}", 3, memory=MEMORY)


def test_signals_near_the_limits_of_float32(tmp_path: Path) -> None:
    """Blocks share memory: nothing of one may leak into the next."""
    graph, _ = folder(tmp_path, channels=70)
    x = np.random.default_rng(0).standard_normal((graph.num_nodes, 70)).astype(np.float32)
    x[:, 1] *= 1e37
    x[:, 2] *= 1e-36
    on_disk = write(tmp_path / "far", graph, x)
    store = precompute(on_disk, tmp_path / "store", 5, memory=MEMORY, keep="all")
    basis = pb.optimal_basis(graph, torch.from_numpy(x), 5)
    assert torch.equal(store.rank, basis.rank)
    torch.testing.assert_close(store.sqrt_beta, basis.sqrt_beta, atol=0, rtol=1e-4)
    torch.testing.assert_close(
        torch.from_numpy(store.vectors.copy()), basis.vectors.permute(1, 0, 2), atol=1e-4, rtol=0
    )


def test_ranks_are_those_of_the_engine(tmp_path: Path) -> None:
    """A constant on a ring and a pure wave have few vectors; what comes after them is noise."""
    ring = pb.Graph.from_edge_index(torch.stack([torch.arange(64), (torch.arange(64) + 1) % 64]))
    wave = torch.cos(2 * torch.pi * 5 * torch.arange(64) / 64)
    x = torch.stack([torch.ones(64), wave, torch.randn(64), torch.zeros(64)], dim=1)
    on_disk = write(tmp_path / "ring", ring, x.numpy())
    store = precompute(on_disk, tmp_path / "store", 6, memory=MEMORY, keep="all")
    assert torch.equal(store.rank, pb.optimal_basis(ring, x, 6).rank)


def test_a_store_of_another_graph_is_refused(tmp_path: Path) -> None:
    graph, on_disk = folder(tmp_path, channels=5)
    precompute(on_disk, tmp_path / "store", 3, memory=MEMORY, keep="all")
    assert on_disk.x is not None
    assert on_disk.y is not None
    x, y = np.array(on_disk.x), np.array(on_disk.y)
    for number, data in enumerate(((np.roll(x, 1, axis=0), y), (x, np.roll(y, 1)), (x,))):
        other = write(tmp_path / f"other{number}", graph, *data)
        with pytest.raises(ValueError, match="belongs to another graph"):
            precompute(other, tmp_path / "store", 3, memory=MEMORY, keep="all")


def test_a_store_without_a_header_is_started_over(tmp_path: Path) -> None:
    _, on_disk = folder(tmp_path, channels=5)
    precompute(on_disk, tmp_path / "whole", 3, memory=MEMORY)
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "rows.npy").write_bytes(b"cut")
    (begun / ".store.json.xyz").write_text("{")
    precompute(on_disk, begun, 3, memory=MEMORY)
    assert_same_store(tmp_path / "whole", begun)


def test_a_second_writer_of_a_folder_waits_and_finds_it_complete(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, on_disk = folder(tmp_path, channels=5)
    with ThreadPoolExecutor(2) as others:
        waiting: list[Future[object]] = []

        def on_step(block: int, blocks: int, step: int, steps: int) -> None:
            if step == 2:
                waiting.append(others.submit(precompute, on_disk, tmp_path / "store", 3, memory=MEMORY))
                while not caplog.messages:
                    time.sleep(0.01)

        precompute(on_disk, tmp_path / "store", 3, memory=MEMORY, on_step=on_step).verify()
        assert caplog.messages == [f"waiting for another process that is building {tmp_path / 'store'}"]
        assert len(waiting[0].result()) == len(open_store(tmp_path / "store"))  # type: ignore[arg-type]
        caplog.clear()
        with graph_writing._building(tmp_path / "built") as place:
            waiting.append(others.submit(build_graph_folder, tmp_path / "built", [np.array([[1, 2]])], 3))
            while not caplog.messages:
                time.sleep(0.01)
            (place / "mine").touch()
        assert caplog.messages == [f"waiting for another process that is building {tmp_path / 'built'}"]
        with pytest.raises(FileExistsError, match="built exists; remove it or choose another folder"):
            waiting[1].result()
    assert [path.name for path in (tmp_path / "built").iterdir()] == ["mine"]


def test_signals_that_are_not_finite_are_named(tmp_path: Path) -> None:
    graph, _ = folder(tmp_path, channels=5)
    x = np.zeros((graph.num_nodes, 5), dtype=np.float32)
    x[7, 3] = np.nan
    on_disk = write(tmp_path / "nan", graph, x)
    with pytest.raises(ValueError, match=r"x\.npy is not finite at node 7, feature 3"):
        precompute(on_disk, tmp_path / "store", 3, memory=MEMORY, keep="all")
    with pytest.raises(ValueError, match="has no labels; keep all rows"):
        precompute(on_disk, tmp_path / "store", 3, memory=MEMORY)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    _, on_disk = folder(tmp_path, channels=5)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            precompute(on_disk, tmp_path / "store", 3, memory=MEMORY)
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.slow
def test_memory_stays_within_the_limit(tmp_path: Path) -> None:
    """Three limits, each in a fresh process that reports the most it had resident."""
    make_synthetic(tmp_path / "graph", 1_500_000, 4_000_000, 48, labelled=0.02)
    for limit in (720 << 20, 900 << 20, 1400 << 20):
        out = tmp_path / f"store-{limit}"
        run = [sys.executable, "-m", "polybasis", "precompute", tmp_path / "graph", "--out", out, "--K", "3",
               "--memory", f"{limit >> 20}MiB"]  # fmt: skip
        subprocess.run(list(map(str, run)), check=True, capture_output=True)
        lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        assert max(line["peak_memory"] for line in lines) <= 1.1 * limit
    widths = {
        json.loads((tmp_path / f"store-{n << 20}" / "store.json").read_text())["blocks"][0] for n in (720, 900, 1400)
    }
    assert len(widths) == 3, "each limit leads to another plan"


def test_a_full_disk_is_refused_before_the_work_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, on_disk = folder(tmp_path, channels=5)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(OSError, match=r"store needs .* GiB; the disk has 0\.00 GiB free"):
        precompute(on_disk, tmp_path / "store", 3, memory=MEMORY)


@pytest.mark.parametrize("moment", ["block", "join"])
def test_a_full_disk_loses_no_finished_block(moment: str, tmp_path: Path) -> None:
    """A limit on the size of files stands for a disk without room: the system refuses the next byte."""
    _, on_disk = folder(tmp_path, nodes=3000)
    precompute(on_disk, tmp_path / "whole", 5, memory=MEMORY)
    rows = len(open_store(tmp_path / "whole"))
    room = rows * 6 * (63 if moment == "block" else 69) * 4  # too little for 64 channels, or for all 70 together
    script = """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
        sys.argv = ["polybasis", *sys.argv[2:]]
        from polybasis.cli import main
        main()
    """
    out = tmp_path / "out"
    run = [sys.executable, "-c", textwrap.dedent(script), room, "precompute", on_disk.path, "--out", out, "--K", 5]
    done = subprocess.run(list(map(str, run)), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert len([line for line in done.stderr.splitlines() if line.startswith("polybasis:")]) == 1
    assert "Traceback" not in done.stderr
    finished = sorted(path.name for path in out.glob("block-*.json"))
    assert finished == ([] if moment == "block" else ["block-0000.json", "block-0001.json"])
    assert not list(out.glob(".*")), "unfinished files are removed"
    precompute(on_disk, out, 5, memory=8 << 30)
    assert_same_store(tmp_path / "whole", out)


def test_half_precision_keeps_three_digits_of_every_relevant_entry(tmp_path: Path) -> None:
    """Entries of unit vectors are about 1/sqrt(N), most of them below the normal numbers of float16 (6e-5); vectors are
    stored multiplied by a power of two near sqrt(N)."""
    nodes = 60_000
    rng = np.random.default_rng(3)
    x = np.exp(3 * rng.standard_normal((nodes, 2))).astype(np.float32)  # heavy-tailed
    graph = build_graph_folder(tmp_path / "graph", [rng.integers(0, nodes, (200_000, 2))], nodes, x=x)
    rows = np.arange(nodes)
    exact, half = (
        precompute(graph, tmp_path / dtype, 3, keep="all", dtype=dtype).batch(rows).numpy()
        for dtype in ("float32", "float16")
    )
    relevant = np.abs(exact) > 1e-4 / np.sqrt(nodes)
    assert relevant.mean() > 0.5
    assert (np.abs(half - exact)[relevant] <= 2.0**-10 * np.abs(exact)[relevant]).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_damaged_row_is_found_when_it_is_read(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are verified by the blocks that they lie in; blocks and rows overlap in every way, and the last is short."""
    monkeypatch.setattr("polybasis.checksums.BLOCK", 1000)
    _, graph = folder(tmp_path, nodes=40, channels=7)
    path = precompute(graph, tmp_path / "store", 3, keep="all", dtype=dtype).path
    file = path / "vectors.npy"
    content = file.read_bytes()
    row = 4 * 7 * np.dtype(dtype).itemsize
    start = len(content) - 40 * row
    for number in range(40):
        place = start + number * row + number * 5 % row
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        block = range(place // 1000 * 1000, place // 1000 * 1000 + 1000)
        if block.start == 0:  # its header is verified when the store is opened
            with pytest.raises(ValueError, match=r"vectors\.npy: checksum mismatch"):
                open_store(path)
            continue
        with pytest.raises(ValueError, match=r"vectors\.npy: checksum mismatch"):
            open_store(path).batch(np.array([0, number]))
        others = [i for i in range(40) if start + i * row >= block.stop or start + (i + 1) * row <= block.start]
        assert len(open_store(path).batch(np.array(others))) == len(others)


@pytest.mark.parametrize("name", ["rows.npy", "y.npy"])
def test_a_file_without_checksums_is_not_read(name: str, tmp_path: Path) -> None:
    """A header that is intact but omits a file."""
    _, graph = folder(tmp_path, nodes=40, channels=3)
    path = precompute(graph, tmp_path / "store", 2, keep="all").path
    header = read_document(path / "store.json")
    del header["files"][name]
    write_document(path / "store.json", header)
    with pytest.raises(ValueError, match=f"{name} has no checksums"):
        open_store(path)
