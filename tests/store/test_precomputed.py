"""Models on a precomputed basis: the filters of the graph; training that resumes and that processes share."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import polybasis as pb
from polybasis import native
from polybasis.features import as_dense, transform_features
from polybasis.nn.linear import dropout
from polybasis.nn.models.precomputed import FILTERS, PrecomputedGNN, filtered
from polybasis.store import BasisStore, open_store, write_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train.config import Config
from polybasis.train.distributed import ProcessGroup, process_group
from polybasis.train.fitting import Progress
from polybasis.train.job import Job, adapt_config, run_jobs
from polybasis.train.mini_batch import Batches
from polybasis.train.results import Result
from polybasis.train.source import Source
from polybasis.train.trained_model import TrainedModel

if native.kernels() is None:
    pytest.skip("polybasis was built without its native kernels", allow_module_level=True)

K = 6


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> BasisStore:
    place = tmp_path_factory.mktemp("scaled")
    data = pb.data.csbm(nodes=1200, features=24, seed=1)
    return precompute(write_graph_folder(place / "graph", data), place / "store", K, memory=1 << 30)


def config(model: str = "optbasisgnn", **changes: Any) -> Config:
    values = {"hidden": 16, "batch_size": 300, "lr": 0.01, "epochs": 6, **changes}
    return Config.of(model, precomputed=True, **values)


def train(config: Config, store: BasisStore, results: Path, seed: int = 0, **options: Any) -> Result:
    source = Source.folder(store.path)
    (result,) = run_jobs([Job(adapt_config(config, source), source, "stratified", 0, seed)], results, **options)
    return result


def shaken(model: str, store: BasisStore, degree: int = K) -> PrecomputedGNN:
    """A model on a store's basis with a random filter."""
    torch.manual_seed(3)
    gnn = PrecomputedGNN(model, store.channels, 16, 3, degree)
    gnn.start_at(store.gamma, store.sqrt_beta)
    with torch.no_grad():
        for name, parameter in gnn.named_parameters():
            if name.startswith("conv"):
                parameter.add_(0.3 * torch.rand_like(parameter))
    return gnn


@pytest.mark.parametrize("model", [name for name in FILTERS if name != "sign"])
def test_a_filter_on_the_store_is_the_filter_on_the_graph(model: str, store: BasisStore) -> None:
    data = pb.data.csbm(nodes=1200, features=24, seed=1)
    gnn = shaken(model, store)
    x = torch.as_tensor(data.x)
    assert gnn.conv is not None
    with torch.no_grad():
        expected = gnn.conv(x, data.graph)
        z = filtered(store.batch(np.arange(len(store))), gnn.coordinates(store.gamma, store.sqrt_beta))
    assert float((z - expected).norm() / expected.norm()) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "folder"), [("squirrel", "wikipedia/squirrel"), ("cornell5", "linkx/cornell5")])
def test_filters_on_real_graphs(name: str, folder: str, data_root: Path, tmp_path: Path) -> None:
    """All filters of degree 10 on 64 features, largest error of a channel relative to its length."""
    if not (data_root / folder).is_dir():
        pytest.skip(f"{folder} is not in the data folder")
    shutil.copytree(data_root / folder, tmp_path / folder)
    data = pb.data.load(name, tmp_path)
    busiest = as_dense(data.x).count_nonzero(0).argsort(descending=True)[:64]
    x = as_dense(data.x)[:, busiest].contiguous()
    on_disk = write_graph_folder(tmp_path / "graph", replace(data, x=x))
    real = precompute(on_disk, tmp_path / "store", 10, keep="all")
    for model in FILTERS:
        gnn = shaken(model, real, 10)
        if gnn.conv is None:
            continue
        with torch.no_grad():
            expected = gnn.conv(x, data.graph)
            z = filtered(real.batch(np.arange(len(real))), gnn.coordinates(real.gamma, real.sqrt_beta))
        assert float((z - expected).norm() / expected.norm()) < 1e-5, model


def test_a_learned_basis_starts_at_the_optimal_one(store: BasisStore) -> None:
    def coordinates(**own: object) -> torch.Tensor:
        gnn = PrecomputedGNN("favardgnn", store.channels, 16, 3, K, **own)
        gnn.start_at(store.gamma, store.sqrt_beta)
        assert isinstance(gnn.conv, pb.nn.FavardConv)
        return gnn.conv.basis.coordinates(store.gamma, store.sqrt_beta).detach() / store.sqrt_beta[0]

    own = coordinates()
    expected = torch.eye(K + 1, dtype=torch.float64).unsqueeze(-1).expand_as(own)
    torch.testing.assert_close(own, expected, atol=1e-5, rtol=0)
    assert float((coordinates(start="chebyshev") - expected).abs().max()) > 0.1
    assert float((coordinates(recurrence="bounded") - expected).abs().max()) > 0.1
    with pytest.raises(ValueError, match="start is 'nowhere'"):
        coordinates(start="nowhere")


