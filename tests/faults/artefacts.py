"""Small valid files of every format that polybasis writes, and what using them yields."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import polybasis as pb
from polybasis.data.dataset import NodeDataset
from polybasis.store import GraphFolder, write_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train import Config, Job, Source, TrainedModel, fit, fitting, run_job
from polybasis.train.tune import Search, tune

JOB = "checkpoint"
WRITING = threading.Lock()  # some writers change settings of a module for a moment
TRIALS = 11  # one more than the sampler draws at random, so that the next trial depends on all earlier ones


@cache
def dataset() -> NodeDataset:
    """A graph with names, classes, splits and features."""
    data = pb.data.csbm(nodes=120, features=6, seed=1)
    split = data.split("stratified")
    masks = tuple(torch.isin(torch.arange(120), nodes) for nodes in split)
    return NodeDataset(
        name="small", graph=data.graph, x=data.x, y=data.y, classes=("blue", "red"), fixed_splits=[masks],
        nodes=np.array([f"n{i}" for i in range(120)]),
    )  # fmt: skip


def quick(**values: Any) -> Config:
    return Config.of("gpr-gnn", **{"hidden": 4, "K": 2, "epochs": 4, **values})


def write_once(folder: Path, write: Callable[[Path], None]) -> None:
    """Writes a folder unless it exists; an interrupted call leaves nothing. Threads write one after another."""
    with WRITING:
        if folder.exists():
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            new = Path(scratch) / "new"
            new.mkdir()
            write(new)
            new.replace(folder)


# ---- writing -------------------------------------------------------------------------------------------------------


def write_graph(folder: Path) -> None:
    write_graph_folder(folder, dataset())


def write_store(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        precompute(write_graph_folder(Path(scratch) / "graph", dataset()), folder, 3, keep="all")


def write_model(folder: Path) -> None:
    config = quick()
    TrainedModel.of(config, fit(config, dataset(), dataset().split("fixed"))).save(folder)


def write_checkpoint(folder: Path) -> None:
    """Training stops after the third of four epochs; the last checkpoint is that of the second."""

    class StoppedError(Exception):
        pass

    def stop(progress: fitting.Progress) -> None:
        if progress.epoch == 2:
            raise StoppedError

    folder.mkdir()
    interval, fitting.CHECKPOINT_SECONDS = fitting.CHECKPOINT_SECONDS, 0.0
    try:
        fit(quick(), dataset(), dataset().split("fixed"), on_epoch=stop, checkpoint=folder / f"{JOB}.safetensors")
    except StoppedError:
        pass
    finally:
        fitting.CHECKPOINT_SECONDS = interval


def write_study(folder: Path) -> None:
    tune(dataset(), _search(folder, TRIALS))


# ---- using ---------------------------------------------------------------------------------------------------------


def use_graph(folder: Path) -> str:
    return digest(*_contents(GraphFolder.open(folder).load()))


def use_store(folder: Path) -> str:
    source = Source.folder(folder)
    store = source.open()
    assert isinstance(store, pb.store.BasisStore)
    config = Config.of("optbasisgnn", precomputed=True, hidden=4, K=3, epochs=2, batch_size=64)
    result = run_job(Job(config, source, source.protocol, 0, 0))
    timings = ("seconds", "waited")
    return digest(
        store.batch(np.arange(len(store))), store.rows, store.gamma, store.sqrt_beta, store.rank, store.K, store.y,
        store.classes, store.name, store.metric, store.protocol, store.feature_transform, store.node_names(),
        *store.split(store.protocol), store.fingerprint, {key: result[key] for key in result if key not in timings},
    )  # fmt: skip


def use_model(folder: Path) -> str:
    trained = TrainedModel.load(folder)
    about = (trained.config.to_dict(), trained.metric, trained.val_score, trained.epochs, trained.provenance)
    return digest(trained.predict_proba(dataset()), trained.classes, *about)


def use_checkpoint(folder: Path) -> str:
    fitted = fit(quick(), dataset(), dataset().split("fixed"), checkpoint=folder / f"{JOB}.safetensors")
    return digest(fitted.val_score, fitted.epochs, *fitted.model.state_dict().values())


def use_study(folder: Path) -> str:
    best, score = tune(dataset(), _search(folder, TRIALS + 1))
    return digest(best.to_dict(), score)


def _search(folder: Path, trials: int) -> Search:
    return Search(quick(epochs=2), "fixed", trials=trials, study=folder / "study.log", splits=1)


def _contents(data: NodeDataset) -> list[Any]:
    graph = [data.graph.indptr, data.graph.indices, torch.as_tensor(np.asarray(data.x))]
    return [*graph, data.y, data.classes, data.name, data.metric, data.node_names(), *data.split(data.protocol)]


def digest(*values: Any) -> str:
    """Equal for two outcomes only if they are bitwise equal."""
    total = hashlib.sha256()
    for value in values:
        array = np.asarray(value) if isinstance(value, (torch.Tensor, np.ndarray)) else None
        total.update(repr(value).encode() if array is None else repr((array.dtype, array.shape)).encode())
        total.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


WRITERS: dict[str, Callable[[Path], None]] = {
    "store": write_store,
    "graph": write_graph,
    "model": write_model,
    "checkpoint": write_checkpoint,
    "study": write_study,
}
USES: dict[str, Callable[[Path], str]] = {
    "store": use_store,
    "graph": use_graph,
    "model": use_model,
    "checkpoint": use_checkpoint,
    "study": use_study,
}
