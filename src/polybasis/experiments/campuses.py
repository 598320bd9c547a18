"""Training on twenty campuses of facebook100, testing on eight others.

A model that transfers needs features with the same meaning at every campus and predictions that do not depend on the
size of the graph; see :func:`polybasis.data.load_campus`. Each model is also trained on each of the eight campuses
alone, with the same features and splits, so that both are scored on the same test nodes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polybasis.code_version import code_version
from polybasis.data.catalogue import load_campus
from polybasis.data.dataset import NodeDataset
from polybasis.data.entries import CAMPUSES
from polybasis.experiments.honest_sets import CAMPUSES as TEST_CAMPUSES
from polybasis.experiments.markdown import markdown_table
from polybasis.features import as_features
from polybasis.files import append_line, write_atomically
from polybasis.graph import Graph
from polybasis.train.config import Config
from polybasis.train.fitting import OnEpoch, fit, remove_checkpoints
from polybasis.train.job import Job
from polybasis.train.results import Result, paired_difference, read_results, summary
from polybasis.train.source import Source
from polybasis.train.trained_model import TrainedModel

TRAINING_CAMPUSES = tuple(name for name in CAMPUSES if name not in TEST_CAMPUSES)
SPLITS = 5  # of each test campus, as in the table of strong baselines
TOGETHER, ALONE = "together", "alone"
# Graphs of a quarter of a million nodes: narrow models, few epochs. The same settings for every model.
SETTINGS: dict[str, Any] = {"hidden": 32, "epochs": 100, "patience": 30, "lr": 0.01, "weight_decay": 0.0}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("mlp", {"dropout": 0.2}),
    "residual-gcn": ("residual", {"filter": "gcn", "blocks": 2}),
    "residual-favard": ("residual", {"filter": "favard", "blocks": 2}),
    "favardgnn": ("favardgnn", {"recurrence": "bounded", "K": 4, "dropout": 0.2, "dropout2": 0.2}),
    "optbasisgnn": ("optbasisgnn", {"scale": "signal", "K": 4, "dropout": 0.2, "dropout2": 0.2}),
}


def config_of(row: str) -> Config:
    """The configuration of a model, for all campuses together and for each alone."""
    model, arguments = MODELS[row]
    return Config.of(model, **arguments, **SETTINGS)


def disjoint_union(name: str, parts: list[NodeDataset]) -> NodeDataset:
    """Several graphs with the same features and classes as one data set, a batch of graphs.

    Args:
        name: name of the data set.
        parts: the data sets.

    Raises:
        ValueError: if their classes or numbers of features differ.
    """
    first = parts[0]
    for part in parts:
        if (part.classes, part.num_features) != (first.classes, first.num_features):
            raise ValueError(f"{part.name} and {first.name} differ in their classes or number of features")
    sizes = [len(part.y) for part in parts]
    offsets = np.cumsum([0, *sizes[:-1]]).tolist()
    edges = torch.cat([part.graph.edge_index() + offset for part, offset in zip(parts, offsets, strict=True)], dim=1)
    batch = np.repeat(np.arange(len(parts)), sizes)
    return NodeDataset(
        name=name,
        graph=Graph.from_edge_index(edges, sum(sizes), batch=batch, directed=False),
        x=as_features(torch.cat([torch.as_tensor(np.asarray(part.x)) for part in parts])),
        y=torch.cat([part.y for part in parts]),
        classes=first.classes,
    )


def alone_jobs(row: str, root: str | None = None) -> list[Job]:
    """The jobs that train a model on each test campus alone."""
    jobs = []
    for name in TEST_CAMPUSES:
        opened = partial(load_campus, name, root)
        source = Source("data set", name, "linkx", opened().fingerprint, opened)
        jobs += [Job(config_of(row), source, "linkx", i, i) for i in range(SPLITS)]
    return jobs


def train_together(
    row: str,
    folder: Path,
    root: str | None = None,
    on_epoch: OnEpoch | None = None,
    on_campus: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Trains a model on all training campuses and scores it on the test nodes of the others.

    A quarter of the labelled nodes of the training campuses is for early stopping. Finished models are not repeated; an
    interrupted run resumes from its checkpoint.

    Args:
        row: the model, one of ``MODELS``.
        folder: folder of the results.
        root: the folder of all data sets.
        on_epoch: called after every epoch.
        on_campus: called with the result of each split of each test campus.

    Returns:
        One result for each split of each test campus.
    """
    file, config = folder / f"{row}-{TOGETHER}.jsonl", config_of(row)
    found = [line for line in read_results(file) if line["config"] == config.to_dict()]
    if len(found) == len(TEST_CAMPUSES) * SPLITS:
        return found
    code = code_version()
    data = disjoint_union("twenty-campuses", [load_campus(name, root) for name in TRAINING_CAMPUSES])
    checkpoint = folder / f".{row}-{TOGETHER}.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    fitted = fit(config, data, data.split("train-val"), on_epoch=on_epoch, checkpoint=checkpoint)
    trained = TrainedModel.of(config, fitted)
    scored = {(line["dataset"], line["split"]) for line in found}
    for name in TEST_CAMPUSES:
        campus = load_campus(name, root)
        logits = trained.logits(campus)
        for i in range(SPLITS):
            if (name, i) in scored:
                continue
            test = campus.split("linkx", i).test
            line: Result = {
                "key": _key(config, name, i),
                "model": config.model.name,
                "dataset": name,
                "preset": config.preset,
                "protocol": "linkx",
                "split": i,
                "metric": campus.metric,
                "val_score": fitted.val_score,
                "test_score": campus.score(logits[test], test),
                "epochs": fitted.epochs,
                "seconds": round(fitted.seconds, 3),
                "threads": torch.get_num_threads(),
                "config": config.to_dict(),
                "code": code,
            }
            append_line(file, json.dumps(line))
            found.append(line)
            if on_campus is not None:
                on_campus(line)
    remove_checkpoints(checkpoint)
    return found


