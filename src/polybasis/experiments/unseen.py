"""``auto`` on graphs that had no part in the choice of its portfolio, against the best tuned model of each graph."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from polybasis.experiments.markdown import markdown_table
from polybasis.train.results import Result


def unseen_section(auto: list[Result], others: list[Result]) -> str:
    """A section of the results page, with the difference between ``auto`` and the best other model on each graph.

    Args:
        auto: the results of ``auto``.
        others: the results of all other models. Only single models count, and only those with a result on every split
            that ``auto`` has. The best one is the best on the test nodes: a stricter comparison than with the model
            that validation data would choose.
    """
    rows, differences = [], []
    for dataset in dict.fromkeys(result["dataset"] for result in auto):
        own = {result["split"]: result for result in auto if result["dataset"] == dataset}
        found: dict[str, dict[int, float]] = defaultdict(dict)
        for result in others:
            single = result["config"].get("ensemble_size", 1) == 1
            if result["dataset"] == dataset and result["split"] in own and single:
                found[_name(result)][result["split"]] = 100 * result["test_score"]
        means = {name: float(np.mean(list(s.values()))) for name, s in found.items() if s.keys() == own.keys()}
        if not means:
            continue
        best = max(means, key=lambda name: means[name])
        score = float(np.mean([100 * result["test_score"] for result in own.values()]))
        differences.append(score - means[best])
        rows.append([dataset, str(len(own)), f"{score:.2f}", best, f"{means[best]:.2f}", f"{differences[-1]:+.2f}"])
    text = (
        "## auto on unseen graphs\n\n"
        f"`auto` in 60 seconds on {len(rows)} graphs, against the best tuned single model of each graph: best on the "
        "test nodes, among all models with results on the same splits. On a graph that the portfolio was chosen on, "
        "`auto` has the portfolio that would have been chosen without it; the campuses and the paper's five data sets "
        "had no part in the choice. `auto` may train an ensemble of up to five models."
    )
    if not rows:
        return text
    header = ["graph", "splits", "auto", "best tuned model", "its score", "difference"]
    total = f"Mean difference {np.mean(differences):+.2f}, lowest {min(differences):+.2f}."
    return "\n\n".join([text, markdown_table(header, rows), total])


def _name(result: Result) -> str:
    model, filter_name = result["config"]["model"]["name"], result["config"]["model"].get("filter")
    name = f"residual-{filter_name}" if filter_name else model
    return name if result["preset"] == "honest" else f"{name} ({result['preset']})"
