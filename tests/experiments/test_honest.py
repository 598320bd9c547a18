"""The table of filters and strong baselines: its plan, its page, and the committed results."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from polybasis.experiments import honest, honest_page, honest_sets, settings
from polybasis.experiments.portfolio import MEASUREMENTS, portfolio, read_regrets
from polybasis.experiments.races import Race, run_races
from polybasis.train.auto import races_file
from polybasis.train.config import Config
from polybasis.train.source import Source

RESULTS = Path(__file__).parents[2] / "results" / "honest"


def test_rows_of_the_residual_network_differ_in_their_filter_only() -> None:
    rows = {row: honest.config_of(row, "csbm") for row in settings.ROWS if row.startswith("residual-")}
    assert {config.model.arguments.pop("filter") for config in rows.values()} == {
        "gcn",
        "sage",
        "gat",
        "favard",
        "optbasis",
    }
    assert len({str(config.to_dict()) for config in rows.values()}) == 1


def test_all_rows_have_the_same_splits_and_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(honest, "run_races", lambda races, *_: [Config.of("mlp")] * len(races))
    shutil.copy(RESULTS / MEASUREMENTS, tmp_path)
    planned = honest.plan_jobs(list(settings.ROWS), ["csbm", "texas"], 3, tmp_path)
    assert list(planned) == list(settings.ROWS)
    for jobs in planned.values():
        found = [(job.source.name, job.protocol, job.split, job.seed) for job in jobs]
        assert found == [(name, "per-class", i, i) for name in ("csbm", "texas") for i in range(3)]
    assert {len(jobs) for jobs in honest.plan_jobs(["mlp"], ["usfca72", "csbm"], None, tmp_path).values()} == {15}
    with pytest.raises(ValueError, match="unknown row 'gat'; expected some of mlp"):
        honest.plan_jobs(["gat"], ["csbm"], 1, tmp_path)
    with pytest.raises(ValueError, match="unknown data set 'cbsm'"):
        honest.plan_jobs(["mlp"], ["cbsm"], 1, tmp_path)


def test_auto_never_has_a_portfolio_chosen_on_its_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    races: list[Race] = []
    monkeypatch.setattr(honest, "run_races", lambda own, *_: races.extend(own) or [Config.of("mlp")] * len(own))
    honest.plan_jobs(["auto"], ["csbm"], 1, tmp_path)
    assert races[0].configs is None  # csbm had no part in the choice
    with pytest.raises(ValueError, match=r"portfolio.jsonl is missing; auto on cornell needs it"):
        honest.plan_jobs(["auto"], ["cornell"], 1, tmp_path)
    shutil.copy(RESULTS / MEASUREMENTS, tmp_path)
    honest.plan_jobs(["auto"], ["cornell"], 1, tmp_path)
    regrets = read_regrets(RESULTS / MEASUREMENTS)
    without = {name: found for name, found in regrets.items() if name not in ("texas", "cornell")}
    order = list(races[1].configs or ())
    assert order == list(portfolio(without)) != list(portfolio(regrets))


def line(row: str, split: int, score: float) -> dict[str, object]:
    return {
        "key": f"{row}{split}",
        "dataset": "tolokers",
        "preset": "default",
        "protocol": "fixed",
        "split": split,
        "metric": "roc_auc",
        "test_score": score,
        "seconds": 2.0,
    }


def test_differences_are_paired_and_named_only_if_they_exclude_zero() -> None:
    rng = np.random.default_rng(0)
    gcn = rng.normal(0.8, 0.02, 10)
    scores = {
        "residual-gcn": gcn,
        "residual-favard": gcn + rng.normal(0.02, 0.002, 10),
        "mlp": gcn + rng.normal(0, 0.01, 10),
    }
    page = honest_page.readme({row: [line(row, i, s) for i, s in enumerate(values)] for row, values in scores.items()})
    for row, verdict in (("residual-favard", " (above)"), ("mlp", "")):
        test = stats.ttest_rel(100 * scores[row], 100 * gcn)
        low, high = test.confidence_interval()
        assert (test.pvalue < 0.05) == bool(verdict)
        shown = f"| {row} | default | 10 | {100 * scores[row].mean():.2f} ± "
        (found,) = [text for text in page.splitlines() if text.startswith(shown)]
        assert f"| {(low + high) / 2:+.2f} ± {(high - low) / 2:.2f}{verdict} |" in found


def test_published_results_have_a_source() -> None:
    document = honest_page.published()
    datasets = set(document) - {"sources", "one_split"}
    assert set(document["one_split"]["datasets"]) <= datasets
    assert datasets <= set(honest_sets.DATASETS) | set(honest_sets.MORE_DATASETS)
    used = {source for name in datasets for _, source in document[name].values()}
    assert used == set(document["sources"])


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    committed = honest._results(RESULTS)
    page = honest_page.readme(committed, honest._of_the_paper(RESULTS))
    assert (RESULTS / "README.md").read_text() == page + "\n"
    assert sum(map(len, committed.values())) > 0


def test_given_splits_are_not_repeated(raw_data: Callable[[str], Path], tmp_path: Path) -> None:
    root = raw_data("tolokers")  # ten splits
    assert len(honest.plan_jobs(["mlp"], ["tolokers"], 12, tmp_path, str(root))["mlp"]) == 10


def test_the_last_result_of_a_split_counts() -> None:
    """A row that was tuned after a first run has two results on each split."""
    earlier, later = line("mlp", 0, 0.5), {**line("mlp", 0, 0.75), "key": "tuned"}
    page = honest_page.readme({"mlp": honest._latest([earlier, line("mlp", 1, 0.75), later])})
    assert "| mlp | default | 2 | 75.00 |" in page


def test_auto_is_compared_with_an_ensemble_on_campuses() -> None:
    scores = {"auto": 0.9, "linkx": 0.8, "linkx-5": 0.85}
    steps = (0.0, 0.01, 0.02)
    results = {
        row: [{**line(row, i, score + step), "dataset": "usfca72"} for i, step in enumerate(steps)]
        for row, score in scores.items()
    }
    page = honest_page.readme({row: own for row, own in results.items() if row != "auto"})
    assert "| usfca72 |  |  |  | +5.00 ± 0.00 (above) |" in page
    assert "| linkx-5 | default" not in page  # only single models and auto have rows in the table of a data set
    assert set(settings.ENSEMBLES) <= results.keys()


def test_auto_is_compared_with_the_best_single_models_on_the_same_splits() -> None:
    def result(row: str, split: int, test: float, val: float, **config: object) -> dict[str, object]:
        document = {"model": {"name": row}, **config}
        same = {"key": f"{row}{split}{config}", "config": document, "preset": "honest"}
        return {**line(row, split, test), **same, "val_score": val}

    scores = {
        "auto": [(0.80, 0.5), (0.90, 0.5)],
        "mlp": [(0.70, 0.95), (0.80, 0.95)],  # best on validation
        "gcn": [(0.81, 0.9), (0.87, 0.9)],  # best on test
        "linkx": [(0.99, 0.99)],  # has one split only
    }
    results = {row: [result(row, i, *score) for i, score in enumerate(own)] for row, own in scores.items()}
    results["favardgnn"] = [result("favardgnn", i, 0.95, 0.99, ensemble_size=5) for i in range(2)]  # an ensemble
    page = honest_page.readme(results)
    assert "| tolokers | 2 | 2 | 85.00 | mlp | 75.00 | +10.00 | gcn | +1.00 |" in page
    assert "best on validation +10.00, lowest +10.00; from the best on test +1.00, lowest +1.00." in page
    assert "auto on unseen graphs" not in honest_page.readme({"mlp": results["mlp"]})


def test_jobs_of_the_papers_table_are_not_repeated_and_are_on_the_page(tmp_path: Path) -> None:
    """Rows with the same configuration on the same splits share their results with the paper's table."""
    config = honest.config_of("gcn", "texas")
    (job,) = honest.plan_jobs(["gcn"], ["texas"], 1, tmp_path / "honest")["gcn"]
    shared = {**line("gcn", 0, 0.5), "key": job.key, "dataset": "texas", "config": config.to_dict()}
    other = {**shared, "key": "other", "split": 1, "test_score": 0.9, "config": Config.of("gcn", hidden=7).to_dict()}
    beyond = {**shared, "key": "beyond", "split": honest_sets.DATASETS["texas"], "test_score": 0.9}
    (tmp_path / "node-classification").mkdir()
    lines = "".join(json.dumps(each) + "\n" for each in (shared, other, beyond))
    (tmp_path / "node-classification" / "gcn.jsonl").write_text(lines)
    planned = honest.plan_jobs(["gcn", "residual-gcn"], ["texas"], 2, tmp_path / "honest")
    assert [job.split for job in planned["gcn"]] == [1]
    assert [job.split for job in planned["residual-gcn"]] == [0, 1]
    assert honest._results(tmp_path / "honest")["gcn"] == [shared]


def test_races_in_several_processes_have_their_winners_in_order(tmp_path: Path) -> None:
    source, file = Source.named("csbm"), tmp_path / "auto.jsonl"
    races = [Race(source, i, file, {"only": Config.of("mlp", hidden=8 + i, epochs=3)}) for i in range(3)]
    done: list[tuple[str, int]] = []
    winners = run_races(races, 2, lambda name, split: done.append((name, split)))
    assert [config.model.hidden for config in winners] == [8, 9, 10]
    assert sorted(done) == [("csbm", 0), ("csbm", 1), ("csbm", 2)]
    before = races_file(file).read_text()
    assert run_races(races, 1) == winners
    assert races_file(file).read_text() == before  # they are not run again
    with pytest.raises(ValueError, match="unknown split protocol 'nonsense'"):
        run_races([Race(replace(source, protocol="nonsense"), 0, file, races[0].configs)], 2)
