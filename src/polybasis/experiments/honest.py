"""Filters against strong baselines, on data sets without duplicate nodes: every model in one table, on the same splits.

A row on a data set has a configuration that was tuned on validation data, or else the model's defaults; the page says
which. Presets say how many configurations were tried. Jobs that the paper's table has run too are not repeated.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from polybasis.data.catalogue import CATALOGUE, unknown_dataset
from polybasis.data.dataset import NodeDataset
from polybasis.experiments.honest_page import readme
from polybasis.experiments.honest_sets import CAMPUSES, DATASETS, TUNING_CAMPUS
from polybasis.experiments.portfolio import GRAPHS, MEASUREMENTS, family, portfolio, read_regrets
from polybasis.experiments.races import OnRace, Race, run_races
from polybasis.experiments.settings import AUTO, ENSEMBLES, ROWS, config_with, settings_of
from polybasis.files import append_line, write_atomically
from polybasis.train.auto import OnCandidate, race
from polybasis.train.config import Config
from polybasis.train.job import Job
from polybasis.train.presets import load_preset
from polybasis.train.results import Result, read_results
from polybasis.train.source import Source

TUNING = "tuning.jsonl"


def config_of(row: str, dataset: str) -> Config:
    """The tuned configuration of a row, else the defaults of its model. All campuses of the table share one.

    Rows of the paper's models have the hyperparameters of the paper's table where there is no preset for this table.
    """
    if row in ENSEMBLES:
        single, size = ENSEMBLES[row]
        return config_of(single, dataset).replace(ensemble_size=size)
    model, arguments = ROWS[row]
    tuned_on = TUNING_CAMPUS if dataset in CAMPUSES else dataset
    found = load_preset(row, tuned_on, "honest")
    if found is None and not arguments:
        found = load_preset(model, tuned_on, "tuned") or load_preset(model, tuned_on, "published")
    return found or Config.of(model, **arguments)


def tune(
    row: str,
    dataset: str,
    presets: Path,
    folder: Path,
    root: str | None = None,
    time_limit: float = 60.0,
    on_candidate: OnCandidate | None = None,
) -> Path:
    """Tunes a row on validation data and writes its preset, unless there is one.

    The settings of the row, the same number for every row, compete in a race on the first split; see
    :func:`polybasis.train.auto.race`.

    Args:
        row: name of a row other than ``auto``.
        dataset: name of the data set.
        presets: folder of the presets.
        folder: folder of the results; the scores of all settings go to ``tuning.jsonl`` in it.
        root: folder of the data sets.
        time_limit: seconds for the race; the same for all rows of a data set.
        on_candidate: called with the outcome of each setting.

    Returns:
        The file of the preset.
    """
    file = presets / row / f"{dataset}.toml"
    if file.exists():
        return file
    configs = {name: config_with(row, name, "honest") for name in settings_of(row)}
    source = Source.named(dataset, root)
    data = source.open()
    assert isinstance(data, NodeDataset)
    split = data.split(source.protocol, 0)
    found = race(configs, data, split, time_limit=time_limit, on_candidate=on_candidate).candidates
    best = found[0]
    scores = [{name: value for name, value in asdict(each).items() if name != "config"} for each in found]
    facts = {"dataset": dataset, "row": row, "time_limit": time_limit, "val_nodes": len(split.val)}
    append_line(folder / TUNING, json.dumps({**facts, "candidates": scores}))
    comment = (
        f"# Tuned on split 0 of {dataset}: {best.name!r}, best of {len(configs)} settings in a race of "
        f"{time_limit:.0f} seconds; validation score {best.val_score:.4f}.\n"
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, (comment + best.config.to_toml()).encode())
    return file


def plan_jobs(
    rows: list[str],
    datasets: list[str],
    splits: int | None,
    folder: Path,
    root: str | None = None,
    *,
    processes: int = 1,
    on_race: OnRace | None = None,
) -> dict[str, list[Job]]:
    """The jobs of each row, without those of the paper's table. Races of ``auto`` that have not been run are run here.

    The candidates of ``auto`` are those that would have been chosen without the graph and its family; see
    :mod:`polybasis.experiments.portfolio`.

    Args:
        rows, datasets: names of rows and data sets.
        splits: number of splits of each data set; by default as in ``DATASETS``, ten for others.
        folder: folder of the results.
        root: folder of the data sets.
        processes: number of races to run in parallel, on one thread each.
        on_race: called after each race with the data set and the split.

    Raises:
        ValueError: for an unknown row or data set, or if the portfolio of ``auto`` cannot be chosen without the graph.
    """
    for name in rows:
        if name not in ROWS and name not in ENSEMBLES:
            raise ValueError(f"unknown row {name!r}; expected some of {', '.join((*ROWS, *ENSEMBLES))}")
    for name in datasets:
        if name not in CATALOGUE:
            raise unknown_dataset(name)
    sources = {dataset: Source.named(dataset, root) for dataset in datasets}
    counts = {name: _split_count(source, splits or DATASETS.get(name, 10)) for name, source in sources.items()}
    planned: dict[str, list[Job]] = {}
    for row in rows:
        if row == AUTO:
            planned[row] = _auto_jobs(sources, counts, folder, processes, on_race)
            continue
        known = {result["key"] for result in _of_the_paper(folder, row)}
        jobs = [
            Job(config_of(row, dataset), source, source.protocol, i, i)
            for dataset, source in sources.items()
            for i in range(counts[dataset])
        ]
        planned[row] = [job for job in jobs if job.key not in known]
    return planned


def _auto_jobs(
    sources: dict[str, Source], counts: dict[str, int], folder: Path, processes: int, on_race: OnRace | None
) -> list[Job]:
    regrets, races = read_regrets(folder / MEASUREMENTS), list[Race]()
    for dataset, source in sources.items():
        if not regrets and not family(dataset).isdisjoint(GRAPHS):
            raise ValueError(
                f"{folder / MEASUREMENTS} is missing; auto on {dataset} needs it for a portfolio chosen without "
                f"{dataset}: run polybasis reproduce portfolio --out {folder} first"
            )
        candidates = portfolio(regrets, unseen=dataset) if regrets else None
        races += [Race(source, i, folder / f"{AUTO}.jsonl", candidates) for i in range(counts[dataset])]
    winners = run_races(races, processes, on_race)
    return [
        Job(config, race.source, race.source.protocol, race.split, race.split)
        for race, config in zip(races, winners, strict=True)
    ]


def _split_count(source: Source, wanted: int) -> int:
    """The number of splits to train on: no more than come with the data, because they would repeat."""
    if source.protocol != "fixed":
        return wanted
    data = source.open()
    return min(wanted, len(data.fixed_splits))


def write_readme(folder: Path) -> None:
    """Writes the tables of all results in a folder to its ``README.md``."""
    write_atomically(folder / "README.md", (readme(_results(folder), _of_the_paper(folder)) + "\n").encode())


def _results(folder: Path) -> dict[str, list[Result]]:
    """The results of each row: those in the folder, and those of the paper's table with the same configuration."""
    found = {}
    for row, (model, arguments) in ROWS.items():
        shared = [] if arguments or row == AUTO else _of_the_paper(folder, model)
        shared = [result for result in shared if _is_of_row(row, result)]
        found[row] = _latest(shared + read_results(folder / f"{row}.jsonl"))
    return found | {row: _latest(read_results(folder / f"{row}.jsonl")) for row in ENSEMBLES}


def _is_of_row(row: str, result: Result) -> bool:
    dataset = result["dataset"]
    if result["split"] >= DATASETS.get(dataset, 0):
        return False
    return bool(result["config"] == config_of(row, dataset).to_dict())


def _of_the_paper(folder: Path, model: str = "*") -> list[Result]:
    """The results of the paper's table, in the folder beside that of this table."""
    files = sorted((folder.parent / "node-classification").glob(f"{model}.jsonl"))
    return [result for file in files for result in read_results(file)]


def _latest(results: list[Result]) -> list[Result]:
    """The last result on each split: those of earlier configurations of a row do not count."""
    return list({(result["dataset"], result["protocol"], result["split"]): result for result in results}.values())
