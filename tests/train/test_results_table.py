"""Tables of results: means and intervals, rows that are not averaged, escapes, damaged files."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from polybasis.train.results import Result
from polybasis.train.results_table import (
    escape_latex,
    escape_markdown,
    read_result_files,
    results_table,
    runs_csv,
)


def result(model: str = "gcn", dataset: str = "cora", split: int = 0, score: float | None = 0.5, **more: Any) -> Result:
    config = {"preset": "default", "model": {"name": model, "hidden": 64, **more.pop("arguments", {})}}
    line = {"model": model, "dataset": dataset, "split": split, "seed": split, "test_score": score, "config": config}
    line |= {"metric": "accuracy", "protocol": "fixed", "preset": "default", "val_score": 0.6, **more}
    config["preset"] = line["preset"]
    return {"key": hashlib.sha256(json.dumps(line).encode()).hexdigest(), **line}


def random_results(models: int = 3, datasets: int = 2, runs: int = 7) -> list[Result]:
    rng = np.random.default_rng(1)
    return [
        result(f"model-{m}", f"data-{d}", split, float(rng.random()))
        for m in range(models)
        for d in range(datasets)
        for split in range(runs)
    ]


def test_means_and_intervals_agree_with_pandas_and_scipy() -> None:
    results = random_results()
    rows = {row["model"]: row for row in csv.DictReader(io.StringIO(results_table(results).render("csv")))}
    frame = pd.DataFrame(results)
    for (model, dataset), scores in frame.groupby(["model", "dataset"])["test_score"]:
        mean, error = 100 * scores.mean(), 100 * scores.sem()
        low, high = scipy.stats.t.interval(0.95, len(scores) - 1, loc=mean, scale=error)
        assert float(rows[model][f"{dataset} mean"]) == pytest.approx(mean, rel=1e-5)
        assert float(rows[model][f"{dataset} ci95"]) == pytest.approx((high - low) / 2, rel=1e-5)
        assert rows[model][f"{dataset} runs"] == "7"


def test_markdown() -> None:
    results = [result(split=i, score=s) for i, s in enumerate((0.7, 0.8))]
    results += [result("mlp", split=i, score=s) for i, s in enumerate((0.6, 0.6))]
    results += [result("mlp", "a|b", split=i, score=0.25) for i in range(2)]
    assert results_table(results).render("markdown") == (
        "| model | cora | a\\|b |\n"
        "| --- | ---: | ---: |\n"
        "| gcn | **75.00 ± 63.53** |  |\n"
        "| mlp | 60.00 ± 0.00 | 25.00 ± 0.00 |\n\n"
        "Test accuracy in percent: mean ± 95% interval (Student's t) over 2 runs.\n"
    )


def test_latex() -> None:
    results = [result("my_model", "50%", i, s) for i, s in enumerate((0.7, 0.8, 0.9))]
    results += [result("mlp", "50%", 0, 0.9), result("mlp", "b", 0, 0.5, metric="roc-auc")]
    lines = results_table(results).render("latex").splitlines()
    assert lines[0].startswith("% Test score in percent: mean $\\pm$ 95\\% interval")
    assert lines[1:] == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"model & 50\% (accuracy) & b (roc-auc) \\",
        r"\midrule",
        r"my\_model & $80.00 \pm 24.84$ (3) & -- \\",
        r"mlp & $\mathbf{90.00}$ (1) & $50.00$ (1) \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


@pytest.mark.parametrize("escape", [escape_latex, escape_markdown])
def test_every_special_character_is_escaped(escape: Any) -> None:
    special = "\\{}$&#_%~^" if escape is escape_latex else "\\`*_{}[]<>|#~"
    for c in special:
        assert escape(f"a{c}b").startswith("a\\")
    assert escape("a\nb\r c") == "a b c"  # a name cannot start another row
    assert escape("gpr-gnn 2.0") == "gpr-gnn 2.0"


def test_less_is_better_for_errors() -> None:
    results = [result(m, score=s, metric="rmse") for m, s in (("a", 1.5), ("b", 0.25))]
    table = results_table(results).render("markdown")
    assert "| a | 1.5000 |" in table
    assert "| b | **0.2500** |" in table
    assert "Test rmse: mean" in table


def test_runs_of_different_configurations_are_not_averaged() -> None:
    """They are told apart by the preset if it differs, else by the values that differ on one data set."""
    two = [result(score=s, preset=p) for s, p in ((0.1, "tuned"), (0.2, "published"))]
    assert results_table(two).rows == ["gcn (preset=tuned)", "gcn (preset=published)"]
    degrees = [result(score=s, arguments={"K": k}) for s, k in ((0.1, 2), (0.2, 8))]
    assert results_table(degrees).rows == ["gcn (K=2)", "gcn (K=8)"]
    default = [result(score=0.1), result(score=0.2, arguments={"K": 8})]
    assert results_table(default).rows == ["gcn (K=default)", "gcn (K=8)"]
    # Each data set may have its own configuration.
    tuned = [result(dataset=d, arguments={"K": k}) for d, k in (("cora", 2), ("actor", 8))]
    assert results_table(tuned).rows == ["gcn"]
    protocols = results_table([result(protocol=p, score=0.5) for p in ("fixed", "stratified")]).render("csv")
    assert protocols.startswith("model,cora (fixed) mean")


def test_runs_on_different_data_are_not_averaged() -> None:
    """They are told apart by the options of tables if they suffice, else by the hash of the data."""

    def own(hash: str, drop: list[str], merge: str | None = None, **more: Any) -> Result:
        tables = {"id": None, "target": ["y"], "drop": drop, "merge": merge}
        return result(dataset="edges", data=f"edges@{hash}", tables=tables, **more)

    dropped = [own("a", []), own("b", ["value"]), own("b", ["value"], split=1), own("c", ["value", "rating"])]
    table = results_table([*dropped, own("a", [], model="mlp"), result("mlp", "cora")])
    rows = ["gcn (drop=none)", "gcn (drop=value)", "gcn (drop=value+rating)", "mlp (drop=none)", "mlp"]
    assert table.rows == rows
    assert [cell.runs for cell in table.cells.values()] == [1, 2, 1, 1, 1]
    assert results_table([own("a", [], "sum"), own("b", [], "max")]).rows == ["gcn (merge=sum)", "gcn (merge=max)"]
    versions = [own("a1", []), own("b2", []), own("a1", [], split=1), result(dataset="edges")]
    assert results_table(versions).rows == ["gcn (data=a1)", "gcn (data=b2)", "gcn (data=unknown)"]


def test_of_results_without_the_identity_of_the_data_no_split_counts_twice() -> None:
    twice = [result(score=0.1), result(score=0.2), result("mlp"), result(dataset="actor")]
    rows = [f"gcn (key={line['key']})" for line in twice[:2]]
    assert results_table(twice).rows == [*rows, "mlp", "gcn"]
    assert results_table([result(score=0.1), result(score=0.2, seed=1)]).rows == ["gcn"]


def test_a_metric_can_be_chosen() -> None:
    results = [result(), result("mlp", metric="roc-auc"), result("mlp", score=None)]
    assert results_table(results, "roc-auc").rows == ["mlp"]
    with pytest.raises(ValueError, match=r"and the metric f1; found 3 results \(metrics: accuracy, roc-auc"):
        results_table(results, "f1")
    with pytest.raises(ValueError, match="no results with a test score; found 0 results"):
        results_table([])


def test_damaged_lines_are_counted_and_results_are_not_repeated(tmp_path: Path) -> None:
    good, bad = result(), {**result(), "test_score": float("nan")}
    lines = [
        json.dumps(good),
        "",
        json.dumps(good)[:50],
        json.dumps(bad),
        "[1, 2]",
        json.dumps({"race": "x"}),
        "\x00\xff",
    ]
    lines += [json.dumps({**good, "model": ["x"]}), json.dumps({**good, "config": None}), json.dumps(good)]
    (tmp_path / "a.jsonl").write_bytes("\n".join(lines).encode("latin-1"))
    (tmp_path / "b.jsonl").write_text(json.dumps(good) + "\n")
    found, skipped = read_result_files([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert found == [good]
    assert skipped == {tmp_path / "a.jsonl": 7, tmp_path / "b.jsonl": 0}


def test_one_row_for_each_run() -> None:
    results = random_results(runs=2)
    frame = pd.read_csv(io.StringIO(runs_csv(results)))
    assert len(frame) == len(results)
    assert np.array_equal(frame["test_score"], [line["test_score"] for line in results])
    assert list(frame["key"].astype(str)) == [str(line["key"]) for line in results]
