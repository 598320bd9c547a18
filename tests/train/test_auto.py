"""The race between candidates: ranked on validation data, repeatable, and never run twice for one split."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import polybasis as pb
from polybasis.features import SparseFeatures
from polybasis.train import auto, auto_portfolio
from polybasis.train.job import Job, run_job
from polybasis.train.source import Source

DATA = pb.data.csbm(nodes=240, features=30, seed=2)
SPLIT = DATA.split("stratified")
LONG = 1e6  # seconds: no candidate runs out of time
PORTFOLIO = {
    "linear": ("mlp", {"layers": 1, "epochs": 60}),
    "gcn": ("residual", {"filter": "gcn", "hidden": 16, "epochs": 60}),
    "favard": ("residual", {"hidden": 16, "K": 2, "epochs": 60}),
    "linkx": ("linkx", {"hidden": 8, "epochs": 60}),
}


@pytest.fixture(autouse=True)
def small_portfolio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_portfolio, "CANDIDATES", PORTFOLIO)
    monkeypatch.setattr(auto_portfolio, "PORTFOLIO", tuple(PORTFOLIO))
    monkeypatch.setattr(auto_portfolio, "INDUCTIVE_PORTFOLIO", ("linear", "gcn", "favard"))


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by a tenth of a second whenever it is read."""
    clock = iter(range(10**9))
    monkeypatch.setattr(auto.time, "monotonic", lambda: next(clock) / 10)


def race(data: pb.data.NodeDataset = DATA, **arguments: Any) -> auto.Race:
    return auto.race(
        auto_portfolio.candidates(data, transductive=True), data, SPLIT, **{"time_limit": LONG, **arguments}
    )


def test_candidates_are_ranked_by_validation_score() -> None:
    seen: list[auto.Candidate] = []
    outcome = race(on_candidate=seen.append)
    assert outcome.candidates == seen
    assert {candidate.name for candidate in seen} == set(PORTFOLIO)
    assert {(candidate.epochs, candidate.status) for candidate in seen} == {(60, "finished")}
    assert {candidate.splits for candidate in seen} == {auto.MAX_SPLITS}
    scores = [candidate.val_score for candidate in seen]
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]


@pytest.mark.usefixtures("slow_clock")
def test_taking_turns_does_not_change_a_model(tmp_path: Path) -> None:
    """The winner resumes from the state in which the race left it, and is the same as if it had trained alone."""
    outcome = race(time_limit=60.0)
    assert any(candidate.status == "behind" for candidate in outcome.candidates)
    file = tmp_path / "winner.safetensors"
    outcome.save_winner(file)
    epochs: list[int] = []
    resumed = pb.train.fit(
        outcome.config, DATA, SPLIT, checkpoint=file, on_epoch=lambda progress: epochs.append(progress.epoch)
    )
    alone = pb.train.fit(outcome.config, DATA, SPLIT)
    assert len(epochs) < alone.epochs
    assert resumed.val_score == alone.val_score
    for name, value in resumed.model.state_dict().items():
        assert torch.equal(value, alone.model.state_dict()[name])


def test_the_classes_of_test_nodes_do_not_matter() -> None:
    y = DATA.y.clone()
    y[SPLIT.test] = 1 - y[SPLIT.test]
    expected = [(c.name, c.val_score, c.epochs) for c in race().candidates]
    assert [(c.name, c.val_score, c.epochs) for c in race(replace(DATA, y=y)).candidates] == expected


@pytest.mark.usefixtures("slow_clock")
def test_the_best_continues_in_the_second_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """On features without information, an MLP is far behind a filter of the graph."""
    noise = replace(DATA, x=torch.randn(240, 8, generator=torch.Generator().manual_seed(0)), identity="")
    monkeypatch.setattr(auto, "ROUNDS", ((0.7, 2), (0.9, 1)))
    first, second, *_ = race(noise, time_limit=40.0).candidates
    assert (first.name, second.name) == ("gcn", "linear")
    assert (first.status, second.status) == ("finished", "behind")
    assert auto.TURN_EPOCHS <= second.epochs < first.epochs


@pytest.mark.usefixtures("slow_clock")
def test_time_is_limited() -> None:
    """Without time, only the first candidate is tried, for one epoch in each of its turns."""
    outcome = race(time_limit=1e-3)
    assert outcome.candidates[0].name == next(iter(PORTFOLIO))
    assert outcome.candidates[0].status == "out of time"
    assert {(each.status, each.epochs, each.val_score) for each in outcome.candidates[1:]} == {("not tried", 0, None)}
    assert outcome.config.stopping.epochs == outcome.candidates[0].epochs < 6
    assert outcome.config.ensemble_size == 1
    with pytest.raises(ValueError, match="time_limit is 0; expected a positive number"):
        race(time_limit=0)