def test_sign_sees_all_hops(store: BasisStore) -> None:
    data = pb.data.csbm(nodes=1200, features=24, seed=1)
    gnn = PrecomputedGNN("sign", 24, 16, 3, K)
    z = filtered(store.batch(np.arange(len(store))), gnn.coordinates(store.gamma, store.sqrt_beta))
    hops = [torch.as_tensor(data.x)]
    for _ in range(K):
        hops.append(data.graph @ hops[-1])
    torch.testing.assert_close(z, torch.cat(hops, dim=1), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("model", ["favardgnn", "jacobiconv", "bernnet"])
def test_gradients_are_those_of_the_formula(model: str, store: BasisStore) -> None:
    """Through T only, against autograd on a dense sum in float64."""
    vectors = store.batch(np.arange(50))
    gradients = []
    for exact in (False, True):
        gnn = shaken(model, store)
        coordinates = gnn.coordinates(store.gamma, store.sqrt_beta)
        z = (
            (vectors.double().unsqueeze(2) * coordinates.double()).sum(1)[:, 0]
            if exact
            else filtered(vectors, coordinates)
        )
        (z * torch.sin(torch.arange(z.numel())).reshape(z.shape)).sum().backward()
        assert gnn.conv is not None
        gradients.append([parameter.grad for parameter in gnn.conv.parameters()])
    for ours, exact_one in zip(*gradients, strict=True):
        assert ours is not None
        assert float(ours.abs().max()) > 0
        torch.testing.assert_close(ours, exact_one, rtol=2e-4, atol=1e-5)


def test_half_precision_vectors_are_filtered_in_single(store: BasisStore) -> None:
    vectors, weights = store.batch(np.arange(700)), torch.rand(K + 1, 2, 24)
    half = filtered(vectors.half(), weights)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, filtered(vectors, weights), atol=2e-3, rtol=2e-3)


def test_batches_come_in_order_and_whole(store: BasisStore) -> None:
    rng = np.random.default_rng(0)
    wanted = [rng.choice(len(store), size, replace=False) for size in (100, 300, 7, 300, 1)]
    loader = Batches(store)
    for rows, vectors in zip(wanted, loader.over(wanted), strict=True):
        assert torch.equal(vectors, store.batch(rows))
    assert list(loader.over([])) == []
    assert loader.waited >= 0


@pytest.mark.parametrize("model", list(FILTERS))
def test_every_model_learns(model: str, store: BasisStore, tmp_path: Path) -> None:
    longer = config(model, epochs=60)
    result = train(longer, store, tmp_path / "r.jsonl")
    assert result["test_score"] > 0.65
    assert result["config"]["model"]["K"] == K
    assert train(longer, store, tmp_path / "r.jsonl") == result, "finished jobs are not repeated"


@pytest.mark.parametrize("model", list(FILTERS))
def test_a_model_trained_on_a_store_predicts_on_the_graph(model: str, store: BasisStore, tmp_path: Path) -> None:
    """It does not matter to predict what a model was trained on."""
    train(config(model), store, tmp_path / "r.jsonl", out=tmp_path / "model")
    trained = TrainedModel.load(tmp_path / "model")
    graph = pb.data.csbm(nodes=1200, features=24, seed=1)
    on_graph, on_store = (torch.from_numpy(trained.predict_proba(data)) for data in (graph, store))
    torch.testing.assert_close(on_graph, on_store, atol=1e-4, rtol=0)


def test_splits_are_those_of_the_graph(store: BasisStore) -> None:
    data = pb.data.csbm(nodes=1200, features=24, seed=1)
    for ours, theirs in zip(store.split("linkx", 3), data.split("linkx", 3), strict=True):
        assert torch.equal(torch.from_numpy(store.rows[ours]), theirs)


def test_other_contents_are_another_job(store: BasisStore, tmp_path: Path) -> None:
    """A result for other classes, another precision, degree, transform or choice of rows is never reused."""
    data = pb.data.csbm(nodes=1200, features=24, seed=1)
    variants: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "same": ({}, {}),
        "classes": ({"y": data.y.roll(1)}, {}),
        "precision": ({}, {"dtype": "float16"}),
        "transform": ({}, {"feature_transform": "binarize"}),
        "degree": ({}, {"K": K + 1}),
        "fewer rows": ({"y": torch.where(torch.arange(1200) < 900, data.y, -1)}, {}),
    }
    keys = set()
    for name, (change, options) in variants.items():
        folder = write_graph_folder(tmp_path / f"{name}.graph", replace(data, **change))
        made = precompute(folder, tmp_path / name, **{"K": K, "memory": 1 << 30, **options})
        source = Source.folder(made.path)
        lower = config(K=K)
        keys.add(Job(adapt_config(lower, source), source, "stratified", 0, 0).key)
    assert len(keys) == len(variants)
    source = Source.folder(store.path)
    assert Job(adapt_config(config(K=K), source), source, "stratified", 0, 0).key in keys, "the same data elsewhere"


