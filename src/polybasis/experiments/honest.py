"""Filters against strong baselines, on data sets without duplicate nodes: every model in one table, on the same splits.

A row on a data set has a configuration that was tuned on validation data, or else the model's defaults; the page says
which. Presets say how many configurations were tried. Jobs that the paper's table has run too are not repeated.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from polybasis.data.catalogue import CATALOGUE, unknown_dataset
from polybasis.data.dataset import NodeDataset
from polybasis.experiments.markdown import markdown_table
from polybasis.experiments.node_classification import DATASETS as PAPER_DATASETS
from polybasis.experiments.portfolio import portfolio, read_regrets
from polybasis.experiments.races import OnRace, Race, run_races
from polybasis.experiments.settings import settings_of
from polybasis.experiments.unseen import unseen_section
from polybasis.files import append_line, write_atomically
from polybasis.train.auto import OnCandidate, race
from polybasis.train.config import Config, load_preset
from polybasis.train.job import Job
from polybasis.train.results import Result, paired_difference, read_results, summary
from polybasis.train.source import Source

AUTO = "auto"
# The model of each row and the arguments that define the row.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("mlp", {}),
    "gcn": ("gcn", {}),
    "residual-gcn": ("residual", {"filter": "gcn"}),
    "residual-sage": ("residual", {"filter": "sage"}),
    "residual-gat": ("residual", {"filter": "gat"}),
    "linkx": ("linkx", {}),
    "gpr-gnn": ("gpr-gnn", {}),
    "chebnetii": ("chebnetii", {}),
    "favardgnn": ("favardgnn", {}),
    "optbasisgnn": ("optbasisgnn", {}),
    "residual-favard": ("residual", {"filter": "favard"}),
    "residual-optbasis": ("residual", {"filter": "optbasis"}),
    AUTO: (AUTO, {}),
}
CAMPUSES = (  # the eight smallest of the 28
    "usfca72", "oberlin44", "hamilton46", "williams40", "vassar85", "wesleyan43", "bucknell39", "rochester38",
)  # fmt: skip
TUNING_CAMPUS = "wake73"  # the smallest of the others
TUNING = "tuning.jsonl"
MIN_SPLITS = 3  # for an interval
# The default data sets and the number of splits of each.
DATASETS = {
    **dict.fromkeys(("chameleon-filtered", "tolokers", "amazon-computers", "coauthor-cs", "dblp", "blogcatalog"), 10),
    **dict.fromkeys(CAMPUSES, 5),
    **dict.fromkeys(("texas", "cornell"), 10),
}
MORE_DATASETS = (
    *PAPER_DATASETS, "roman-empire", "amazon-ratings", "minesweeper", "questions", "squirrel-filtered", "penn94",
)  # fmt: skip


def config_of(row: str, dataset: str) -> Config:
    """The tuned configuration of a row, else the defaults of its model. All campuses of the table share one.

    Rows of the paper's models have the hyperparameters of the paper's table where there is no preset for this table.
    """
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
    model, arguments = ROWS[row]
    settings = settings_of(model)
    configs = {name: Config.of(model, **arguments, **values, preset="honest") for name, values in settings.items()}
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

    On a graph that the portfolio of ``auto`` was chosen on, the candidates are those that would have been chosen
    without it; see :mod:`polybasis.experiments.portfolio`.

    Args:
        rows, datasets: names of rows and data sets.
        splits: number of splits of each data set; by default as in ``DATASETS``, ten for others.
        folder: folder of the results.
        root: folder of the data sets.
        processes: number of races to run in parallel, on one thread each.
        on_race: called after each race with the data set and the split.

    Raises:
        ValueError: for an unknown row or data set.
    """
    for name in rows:
        if name not in ROWS:
            raise ValueError(f"unknown row {name!r}; expected some of {', '.join(ROWS)}")
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
    regrets, races = read_regrets(folder / TUNING), list[Race]()
    for dataset, source in sources.items():
        candidates = portfolio(ROWS, regrets, dataset) if regrets else None
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
    return found


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


