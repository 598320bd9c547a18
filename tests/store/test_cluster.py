"""Work on a Ray cluster: the same store and the same results as on one machine, also when a machine is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from conftest import random_graph
from test_store import assert_same_store

from polybasis import cluster, native
from polybasis.nn.models.own_models import load_model_file
from polybasis.store import GraphFolder, build_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train.config import Config
from polybasis.train.job import Job, run_jobs
from polybasis.train.source import Source
from polybasis.train.study_file import study_backend

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.ray, pytest.mark.slow]
if native.kernels() is None:
    pytest.skip("polybasis was built without its native kernels", allow_module_level=True)

MEMORY = 720 << 20  # room for few channels at a time, so that there are many blocks


@pytest.fixture
def two_machines() -> Iterator[Any]:
    """A cluster of two, simulated on this machine."""
    from ray.cluster_utils import Cluster

    numbers = {"num_cpus": 1, "memory": 4 << 30, "object_store_memory": 80 << 20}
    simulated = Cluster(initialize_head=True, head_node_args={**numbers, "include_dashboard": False})
    simulated.worker = simulated.add_node(**numbers)
    yield simulated
    ray.shutdown()
    simulated.shutdown()


def graph(tmp_path: Path) -> GraphFolder:
    nodes, channels = 700_000, 60
    x = np.random.default_rng(0).standard_normal((nodes, channels)).astype(np.float16)
    y = np.where(np.arange(nodes) % 50 == 0, 1, -1)
    pairs = random_graph(nodes, 3 * nodes).edge_index().T.numpy()
    return build_graph_folder(tmp_path / "graph", np.array_split(pairs, 4), nodes, x=x, y=y)


def test_losing_a_machine_does_not_change_the_store(two_machines: Any, tmp_path: Path) -> None:
    on_disk = graph(tmp_path)
    precompute(on_disk, tmp_path / "alone", 4, memory=MEMORY, threads=1)
    lost = []

    def lose_one() -> None:
        while not list((tmp_path / "together").glob("block-*.json")):
            time.sleep(0.01)
        two_machines.remove_node(two_machines.worker, allow_graceful=False)
        lost.append(len(list((tmp_path / "together").glob("block-*.json"))))

    thread = threading.Thread(target=lose_one)
    thread.start()
    store = precompute(on_disk, tmp_path / "together", 4, memory=MEMORY, threads=1, cluster=two_machines.address)
    thread.join()
    blocks = -(-60 // 8)
    assert 0 < lost[0] < blocks, "the machine was lost in the middle"
    store.verify()
    assert_same_store(tmp_path / "alone", tmp_path / "together")


def test_jobs_on_a_cluster_have_the_results_of_one_machine(two_machines: Any, tmp_path: Path) -> None:
    config, source = Config.of("gpr-gnn", hidden=8, epochs=5), Source.named("csbm")
    jobs = [Job(config, source, "per-class", split, split) for split in range(3)]
    alone = run_jobs(jobs, tmp_path / "alone.jsonl")
    together = run_jobs(jobs, tmp_path / "together.jsonl", cluster=two_machines.address)
    for one, other in zip(alone, together, strict=True):
        assert one["key"] == other["key"]
        assert one["test_score"] == other["test_score"]


def test_a_search_on_a_cluster_shares_one_study(two_machines: Any, tmp_path: Path) -> None:
    study, out = tmp_path / "study.log", tmp_path / "best.toml"
    search = ["csbm", "--model", "gpr-gnn", "--trials", "6", "--splits", "1", "--epochs", "5"]
    where = ["--ray", two_machines.address, "--workers", "2", "--study", str(study), "--out", str(out)]
    subprocess.run([sys.executable, "-m", "polybasis", "tune", *search, *where], check=True, timeout=300)
    assert Config.from_toml(out).preset == "tuned"
    storage = optuna.storages.JournalStorage(study_backend(study))
    (found,) = optuna.get_all_study_names(storage)
    trials = optuna.load_study(study_name=found, storage=storage).trials
    ended = [trial for trial in trials if trial.state.is_finished()]
    assert len(ended) in (6, 7), "no more than what the other worker had begun"


def test_an_address_without_a_cluster_is_named() -> None:
    with pytest.raises(ConnectionError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        list(cluster.map_on_ray(int, [("1",)], address="127.0.0.1:1"))


def test_a_ray_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray raises a bare Exception, which no command would catch."""

    def time_out(*_: Any, **__: Any) -> None:
        raise Exception("The current node timed out during startup.\nMore lines of advice.")

    monkeypatch.setattr(ray, "init", time_out)
    with pytest.raises(ConnectionError, match=r"^Ray did not start: The current node timed out during startup\.$"):
        list(cluster.map_on_ray(int, [("1",)], address="auto"))


def test_jobs_with_an_own_model_run_on_a_cluster(two_machines: Any, tmp_path: Path) -> None:
    """Workers run the file that defines the model; the results are those of this machine."""
    (tmp_path / "mine.py").write_text("from polybasis.nn.models import MLP\n\nclass Net(MLP):\n    pass\n")
    config = Config.of(load_model_file(tmp_path / "mine.py", "Net"), hidden=8, epochs=3)
    jobs = [Job(config, Source.named("csbm"), "per-class", split, split) for split in range(2)]
    found = run_jobs(jobs, tmp_path / "cluster.jsonl", cluster=two_machines.address)
    alone = run_jobs(jobs, tmp_path / "alone.jsonl")
    assert [result["test_score"] for result in found] == [result["test_score"] for result in alone]
