"""The portfolio of ``auto``: a greedy choice, in which the graph to be tested on has no part."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from polybasis.experiments import honest, portfolio
from polybasis.experiments.settings import settings_of

KEYS = [(row, name) for row in ("mlp", "residual-gcn", "linkx") for name in settings_of(honest.ROWS[row][0])]
Scores = dict[str, dict[tuple[str, str], float]]


@pytest.fixture
def scores() -> Scores:
    rng = np.random.default_rng(0)
    return {f"graph{i}": {key: rng.uniform(0.8, 0.83) for key in KEYS} for i in range(6)}


def regret(scores: Scores, chosen: tuple[tuple[str, str], ...]) -> float:
    return float(np.mean([max(found.values()) - max(found[key] for key in chosen) for found in scores.values()]))


def test_every_step_reduces_the_regret_most(scores: Scores) -> None:
    chosen = portfolio.choose(scores, 4)
    for count in range(1, 5):
        before = tuple(chosen[: count - 1])
        best = min(regret(scores, (*before, key)) for key in KEYS if key not in before)
        assert regret(scores, tuple(chosen[:count])) == pytest.approx(best)
    best_pair = min(regret(scores, pair) for pair in itertools.combinations(KEYS, 2))
    assert regret(scores, tuple(chosen[:2])) >= best_pair
    assert regret(scores, tuple(portfolio.choose(scores, len(KEYS)))) == 0


def test_one_graph_does_not_decide_alone(scores: Scores) -> None:
    """A setting that all others fall far behind on one graph competes with one that is slightly better on five."""
    first, second = KEYS[0], KEYS[1]
    for i, found in enumerate(scores.values()):
        found.update(dict.fromkeys(KEYS, 0.5))
        found[first if i == 0 else second] = 0.9 if i == 0 else 0.52
    assert portfolio.choose(scores, 1) == [second]


def test_a_graph_that_is_left_out_has_no_influence(scores: Scores) -> None:
    expected = portfolio.portfolio(honest.ROWS, scores, "graph2")
    scores["graph2"] = dict.fromkeys(KEYS, 0.1) | {KEYS[-1]: 1.0}
    assert portfolio.portfolio(honest.ROWS, scores, "graph2") == expected
    assert portfolio.portfolio(honest.ROWS, scores, None) != expected
