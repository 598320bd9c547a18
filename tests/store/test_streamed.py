"""The basis with two vectors in memory: the same in memory and on disk, and close to the reorthogonalised one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import random_graph

import polybasis as pb
from polybasis import native
from polybasis.data.dataset import NodeDataset
from polybasis.features import as_dense
from polybasis.krylov.streamed import plain_basis
from polybasis.store import open_store, write_graph_folder
from polybasis.store.precomputation import precompute

if native.kernels() is None:
    pytest.skip("polybasis was built without its native kernels", allow_module_level=True)

K = 6


def isolated(nodes: int, connected: int) -> pb.Graph:
    """A random graph among the first nodes; the others have no edges."""
    small = random_graph(connected, 4 * connected)
    return pb.Graph.from_edge_index(small.edge_index(), nodes)


def hard_signals(nodes: int) -> torch.Tensor:
    """70 channels, more than are processed together: random, zero, huge, tiny, of one node, constant."""
    x = torch.randn(nodes, 70, generator=torch.Generator().manual_seed(4))
    x[:, 3] = 0
    x[:, 65] = 0
    x[:, 1] *= 1e37
    x[:, 66] *= 1e-36
    x[:, 5] = 0
    x[0, 5] = 2
    x[:, 6] = 1
    return x


CASES = {
    "csbm": lambda: (pb.data.csbm(nodes=400, features=70).graph, as_dense(pb.data.csbm(nodes=400, features=70).x)),
    "random": lambda: (random_graph(300, 1500), torch.randn(300, 70)),
    "isolated nodes": lambda: (isolated(200, 150), torch.randn(200, 70)),
    "hard signals": lambda: (random_graph(300, 1500), hard_signals(300)),
    "no edges": lambda: (pb.Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 30), torch.randn(30, 3)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_basis_in_memory_is_that_of_the_store(case: str, tmp_path: Path) -> None:
    graph, x = CASES[case]()
    vectors, gamma, sqrt_beta = plain_basis(graph, x, K)
    data = NodeDataset(name="graph", graph=graph, x=x, y=torch.zeros(graph.num_nodes, dtype=torch.long))
    store = precompute(write_graph_folder(tmp_path / "graph", data), tmp_path / "store", K)
    assert vectors.isfinite().all()
    torch.testing.assert_close(vectors, torch.from_numpy(np.array(store.vectors)), atol=1e-6, rtol=0)
    torch.testing.assert_close(gamma, store.gamma, atol=1e-6, rtol=0)
    torch.testing.assert_close(sqrt_beta, store.sqrt_beta, atol=1e-30, rtol=1e-6)
    assert torch.equal((sqrt_beta > 0).sum(0), store.rank)


@pytest.mark.parametrize("case", CASES)
def test_it_is_orthonormal_up_to_its_rank(case: str) -> None:
    """VᵀV is the identity up to the rank and zero beyond it."""
    graph, x = CASES[case]()
    vectors, _, sqrt_beta = plain_basis(graph, x, K)
    products = torch.einsum("njd,nkd->jkd", vectors.double(), vectors.double())
    expected = torch.diag_embed((sqrt_beta > 0).double().T).permute(1, 2, 0)
    torch.testing.assert_close(products, expected, atol=1e-4, rtol=0)
    assert not sqrt_beta[:, (x == 0).all(0)].any()


@pytest.mark.parametrize("case", ["csbm", "random", "isolated nodes", "hard signals"])
def test_it_agrees_with_the_reorthogonalised_basis(case: str) -> None:
    """Where residuals stay large, the three-term recurrence alone loses nothing."""
    graph, x = CASES[case]()
    vectors, gamma, sqrt_beta = plain_basis(graph, x, K)
    basis = pb.optimal_basis(graph, x, K)
    good = (basis.rank == K + 1) & (basis.sqrt_beta[1:].min(0).values > 0.05)
    assert good.sum() > 50, "most channels are well conditioned"
    assert torch.equal((sqrt_beta > 0).sum(0)[good], basis.rank[good])
    torch.testing.assert_close(vectors[:, :, good], basis.vectors.movedim(0, 1)[:, :, good], atol=1e-4, rtol=0)
    torch.testing.assert_close(gamma[:-1, good], basis.gamma[:-1, good].double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(sqrt_beta[:, good], basis.sqrt_beta[:, good].double(), atol=0, rtol=1e-4)


def test_the_recurrence_holds() -> None:
    """P v_k = sqrt_beta_k v_{k-1} + gamma_k v_k + sqrt_beta_{k+1} v_{k+1} (Lanczos)."""
    graph, x = CASES["random"]()
    vectors, gamma, sqrt_beta = plain_basis(graph, x, K)
    v = vectors.double().movedim(1, 0)
    for k in range(1, K):
        expected = sqrt_beta[k] * v[k - 1] + gamma[k] * v[k] + sqrt_beta[k + 1] * v[k + 1]
        torch.testing.assert_close(graph @ v[k], expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(v[0] * sqrt_beta[0], x.double(), atol=1e-5, rtol=1e-5)


# ---- several processes ---------------------------------------------------------------------------------------------

SLOW = """
    import sys, time
    from pathlib import Path
    from polybasis.store import GraphFolder
    from polybasis.store.precomputation import precompute
    def on_step(block, blocks, step, steps):
        Path(sys.argv[3]).touch()
        time.sleep(float(sys.argv[4]))
    precompute(GraphFolder.open(sys.argv[1]), sys.argv[2], 3, on_step=on_step)
