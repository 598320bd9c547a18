"""Sizes and comparisons are recorded as they were measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polybasis import native
from polybasis.experiments import scale
from polybasis.files import append_line
from polybasis.store import make_synthetic
from polybasis.store.precomputation import precompute
from polybasis.train.config import Config

if native.kernels() is None:
    pytest.skip("polybasis was built without its native kernels", allow_module_level=True)


def test_sizes_come_from_the_log(tmp_path: Path) -> None:
    graph = make_synthetic(tmp_path / "graph", 3000, 9000, 70, labelled=0.1)
    store = precompute(graph, tmp_path / "store", 4)
    row = scale.log_size(graph, store.path, tmp_path / "out")
    log = [json.loads(line) for line in (store.path / "log.jsonl").read_text().splitlines()]
    assert row["blocks"] == len(log) - 1 == 2, "two blocks, and merging them"
    assert row["nonzeros"] == graph.nonzeros
    assert row["peak_memory"] == max(line["peak_memory"] for line in log)
    assert sum(len(line["product_seconds"]) for line in log[:2]) == 8
    slower = row | {"seconds": row["seconds"] + 120, "peak_memory": 3 << 30}
    append_line(tmp_path / "out" / scale.SIZES, json.dumps(slower))
    scale.write_readme(tmp_path / "out")
    page = (tmp_path / "out" / "README.md").read_text()
    minutes = row["seconds"] / 60 + 1
    assert f"| {graph.num_nodes:,} | {graph.nonzeros:,} | 70 | 4 | 2 | 2 | 64 | {minutes:.1f} min |" in page, (
        "two runs, two blocks of at most 64 channels"
    )
    assert "| 3.00 GiB |" in page


def test_models_on_the_store_are_compared_with_models_on_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "DATASETS", ("csbm",))
    monkeypatch.setattr(scale, "graph_config", lambda model, dataset: Config.of(model, hidden=8, epochs=4))
    monkeypatch.setattr(
        scale,
        "store_config",
        lambda model, dataset: Config.of(model, precomputed=True, hidden=8, epochs=4, batch_size=200),
    )
    new: list[dict[str, object]] = []
    arguments = {"splits": 2, "stores": tmp_path, "memory": 1 << 30, "root": None, "processes": 1}
    for _ in range(2):
        scale.compare(["csbm"], ["bernnet", "favardgnn"], tmp_path / "out", on_result=new.append, **arguments)  # type: ignore[arg-type]
    assert len(new) == 8, "finished jobs are not repeated"
    scale.write_readme(tmp_path / "out")
    page = (tmp_path / "out" / "README.md").read_text()
    assert "### csbm" in page
    assert "| favardgnn | 2 |" in page
