"""Chooses the portfolio of ``auto`` from measurements on many graphs.

Every candidate is trained alone on every graph for the same short time and scored on the validation nodes. The regret
of a candidate on a graph is its distance from the best candidate there, beyond one standard error. A greedy search
orders the candidates: the next one is the one that most reduces the mean regret. To test ``auto`` fairly on a graph,
the order is found without measurements on that graph and on all graphs of its family.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polybasis.data.dataset import NodeDataset
from polybasis.data.entries import CAMPUSES, LINKX_CAMPUSES
from polybasis.experiments.settings import config_with
from polybasis.files import append_line, read_lines
from polybasis.train.auto_portfolio import with_encoding
from polybasis.train.config import Config
from polybasis.train.fitting import FullBatch, Run
from polybasis.train.source import Source
from polybasis.worker_pool import WorkerPool

MEASUREMENTS = "portfolio.jsonl"
SECONDS = 10.0
FEW_NODES, FEW_NODES_SPLITS = 1000, 3  # measure on three splits if there are fewer validation nodes than this
MAX_REGRET = 0.05  # larger regrets are clipped, so that no single graph dominates
# Rows and settings of the table of strong baselines.
CANDIDATES = (
    ("mlp", "default"),
    ("linkx", "more decay"),
    ("gpr-gnn", "high rate"),
    ("gpr-gnn", "no decay"),
    ("chebnetii", "default"),
    ("chebnetii", "label reuse"),
    ("favardgnn", "default"),
    ("favardgnn", "high rate"),
    ("favardgnn", "no decay"),
    ("favardgnn", "features without dropout"),
    ("favardgnn", "strong dropout"),
    ("optbasisgnn", "high rate"),
    ("optbasisgnn", "no decay"),
    ("residual-gcn", "plain"),
    ("residual-gcn", "adjacency"),
    ("residual-favard", "plain"),
    ("residual-favard", "jumping"),
    ("residual-favard", "adjacency"),
    ("residual-favard", "three blocks"),
)
GRAPHS = (
    "texas", "cornell", "chameleon-filtered", "squirrel", "actor", "citeseer", "pubmed", "dblp", "coauthor-cs",
    "blogcatalog", "amazon-computers", "tolokers", "wake73", "tufts18", "mine-board",
)  # fmt: skip
# The graphs on which these hyperparameters were tried by hand (results/honest/explored.jsonl), or on which the authors
# of FavardGNN found them.
EXPLORED = frozenset(("chameleon-filtered", "usfca72", "vassar85", "wake73", "tufts18", "vermont70", "uchicago30"))
ORIGINS = {
    ("favardgnn", "features without dropout"): frozenset(("pubmed",)),
    ("favardgnn", "strong dropout"): frozenset(("actor",)),
    ("linkx", "more decay"): frozenset(("usfca72",)),
    ("residual-gcn", "adjacency"): EXPLORED,
    ("residual-favard", "adjacency"): EXPLORED,
    ("residual-favard", "jumping"): frozenset(("amazon-computers",)),
    ("residual-favard", "three blocks"): frozenset(("tolokers",)),
}
ENCODING_ORIGIN = "tolokers"  # the graph on which it was found that residual networks gain from encoded features
# Related graphs: published together, subsets of one another, or of the same construction.
FAMILIES = (
    frozenset(("chameleon", "squirrel", "chameleon-filtered", "squirrel-filtered")),
    frozenset(("texas", "cornell", "wisconsin")),
    frozenset(("tolokers", "roman-empire", "amazon-ratings", "questions")),
    frozenset(("minesweeper", "mine-board")),
    frozenset(("cora", "citeseer", "pubmed", "cora-ml", "cora-full", "citeseer-full", "pubmed-full")),
    frozenset(("amazon-computers", "amazon-photo")),
    frozenset(("coauthor-cs", "coauthor-physics")),
    frozenset((*CAMPUSES, *LINKX_CAMPUSES)),
)
Key = tuple[str, str]
Regrets = dict[str, dict[Key, float]]
Measurement = dict[str, Any]


def measure(dataset: str, row: str, setting: str, root: str | None = None, seconds: float = SECONDS) -> Measurement:
    """Trains a candidate alone and scores it on the validation nodes.

    Args:
        dataset: name of the data set; one with few validation nodes is measured on several splits.
        row, setting: the candidate.
        root: folder of the data sets.
        seconds: time limit for each split.

    Returns:
        The candidate and its mean validation score; None if training diverged.
    """
    torch.set_num_threads(1)
    source = Source.named(dataset, root)
    data = source.open()
    assert isinstance(data, NodeDataset)
    config = with_encoding(config_with(row, setting, "auto"), data).for_own_data()
    val_nodes = len(data.split(source.protocol, 0).val)
    runs = []
    for number in range(1 if val_nodes >= FEW_NODES else FEW_NODES_SPLITS):
        split, deadline = data.split(source.protocol, number), time.monotonic() + seconds
        runs.append(Run(config, FullBatch(data, split, config), number))
        runs[-1].train_epoch()
        while not runs[-1].finished and time.monotonic() < deadline:
            runs[-1].train_epoch()
    score = float(np.mean([run.best_score for run in runs])) if all(run.kept for run in runs) else None
    epochs = sum(run.progress.epoch + 1 for run in runs if run.progress is not None)
    place = {"dataset": dataset, "row": row, "setting": setting, "config": config_with(row, setting, "auto").to_dict()}
    facts = {"epochs": epochs, "time_limit": seconds, "val_nodes": val_nodes, "splits": len(runs)}
    return {**place, "val_score": score, **facts}


def measure_all(
    datasets: list[str],
    folder: Path,
    root: str | None = None,
    seconds: float = SECONDS,
    processes: int = 1,
    on_measurement: Callable[[Measurement], None] | None = None,
) -> list[Measurement]:
    """Measures all candidates on several data sets; measurements that the folder has are not repeated.

    Args:
        datasets: names of data sets.
        folder: folder of the results; measurements are lines of ``portfolio.jsonl`` in it.
        root: folder of the data sets.
        seconds: time limit of each measurement.
        processes: number of measurements to run in parallel, on one thread each.
        on_measurement: called with each new measurement.

    Returns:
        All measurements in the folder.
    """
    path = folder / MEASUREMENTS
    done = [[line["dataset"], line["config"], line["time_limit"]] for line in read_lines(path)]
    configs = {candidate: config_with(*candidate, "auto").to_dict() for candidate in CANDIDATES}
    wanted = [(dataset, *candidate) for dataset in datasets for candidate in CANDIDATES]
    waiting = [place for place in wanted if [place[0], configs[place[1:]], seconds] not in done]
    broken = list[Exception]()

    def handle(_: Any, outcome: Any) -> None:
        if isinstance(outcome, Exception):
            broken.append(outcome)
            return
        append_line(path, json.dumps(outcome))
        if on_measurement is not None:
            on_measurement(outcome)

    pool = WorkerPool(max(1, min(processes, len(waiting))))
    try:
        while pool.busy or (waiting and not broken):
            while pool.idle and waiting and not broken:
                place = waiting.pop(0)
                pool.submit(place, measure, *place, root, seconds)
            pool.collect(handle)
    finally:
        pool.stop(handle)
    if broken:
        raise broken[0]
    return list(read_lines(path))


def read_regrets(path: Path) -> Regrets:
    """Regrets by data set and candidate.

    The standard error of the best score on a graph, of a proportion of its validation nodes, is subtracted: with 37
    validation nodes, a candidate that is two nodes behind the best one is as good.

    Args:
        path: JSON Lines file of measurements.
    """
    scores: Regrets = {}
    nodes: dict[str, int] = {}
    for line in read_lines(path):
        if (line["row"], line["setting"]) in CANDIDATES:  # those of former versions do not compete
            nodes[line["dataset"]] = line["val_nodes"] * line["splits"]
            scores.setdefault(line["dataset"], {})[line["row"], line["setting"]] = line["val_score"] or 0.0
    regrets = {}
    for dataset, found in scores.items():
        best = max(found.values())
        reachable = best - (best * (1 - best) / nodes[dataset]) ** 0.5
        regrets[dataset] = {key: min(max(0.0, reachable - score), MAX_REGRET) for key, score in found.items()}
    return regrets


def choose(regrets: Regrets) -> list[Key]:
    """All rows and settings, in the order in which a greedy search adds them to a portfolio.

    Among candidates that reduce the mean regret equally, the one with the lowest regret of its own comes first.

    Args:
        regrets: regrets by data set and candidate.

    Raises:
        ValueError: if a candidate was not measured on every data set.
    """
    known = sorted(set().union(*regrets.values()))
    missing = [(name, key) for name, found in regrets.items() for key in known if key not in found]
    if missing or not known:
        example = f", such as {', '.join(missing[0][1])} on {missing[0][0]}" if missing else ""
        raise ValueError(
            f"{len(missing) or 'all'} measurements are missing{example}; run polybasis reproduce portfolio first"
        )
    table = np.array([[found[key] for key in known] for found in regrets.values()])  # (data sets, candidates)
    own, best = table.mean(axis=0), np.full((len(table), 1), MAX_REGRET)
    chosen: list[int] = []
    while len(chosen) < len(known):
        together = np.minimum(table, best).mean(axis=0).round(9)
        together[chosen] = np.inf
        chosen.append(int(np.lexsort((own, together))[0]))
        best = np.minimum(best, table[:, chosen[-1:]])
    return [known[i] for i in chosen]


def portfolio(regrets: Regrets, unseen: str | None = None, transductive: bool = True) -> dict[str, Config]:
    """The candidates of ``auto`` for a graph.

    Args:
        regrets: regrets by data set and candidate.
        unseen: data set to be tested on; regrets on its family, and candidates that were found on it, are not used.
            None: use all.
        transductive: admit models that can predict only for the nodes they were trained on.
    """
    left_out = family(unseen) if unseen is not None else frozenset()
    used = {
        name: {
            key: regret
            for key, regret in found.items()
            if (transductive or not _is_transductive(*key)) and unseen not in ORIGINS.get(key, ())
        }
        for name, found in regrets.items()
        if name not in left_out
    }
    configs = {f"{row}, {setting}": config_with(row, setting, "auto") for row, setting in choose(used)}
    if unseen == ENCODING_ORIGIN:
        return {name: _without_encoding(config) for name, config in configs.items()}
    return configs


def family(dataset: str) -> frozenset[str]:
    """The data set and those related to it."""
    return next((relatives for relatives in FAMILIES if dataset in relatives), frozenset((dataset,)))


def _is_transductive(row: str, setting: str) -> bool:
    return row == "linkx" or setting in ("label reuse", "adjacency")


def _without_encoding(config: Config) -> Config:
    return config.replace(bins=0) if config.model.name == "residual" else config
