"""Frequency responses compared with a dense eigendecomposition."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from conftest import dense, random_graph

import polybasis as pb
from polybasis.data.images import grid_graph, image_signals, published_images, read_image, to_pixels
from polybasis.responses import MAX_TERMS, RESPONSES, chebyshev_coefficients


def exact(graph: pb.Graph, x: torch.Tensor, response: Callable[[np.ndarray], np.ndarray]) -> torch.Tensor:
    """A function of mu applied through the eigendecomposition of P."""
    mu, U = torch.linalg.eigh(dense(graph))
    return U @ (torch.from_numpy(response(mu.numpy()))[:, None] * (U.T @ x))


@pytest.mark.parametrize("name", RESPONSES)
@pytest.mark.parametrize("graph", [grid_graph(15, 12), random_graph(120, 300)], ids=["grid", "random"])
def test_responses_to_machine_precision(name: str, graph: pb.Graph) -> None:
    x = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    expected = exact(graph, x, lambda mu: RESPONSES[name](1 - mu))
    tolerance = 1e-6 if name == "comb" else 1e-13
    torch.testing.assert_close(pb.apply_response(graph, x, name), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("name", ["low-pass", "comb"])
@pytest.mark.parametrize("kind", ["real", "complex", "undirected"])
@pytest.mark.parametrize("normalization", ["sym", "rw", "laplacian", None])
def test_responses_of_all_operators(normalization: Any, kind: str, name: str) -> None:
    """Compared with the eigendecomposition of P; the result is complex on directed graphs."""
    edges, directed = random_graph(60, 150).edge_index(), kind != "undirected"
    kept = edges[:, ::2] if directed else edges
    graph = pb.Graph.from_edge_index(kept, 60, directed=directed, normalization=normalization)
    x = torch.randn(60, 2, dtype=torch.complex128 if kind == "complex" else torch.float64)
    mu, U = torch.linalg.eig(graph.matrix().to_dense())
    values = torch.from_numpy(RESPONSES[name](1 - mu.real.numpy())).to(U)
    expected = U @ (values[:, None] * torch.linalg.solve(U, x.to(U)))
    found = pb.apply_response(graph, x, name)
    assert found.dtype == (torch.complex128 if directed else torch.float64)
    torch.testing.assert_close(found.to(U), expected, atol=1e-5 if name == "comb" else 1e-6, rtol=0)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6, 1e-9, None])
@pytest.mark.parametrize("variable", ["lambda", "mu"])
def test_any_smooth_response_within_its_tolerance(variable: Any, tolerance: float | None) -> None:
    def response(value: np.ndarray) -> np.ndarray:
        return 1 / (1.1 - np.cos(3 * value))

    graph = random_graph(150, 500)
    x = torch.randn(150, 2, dtype=torch.float64)
    expected = exact(graph, x, response if variable == "mu" else lambda mu: response(1 - mu))
    largest = np.abs(chebyshev_coefficients(response)).max()
    found = pb.apply_response(graph, x, response, tolerance, variable)
    error = torch.linalg.vector_norm(found - expected, dim=0) / torch.linalg.vector_norm(x, dim=0)
    assert error.max() <= max(tolerance or 0, 1e-14) * largest * 2


def test_a_larger_tolerance_needs_fewer_terms() -> None:
    terms = [
        len(chebyshev_coefficients(lambda mu: np.exp(-20 * mu**2), tol)) for tol in (1e-1, 1e-3, 1e-6, 1e-12, None)
    ]
    assert terms == sorted(set(terms))
    assert chebyshev_coefficients(lambda mu: 3.0).tolist() == [3.0]
    assert chebyshev_coefficients(lambda mu: 0 * mu).tolist() == [0.0]


@pytest.mark.parametrize("response", [np.abs, lambda mu: np.maximum(mu, 0.3)])
def test_the_error_of_a_response_with_a_kink_names_a_tolerance_that_works(response: Any) -> None:
    """The Chebyshev coefficients of a kink decay like 1 / k^2, so machine precision is out of reach."""
    graph, x = random_graph(60, 150), torch.randn(60, 1, dtype=torch.float64)
    with pytest.raises(ValueError, match=f"not smooth enough for a tolerance of 1e-15: {MAX_TERMS} ") as raised:
        pb.apply_response(graph, x, response, variable="mu")
    tolerance = float(str(raised.value).split("tolerance=")[1].split(" ")[0])
    assert 1e-5 < tolerance < 1e-2
    found = pb.apply_response(graph, x, response, tolerance=tolerance, variable="mu")
    torch.testing.assert_close(found, exact(graph, x, response), atol=10 * tolerance, rtol=0)


def test_the_comb_response_can_be_expanded() -> None:
    graph = random_graph(200, 900)
    x = torch.randn(200, 1, dtype=torch.float64)
    expanded = pb.apply_response(graph, x, "comb", tolerance=0.01)
    torch.testing.assert_close(expanded, pb.apply_response(graph, x, "comb"), atol=0.05, rtol=0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"response": "hi-pass"}, ValueError, "response is 'hi-pass'; expected a function or one of low-pass"),
        ({"response": np.exp, "variable": "nu"}, ValueError, "variable is 'nu'; expected one of lambda, mu"),
        ({"response": "low-pass", "variable": "mu"}, ValueError, "'low-pass' is a function of lambda"),
        ({"response": np.exp, "tolerance": 0.0}, ValueError, "tolerance is 0.0; expected a positive number"),
        ({"response": math.exp}, TypeError, "expected a function of NumPy arrays .* numpy.vectorize"),
        ({"response": lambda lam: lam[:3]}, TypeError, "returns an array of the same shape"),
        ({"response": lambda lam: np.where(lam > 1.5, np.nan, 1)}, ValueError, "response is not finite at mu = -"),
        ({"response": np.exp, "x": torch.rand(9)}, ValueError, r"x has shape \(9,\)"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        pb.apply_response(random_graph(10, 20), **({"x": torch.rand(10, 1)} | arguments))
    assert "\n" not in str(raised.value)


def test_an_expansion_that_agrees_on_its_grid_only_is_refined() -> None:
    """T_64 is -1 at all 32 points of the first grid."""
    graph = random_graph(40, 90)
    x = torch.randn(40, 1, dtype=torch.float64)
    response = np.polynomial.Chebyshev.basis(64)
    found = pb.apply_response(graph, x, response, variable="mu")
    torch.testing.assert_close(found, exact(graph, x, response), atol=1e-10, rtol=0)


def test_images_are_converted_to_signals_and_back(tmp_path) -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (7, 9, 3), dtype=np.uint8)
    image = image_signals(pixels)
    assert image.graph.num_nodes == 63
    assert image.graph.num_edges == 6 * 9 + 7 * 8 + 63
    assert np.array_equal(to_pixels(image.x, image.shape), pixels)
    grey = image_signals(pixels[..., 0])
    assert float(grey.x[:, 1:].abs().max()) < 1e-10
    path = tmp_path / "picture.png"
    Image.fromarray(np.dstack([pixels, pixels[..., 0]]), "RGBA").save(path)
    assert torch.equal(read_image(path).x, image.x)
    assert read_image(path, 5).shape == (5, 5)
    path.write_text("no image")
    with pytest.raises(ValueError, match=r"picture\.png: not a readable image"):
        read_image(path)
    with pytest.raises(FileNotFoundError, match="0 of the 15 images"):
        published_images(tmp_path)
    with pytest.raises(ValueError, match=r"expected \(rows, columns\)"):
        image_signals(np.zeros((2, 2, 2), dtype=np.uint8))