def readme(results: dict[str, list[Result]], of_the_paper: list[Result] | None = None) -> str:
    """The results page.

    Args:
        results: the results of each row.
        of_the_paper: results on the paper's data sets, with which ``auto`` is compared too.
    """
    found = {result["dataset"] for row, own in results.items() if row != AUTO for result in own}
    known = [name for name in (*DATASETS, *MORE_DATASETS) if name in found]
    datasets = [*known, *sorted(found - set(known))]
    parts = [
        "# Filters against strong baselines\n\n"
        "Mean test score in percent with its 95 % confidence interval over splits (Student's t). All models see the "
        "same splits. `residual-*` rows share one backbone: blocks of normalisation, filter, MLP and a skip "
        "connection. `auto` chooses and trains a model in 60 seconds; its seconds per run leave out the choice. "
        "Other programs ran on the machine, so seconds vary by a factor of several. Fewer than three splits have no "
        "interval. "
        "*Above* and *below* mean that the 95 % interval of the paired difference excludes zero, without a correction "
        "for the number of comparisons. Every figure comes from the result lines in this folder; rows with the "
        "hyperparameters of the paper's table share the lines of `../node-classification`. Command: `polybasis "
        "reproduce honest`."
    ]
    parts += [_section(name, results) for name in datasets]
    if results.get(AUTO):
        others = [result for row, own in results.items() if row != AUTO for result in own]
        parts.append(unseen_section(results[AUTO], others + (of_the_paper or [])))
    parts.append("## Sources\n\n" + "\n".join(f"- {source}" for source in published()["sources"].values()))
    return "\n\n".join(parts)


def _section(dataset: str, results: dict[str, list[Result]]) -> str:
    """The table of one data set: scores, differences from the residual GCN, published results."""
    own = {row: [result for result in lines if result["dataset"] == dataset] for row, lines in results.items()}
    own = {row: lines for row, lines in own.items() if lines}
    reference = own.get("residual-gcn", [])
    rows = []
    for row, lines in own.items():
        numbers = summary([100 * line["test_score"] for line in lines])
        seconds = sum(line["seconds"] for line in lines) / len(lines)
        rows.append(
            [
                row,
                ", ".join(sorted({line["preset"] for line in lines})),
                str(len(lines)),
                f"{numbers['mean']:.2f}" + (f" ± {numbers['ci95']:.2f}" if len(lines) >= MIN_SPLITS else ""),
                _difference(lines, reference) if row != "residual-gcn" else "",
                f"{seconds:.0f}",
            ]
        )
    metric = next(iter(own.values()))[0]["metric"].replace("roc_auc", "ROC AUC")
    header = ["model", "hyperparameters", "splits", metric, "paired difference from residual-gcn", "seconds per run"]
    parts = [f"## {dataset}", markdown_table(header, rows)]
    reported = published().get(dataset, {})
    if reported:
        short = {key: text.split(",")[0] for key, text in published()["sources"].items()}
        cells = [[name, f"{score:.2f}", short[source]] for name, (score, source) in reported.items()]
        parts.append("Published:\n\n" + markdown_table(["model", "test score", "source"], cells))
    return "\n\n".join(parts)


def _difference(lines: list[Result], reference: list[Result]) -> str:
    """The paired difference on the splits that both have; a difference is named only if its interval excludes 0."""
    common = {line["split"] for line in lines} & {line["split"] for line in reference}
    if len(common) < MIN_SPLITS:
        return ""
    pairs = ([line for line in part if line["split"] in common] for part in (lines, reference))
    found = paired_difference(*pairs)
    return f"{found} ({found.verdict})" if found.verdict != "agrees" else f"{found}"


@cache
def published() -> dict[str, Any]:
    """Published results by data set and model: mean and key of the source; ``sources`` has the sources."""
    return tomllib.loads(resources.files("polybasis.experiments").joinpath("honest.toml").read_text())
