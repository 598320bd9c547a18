"""``auto`` on graphs that were not used to choose its portfolio, against the tuned models of each graph."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from polybasis.experiments.markdown import markdown_table
from polybasis.train.results import Result


def unseen_section(auto: list[Result], others: list[Result]) -> str:
    """A section of the results page, with the difference between ``auto`` and two tuned models of each graph.

    Args:
        auto: the results of ``auto``.
        others: the results of all other models. Only single models count, and only those with a result on every split
            that ``auto`` has.
    """
    rows, chosen, best = [], [], []
    for dataset in dict.fromkeys(result["dataset"] for result in auto):
        own = {result["split"]: result for result in auto if result["dataset"] == dataset}
        found: dict[str, dict[int, Result]] = defaultdict(dict)
        for result in others:
            single = result["config"].get("ensemble_size", 1) == 1
            if result["dataset"] == dataset and result["split"] in own and single:
                found[_name(result)][result["split"]] = result
        tuned = {name: list(results.values()) for name, results in found.items() if results.keys() == own.keys()}
        if not tuned:
            continue
        score, tests = _mean(list(own.values()), "test_score"), {n: _mean(r, "test_score") for n, r in tuned.items()}
        by_validation = max(tuned, key=lambda name: _mean(tuned[name], "val_score"))
        by_test = max(tests, key=lambda name: tests[name])
        chosen.append(score - tests[by_validation])
        best.append(score - tests[by_test])
        cells = [f"{tests[by_validation]:.2f}", f"{chosen[-1]:+.2f}", by_test, f"{best[-1]:+.2f}"]
        rows.append([dataset, str(len(own)), str(len(tuned)), f"{score:.2f}", by_validation, *cells])
    text = (
        "## auto on unseen graphs\n\n"
        f"`auto` with a limit of 60 seconds on {len(rows)} graphs. It is compared with the single models that have "
        "results on the same splits, with tuned or published hyperparameters: with the one that has the best mean "
        "validation score, which is what tuning would select, and with the one that has the best mean test score, "
        "which nobody can select. The portfolio of `auto` is chosen anew for each graph, without measurements on that "
        "graph or on related ones (for a campus, all other campuses). Candidates whose hyperparameters we tried by "
        "hand on a graph do not compete there, and features of tolokers are not encoded. `auto` may train an ensemble "
        "of up to five models."
    )
    if not rows:
        return text
    header = ["graph", "splits", "models", "auto", "best on validation", "its score", "difference"]
    header += ["best on test", "difference"]
    total = (
        f"Mean difference from the best on validation {np.mean(chosen):+.2f}, lowest {min(chosen):+.2f}; from the best "
        f"on test {np.mean(best):+.2f}, lowest {min(best):+.2f}."
    )
    return "\n\n".join([text, markdown_table(header, rows), total])


def _mean(results: list[Result], score: str) -> float:
    return float(np.mean([100 * result[score] for result in results]))


def _name(result: Result) -> str:
    model, filter_name = result["config"]["model"]["name"], result["config"]["model"].get("filter")
    name = f"residual-{filter_name}" if filter_name else model
    return name if result["preset"] == "honest" else f"{name} ({result['preset']})"
