"""The portfolio of ``auto``: a greedy choice, in which the graph to be tested on has no part."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import polybasis as pb
from polybasis.data.catalogue import CATALOGUE
from polybasis.experiments import portfolio
from polybasis.experiments.portfolio import CANDIDATES, FAMILIES, GRAPHS, MAX_REGRET, MEASUREMENTS, Regrets
from polybasis.experiments.settings import config_with, settings_of
from polybasis.files import append_line, read_lines
from polybasis.train import auto_portfolio

RESULTS = Path(__file__).parents[2] / "results" / "honest"
WIDE = pb.data.csbm(nodes=100, features=80)  # too many features to be encoded
KEYS = [(row, name) for row in ("mlp", "residual-gcn", "linkx") for name in settings_of(row)]


@pytest.fixture
def regrets() -> Regrets:
    """On each of six graphs, one setting is the best."""
    values = np.random.default_rng(0).uniform(0, MAX_REGRET, (6, len(KEYS)))
    values -= values.min(axis=1, keepdims=True)
    return {f"graph{i}": dict(zip(KEYS, row.tolist(), strict=True)) for i, row in enumerate(values)}


def mean_regret(regrets: Regrets, chosen: tuple[tuple[str, str], ...]) -> float:
    return float(np.mean([min(found[key] for key in chosen) for found in regrets.values()]))


def test_every_step_reduces_the_regret_most(regrets: Regrets) -> None:
    chosen = portfolio.choose(regrets)[:4]
    for count in range(1, 5):
        before = tuple(chosen[: count - 1])
        best = min(mean_regret(regrets, (*before, key)) for key in KEYS if key not in before)
        assert mean_regret(regrets, tuple(chosen[:count])) == pytest.approx(best)
    best_pair = min(mean_regret(regrets, pair) for pair in itertools.combinations(KEYS, 2))
    assert mean_regret(regrets, tuple(chosen[:2])) >= best_pair
    assert mean_regret(regrets, tuple(portfolio.choose(regrets))) == 0


def test_settings_that_add_nothing_come_in_the_order_of_their_own_regret() -> None:
    """Once nothing can be gained, settings that do well on all graphs come before those that do well on none."""
    regrets = {name: {key: 0.001 * (7 * i % 19) for i, key in enumerate(KEYS)} for name in ("graph0", "graph1")}
    own = {key: regrets["graph0"][key] for key in KEYS}
    assert portfolio.choose(regrets) == sorted(KEYS, key=lambda key: own[key])


def test_a_graph_that_is_left_out_has_no_influence(regrets: Regrets) -> None:
    expected = list(portfolio.portfolio(regrets, "graph2"))
    regrets["graph2"] = dict.fromkeys(KEYS, MAX_REGRET) | {KEYS[-1]: 0.0}
    assert list(portfolio.portfolio(regrets, "graph2")) == expected
    assert list(portfolio.portfolio(regrets)) != expected


def test_without_all_measurements_there_is_no_portfolio(regrets: Regrets) -> None:
    with pytest.raises(ValueError, match="all measurements are missing; run polybasis reproduce portfolio first"):
        portfolio.portfolio({"graph0": regrets["graph0"]}, "graph0")
    del regrets["graph1"]["mlp", "wide"]
    with pytest.raises(ValueError, match="1 measurements are missing, such as mlp, wide on graph1"):
        portfolio.choose(regrets)


def test_regrets_are_beyond_one_standard_error_and_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 validation nodes the best setting has 90 right, with a standard error of three nodes."""
    scores = {"best": 0.90, "as good": 0.87, "behind": 0.85, "far behind": 0.5, "diverged": None}
    path = tmp_path / MEASUREMENTS
    monkeypatch.setattr(portfolio, "CANDIDATES", tuple(("mlp", name) for name in scores))
    for name, score in {**scores, "of a former version": 1.0}.items():
        line = {"dataset": "graph", "row": "mlp", "setting": name, "val_nodes": 50, "splits": 2, "val_score": score}
        append_line(path, json.dumps(line))
    found = portfolio.read_regrets(path)["graph"]
    expected = [0.0, 0.0, 0.02, MAX_REGRET, MAX_REGRET]
    assert list(found.values()) == pytest.approx(expected)


