"""The page of the table of strong baselines."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from polybasis.experiments.honest_sets import CAMPUSES, DATASETS, MORE_DATASETS
from polybasis.experiments.markdown import markdown_table
from polybasis.experiments.settings import AUTO, ENSEMBLES
from polybasis.experiments.unseen import unseen_section
from polybasis.train.results import Result, paired_difference, summary

MIN_SPLITS = 3  # for an interval
Rows = dict[str, list[Result]]


def readme(results: Rows, of_the_paper: list[Result] | None = None) -> str:
    """The results page.

    Args:
        results: the results of each row.
        of_the_paper: results on the paper's data sets, with which ``auto`` is compared too.
    """
    campuses = _campuses(results)
    results = {row: own for row, own in results.items() if row not in ENSEMBLES}
    found = {result["dataset"] for row, own in results.items() if row != AUTO for result in own}
    known = [name for name in (*DATASETS, *MORE_DATASETS) if name in found]
    datasets = [*known, *sorted(found - set(known))]
    parts = [
        "# Filters against strong baselines\n\n"
        "Mean test score in percent with a 95% confidence interval over splits (Student's t); no interval with fewer "
        "than three splits. All models are trained and tested on the same splits.\n\n"
        "- `residual-*` rows share one backbone: blocks of normalisation, filter and MLP with a skip connection. Each "
        "row is tuned separately, so rows may also differ in other hyperparameters.\n"
        "- `auto` selects and trains a model within 60 seconds. The result may be an ensemble of up to five models. "
        "Its seconds per run exclude the selection.\n"
        "- *Above* and *below* mean that the 95% interval of the paired difference excludes zero. Intervals are not "
        "corrected for multiple comparisons.\n"
        "- Seconds per run are for one thread. Other programs were running, so they are accurate to a factor of two or "
        "three at best.\n\n"
        "Every figure is computed from the JSON lines in this folder. Rows that use the same hyperparameters as the "
        "table of the paper share its lines in `../node-classification`. To reproduce: `polybasis reproduce honest`."
    ]
    parts += [_section(name, results) for name in datasets]
    parts += campuses
    if results.get(AUTO):
        others = [result for row, own in results.items() if row != AUTO for result in own]
        parts.append(unseen_section(results[AUTO], others + (of_the_paper or [])))
    parts.append("## Sources\n\n" + "\n".join(f"- {source}" for source in published()["sources"].values()))
    return "\n\n".join(parts)


def _section(dataset: str, results: Rows) -> str:
    """The table of one data set: scores, differences from the residual GCN, published results."""
    own = {row: [result for result in lines if result["dataset"] == dataset] for row, lines in results.items()}
    own = {row: lines for row, lines in own.items() if lines}
    reference = own.get("residual-gcn", [])
    rows = []
    for row, lines in own.items():
        seconds = sum(line["seconds"] for line in lines) / len(lines)
        rows.append(
            [
                row,
                ", ".join(sorted({line["preset"] for line in lines})),
                str(len(lines)),
                _mean(lines),
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
    if dataset in published()["one_split"]["datasets"] and reference:
        scores = [100 * line["test_score"] for line in reference]
        parts.append(
            "The published scores are means over seeds on one fixed split. Over the "
            f"{len(scores)} random splits used here, residual-gcn ranges from {min(scores):.2f} to {max(scores):.2f}."
        )
    return "\n\n".join(parts)


def _campuses(results: Rows) -> list[str]:
    """The residual network and ``auto`` against LINKX, which was proposed for graphs of this kind."""
    comparisons = [("residual-favard", "linkx"), (AUTO, "linkx"), (AUTO, "linkx-5"), ("linkx-5", "linkx")]
    rows = []
    for campus in CAMPUSES:
        own = {row: [line for line in lines if line["dataset"] == campus] for row, lines in results.items()}
        if own.get("linkx"):
            rows.append([campus, *(_difference(own.get(a, []), own.get(b, [])) for a, b in comparisons)])
    if not rows:
        return []
    text = (
        "## Campuses: paired differences from LINKX\n\n"
        "`residual-favard` and `linkx` are single models, and `linkx-5` is an ensemble of five: the mean of their "
        "probabilities. `auto` may be an ensemble of up to five."
    )
    return [text, markdown_table(["campus", *(f"{a} against {b}" for a, b in comparisons)], rows)]


def _mean(lines: list[Result]) -> str:
    if not lines:
        return ""
    numbers = summary([100 * line["test_score"] for line in lines])
    return f"{numbers['mean']:.2f}" + (f" ± {numbers['ci95']:.2f}" if len(lines) >= MIN_SPLITS else "")


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