"""


def start_slow(graph: Path, store: Path, mark: Path, seconds: float) -> subprocess.Popen[bytes]:
    """A process that works on a store; returns when it has finished its first step."""
    run = [sys.executable, "-c", textwrap.dedent(SLOW), str(graph), str(store), str(mark), str(seconds)]
    process = subprocess.Popen(run)
    limit = time.monotonic() + 60
    while not mark.exists():
        assert process.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.01)
    return process


def command(graph: Path, store: Path) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "polybasis", "precompute", graph, "--out", store, "--K", "3"]
    return subprocess.run(list(map(str, run)), capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_of_two_processes_one_works_and_the_other_waits(tmp_path: Path) -> None:
    write_graph_folder(tmp_path / "graph", pb.data.csbm(nodes=100, features=4))
    with start_slow(tmp_path / "graph", tmp_path / "store", tmp_path / "mark", 1.5) as first:
        second = command(tmp_path / "graph", tmp_path / "store")
    assert (first.returncode, second.returncode) == (0, 0)
    notices = [line for line in second.stderr.splitlines() if line.startswith("polybasis: ")]
    assert notices == [f"polybasis: waiting for another process that is building {tmp_path / 'store'}"]
    open_store(tmp_path / "store", verify=True)
    log = [json.loads(line) for line in (tmp_path / "store" / "log.jsonl").read_text().splitlines()]
    assert [entry.get("block") for entry in log] == [0, None], "the store was built once"


@pytest.mark.slow
def test_a_killed_process_blocks_nobody(tmp_path: Path) -> None:
    """The system releases the lock of a process that it kills."""
    write_graph_folder(tmp_path / "graph", pb.data.csbm(nodes=100, features=4))
    with start_slow(tmp_path / "graph", tmp_path / "store", tmp_path / "mark", 60) as first:
        os.kill(first.pid, signal.SIGKILL)
    with pytest.raises(ValueError, match="unfinished"):
        open_store(tmp_path / "store")
    second = command(tmp_path / "graph", tmp_path / "store")
    assert second.returncode == 0, second.stderr
    open_store(tmp_path / "store", verify=True)
    left = {path.name for path in (tmp_path / "store").iterdir()}
    assert left == {"store.json", "basis.json", "vectors.npy", "rows.npy", "y.npy", "log.jsonl"}


def test_a_killed_builder_of_a_graph_blocks_nobody(tmp_path: Path) -> None:
    script = """
        import os, signal, sys, numpy as np
        from polybasis.store import build_graph_folder
        def edges():
            yield np.array([[0, 1]])
            os.kill(os.getpid(), signal.SIGKILL)
        build_graph_folder(sys.argv[1], edges(), 3)
    """
    run = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "graph")]
    assert subprocess.run(run, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "graph").exists()
    pb.store.build_graph_folder(tmp_path / "graph", [np.array([[1, 2]])], 3).verify()
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]
