"""The portfolio of ``auto``, chosen so that an unseen graph is served well.

The settings of the rows of the table of strong baselines were raced on the validation nodes of several graphs; see
:func:`polybasis.experiments.honest.tune`. The regret of a setting on a graph is how far it is behind the best setting
there, beyond what chance explains. A greedy search adds the setting that most reduces the mean regret over the graphs;
only settings that were raced on all of them can be chosen. Leaving out the graph on which ``auto`` is then tested makes
that test fair.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from polybasis.experiments.settings import settings_of
from polybasis.files import read_lines
from polybasis.train.config import Config

SIZE = 6
MAX_REGRET = 0.05  # larger regrets count as this, so that one graph does not decide alone
Regrets = dict[str, dict[tuple[str, str], float]]


def read_regrets(path: Path) -> Regrets:
    """Regrets by data set and by row and setting.

    The standard error of the best score on a graph, of a proportion of its validation nodes, is subtracted: with 37
    validation nodes, a setting that is two nodes behind the best one is as good.

    Args:
        path: JSON Lines file of finished tuning races.
    """
    scores: Regrets = {}
    nodes: dict[str, int] = {}
    for line in read_lines(path):
        nodes[line["dataset"]] = line["val_nodes"]
        found = scores.setdefault(line["dataset"], {})
        for candidate in line["candidates"]:
            found[line["row"], candidate["name"]] = candidate["val_score"] or 0.0
    regrets = {}
    for dataset, found in scores.items():
        best = max(found.values())
        reachable = best - (best * (1 - best) / nodes[dataset]) ** 0.5
        regrets[dataset] = {key: min(max(0.0, reachable - score), MAX_REGRET) for key, score in found.items()}
    return regrets


def choose(regrets: Regrets, size: int = SIZE) -> list[tuple[str, str]]:
    """The rows and settings of a portfolio, in the order in which they were chosen.

    Among settings that reduce the mean regret equally, the one with the lowest regret of its own comes first.

    Args:
        regrets: regrets by data set and by row and setting.
        size: number of settings to choose.

    Raises:
        ValueError: if no setting has a regret on every data set.
    """
    known = sorted(set.intersection(*map(set, regrets.values()))) if regrets else []
    if not known:
        raise ValueError(
            f"no setting was raced on all of {', '.join(regrets) or 'the other data sets'}; run polybasis reproduce "
            "tune-honest first"
        )
    table = np.array([[found[key] for key in known] for found in regrets.values()])  # (data sets, settings)
    own, best = table.mean(axis=0), np.full((len(table), 1), MAX_REGRET)
    chosen: list[int] = []
    while len(chosen) < min(size, len(known)):
        together = np.minimum(table, best).mean(axis=0).round(9)
        together[chosen] = np.inf
        chosen.append(int(np.lexsort((own, together))[0]))
        best = np.minimum(best, table[:, chosen[-1:]])
    return [known[i] for i in chosen]


def portfolio(
    rows: dict[str, tuple[str, dict[str, Any]]], regrets: Regrets, left_out: str | None, transductive: bool = True
) -> dict[str, Config]:
    """The candidates of ``auto`` for a graph.

    Args:
        rows: model and arguments of each row.
        regrets: regrets by data set and by row and setting.
        left_out: data set whose regrets are not used; None: use all.
        transductive: admit models that can predict only for the nodes they were trained on.
    """
    used = {
        name: {key: regret for key, regret in found.items() if transductive or not _is_transductive(*key)}
        for name, found in regrets.items()
        if name != left_out
    }
    configs = {}
    for row, setting in choose(used):
        model, arguments = rows[row]
        values = {**arguments, **settings_of(model)[setting]}
        configs[f"{row}, {setting}"] = Config.of(model, **values, preset="auto").for_own_data()
    return configs


def _is_transductive(row: str, setting: str) -> bool:
    return row == "linkx" or setting in ("label reuse", "adjacency")
