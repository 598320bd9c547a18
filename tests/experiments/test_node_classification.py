"""The table on small graphs, and the committed results against the jobs and pages they belong to."""

from __future__ import annotations

import json
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats

from polybasis.data.catalogue import CATALOGUE
from polybasis.experiments import classification_page, filter_results, fresh_splits, node_classification, paper, scale
from polybasis.experiments.comparison import compare_with_paper
from polybasis.experiments.node_classification import PAPER_MODELS
from polybasis.train.config import Config
from polybasis.train.job import Job
from polybasis.train.presets import load_preset
from polybasis.train.source import Source

RESULTS = Path(__file__).parents[2] / "results"


def test_presets_are_published_ones_first_then_tuned_then_defaults() -> None:
    assert node_classification.config_for("optbasisgnn", "chameleon").preset == "published"
    assert node_classification.config_for("mlp", "csbm").preset == "default"
    with pytest.raises(ValueError, match="mlp has no tuned hyperparameters for csbm"):
        node_classification.config_for("mlp", "csbm", "tuned")


def test_every_preset_names_its_origin() -> None:
    root = Path(node_classification.__file__).parents[1] / "presets"
    files = sorted(root.glob("*/*/*.toml"))
    assert len(files) > 40
    for file in files:
        preset, model, dataset = file.parts[-3], file.parts[-2], file.stem
        first = file.read_text().splitlines()[0]
        assert first.startswith("# Published: " if preset == "published" else "# Tuned "), file
        config = load_preset(model, dataset, preset)  # type: ignore[arg-type]
        assert config is not None
        assert config.preset == preset


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_each_job_has_one_thread(processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_classification, "config_for", lambda *_: Config.of("mlp", epochs=2))
    jobs = node_classification.plan_jobs(["mlp"], ["csbm"], 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = node_classification.run_all(jobs, tmp_path, processes=processes)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [result["threads"] for result in found] == [1, 1]


def test_a_part_of_the_table_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"mlp": Config.of("mlp", epochs=3), "optbasisgnn": Config.of("optbasisgnn", epochs=3, K=2)}
    monkeypatch.setattr(node_classification, "config_for", lambda model, dataset, preset: quick[model])
    jobs = node_classification.plan_jobs(["mlp", "optbasisgnn"], ["csbm"], 2)
    assert node_classification.count_finished(jobs, tmp_path) == 0
    new: list[dict[str, object]] = []
    first = node_classification.run_all(jobs, tmp_path, processes=1, on_result=new.append)
    assert len(first) == len(new) == node_classification.count_finished(jobs, tmp_path) == 4
    assert node_classification.run_all(jobs, tmp_path, processes=1, on_result=new.append) == first
    assert len(new) == 4
    classification_page.write_readme(tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "## csbm" in page
    assert "| optbasisgnn | default | 2 |" in page
    with pytest.raises(ValueError, match="unknown data set 'nowhere'"):
        node_classification.plan_jobs(["mlp"], ["nowhere"], 1)


@pytest.mark.slow
def test_two_splits_of_chameleon_by_command(raw_data: Callable[[str], Path], tmp_path: Path) -> None:
    """The README's command on generated files of chameleon's format: it resumes, and repeats no finished job."""
    root, out = raw_data("chameleon"), tmp_path / "out"
    run = [sys.executable, "-m", "polybasis", "reproduce", "node-classification", "--models", "gpr-gnn,optbasisgnn",
           "--datasets", "chameleon", "--splits", "2", "--jobs", "1", "--out", str(out), "--data-root", str(root),
           "--json"]  # fmt: skip
    first = subprocess.run(run, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    lines = {path.name: path.read_text() for path in out.glob("*.jsonl")}
    results = [json.loads(line) for text in lines.values() for line in text.splitlines()]
    assert sorted((result["model"], result["split"]) for result in results) == [
        ("gpr-gnn", 0), ("gpr-gnn", 1), ("optbasisgnn", 0), ("optbasisgnn", 1)
    ]  # fmt: skip
    assert {result["preset"] for result in results} == {"published"}
    assert {result["protocol"] for result in results} == {"per-class"}
    second = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "4 of them finished" in second.stderr
    assert second.stdout == first.stdout
    assert lines == {path.name: path.read_text() for path in out.glob("*.jsonl")}
    page = (out / "README.md").read_text()
    mean, interval = paper.table("node-classification")["optbasisgnn"]["chameleon"]
    assert "## chameleon" in page
    assert f"{mean:.2f} ± {interval:.2f}" in page


def results_of(scores: list[float], model: str = "mlp", first: int = 0, **values: object) -> list[dict[str, Any]]:
    """Results with the given test scores in percent, on splits counted from ``first``."""
    common = {
        "model": model,
        "dataset": "chameleon",
        "preset": "tuned",
        "metric": "accuracy",
        "epochs": 1,
        "seconds": 1.0,
        "val_score": 0.5,
        "protocol": "per-class",
        "config": {"preset": "tuned", "model": {"name": model}},
    }
    return [
        {**common, "test_score": score / 100, "split": first + i, "seed": first + i, **values}
        for i, score in enumerate(scores)
    ]


def test_verdicts_are_two_sided() -> None:
    """By Welch's interval: a mean far above the paper's does not agree with it."""
    mean, interval = paper.table("node-classification")["mlp"]["chameleon"]

    def verdict(accuracy: float) -> str:
        scores = [accuracy - 1, accuracy + 1] * 10
        (row,) = compare_with_paper(results_of(scores), "node-classification", ("mlp",), ("chameleon",))
        error, sd = interval / 1.959964, statistics.stdev(scores)
        expected = stats.ttest_ind_from_stats(accuracy, sd, 20, mean, error * 20**0.5, 20, equal_var=False)
        assert row["difference"].p_value == pytest.approx(expected.pvalue)
        assert (row["verdict"] == "agrees") == (expected.pvalue > 0.05)
        return str(row["verdict"])

    assert verdict(mean + 0.1) == verdict(mean - 0.1) == "agrees"
    assert verdict(mean + 2 * interval) == "above"
    assert verdict(mean - 2 * interval) == "below"


def test_results_of_different_configurations_are_not_averaged() -> None:
    results = [result for n in (1, 2) for result in results_of([50.0], config={"epochs": n})]
    rows = compare_with_paper(results, "node-classification", ("mlp",), ("chameleon",))
    assert [row["splits"] for row in rows] == [1, 1]
    assert [row["verdict"] for row in rows] == ["agrees", "agrees"]  # one split has no interval


def test_the_page_states_paired_differences(tmp_path: Path) -> None:
    """On the first splits and on the fresh ones, with verdicts by the interval and counts of them."""
    rng = random.Random(3)
    noise = [rng.gauss(0, 2) for _ in range(20)]
    for folder, first, gain in ((tmp_path, 0, 0.0), (tmp_path / fresh_splits.FOLDER, 100, 3.0)):
        folder.mkdir(exist_ok=True)
        rows = {
            "jacobiconv": results_of([70 + x for x in noise], "jacobiconv", first),
            "favardgnn": results_of(
                [70 + gain + x + rng.gauss(0, 0.5) for x in noise], "favardgnn", first, preset="published"
            ),
        }
        for model, results in rows.items():
            keyed = [{**result, "key": f"{model} {result['split']}"} for result in results]
            (folder / f"{model}.jsonl").write_text("".join(json.dumps(result) + "\n" for result in keyed))
    classification_page.write_readme(tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert (
        "First twenty splits: of 1 comparison the paper's model is ahead in 0, behind in 0, and not separated" in page
    )
    assert "Fresh splits: of 1 comparison the paper's model is ahead in 1" in page
    (line,) = [line for line in page.splitlines() if line.startswith("| chameleon | favardgnn | jacobiconv |")]
    cells = [cell.strip() for cell in line.split("|")]
    assert (cells[6], cells[9]) == ("not separated", "ahead")
    assert (tmp_path / "paired.png").exists()


def test_fresh_splits_are_those_of_no_search() -> None:
    jobs = fresh_splits.plan_fresh_jobs()
    assert {job.split for own in jobs.values() for job in own} == set(range(100, 120))
    assert sum(map(len, jobs.values())) == (5 * 3 + 1) * 20
    for own in jobs.values():
        for job in own:
            assert job.seed == job.split
            assert job.config.preset == "tuned" or job.config.model.name in PAPER_MODELS
            assert job.config.ensemble_size == 1


def test_fixed_splits_are_used_once() -> None:
    jobs = node_classification.plan_jobs(["mlp"], ["tolokers", "texas"], 20)["mlp"]
    assert sum(job.source.name == "tolokers" for job in jobs) == 10
    assert sum(job.source.name == "texas" for job in jobs) == 20


WRITERS = {
    "node-classification": classification_page.write_readme,
    "filter-learning": filter_results.write_readme,
    "scale": scale.write_readme,
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_committed_page_is_made_of_the_committed_lines(name: str, tmp_path: Path) -> None:
    shutil.copytree(RESULTS / name, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.md", "*.png"))
    WRITERS[name](tmp_path)
    assert (tmp_path / "README.md").read_text() == (RESULTS / name / "README.md").read_text()


COMMITTED = sorted((RESULTS / "node-classification").rglob("*.jsonl"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_committed_results_are_complete_and_unique(path: Path) -> None:
    results = [json.loads(line) for line in path.read_text().splitlines()]
    keys = [result["key"] for result in results]
    assert len(set(keys)) == len(keys)
    for result in results:
        assert 0 <= result["test_score"] <= 1
        assert 0 <= result["val_score"] <= 1
        assert {"config", "versions", "seconds", "epochs", "split", "seed", "preset", "metric"} <= result.keys()


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_committed_keys_are_those_of_their_jobs(path: Path) -> None:
    """A job finds its result by its key: a change of the identity would repeat days of training."""
    for line in path.read_text().splitlines():
        result = json.loads(line)
        config = Config.from_dict(result["config"])
        assert config.to_dict() == result["config"]
        job = Job(config, Source.named(result["dataset"]), result["protocol"], result["split"], result["seed"])
        assert job.key == result["key"]
        assert (config.model.name, config.preset) == (result["model"], result["preset"])
        assert result["protocol"] == CATALOGUE[result["dataset"]].protocol


def test_every_row_has_a_configuration_file() -> None:
    """A row is a preset of the package or has a file next to the results, equal to the configuration of its lines."""
    seen = set()
    for path in COMMITTED:
        for result in map(json.loads, path.read_text().splitlines()):
            model, dataset, preset = row = (result["model"], result["dataset"], result["preset"])
            if row in seen:
                continue
            seen.add(row)
            file = RESULTS / "node-classification" / "configurations" / f"{model}-{dataset}-{preset}.toml"
            config = Config.from_toml(file) if file.exists() else load_preset(model, dataset, preset)
            assert config == Config.from_dict(result["config"]), row
    assert len(seen) > 90


def test_committed_results_are_found_by_the_command() -> None:
    """All jobs of the paper's table, twenty splits each, have a committed result."""
    jobs = node_classification.plan_jobs(
        list(node_classification.MODELS), list(node_classification.DATASETS), 20, root="anywhere"
    )
    total = sum(map(len, jobs.values()))
    assert total == 11 * 5 * 20
    assert node_classification.count_finished(jobs, RESULTS / "node-classification") == total
