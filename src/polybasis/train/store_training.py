"""Scaled-up models trained on a store, in batches, perhaps by several processes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import cross_entropy

from polybasis.data.catalogue import CATALOGUE
from polybasis.data.dataset import Masks
from polybasis.data.splits import Split, make_split
from polybasis.files import append_line, write_atomically
from polybasis.nn.models.precomputed import PrecomputedGNN
from polybasis.store.basis_store import BasisStore
from polybasis.store.batches import Batches
from polybasis.train.config import Config, stored_config
from polybasis.train.distributed import ProcessGroup, own_device
from polybasis.train.fitting import Report, Task, fit_task
from polybasis.train.metrics import score
from polybasis.train.runs import Result, read_results


def default_scaled_config(model: str) -> Config:
    """A start for any store: the paper's batches and hidden width, Adam at 0.001, 0.01 for filters."""
    return Config(
        model,
        hidden=512,
        batch=10_000,
        lr={"linear": 0.001, "coefficients": 0.01, "recurrence": 0.01},
        weight_decay={"linear": 0.0, "coefficients": 0.0, "recurrence": 0.0},
        epochs=200,
        patience=30,
    )


def scaled_config(model: str, dataset: str) -> Config:
    """Published settings of the scaled-up model for a data set where there are any, else the defaults."""
    published = stored_config(model, dataset)
    return published if published is not None and published.batch is not None else default_scaled_config(model)


@dataclass(frozen=True, eq=False)
class StoredLabels:
    """The classes and splits of a store, of which splits are made as of a data set; nodes are rows of the store."""

    name: str
    y: Tensor
    fixed_splits: list[Masks] = field(default_factory=list)

    @classmethod
    def of(cls, store: BasisStore) -> StoredLabels:
        """Those of a store, which has to have classes."""
        if store.y is None:
            raise ValueError(f"{store.path} has no classes to train on; build its graph with labels")
        splits = [] if store.splits is None else [torch.from_numpy(np.array(row)) for row in store.splits]
        masks: list[Masks] = [(row == 1, row == 2, row == 3) for row in splits]
        return cls(store.name, torch.from_numpy(np.array(store.y)).long(), masks)

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.y.max()) + 1


class StoreTask(Task[PrecomputedGNN]):
    """Rows of a store, a batch at a time."""

    def __init__(self, store: BasisStore, labels: StoredLabels, split: Split, batch: int, team: ProcessGroup) -> None:
        for name, nodes in zip(("training", "validation"), split, strict=False):
            if len(nodes) == 0:
                raise ValueError(f"{store.path} has no {name} rows in this split; keep more rows")
        self.name, self.store, self.labels, self.split = store.name, store, labels, split
        self.batch, self.team, self.writes = batch, team, team.rank == 0
        self.device, self.batches = own_device(), Batches(store)

    def make_model(self, config: Config) -> PrecomputedGNN:
        model = config.make_scaled_model(self.store.channels, self.labels.classes)
        model.set_basis(self.store.gamma, self.store.sqrt_beta)
        model.start_at_basis()
        return model.to(self.device)

    def epoch(self, model: PrecomputedGNN, optimizer: torch.optim.Optimizer) -> float:
        model.train()
        order = self.split.train[self.team.as_first(torch.randperm(len(self.split.train)))].numpy()
        whole = [np.sort(order[first : first + self.batch]) for first in range(0, len(order), self.batch)]
        shares = [self.team.share(len(rows)) for rows in whole]
        mine = [rows[share] for rows, share in zip(whole, shares, strict=True)]
        total = torch.zeros((), device=self.device)
        for number, vectors in enumerate(self.batches.over(mine)):
            optimizer.zero_grad()
            scores = model(vectors.to(self.device), shares[number].start)
            y = self.labels.y[torch.from_numpy(mine[number])].to(self.device)
            loss = cross_entropy(scores, y, reduction="sum") / len(whole[number])
            loss.backward()  # type: ignore[no-untyped-call]
            self.team.add_up(p.grad for p in model.parameters() if p.grad is not None)
            optimizer.step()
            total += loss.detach() * len(whole[number])
        self.team.add_up([total])
        return float(total) / len(order)

    @torch.no_grad()
    def scores(self, model: PrecomputedGNN, rows: NDArray[np.int64]) -> Tensor:
        """Scores of some rows, (rows, classes); each process computes its batches, all of them have all."""
        model.eval()
        result = torch.zeros(len(rows), self.labels.classes, device=self.device)
        batches = [slice(first, first + self.batch) for first in range(0, len(rows), self.batch)]
        mine = batches[self.team.rank :: self.team.size]
        for here, vectors in zip(mine, self.batches.over([rows[here] for here in mine]), strict=True):
            result[here] = model(vectors.to(self.device))
        self.team.add_up([result])
        return result.cpu()

    def score(self, model: PrecomputedGNN, rows: Tensor) -> tuple[float, float]:
        """Score and loss on some rows."""
        scores, y = self.scores(model, rows.numpy()), self.labels.y[rows]
        return score(self.store.metric, scores, y), float(cross_entropy(scores, y))

    def validate(self, model: PrecomputedGNN) -> tuple[float, float]:
        return self.score(model, self.split.val)

    def agree(self, epoch: int) -> None:
        self.team.agree(epoch, "checkpoint")

    def parts(self) -> Iterable[NDArray[np.generic]]:
        said = f"{self.name} {self.store.metric} {self.store.vectors.dtype}"
        numbers = (self.store.gamma, self.store.sqrt_beta, self.store.rank)
        tensors = [part.numpy() for part in (*self.split, self.labels.y, *numbers)]
        return [np.frombuffer(said.encode(), np.uint8), np.asarray(self.store.rows), *tensors]


