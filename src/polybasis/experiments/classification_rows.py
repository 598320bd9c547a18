"""The rows of the node classification table: results by data set, model and preset."""

from __future__ import annotations

from typing import Any

from polybasis.experiments.node_classification import MODELS, PAPER_MODELS
from polybasis.train.results import Difference, Result, paired_difference, summarize

Row = dict[str, Any]
BASELINES = tuple(model for model in MODELS if model not in PAPER_MODELS)


class Rows:
    """Results by data set, model and preset."""

    def __init__(self, results: list[Result]) -> None:
        self.groups: dict[tuple[str, str, str], list[Result]] = {}
        for result in results:
            self.groups.setdefault((result["dataset"], result["model"], result["preset"]), []).append(result)

    def difference(self, dataset: str, a: tuple[str, str], b: tuple[str, str]) -> Difference | None:
        """The paired difference of two (model, preset) rows on a data set; None unless both have the same splits."""
        left, right = self.groups.get((dataset, *a), []), self.groups.get((dataset, *b), [])
        if not left or {result["split"] for result in left} != {result["split"] for result in right}:
            return None
        return paired_difference(left, right)

    def summary(self, dataset: str, model: str, preset: str) -> Row | None:
        """The mean over splits; None without results."""
        group = self.groups.get((dataset, model, preset))
        return None if group is None else summarize(group)[0]

    def ensemble_size(self, dataset: str, model: str, preset: str) -> int:
        """Number of models of a row."""
        return int(self.groups[dataset, model, preset][0]["config"].get("ensemble_size", 1))

    def single(self, dataset: str, models: tuple[str, ...]) -> list[tuple[str, str]]:
        """The (model, preset) rows of single models on a data set, in the order of the models."""
        keys = [key for key in self.groups if key[0] == dataset and key[1] in models and self.ensemble_size(*key) == 1]
        return sorted(((model, preset) for _, model, preset in keys), key=lambda row: models.index(row[0]))


def score(row: Row | None) -> str:
    """Mean and 95% interval; empty without results."""
    return "" if row is None else f"{row['mean']:.2f} ± {row['ci95']:.2f}"