@pytest.mark.usefixtures("slow_clock")
def test_turns_are_long_enough_to_tell_candidates_apart() -> None:
    """If there is no time for all candidates, the first ones of the portfolio train for enough epochs each."""
    outcome = race(time_limit=60.0)
    epochs = {candidate.name: candidate.epochs for candidate in outcome.candidates}
    first, second, *_, last = PORTFOLIO
    assert min(epochs[first], epochs[second]) >= auto.TURN_EPOCHS
    assert epochs[last] == 0


@pytest.mark.usefixtures("slow_clock")
def test_the_last_candidates_have_turns_only_in_time_that_the_first_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two candidates share a round; the others are tried once these have finished."""
    monkeypatch.setattr(auto, "ROUNDS", ((0.45, 2),))
    first, second, *others = PORTFOLIO
    epochs = {candidate.name: candidate.epochs for candidate in race(time_limit=60.0).candidates}
    assert min(epochs[first], epochs[second]) > auto.TURN_EPOCHS
    assert [epochs[name] for name in others] == [0, 0]
    epochs = {candidate.name: candidate.epochs for candidate in race(time_limit=120.0).candidates}
    assert [epochs[first], epochs[second]] == [60, 60]
    assert epochs[others[0]] > 0


@pytest.mark.parametrize(("seconds", "splits"), [(16.5, [5, 5, 5, 5]), (5.5, [1, 1, 5, 5]), (1.5, [1, 1, 1, 1])])
def test_the_better_half_is_tried_on_more_splits(
    seconds: float, splits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four candidates take a second on each split. The clock stands still, so only this estimate counts."""
    monkeypatch.setattr(auto.time, "monotonic", lambda: 0.0)
    entries = trained_entries()
    auto._try_more_splits(entries, DATA, SPLIT, 0, seconds)
    assert [len(entry.scores) for entry in entries] == splits


def test_a_split_on_which_the_time_runs_out_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = trained_entries()
    clock = iter(range(10**9))
    monkeypatch.setattr(auto.time, "monotonic", lambda: next(clock) / 10)
    auto._try_more_splits(entries, DATA, SPLIT, 0, 17.0)  # the first split has 170 of 240 epochs
    assert [len(entry.scores) for entry in entries] == [1, 1, 1, 1]


def trained_entries() -> list[auto._Entry]:
    """The candidates after training on one split for a second each; the last one is the best."""
    entries = []
    for i, (name, config) in enumerate(auto_portfolio.candidates(DATA, transductive=True).items()):
        entries.append(auto._Entry(name, config))
        entries[-1].take_turn(DATA, SPLIT, 0, LONG, LONG)
        entries[-1].scores, entries[-1].seconds = [float(i)], 1.0
    return entries


def test_other_splits_have_as_many_nodes_of_every_class() -> None:
    """Also with so few validation nodes that a class has less than one of them."""
    many = replace(DATA, y=torch.arange(240) % 40, classes=(), identity="")
    for data, split in ((DATA, SPLIT), (many, pb.data.Split(torch.arange(100), torch.arange(100, 103), SPLIT.test))):
        train, val = auto._divide_again(data, split, np.random.default_rng(0))
        assert (len(train), len(val)) == (len(split.train), len(split.val))
        assert torch.equal(torch.cat([train, val]).sort().values, torch.cat([split.train, split.val]).sort().values)
    train, val = auto._divide_again(DATA, SPLIT, np.random.default_rng(0))
    before, after = (torch.bincount(DATA.y[part]) / len(part) for part in (SPLIT.val, val))
    assert (before - after).abs().max() < 1.5 / len(val)


def test_the_rest_of_the_time_is_for_an_ensemble(tmp_path: Path) -> None:
    outcome = race()
    assert outcome.config.ensemble_size == auto.MAX_ENSEMBLE
    file = tmp_path / "winner.safetensors"
    outcome.save_winner(file)
    fitted = pb.train.fit(outcome.config, DATA, SPLIT, checkpoint=file)
    assert fitted.epochs == 60 * auto.MAX_ENSEMBLE
    assert fitted.val_score == pb.train.fit(outcome.config, DATA, SPLIT).val_score


def test_a_diverging_candidate_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"lr": 1e30}
    portfolio = {"linear": PORTFOLIO["linear"], "diverging": ("mlp", broken), "too": ("residual", broken)}
    monkeypatch.setattr(auto_portfolio, "CANDIDATES", portfolio)
    monkeypatch.setattr(auto_portfolio, "PORTFOLIO", tuple(portfolio))
    outcome = race()
    assert outcome.candidates[0].name == "linear"
    assert {c.status for c in outcome.candidates[1:]} == {"diverged"}
    monkeypatch.setattr(auto_portfolio, "PORTFOLIO", ("diverging", "too"))
    with pytest.raises(OverflowError, match="all 2 candidates diverged on csbm"):
        race()


