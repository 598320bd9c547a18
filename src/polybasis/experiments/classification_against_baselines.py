"""Sections of the node classification page that compare the paper's models with baselines, paired by split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polybasis.experiments import fresh_splits
from polybasis.experiments.classification_rows import BASELINES, Rows, score
from polybasis.experiments.markdown import markdown_table
from polybasis.experiments.node_classification import (
    DATASETS,
    DEDUPLICATED_DATASETS,
    DEDUPLICATED_MODELS,
    PAPER_MODELS,
)
from polybasis.train.results import Difference, holm

MARKS = {"above": "ahead", "agrees": "not separated", "below": "behind"}


def paired_section(rows: Rows, fresh: Rows, folder: Path) -> list[str]:
    """The paper's models against the best tuned baseline of each data set, on the first and on the fresh splits."""
    names, first, second = [], [], []
    for dataset in DATASETS:
        baseline = (fresh_splits.BEST_BASELINE[dataset], "tuned")
        for model in PAPER_MODELS:
            pair = dataset, (model, "published"), baseline
            difference = rows.difference(*pair)
            if difference is not None:
                names.append((dataset, model, baseline[0]))
                first.append(difference)
                second.append(fresh.difference(*pair))
    if not names:
        return []
    adjusted = holm([difference.p_value for difference in first])
    lines = []
    for name, one, p, other, q in zip(names, first, adjusted, second, _adjusted(second), strict=True):
        cells = ["not run", "", ""] if other is None else [str(other), _p_value(q), MARKS[other.verdict]]
        lines.append([*name, str(one), _p_value(p), MARKS[one.verdict], *cells])
    header = ["data set", "model", "baseline", "first 20 splits", "p", "verdict", "fresh splits", "p", "verdict"]
    from polybasis.report.figures import draw_differences, save

    save(
        draw_differences(
            [f"{model}\nvs {baseline}, {dataset}" for dataset, model, baseline in names],
            {"first 20 splits": first, "20 fresh splits": second},
        ),
        folder / "paired",
    )
    return [
        "",
        "## The paper's models against the best tuned baseline",
        "",
        f"First twenty splits: {_tally(first)}. Fresh splits: {_tally(second)}.",
        "",
        markdown_table(header, lines),
        "",
        "FavardGNN and OptBasisGNN use their published hyperparameters. Differences are paired by split and given with "
        "their 95% t interval; *ahead* and *behind* mean that the interval excludes zero. p is two-sided and adjusted "
        "by Holm's method for the ten comparisons of its column. The baseline is the tuned one with the highest mean "
        "test score on the first twenty splits, a choice that favours it there; it was fixed before the fresh splits "
        f"({fresh_splits.SPLITS[0]} to {fresh_splits.SPLITS[-1]}) were run. Splits of one graph overlap, so all "
        "intervals on this page describe other splits of the same graph, not other graphs. "
        "See also [all baselines](#appendix-all-baselines-paired).",
        "",
        "![Paired differences of the paper's models from the best tuned baseline](paired.png)",
    ]


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _adjusted(differences: Sequence[Difference | None]) -> list[float]:
    """Holm's p-values of all planned comparisons; those that were not run count as not different."""
    return holm([1.0 if difference is None else difference.p_value for difference in differences])


def _tally(differences: Sequence[Difference | None]) -> str:
    found = [difference for difference in differences if difference is not None]
    if not found:
        return "not run"
    verdicts = Counter(difference.verdict for difference in found)
    kept = Counter(
        difference.verdict
        for difference, p in zip(differences, _adjusted(differences), strict=True)
        if difference is not None and p < 0.05
    )
    missing = len(differences) - len(found)
    return (
        f"of {_count(len(found), 'comparison')} the paper's model is ahead in {verdicts['above']}, behind in "
        f"{verdicts['below']}, and not separated from the baseline in {verdicts['agrees']}; after Holm's correction "
        f"ahead in {kept['above']}, behind in {kept['below']}" + (f"; {missing} not run" if missing else "")
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def deduplicated_section(rows: Rows) -> list[str]:
    """Data sets without duplicate nodes: scores, and paired differences from every baseline."""
    names = [name for name in DEDUPLICATED_DATASETS if any(key[0] == name for key in rows.groups)]
    if not names:
        return []
    lines = []
    for model in DEDUPLICATED_MODELS:
        cells = []
        for dataset in names:
            found = [key for key in rows.groups if key[:2] == (dataset, model)]
            cells.append(score(rows.summary(*found[0])) if found else "")
        lines.append([model, *cells])
    return [
        "",
        "## Data sets without duplicate nodes, and two small ones",
        "",
        "Generated by `polybasis reproduce node-classification --deduplicated`. chameleon-filtered and tolokers have "
        "ten published splits; texas and cornell use twenty random splits.",
        "",
        markdown_table(["model", *names], lines),
        "",
        "Paired differences from every baseline:",
        "",
        *_differences_table(rows, names, {name: [(model, None) for model in PAPER_MODELS] for name in names}),
    ]


def all_baselines_section(rows: Rows) -> list[str]:
    """The appendix with the paired differences from every baseline."""
    names = [name for name in DATASETS if any(key[0] == name for key in rows.groups)]
    chosen = {name: [(model, "published") for model in PAPER_MODELS] for name in names}
    table = _differences_table(rows, names, chosen)
    if not table:
        return []
    return [
        "",
        "## Appendix: all baselines, paired",
        "",
        "Score of the paper's models with published hyperparameters minus that of each single baseline, first twenty "
        "splits.",
        "",
        *table,
    ]


def _differences_table(rows: Rows, datasets: list[str], chosen: dict[str, Any]) -> list[str]:
    lines = []
    for dataset in datasets:
        for baseline in rows.single(dataset, BASELINES):
            cells = []
            for model, preset in chosen[dataset]:
                presets = [preset] if preset else [key[2] for key in rows.groups if key[:2] == (dataset, model)]
                difference = rows.difference(dataset, (model, presets[0]), baseline) if presets else None
                cells.append("" if difference is None else f"{difference}, {MARKS[difference.verdict]}")
            if any(cells):
                lines.append([dataset, " ".join(baseline), *cells])
    return [markdown_table(["data set", "baseline", *PAPER_MODELS], lines)] if lines else []
