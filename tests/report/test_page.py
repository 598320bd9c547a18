"""Pages, the page of the demonstration, and the figures of a model."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from html_pages import problems_of

import polybasis as pb
from polybasis import native
from polybasis.data.dataset import NodeDataset
from polybasis.nn.interpret import filters_of, filters_on_basis, spectral_density
from polybasis.nn.models.model import Model
from polybasis.nn.models.precomputed import PrecomputedGNN, basis_of
from polybasis.report import figures
from polybasis.report.model_figures import draw_model
from polybasis.report.page import Page
from polybasis.store import write_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train.config import Config
from polybasis.train.trained_model import TrainedModel


@pytest.mark.slow
def test_the_demo_ends_with_the_report_of_its_model(tmp_path: Path) -> None:
    run = [sys.executable, "-c", "from polybasis.cli import main; main()", "demo", "--out", str(tmp_path)]
    done = subprocess.run([*run, "--splits", "1"], check=True, capture_output=True, text=True)
    assert str(tmp_path / "report.html") in " ".join(done.stdout.split())
    text = (tmp_path / "report.html").read_text()
    assert len(text) < 1e6
    assert problems_of(text) == []
    for word in ("optbasisgnn on csbm", "Photograph", "monomial", "closed form", "gpr-gnn", "mlp"):
        assert word in text
    assert text.count("<img ") == 1
    assert (tmp_path / "model" / "model.json").exists()


def test_text_on_a_page_is_escaped(tmp_path: Path) -> None:
    page = Page("a < b")
    page.heading("<script>")
    page.text("x & y")
    page.table(["<i>"], [["<b>"]])
    page.write(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    body = text[text.index("<main>") : text.index("</main>")]
    for raw in ("<script>", "<i>", "<b>", "x & y"):
        assert raw not in body


@pytest.mark.parametrize("model", ["optbasisgnn", "favardgnn", "bernnet", "jacobiconv"])
def test_the_response_of_a_model_is_its_filter_in_the_spectral_domain(model: str, tmp_path: Path) -> None:
    """The filter multiplies each eigenvector by the response at its eigenvalue."""
    torch.manual_seed(0)
    data = pb.data.csbm(nodes=60, features=8, seed=2)
    made = pb.nn.models.model_class(model)(8, 6, 2, K=4).eval()
    layer = made.conv
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.rand_like(parameter))
    signal = torch.randn(60, layer.channels)
    matrix = data.graph.matrix(torch.float64).to_dense()
    mu, U = torch.linalg.eigh(matrix)
    with torch.no_grad():
        filtered = layer(signal, data.graph).double()
        response = layer.response(mu, signal, data.graph)
    expected = U @ (response * (U.T @ signal.double()))
    if model == "optbasisgnn":  # its response refers to signals of unit norm
        expected = expected / torch.linalg.vector_norm(signal.double(), dim=0)
    torch.testing.assert_close(filtered, expected, atol=1e-4, rtol=1e-4)
    written = draw_model(trained(made, data, model, K=4), data, tmp_path)
    assert {path.name for path in written} >= {"responses.png", "responses.svg", "basis.png"}
    assert all(path.stat().st_size > 1000 for path in written)


def trained(made: Model, data: NodeDataset, model: str, **arguments: Any) -> TrainedModel:
    """A model as if it had been trained on the data."""
    return TrainedModel(
        config=Config.of(model, hidden=made.hidden_channels, **arguments), model=made, classes=data.classes,
        num_features=data.num_features, metric="accuracy", val_score=0.0, epochs=1, structure_only=False, nodes=None,
        provenance={},
    )  # fmt: skip


@pytest.mark.skipif(native.kernels() is None, reason="polybasis was built without its native kernels")
@pytest.mark.parametrize("model", ["optbasisgnn", "favardgnn", "bernnet"])
def test_a_model_of_a_store_is_drawn_the_same_on_its_graph(model: str, tmp_path: Path) -> None:
    """Responses need T only, which the store holds and the graph gives; the graph adds its spectral density."""
    data = pb.data.csbm(nodes=200, features=8, seed=2)
    store = precompute(write_graph_folder(tmp_path / "graph", data), tmp_path / "store", 4)
    torch.manual_seed(0)
    made = PrecomputedGNN(model, 8, 6, 2, K=4).eval()
    made.start_at(store.gamma, store.sqrt_beta)
    own = replace(trained(made, data, model), config=Config.of(model, precomputed=True, hidden=6, K=4))
    on_store, on_graph = (draw_model(own, source, tmp_path / name) for source, name in ((store, "s"), (data, "g")))
    assert [path.name for path in on_store] == [path.name for path in on_graph]
    filters = filters_on_basis(made.conv, store.gamma, store.sqrt_beta)
    _, gamma, sqrt_beta = basis_of(data.graph, torch.as_tensor(data.x), 4)
    other = filters_on_basis(made.conv, gamma, sqrt_beta)
    np.testing.assert_allclose(filters.responses, other.responses, atol=1e-4)


def test_models_without_a_filter_are_refused() -> None:
    data = pb.data.csbm(nodes=30, features=4, seed=0)
    with pytest.raises(ValueError, match="MLP has 0 polynomial filters"):
        filters_of(pb.nn.models.model_class("mlp")(4, 3, 2), data.x, data.graph)


def test_the_spectral_density_approximates_the_eigenvalue_histogram() -> None:
    graph = pb.data.csbm(nodes=400, features=4, seed=0).graph
    edges, heights = spectral_density(graph, bins=8)
    eigenvalues = torch.linalg.eigvalsh(graph.matrix(torch.float64).to_dense())
    expected, _ = np.histogram(eigenvalues, bins=8, range=(-1, 1), density=True)
    assert np.abs(heights - expected).max() < 0.12 * expected.max()
    assert float((heights * np.diff(edges)).sum()) == pytest.approx(1)


def test_the_spectral_density_includes_the_end_points() -> None:
    """A graph of disjoint edges has the eigenvalues 1 and -1 only."""
    pairs = torch.arange(400).view(-1, 2).T
    edges, heights = spectral_density(pb.Graph.from_edge_index(pairs), bins=10)
    weights = heights * np.diff(edges)
    np.testing.assert_allclose(weights[[0, -1]], 0.5, atol=0.1)
    assert weights[1:-1].sum() < 1e-9


def test_rank_deficient_channels_have_no_weight_function(tmp_path: Path) -> None:
    star = pb.Graph.from_edge_index([[0, 0, 0, 0], [1, 2, 3, 4]])
    data = NodeDataset(name="star", graph=star, x=torch.rand(5, 3), y=torch.tensor([0, 1, 0, 1, 0]))
    model = pb.nn.OptBasisGNN(3, 4, 2, K=6)
    assert filters_of(model, data.x, star).weight_functions() is None
    written = draw_model(trained(model, data, "optbasisgnn", K=6), data, tmp_path)
    assert {path.stem for path in written} == {"responses", "basis"}
    degree0 = pb.nn.FavardGNN(3, 4, 2, K=0)
    assert {path.stem for path in draw_model(trained(degree0, data, "favardgnn", K=0), data, tmp_path)} >= {"responses"}


def test_figures_are_deterministic(tmp_path: Path) -> None:
    curves = {"a": np.ones((5, 1)), "b": np.full((5, 1), 2.0)}
    first = figures.save(figures.draw_convergence(curves, ["sample"], [0.5]), tmp_path / "one")
    second = figures.save(figures.draw_convergence(curves, ["sample"], [0.5]), tmp_path / "two")
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes()


def test_the_plot_of_a_fitted_filter_is_its_response() -> None:
    graph = pb.data.csbm(nodes=50, features=4, seed=0).graph
    x = torch.rand(graph.num_nodes)
    axes = pb.GraphFilter(3).fit(graph, x, graph @ x).plot()
    (line,) = axes.get_lines()
    np.testing.assert_allclose(line.get_ydata(), line.get_xdata(), atol=1e-6)