def test_a_lower_degree_uses_the_first_vectors(store: BasisStore, tmp_path: Path) -> None:
    result = train(config(K=3, epochs=60), store, tmp_path / "r.jsonl")
    assert result["test_score"] > 0.65
    assert result["config"]["model"]["K"] == 3
    with pytest.raises(ValueError, match=r"K is 7; the basis in .* has degree 6"):
        train(config(K=7), store, tmp_path / "r.jsonl")


def test_interrupted_training_ends_with_the_same_weights(
    store: BasisStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)

    class StoppedError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.epoch == 3:
            raise StoppedError

    train(config(), store, tmp_path / "a.jsonl", 1, out=tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(config(), store, tmp_path / "b.jsonl", 1, on_epoch=stop)
    train(config(), store, tmp_path / "b.jsonl", 1, out=tmp_path / "resumed")
    whole, resumed = (TrainedModel.load(tmp_path / name).model.state_dict() for name in ("whole", "resumed"))
    for name, value in whole.items():
        assert torch.equal(value, resumed[name]), name
    assert not list(tmp_path.glob(".b.*"))


@pytest.mark.slow
def test_two_processes_train_the_same_model(store: BasisStore, tmp_path: Path) -> None:
    """With dropout: its random numbers belong to a row's index in the batch, whichever process computes it."""
    (tmp_path / "config.toml").write_text(config("favardgnn", batch_size=500).to_toml())
    weights = []
    for processes in (1, 2):
        out = tmp_path / f"by-{processes}"
        run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port",
               str(29500 + os.getpid() % 1000), "-m", "polybasis", "train", str(store.path), "--config",
               str(tmp_path / "config.toml"), "--results", str(out / "r.jsonl"), "--out", str(out)]  # fmt: skip
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        weights.append(TrainedModel.load(out).model.state_dict())
        lines = (out / "r.jsonl").read_text().splitlines()
        assert [json.loads(line)["processes"] for line in lines] == [processes]
    for name, value in weights[0].items():
        torch.testing.assert_close(value, weights[1][name], rtol=1e-3, atol=1e-4)


def test_processes_disconnect_when_their_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that exits while connected is aborted now and then, though its work is done."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    given = {"TORCHELASTIC_RUN_ID": "x", "RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    for name, value in given.items():
        monkeypatch.setenv(name, str(value))
    with process_group() as group:
        assert group == ProcessGroup(0, 1)
        assert dist.is_initialized()
    assert not dist.is_initialized()


def test_shares_cover_a_batch() -> None:
    for count in (0, 1, 255, 256, 257, 1000, 10_000):
        for size in (1, 2, 3):
            shares = [ProcessGroup(rank, size).share(count) for rank in range(size)]
            assert [i for share in shares for i in range(count)[share]] == list(range(count))
            assert all(share.start % 256 == 0 for share in shares)


def test_dropout_of_some_rows_is_that_part_of_the_whole() -> None:
    x = torch.rand(1024, 8)
    torch.manual_seed(5)
    whole = dropout(x, 0.4, True)
    torch.manual_seed(5)
    assert torch.equal(dropout(x[512:], 0.4, True, 512 * 8), whole[512:])


def test_mistakes_are_named(store: BasisStore, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gcn has no precomputed version; expected one of optbasisgnn"):
        config("gcn")
    with pytest.raises(ValueError, match="unknown key 'dropout2' for optbasisgnn"):
        config(dropout2=0.1)
    with pytest.raises(ValueError, match="is a store; to train on it, set precomputed = true"):
        train(Config.of("optbasisgnn"), store, tmp_path / "r.jsonl")
    with pytest.raises(ValueError, match=r"feature_transform is 'binarize'; .* was built with None"):
        train(config(feature_transform="binarize"), store, tmp_path / "r.jsonl")
    data = pb.data.csbm(nodes=100, features=3)
    unlabelled = replace(data, y=torch.full((100,), -1), classes=())
    precompute(write_graph_folder(tmp_path / "graph", unlabelled), tmp_path / "store", 2, keep="all")
    with pytest.raises(ValueError, match="csbm has no labelled nodes to split"):
        train(config(), open_store(tmp_path / "store"), tmp_path / "r.jsonl")


@pytest.mark.parametrize("transform", [None, "row-normalize", "binarize"])
def test_a_store_applies_the_transform_that_it_records(transform: Any, tmp_path: Path) -> None:
    """The first vector is the transformed signal divided by its length."""
    data = pb.data.csbm(nodes=100, features=80)
    x = torch.from_numpy(np.random.default_rng(0).poisson(0.3, (100, 80)).astype(np.float32))
    folder = write_graph_folder(tmp_path / "graph", replace(data, x=x))
    store = precompute(folder, tmp_path / "store", 2, feature_transform=transform)
    assert store.feature_transform == transform
    expected = as_dense(transform_features(x, transform))
    found = torch.from_numpy(np.array(store.vectors[:, 0])) * store.sqrt_beta[0]
    torch.testing.assert_close(found.float(), expected, atol=1e-6, rtol=1e-6)
