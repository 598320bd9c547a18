"""The race between candidates: ranked on validation data, repeatable, and never run twice for one split."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import polybasis as pb
from polybasis.train import auto
from polybasis.train.job import Source

DATA = pb.data.csbm(nodes=240, features=30, seed=2)
LONG = 1e6  # seconds: no candidate runs out of time


@pytest.fixture(autouse=True)
def small_portfolio(monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"epochs": 60}
    portfolio = {
        "linear": ("mlp", {"layers": 1, **short}),
        "gcn": ("residual", {"filter": "gcn", "hidden": 16, **short}),
        "favard": ("residual", {"hidden": 16, "K": 2, **short}),
        "linkx": ("linkx", {"hidden": 8, **short}),
    }
    monkeypatch.setattr(auto, "PORTFOLIO", portfolio)


def race(data: pb.data.NodeDataset = DATA, **arguments: Any) -> list[auto.Candidate]:
    return auto.race(data, data.split("stratified"), **{"time_limit": LONG, "transductive": True, **arguments})


def test_candidates_are_ranked_by_validation_score() -> None:
    seen: list[auto.Candidate] = []
    ranked = race(on_candidate=seen.append)
    scores = [candidate.val_score for candidate in ranked]
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    assert {candidate.name for candidate in seen} == set(auto.PORTFOLIO)
    assert [candidate.name for candidate in seen] == list(auto.PORTFOLIO)
    assert all(candidate.epochs == 60 for candidate in ranked if candidate.status == "finished")
    assert {"finished", "behind"} >= {candidate.status for candidate in ranked}


def test_the_winner_has_its_score_again_when_it_is_trained_again() -> None:
    ranked = race()
    assert ranked[0].status == "finished"
    fitted = pb.train.fit(auto.winner(ranked), DATA, DATA.split("stratified"))
    assert fitted.val_score == ranked[0].val_score


def test_the_classes_of_test_nodes_do_not_matter() -> None:
    split = DATA.split("stratified")
    y = DATA.y.clone()
    y[split.test] = 1 - y[split.test]
    other = replace(DATA, y=y)
    expected = [(c.name, c.val_score, c.epochs) for c in race()]
    ranked = auto.race(other, split, time_limit=LONG, transductive=True)
    assert [(c.name, c.val_score, c.epochs) for c in ranked] == expected


def test_a_candidate_that_is_behind_stops_at_a_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    """On features without information, an MLP is far behind a filter of the graph."""
    noise = replace(DATA, x=torch.randn(240, 8, generator=torch.Generator().manual_seed(0)), identity="")
    monkeypatch.setattr(auto, "PORTFOLIO", dict(reversed(auto.PORTFOLIO.items())))
    ranked = race(noise)
    assert ranked[-1].name == "linear"
    assert ranked[-1].status == "behind"
    assert ranked[-1].epochs in (auto.FIRST_RUNG, auto.FIRST_RUNG * auto.REDUCTION)


def test_slow_candidates_leave_time_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock advances by one second whenever it is read; a candidate has its share of the time that is left."""
    clock = iter(range(10**9))
    monkeypatch.setattr(auto.time, "monotonic", lambda: float(next(clock)))
    ranked = race(time_limit=100.0)
    assert {candidate.name for candidate in ranked} == set(auto.PORTFOLIO)
    assert {candidate.status for candidate in ranked} == {"out of time"}


def test_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without time, the first candidate trains for one epoch, and the winner again for one."""
    ranked = race(time_limit=1e-9)
    assert [(c.name, c.epochs, c.status) for c in ranked] == [("linear", 1, "out of time")]
    assert auto.winner(ranked).stopping.epochs == 1
    with pytest.raises(ValueError, match="time_limit is 0; expected a positive number"):
        race(time_limit=0)


def test_a_diverging_candidate_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = auto.fit

    def diverge(config: pb.train.Config, *arguments: Any, **named: Any) -> Any:
        if config.model.name == "residual":
            raise OverflowError("diverged")
        return fit(config, *arguments, **named)

    monkeypatch.setattr(auto, "fit", diverge)
    ranked = race()
    assert [c.status for c in ranked if c.config.model.name == "residual"] == ["diverged"] * 2
    assert ranked[0].config.model.name in ("mlp", "linkx")
    monkeypatch.setattr(auto, "PORTFOLIO", {name: auto.PORTFOLIO[name] for name in ("gcn", "favard")})
    with pytest.raises(OverflowError, match="all 2 candidates diverged on csbm"):
        race()


def test_linkx_competes_only_where_there_are_few_features() -> None:
    wide = replace(DATA, x=torch.rand(240, auto.FEW_FEATURES), identity="")
    assert "linkx" in auto.candidates(DATA, transductive=True)
    assert "linkx" not in auto.candidates(wide, transductive=True)
    assert "linkx" in auto.candidates(replace(wide, structure_only=True), transductive=True)
    assert "linkx" not in auto.candidates(DATA)


def test_a_race_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = replace(Source.named("csbm"), open=lambda: DATA)
    races = tmp_path / "races.jsonl"
    chosen = auto.choose_config(source, "stratified", 0, 0, LONG, races)
    (line,) = [json.loads(line) for line in races.read_text().splitlines()]
    assert {row["name"] for row in line["candidates"]} == set(auto.PORTFOLIO)
    monkeypatch.setattr(auto, "race", None)  # a call would fail
    assert auto.choose_config(source, "stratified", 0, 0, LONG, races) == chosen
    for changed in (("stratified", 1, 0, LONG), ("per-class", 0, 0, LONG), ("stratified", 0, 0, 30.0)):
        with pytest.raises(TypeError):
            auto.choose_config(source, *changed, races)


def test_the_classifier_trains_the_winner() -> None:
    classifier = pb.NodeClassifier("auto", time_limit=LONG).fit(DATA.graph, DATA.x, DATA.y)
    assert classifier.val_score_ == classifier.candidates_[0].val_score
    assert classifier.predict().shape == (240,)
    assert repr(pb.NodeClassifier("auto")) == "NodeClassifier('auto', time_limit=60)"
    with pytest.raises(ValueError, match="model='auto' chooses K itself"):
        pb.NodeClassifier("auto", K=3)
    with pytest.raises(ValueError, match="time_limit applies only to model='auto'"):
        pb.NodeClassifier("gcn", time_limit=3)
