"""Sections of the node classification page that compare rows with the paper's table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from polybasis.experiments import fresh_splits, paper
from polybasis.experiments.classification_rows import BASELINES, Row, Rows, score
from polybasis.experiments.comparison import VERDICTS, difference_from_paper
from polybasis.experiments.markdown import markdown_table
from polybasis.experiments.node_classification import DATASETS, MODELS, PAPER_MODELS
from polybasis.train.results import summarize

TABLE = "node-classification"
TUNED_SPLITS = 10  # splits of citeseer that favardgnn's ensemble with label reuse was tuned on


def fresh_section(fresh: Rows) -> list[str]:
    """Rows on splits that no search has used, against the paper's figures."""
    lines = []
    reported = paper.table(TABLE)
    for dataset in DATASETS:
        for model, preset in fresh_splits.rows(dataset):
            row = fresh.summary(dataset, model, preset)
            if row is None:
                continue
            mean, interval = reported[model][dataset]
            difference = difference_from_paper(row, mean, interval, TABLE)
            paired = fresh.difference(dataset, (model, preset), (model, "published")) if preset == "tuned" else None
            lines.append(
                [dataset, model, preset, str(row["splits"]), score(row), f"{mean:.2f} ± {interval:.2f}",
                 str(difference), difference.verdict, "" if paired is None else f"{paired}, {paired.verdict}"]
            )  # fmt: skip
    if not lines:
        return []
    header = ["data set", "model", "preset", "splits", "ours", "paper", "difference", "verdict"]
    header.append("against published, paired")
    return [
        "",
        "## Fresh splits",
        "",
        "The committed configurations were frozen before these splits were run, once each. These splits were never "
        f"used for tuning. The paper's figures are for the same model. {_missing(fresh)}",
        "",
        markdown_table(header, lines),
    ]


def _missing(fresh: Rows) -> str:
    """Names the rows that have no results, or not on all splits."""
    missing = []
    for dataset in DATASETS:
        rows = fresh_splits.rows(dataset)
        absent = [
            f"{model} ({preset})"
            for model, preset in rows
            if len(fresh.groups.get((dataset, model, preset), [])) < len(fresh_splits.SPLITS)
        ]
        if absent:
            missing.append(dataset + ("" if len(absent) == len(rows) else f": {', '.join(absent)}"))
    return f"Not run: {'; '.join(missing)}." if missing else "All rows are complete."


def agreement_section(compared: list[Row], rows: Rows, folder: Path) -> list[str]:
    """Verdicts of single models with the published hyperparameters, else tuned ones."""
    cells: dict[tuple[str, str], Row] = {}
    for row in compared:
        key = (row["model"], row["dataset"])
        if row["paper"] is None or rows.ensemble_size(row["dataset"], row["model"], row["preset"]) > 1:
            continue
        if row["preset"] == "published" or (row["preset"] == "tuned" and key not in cells):
            cells[key] = row
    if not cells:
        return []
    lines = [
        [model, *(_cell(cells.get((model, dataset))) for dataset in DATASETS)]
        for model in MODELS
        if any((model, dataset) in cells for dataset in DATASETS)
    ]
    counts = {
        name: Counter(row["verdict"] for (model, _), row in cells.items() if model in models)
        for name, models in (("the paper's two models", PAPER_MODELS), ("the baselines", BASELINES))
    }
    summary = "; ".join(
        f"{name}: {found['above']} above, {found['agrees']} agree, {found['below']} below"
        for name, found in counts.items()
        if found
    )
    from polybasis.report.figures import draw_agreement, save

    save(draw_agreement(list(cells.values())), folder / "agreement")
    return [
        "",
        "## Agreement with the paper",
        "",
        f"Single models are compared with single models on the first twenty splits; {summary}.",
        "",
        markdown_table(["model", *DATASETS], lines),
        "",
        f"Each cell shows the difference from the paper's mean. {VERDICTS} The paper's interval is the larger side of "
        "a 95% bootstrap interval over 20 splits, as in the authors' code, and is treated as 1.96 standard errors. "
        "Hyperparameters are the published ones if available, and otherwise tuned (marked t).",
        "",
        "![Our means against the paper's, with both intervals](agreement.png)",
    ]


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{row['difference']}, {row['verdict']}" + (" (t)" if row["preset"] == "tuned" else "")


def _best_in_paper(dataset: str) -> tuple[str, float, float]:
    """The model with the highest mean of the paper's table, its mean and its interval."""
    table = paper.table(TABLE)
    mean, interval, model = max((*table[model][dataset], model) for model in MODELS)
    return model, mean, interval


def _against(rows: Rows, key: tuple[str, str, str]) -> list[str]:
    """Mean, paired difference from the published row, the paper's best, and the Welch difference from it."""
    dataset, model, preset = key
    row = rows.summary(*key)
    assert row is not None
    paired = rows.difference(dataset, (model, preset), (model, "published"))
    name, mean, interval = _best_in_paper(dataset)
    difference = difference_from_paper(row, mean, interval, TABLE)
    return [
        score(row),
        "" if paired is None else f"{paired}, {paired.verdict}",
        f"{mean:.2f} ± {interval:.2f} ({name})",
        f"{difference}, {difference.verdict}",
    ]


def changes_section(rows: Rows) -> list[str]:
    """Single models with other hyperparameters than the published ones."""
    lines = [
        [dataset, model, preset, *_against(rows, (dataset, model, preset))]
        for dataset in DATASETS
        for model, preset in rows.single(dataset, MODELS)
        if preset != "published" and (dataset, model, "published") in rows.groups
    ]
    if not lines:
        return []
    header = ["data set", "model", "preset", "ours", "against published, paired", "paper's best", "against it"]
    return [
        "",
        "## Single models with other hyperparameters than the published ones",
        "",
        "First twenty splits. The paper's best is the highest mean of its column, by a single model.",
        "",
        markdown_table(header, lines),
    ]


def ensembles_section(rows: Rows) -> list[str]:
    """Ensembles, beside the published single model and the paper's best."""
    lines = [
        [*key, str(rows.ensemble_size(*key)), *_against(rows, key)]
        for dataset in DATASETS
        for key in rows.groups
        if key[0] == dataset and rows.ensemble_size(*key) > 1
    ]
    if not lines:
        return []
    header = [
        "data set",
        "model",
        "preset",
        "models",
        "ensemble",
        "against one published model, paired",
        "paper's best, one model",
        "against it",
    ]
    return [
        "",
        "## Ensembles",
        "",
        "First twenty splits. The paper reports no ensembles: its figures, and the published model in the paired "
        "column, are single models.",
        "",
        markdown_table(header, lines),
        *_untuned_splits(rows),
    ]


def _untuned_splits(rows: Rows) -> list[str]:
    """The citeseer rows of favardgnn on the splits that its ensemble was not tuned on."""
    lines = []
    name, mean, interval = _best_in_paper("citeseer")
    for preset in ("tuned", "ensemble", "label-reuse", "published"):
        group = [row for row in rows.groups.get(("citeseer", "favardgnn", preset), []) if row["split"] >= TUNED_SPLITS]
        if group:
            size = rows.ensemble_size("citeseer", "favardgnn", preset)
            lines.append(["favardgnn", preset, str(size), str(len(group)), score(summarize(group)[0])])
    if not lines:
        return []
    return [
        "",
        f"The citeseer row `tuned` was tuned on splits 0 to {TUNED_SPLITS - 1}. The next table shows the other splits; "
        f"the paper's best is {mean:.2f} ± {interval:.2f} ({name}, one model):",
        "",
        markdown_table(["model", "preset", "models", "splits", "citeseer"], lines),
    ]
