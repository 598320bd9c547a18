"""The table's machinery on a small graph, and the committed page against the committed lines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from polybasis.experiments import filter_results, node_classification, paper, scale
from polybasis.experiments.comparison import compare_with_paper
from polybasis.train.config import Config, stored_config

RESULTS = Path(__file__).parents[2] / "results"


def test_settings_are_published_ones_first_then_tuned_then_defaults() -> None:
    assert node_classification.config_for("optbasisgnn", "chameleon").settings == "published"
    assert node_classification.config_for("mlp", "csbm").settings == "default"
    with pytest.raises(ValueError, match="no tuned settings of mlp for csbm"):
        node_classification.config_for("mlp", "csbm", "tuned")


def test_every_stored_file_names_its_model_and_its_origin() -> None:
    root = Path(node_classification.__file__).parents[1] / "settings"
    files = sorted(root.glob("*/*/*.toml"))
    assert len(files) > 40
    for file in files:
        kind, model, dataset = file.parts[-3], file.parts[-2], file.stem
        first = file.read_text().splitlines()[0]
        assert first.startswith("# Published: " if kind == "published" else "# Tuned "), file
        config = stored_config(model, dataset, kind)
        assert config is not None
        assert (config.model, config.settings) == (model, kind)


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_run_has_one_thread(jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_classification, "config_for", lambda *_: Config("mlp", epochs=2))
    runs = node_classification.planned_runs(["mlp"], ["csbm"], 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = node_classification.execute_runs(runs, tmp_path, root=None, jobs=jobs)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [result["threads"] for result in found] == [1, 1]


def test_a_part_of_the_table_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"mlp": Config("mlp", epochs=3), "optbasisgnn": Config("optbasisgnn", epochs=3, arguments={"K": 2})}
    monkeypatch.setattr(node_classification, "config_for", lambda model, dataset, settings: quick[model])
    runs = node_classification.planned_runs(["mlp", "optbasisgnn"], ["csbm"], 2)
    assert node_classification.done_already(runs, tmp_path) == 0
    said: list[dict[str, object]] = []
    first = node_classification.execute_runs(runs, tmp_path, root=None, jobs=1, finished=said.append)
    assert len(first) == len(said) == node_classification.done_already(runs, tmp_path) == 4
    assert node_classification.execute_runs(runs, tmp_path, root=None, jobs=1, finished=said.append) == first
    assert len(said) == 4
    node_classification.write_readme(tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "## csbm" in page
    assert "| optbasisgnn | default | 2 |" in page
    with pytest.raises(ValueError, match="no data set 'nowhere'"):
        node_classification.planned_runs(["mlp"], ["nowhere"], 1)


def test_verdicts() -> None:
    mean, interval = paper.table("node-classification")["mlp"]["chameleon"]

    def verdict(accuracy: float) -> str:
        result = {"model": "mlp", "dataset": "chameleon", "settings": "tuned", "epochs": 1, "seconds": 1.0}
        result |= {"protocol": "per-class", "config": {}}
        results = [{**result, "test_accuracy": accuracy / 100, "val_accuracy": 0.5}] * 2
        return compare_with_paper(results, "node-classification", ("mlp",), ("chameleon",))[0]["verdict"]

    assert verdict(mean + 0.1) == "above"
    assert verdict(mean - interval + 0.01) == "within"
    assert verdict(mean - interval - 0.01) == "below"


def test_runs_of_different_settings_are_not_averaged() -> None:
    result = {"model": "mlp", "dataset": "cora", "settings": "tuned", "epochs": 1, "seconds": 1.0, "val_accuracy": 0.5}
    result |= {"protocol": "per-class", "test_accuracy": 0.5}
    rows = compare_with_paper(
        [{**result, "config": {"epochs": n}} for n in (1, 2)], "node-classification", ("mlp",), ("cora",)
    )
    assert [row["splits"] for row in rows] == [1, 1]


def test_given_splits_are_used_once() -> None:
    runs = node_classification.planned_runs(["mlp"], ["tolokers", "texas"], 20)["mlp"]
    assert sum(run.dataset == "tolokers" for run in runs) == 10
    assert sum(run.dataset == "texas" for run in runs) == 20


WRITERS = {
    "node-classification": node_classification.write_readme,
    "filter-learning": filter_results.write_readme,
    "scale": scale.write_readme,
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_committed_page_is_made_of_the_committed_lines(name: str, tmp_path: Path) -> None:
    for lines in (RESULTS / name).glob("*.jsonl"):
        shutil.copy(lines, tmp_path)
    WRITERS[name](tmp_path)
    assert (tmp_path / "README.md").read_text() == (RESULTS / name / "README.md").read_text()


def test_committed_runs_are_whole_and_none_is_there_twice() -> None:
    for path in (RESULTS / "node-classification").glob("*.jsonl"):
        results = [json.loads(line) for line in path.read_text().splitlines()]
        keys = [result["key"] for result in results]
        assert len(set(keys)) == len(keys)
        for result in results:
            assert 0 <= result["test_accuracy"] <= 1
            assert 0 <= result["val_accuracy"] <= 1
            assert {"config", "versions", "seconds", "epochs", "split_seed", "model_seed", "settings"} <= result.keys()