def test_auto_has_the_portfolios_of_the_committed_measurements() -> None:
    regrets = portfolio.read_regrets(RESULTS / MEASUREMENTS)
    for transductive in (True, False):
        expected = portfolio.portfolio(regrets, None, transductive)
        found = auto_portfolio.candidates(WIDE, transductive)
        assert list(found) == list(expected)
        assert found == {name: config.for_own_data() for name, config in expected.items()}
        needs_labels = [config for config in found.values() if config.label_reuse or config.model.name == "linkx"]
        needs_rows = [config for config in found.values() if config.model.arguments.get("adjacency")]
        assert bool(needs_labels or needs_rows) == transductive


def test_candidates_have_the_measured_configurations() -> None:
    measured = {(line["row"], line["setting"]): line["config"] for line in read_lines(RESULTS / MEASUREMENTS)}
    assert {key: config_with(*key, "auto").to_dict() for key in CANDIDATES} == measured


def test_candidates_and_graphs_exist() -> None:
    assert {f"{row}, {setting}" for row, setting in CANDIDATES} == set(auto_portfolio.CANDIDATES)
    assert set(portfolio.ORIGINS) <= set(CANDIDATES)
    assert frozenset().union(*portfolio.ORIGINS.values()) <= set(CATALOGUE)
    with pytest.raises(ValueError, match="gcn has no setting 'strong dropout'; expected default, no decay"):
        config_with("gcn", "strong dropout", "auto")
    assert set(GRAPHS) <= set(CATALOGUE)
    assert set().union(*FAMILIES) <= set(CATALOGUE)


def test_graphs_of_the_same_family_are_left_out_together(regrets: Regrets, monkeypatch: pytest.MonkeyPatch) -> None:
    """wake73 and tufts18 are campuses: neither has a part in the portfolio for the other."""
    monkeypatch.setattr(portfolio, "ORIGINS", {})
    common = {name: regrets[f"graph{i}"] for i, name in enumerate(("texas", "dblp"))}
    campuses = {name: regrets[f"graph{i + 2}"] for i, name in enumerate(("wake73", "tufts18"))}
    without = list(portfolio.portfolio(common))
    assert list(portfolio.portfolio(common | campuses, "wake73")) == without
    assert list(portfolio.portfolio(common | campuses, "tufts18")) == without
    everything = list(portfolio.portfolio(common | campuses))
    assert list(portfolio.portfolio(common | campuses, "citeseer")) == everything != without


def test_a_candidate_does_not_compete_where_it_was_found(regrets: Regrets) -> None:
    key = ("favardgnn", "strong dropout")
    for found in regrets.values():
        found[key] = 0.0
    assert next(iter(portfolio.portfolio(regrets, "pubmed"))) == "favardgnn, strong dropout"
    assert "favardgnn, strong dropout" not in portfolio.portfolio(regrets, "actor")
    encoded = {
        name: {config.model.arguments.get("bins") for config in portfolio.portfolio(regrets, name).values()}
        for name in ("tolokers", "actor")
    }
    assert encoded == {"tolokers": {0, None}, "actor": {None}}  # encoding was found on tolokers


def test_all_campuses_are_a_family() -> None:
    assert portfolio.family("penn94") == portfolio.family("wake73") >= {"usfca72", "tufts18", "cornell5"}
    assert portfolio.family("mlp") == {"mlp"}


def test_finished_measurements_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "CANDIDATES", (("mlp", "default"), ("residual-gcn", "plain")))
    found = portfolio.measure_all(["csbm"], tmp_path, seconds=0.3, processes=2)
    assert [(line["dataset"], line["row"]) for line in sorted(found, key=lambda line: line["row"])] == [
        ("csbm", "mlp"),
        ("csbm", "residual-gcn"),
    ]
    assert all(0 < line["val_score"] <= 1 and line["splits"] == 3 <= line["epochs"] for line in found)
    new: list[portfolio.Measurement] = []
    assert portfolio.measure_all(["csbm"], tmp_path, seconds=0.3, on_measurement=new.append) == found
    assert new == []
    portfolio.measure_all(["csbm"], tmp_path, seconds=0.2, on_measurement=new.append)
    assert [line["time_limit"] for line in new] == [0.2, 0.2]
