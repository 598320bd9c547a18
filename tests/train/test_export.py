"""Exported programs have the scores of the model, in another process and on other graphs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis.features import as_dense
from polybasis.nn import MODELS
from polybasis.nn.models.names import MODEL_CLASSES
from polybasis.train import Config, TrainedModel, fit
from polybasis.train import export as export_module

DATA = pb.data.csbm(nodes=60, features=12, seed=1)
OTHER = pb.data.csbm(nodes=90, features=12, seed=2)
CONFIGS: dict[str, Config] = {
    **{name: Config.of(name, hidden=8, epochs=2) for name in MODELS},
    "bins": Config.of("residual", hidden=8, epochs=2, bins=4),
    "ensemble": Config.of("gcn", hidden=8, epochs=2, ensemble_size=2),
    "label reuse": Config.of("gcn", hidden=8, epochs=2, label_reuse=0.5),
    "transform": Config.of("mlp", hidden=8, epochs=2, feature_transform="row-normalize"),
    **{
        f"residual {f}": Config.of("residual", filter=f, hidden=8, epochs=2) for f in ("optbasis", "gcn", "sage", "gat")
    },
}
WITH_ITS_GRAPH_ONLY = {"mixhop", "link", "linkx", "gbp", "ndls", "label reuse", "residual gat"}
NOT_AT_ALL = {"residual sage"}
QUICK = {"optbasisgnn", "favardgnn", "gcn", "link", "label reuse", "transform", "ensemble"}


def trained(config: Config, data: pb.data.NodeDataset = DATA) -> TrainedModel:
    return TrainedModel.of(config, fit(config, data, data.split("per-class", 0), 0))


def weighted(data: pb.data.NodeDataset) -> pb.data.NodeDataset:
    edges = data.graph.edge_index()
    weights = 1 + (edges.sum(0) % 5).double()
    graph = pb.Graph.from_edge_index(edges, data.graph.num_nodes, weights)
    return pb.data.NodeDataset(name="weighted", graph=graph, x=data.x, y=data.y, classes=data.classes)


def assert_close(got: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def quick_first(names: list[str]) -> list[Any]:
    """The names; all but a few are marked as slow."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", quick_first([name for name in CONFIGS if name not in NOT_AT_ALL]))
def test_a_program_has_the_scores_of_its_model(name: str, tmp_path: Path) -> None:
    model = trained(CONFIGS[name])
    model.export(tmp_path / "m.pt2", DATA)
    about = {"polybasis.json": ""}
    program = torch.export.load(tmp_path / "m.pt2", extra_files=about).module()
    x = as_dense(DATA.x)
    assert_close(program(x), model.logits(DATA))
    changed = pb.data.NodeDataset(name="changed", graph=DATA.graph, x=x.flip(0), y=DATA.y, classes=DATA.classes)
    assert_close(program(x.flip(0)), model.logits(changed))
    assert json.loads(about["polybasis.json"])["classes"] == list(DATA.classes)


@pytest.mark.parametrize(
    "name", quick_first([name for name in CONFIGS if name not in WITH_ITS_GRAPH_ONLY | NOT_AT_ALL])
)
def test_a_program_for_any_graph(name: str, tmp_path: Path) -> None:
    model = trained(CONFIGS[name])
    model.export(tmp_path / "m.pt2", DATA, any_graph=True)
    program = torch.export.load(tmp_path / "m.pt2").module()
    for data in (DATA, OTHER):
        assert_close(program(as_dense(data.x), data.graph.edge_index()), model.logits(data))


@pytest.mark.parametrize("name", ["optbasisgnn", "gcn"])
def test_a_program_for_any_weighted_graph(name: str, tmp_path: Path) -> None:
    data, other = weighted(DATA), weighted(OTHER)
    model = trained(CONFIGS[name], data)
    model.export(tmp_path / "m.pt2", data, any_graph=True)
    program = torch.export.load(tmp_path / "m.pt2").module()
    got = program(as_dense(other.x), other.graph.edge_index(), other.graph.weight.float())
    assert_close(got, model.logits(other))
    assert not torch.allclose(got, model.logits(OTHER), atol=1e-4)  # the weights matter


@pytest.mark.parametrize("name", sorted(WITH_ITS_GRAPH_ONLY | NOT_AT_ALL))
def test_models_that_cannot_be_exported_say_so_in_one_line(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = trained(CONFIGS[name])
    capfd.readouterr()
    with pytest.raises(ValueError, match=r"cannot be exported .*omit --any-graph") as raised:
        model.export(tmp_path / "m.pt2", DATA, any_graph=True)
    assert "\n" not in str(raised.value)
    if name in NOT_AT_ALL:
        with pytest.raises(ValueError, match=r"residual cannot be exported by torch \(RuntimeError\)$"):
            model.export(tmp_path / "m.pt2", DATA)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr().err == ""


def test_other_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained(CONFIGS["mlp"])
    precomputed = trained(Config.of("optbasisgnn", precomputed=True, hidden=8, epochs=1))
    for refused, path, data, message in (
        (precomputed, "m.pt2", DATA, "optbasisgnn on a precomputed basis cannot be exported"),
        (model, "m.pt", DATA, r"m.pt does not end with .pt2"),
        (
            model,
            "m.pt2",
            pb.data.csbm(nodes=60, features=13),
            "the data has 13 features; the model was trained with 12",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            refused.export(tmp_path / path, data)
    monkeypatch.setattr(export_module, "TOLERANCE", -1.0)
    with pytest.raises(ValueError, match="the scores of the exported program differ from those of mlp; it was not"):
        model.export(tmp_path / "m.pt2", DATA)
    assert not list(tmp_path.iterdir())


FRESH = """
import sys
import numpy as np, torch
import polybasis.operators
for name in ("static", "dynamic"):
    program = torch.export.load(f"{name}.pt2").module()
    inputs = [torch.from_numpy(value) for value in np.load(f"{name}.npz").values()]
    np.save(f"{name}.npy", program(*inputs).detach().numpy())
assert "polybasis.nn.models" not in sys.modules
"""


def test_programs_run_in_a_fresh_process(tmp_path: Path) -> None:
    static, dynamic = trained(CONFIGS["favardgnn"]), trained(CONFIGS["optbasisgnn"])
    static.export(tmp_path / "static.pt2", DATA)
    dynamic.export(tmp_path / "dynamic.pt2", DATA, any_graph=True)
    np.savez(tmp_path / "static.npz", x=as_dense(DATA.x).numpy())
    np.savez(tmp_path / "dynamic.npz", x=as_dense(OTHER.x).numpy(), edges=OTHER.graph.edge_index().numpy())
    subprocess.run([sys.executable, "-W", "ignore", "-c", FRESH], cwd=tmp_path, check=True, timeout=300)
    assert_close(torch.from_numpy(np.load(tmp_path / "static.npy")), static.logits(DATA))
    assert_close(torch.from_numpy(np.load(tmp_path / "dynamic.npy")), dynamic.logits(OTHER))


def test_the_table_in_the_documentation_is_that_of_these_tests() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "export.md").read_text()
    rows = [
        line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("|") and line.count("|") == 4
    ]
    table: dict[str, Any] = {name.strip("` "): answers for names, *answers in rows for name in names.split(", ")}
    expected = {name: ["yes", "yes"] for name in (*MODEL_CLASSES, "ensemble")} | {"precomputed": ["no", "no"]}
    expected |= {name: ["yes", "no"] for name in (*WITH_ITS_GRAPH_ONLY,)} | {"residual sage": ["no", "no"]}
    assert {name: table.get(name) for name in expected} == expected