def test_divergence_on_another_split_is_not_a_perfect_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The score of a run without epochs is 0, the best possible error."""
    y = (DATA.graph @ DATA.x)[:, 0].double()
    numbers = replace(DATA, y=y, classes=(), metric=None, identity="")
    configs = {rate: pb.train.Config.of("mlp", layers=1, epochs=20, lr=float(rate)) for rate in ("0.01", "0.001")}
    train_epoch = auto.Run.train_epoch

    def diverging(run: Any) -> Any:
        if run.config == configs["0.001"] and not torch.equal(run.task.split.train, SPLIT.train):
            run._diverged = True
            return None
        return train_epoch(run)

    monkeypatch.setattr(auto.Run, "train_epoch", diverging)
    first, second = auto.race(configs, numbers, SPLIT, time_limit=LONG).candidates
    assert (first.name, first.splits) == ("0.01", 2)
    assert (second.name, second.splits) == ("0.001", 1)


def test_transductive_candidates_are_left_out_by_default() -> None:
    everything, some = auto_portfolio.candidates(DATA, transductive=True), auto_portfolio.candidates(DATA)
    assert set(everything) - set(some) == {"linkx"}
    for name, config in everything.items():
        assert config.make_model(3, 2, 5).transductive == (name not in some)


@pytest.mark.parametrize(("columns", "bins"), [(8, auto_portfolio.BINS), (auto_portfolio.MAX_ENCODED + 1, None)])
def test_few_dense_features_are_encoded(columns: int, bins: int | None) -> None:
    data = pb.data.csbm(nodes=60, features=columns)
    assert auto_portfolio.with_encoding(pb.train.Config.of("residual"), data).model.arguments.get("bins") == bins
    assert auto_portfolio.with_encoding(pb.train.Config.of("residual", bins=0), data).model.arguments["bins"] == 0
    assert "bins" not in auto_portfolio.with_encoding(pb.train.Config.of("gcn"), data).model.arguments
    sparse = replace(data, x=SparseFeatures(sp.csr_array(data.x.numpy())))
    assert "bins" not in auto_portfolio.with_encoding(pb.train.Config.of("residual"), sparse).model.arguments


def test_a_race_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = replace(Source.named("csbm"), open=lambda: DATA, identity=DATA.fingerprint)
    results = tmp_path / "auto.jsonl"
    chosen = auto.choose_config(source, "stratified", 0, 0, LONG, results)
    (line,) = [json.loads(line) for line in auto.races_file(results).read_text().splitlines()]
    assert {row["name"] for row in line["candidates"]} == set(PORTFOLIO)
    job = Job(chosen, source, "stratified", 0, 0)
    epochs: list[int] = []
    checkpoints = job.checkpoint(results).parent
    run_job(job, checkpoints=checkpoints, on_epoch=lambda progress: epochs.append(progress.epoch))
    assert len(epochs) == 60 * (auto.MAX_ENSEMBLE - 1)  # the first model was trained in the race
    monkeypatch.setattr(auto, "race", None)  # a call would fail
    assert auto.choose_config(source, "stratified", 0, 0, LONG, results) == chosen
    monkeypatch.setattr(auto_portfolio, "PORTFOLIO", tuple(reversed(PORTFOLIO)))  # another order is another race
    with pytest.raises(TypeError):
        auto.choose_config(source, "stratified", 0, 0, LONG, results)
    for changed in (("stratified", 1, 0, LONG), ("per-class", 0, 0, LONG), ("stratified", 0, 0, 30.0)):
        with pytest.raises(TypeError):
            auto.choose_config(source, *changed, results)


def test_the_classifier_trains_the_winner() -> None:
    classifier = pb.NodeClassifier("auto", time_limit=LONG).fit(DATA.graph, DATA.x, DATA.y)
    assert classifier.candidates_[0].config.model.name == classifier.config_.model.name
    assert classifier.predict().shape == (240,)
    assert classifier.score(DATA.y) > 0.8
    assert repr(pb.NodeClassifier("auto")) == "NodeClassifier(model='auto')"
    with pytest.raises(ValueError, match="model='auto' chooses K; pass only time_limit and seed"):
        pb.NodeClassifier("auto", K=3).fit(DATA.graph, DATA.x, DATA.y)
    with pytest.raises(ValueError, match="time_limit applies only to model='auto'"):
        pb.NodeClassifier("gcn", time_limit=3).fit(DATA.graph, DATA.x, DATA.y)
