"""The portfolio of ``auto``, chosen so that an unseen graph is served well.

The settings of all rows of the table of strong baselines were raced on the validation nodes of several graphs; see
:func:`polybasis.experiments.honest.tune`. A greedy search adds the setting that most reduces the mean regret: the
difference between the best score of any setting on a graph and the best score in the portfolio. Leaving out the graph
on which ``auto`` is then tested makes that test fair.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from polybasis.experiments.settings import settings_of
from polybasis.files import read_lines
from polybasis.train.config import Config

SIZE = 8
MAX_REGRET = 0.05  # larger regrets count as this, so that one graph does not decide alone


def read_scores(path: Path) -> dict[str, dict[tuple[str, str], float]]:
    """Validation scores by data set and by row and setting.

    Args:
        path: JSON Lines file of finished tuning races.
    """
    scores: dict[str, dict[tuple[str, str], float]] = {}
    for line in read_lines(path):
        found = scores.setdefault(line["dataset"], {})
        for candidate in line["candidates"]:
            found[line["row"], candidate["name"]] = candidate["val_score"] or 0.0
    return scores


def choose(scores: dict[str, dict[tuple[str, str], float]], size: int = SIZE) -> list[tuple[str, str]]:
    """The rows and settings of a portfolio, in the order in which they were chosen.

    Args:
        scores: validation scores by data set and by row and setting.
        size: number of settings to choose.
    """
    known = sorted(set.intersection(*(set(found) for found in scores.values())))
    table = np.array([[found[key] for key in known] for found in scores.values()])  # (data sets, settings)
    chosen: list[int] = []
    while len(chosen) < min(size, len(known)):
        best = np.maximum(table, table[:, chosen].max(axis=1, keepdims=True, initial=0.0))  # with each setting added
        regret = np.minimum(table.max(axis=1, keepdims=True) - best, MAX_REGRET).mean(axis=0)
        regret[chosen] = np.inf
        chosen.append(int(regret.argmin()))
    return [known[i] for i in chosen]


def portfolio(
    rows: dict[str, tuple[str, dict[str, Any]]], scores: dict[str, dict[tuple[str, str], float]], left_out: str | None
) -> dict[str, Config]:
    """The candidates of ``auto`` for a graph.

    Args:
        rows: model and arguments of each row.
        scores: validation scores by data set and by row and setting.
        left_out: data set whose scores are not used; None: use all.
    """
    used = {name: found for name, found in scores.items() if name != left_out}
    configs = {}
    for row, setting in choose(used):
        model, arguments = rows[row]
        values = {**arguments, **settings_of(model)[setting]}
        configs[f"{row}, {setting}"] = Config.of(model, **values, preset="auto").for_own_data()
    return configs
