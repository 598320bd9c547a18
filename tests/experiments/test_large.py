"""The tables of large graphs on small files of the published formats."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from conftest import write_papers100m

import polybasis as pb
from polybasis import native
from polybasis.data.catalogue import CATALOGUE
from polybasis.experiments import large
from polybasis.experiments.large import CITATION, HETEROPHILOUS
from polybasis.nn.models.precomputed import FILTERS
from polybasis.train.config import Config

if native.kernels() is None:
    pytest.skip("polybasis was built without its native kernels", allow_module_level=True)


def quick(table: large.LargeTable, model: str, dataset: str) -> Config:
    values: dict[str, Any] = {"hidden": 8, "epochs": 3}
    on_store = table.on_store(model, dataset)
    return Config.of(model, precomputed=on_store, **values, **({"batch_size": 100} if on_store else {}))


def pokec(root: Path) -> None:
    data = pb.data.csbm(nodes=300, features=5)
    folder = root / "linkx/pokec/raw"
    folder.mkdir(parents=True)
    low, high = data.graph.edge_index()
    content = {"edge_index": np.stack([low, high]), "node_feat": np.asarray(data.x), "label": data.y.numpy()[None]}
    scipy.io.savemat(folder / "pokec.mat", content)


def test_pokec_on_a_store_and_on_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "config_for", quick)
    pokec(tmp_path / "data")
    models = ["mlp", "link", "bernnet", "favardgnn", "optbasisgnn"]
    arguments = {"seeds": 2, "stores": tmp_path / "stores", "memory": 1 << 30, "root": str(tmp_path / "data")}
    found = large.run_table(HETEROPHILOUS, models, ["pokec"], tmp_path / "out", **arguments)  # type: ignore[arg-type]
    assert len(found) == 10
    assert [("precomputed" in result["config"]["model"]) for result in found[::2]] == [False, False, True, True, True]
    again = large.run_table(HETEROPHILOUS, models, ["pokec"], tmp_path / "out", **arguments)  # type: ignore[arg-type]
    assert again == found
    page = (tmp_path / "out" / "README.md").read_text()
    assert "| optbasisgnn | default | 2 |" in page
    assert "82.83 ± 0.04" in page


def test_papers100m_from_ogbs_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "config_for", quick)
    write_papers100m(tmp_path / "data/ogb/ogbn_papers100M", np.random.default_rng(0).integers(0, 400, (2000, 2)))
    cells = CITATION.cells(list(CITATION.models), ["ogbn-papers100M"])
    assert {model for model, _ in cells} == set(FILTERS) & set(CITATION.models)
    found = large.run_table(
        CITATION, [model for model, _ in cells], ["ogbn-papers100M"], tmp_path / "out", seeds=1,
        stores=tmp_path / "stores", memory=1 << 30, root=str(tmp_path / "data"),
    )  # fmt: skip
    assert {result["protocol"] for result in found} == {"fixed"}
    assert len(found) == len(cells)


def run_penn94(root: Path, tmp_path: Path, **options: Any) -> list[dict[str, Any]]:
    return large.run_table(
        HETEROPHILOUS, ["optbasisgnn", "favardgnn"], ["penn94"], tmp_path / "out", seeds=1,
        stores=tmp_path / "stores", memory=1 << 30, root=str(root), **options,
    )  # fmt: skip


def test_penn94_in_its_published_format(
    raw_data: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "config_for", quick)
    found = run_penn94(raw_data("penn94"), tmp_path)
    assert [result["model"] for result in found] == ["optbasisgnn", "favardgnn"]
    assert {result["protocol"] for result in found} == {"fixed"}
    assert "## penn94" in (tmp_path / "out" / "README.md").read_text()


def test_a_real_facebook_network(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_root / "linkx/johnshopkins55").is_dir():
        pytest.skip("linkx/johnshopkins55 is not in the data folder")
    shutil.copytree(data_root / "linkx/johnshopkins55", tmp_path / "linkx/johnshopkins55")
    monkeypatch.setattr(large, "config_for", quick)
    monkeypatch.setitem(CATALOGUE, "penn94", CATALOGUE["johnshopkins55"])
    found = run_penn94(tmp_path, tmp_path)
    assert [result["model"] for result in found] == ["optbasisgnn", "favardgnn"]


def test_missing_files_are_named_before_anything_runs(tmp_path: Path) -> None:
    for table in (HETEROPHILOUS, CITATION):
        for dataset in table.datasets:
            with pytest.raises(FileNotFoundError, match=f"{dataset} is not installed: .*{CATALOGUE[dataset].files[0]}"):
                large.run_table(
                    table, list(table.models), [dataset], tmp_path / "out", seeds=1, stores=tmp_path / "stores",
                    memory=1 << 30, root=str(tmp_path),
                )  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="ogbn-papers100M: too large for gcn; choose other models"):
        large.run_table(
            CITATION, ["gcn"], ["ogbn-papers100M"], tmp_path / "out", seeds=1, stores=tmp_path, memory=1, root=None
        )


def test_published_hyperparameters_come_first() -> None:
    assert large.config_for(CITATION, "chebnetii", "ogbn-papers100M").model.hidden == 2048
    assert large.config_for(HETEROPHILOUS, "optbasisgnn", "penn94").preset == "published"
    for table in (HETEROPHILOUS, CITATION):
        for model, dataset in table.cells(list(table.models), list(table.datasets)):
            config = large.config_for(table, model, dataset)
            assert config.model.precomputed == table.on_store(model, dataset)