def train_on_store(
    config: Config,
    store: BasisStore,
    *,
    protocol: str | None,
    splits: int,
    results: Path,
    seed: int = 0,
    team: ProcessGroup | None = None,
    out: Path | None = None,
    report: Report | None = None,
    finished: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Trains on one split after the other; what is in the results file already is not trained again.

    Args:
        config: with ``batch``.
        store: the basis.
        protocol: of the splits; unless given, the data set's usual one, those of the store, or random ones, 50/25/25.
        splits: how many; given splits are counted through.
        results: a file of JSON lines, which all processes see.
        seed: of the model; split i uses seed + i.
        team: the processes that train together.
        out: a folder for the last model and its predictions for all rows.
        report, finished: called after every epoch, and with each new result.
    """
    batch = config.batch
    if batch is None:
        raise ValueError("a scaled-up model is trained in batches; its configuration needs a number for batch")
    if config.arguments.get("K", 0) > store.K:
        raise ValueError(f"K is {config.arguments['K']}; the basis in {store.path} has degree {store.K}")
    config = replace(config, arguments={"K": store.K, **config.arguments})
    team = team or ProcessGroup()
    labels = StoredLabels.of(store)
    usual = CATALOGUE[store.name].protocol if store.name in CATALOGUE else "fixed" if labels.fixed_splits else "linkx"
    protocol = protocol or usual
    found = []
    for number in range(splits):
        task = StoreTask(store, labels, make_split(labels, protocol, number), batch, team)
        key = task.identity(config, seed + number)[:16]
        known = [result for result in read_results(results) if result["key"] == key]
        team.agree(len(known), "results")
        if known and out is None:
            found.append(known[-1])
            continue
        checkpoint = results.parent / f".{results.stem}.{key}.safetensors"
        trained = fit_task(config, task, seed + number, report=report, checkpoint=checkpoint)
        result: Result = {
            "key": key,
            "model": config.model,
            "dataset": store.name,
            "settings": config.settings,
            "protocol": protocol,
            "split_seed": number,
            "model_seed": seed + number,
            "metric": store.metric,
            "val_accuracy": trained.val_score,
            "test_accuracy": task.score(trained.model, task.split.test)[0],
            "epochs": trained.epochs,
            "seconds": round(trained.seconds, 3),
            "waited": round(task.batches.waited, 3),
            "threads": torch.get_num_threads(),
            "processes": team.size,
            "config": config.to_dict(),
            "versions": {name: version(name) for name in ("polybasis", "torch")},
        }
        if out is not None:
            predictions = task.scores(trained.model, np.arange(len(store))).argmax(1).numpy()
            if task.writes:
                _save(out, config, trained.model, np.asarray(store.rows), predictions)
        if task.writes and not known:
            append_line(results, json.dumps(result))
        if finished is not None:
            finished(result)
        found.append(result)
    return found


def _save(
    out: Path, config: Config, model: PrecomputedGNN, rows: NDArray[np.int64], classes: NDArray[np.int64]
) -> None:
    weights = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    write_atomically(out / "model.safetensors", save(weights))
    write_atomically(out / "config.toml", config.to_toml().encode())
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["node", "prediction"])
    writer.writerows(zip(rows.tolist(), classes.tolist(), strict=True))
    write_atomically(out / "predictions.csv", table.getvalue().encode())