def _key(config: Config, campus: str, split: int) -> str:
    parts = [config.to_dict(), list(TRAINING_CAMPUSES), campus, split]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def write_readme(folder: Path) -> None:
    """Writes the table of all results in a folder to its ``README.md``."""
    results = {row: {how: read_results(folder / f"{row}-{how}.jsonl") for how in (TOGETHER, ALONE)} for row in MODELS}
    write_atomically(folder / "README.md", (readme(results) + "\n").encode())


def readme(results: dict[str, dict[str, list[Result]]]) -> str:
    """The results page.

    Args:
        results: results by model and by training data, ``together`` or ``alone``.
    """
    finished = {row: found for row, found in results.items() if all(found.values())}
    parts = [
        "# Across graphs: train on twenty campuses, test on eight others\n\n"
        f"Mean accuracy in percent over {SPLITS} splits of each campus; the test nodes are a quarter of its labelled "
        "nodes. *20 others*: one model, trained on twenty campuses that are not in the table, without any label of the "
        "campus it is tested on. *alone*: one model per campus and split, trained on half of the labelled nodes of "
        "that campus. Both use only features with the same meaning at every campus: status, year of graduation, and "
        "which other entries are known. All models have the same settings, which were not tuned. To reproduce: "
        "`polybasis reproduce campuses`."
    ]
    rows = []
    for name in TEST_CAMPUSES:
        cells = [name]
        for found in finished.values():
            for how in (TOGETHER, ALONE):
                scores = [100 * line["test_score"] for line in found[how] if line["dataset"] == name]
                cells.append(f"{summary(scores)['mean']:.1f}" if scores else "")
        rows.append(cells)
    header = ["campus", *(f"{row}, {where}" for row in finished for where in ("20 others", "alone"))]
    parts.append(markdown_table(header, rows))
    totals = []
    for row, found in finished.items():
        means = {how: _campus_means(found[how]) for how in (TOGETHER, ALONE)}
        overall = [f"{np.mean([line['test_score'] for line in means[how]]) * 100:.2f}" for how in (TOGETHER, ALONE)]
        difference = paired_difference(means[TOGETHER], means[ALONE])
        totals.append([row, *overall, f"{difference}", f"{found[TOGETHER][0]['seconds']:.0f}"])
    parts.append(
        "Mean over the eight campuses. The 95% interval of the paired difference is over campuses.\n\n"
        + markdown_table(["model", "20 others", "alone", "paired difference", "seconds to train on 20"], totals)
    )
    return "\n\n".join(parts)


def _campus_means(results: list[Result]) -> list[Result]:
    """The mean test score of each campus, in the form of a result."""
    scores = {name: [line["test_score"] for line in results if line["dataset"] == name] for name in TEST_CAMPUSES}
    return [
        {"dataset": name, "protocol": "linkx", "split": 0, "test_score": float(np.mean(own))}
        for name, own in scores.items()
    ]
