"""Frequency responses compared with a dense eigendecomposition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import dense, random_graph

import polybasis as pb
from polybasis.data.images import grid_graph, image_signals, published_images, read_image, to_pixels
from polybasis.responses import RESPONSES, apply_smooth


@pytest.mark.parametrize("name", RESPONSES)
@pytest.mark.parametrize("graph", [grid_graph(15, 12), random_graph(120, 300)], ids=["grid", "random"])
def test_responses_to_machine_precision(name: str, graph: pb.Graph) -> None:
    mu, U = torch.linalg.eigh(dense(graph))
    x = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    expected = U @ (torch.from_numpy(RESPONSES[name](1 - mu.numpy()))[:, None] * (U.T @ x))
    tolerance = 1e-6 if name == "comb" else 1e-13
    torch.testing.assert_close(pb.apply_response(graph, x, name), expected, atol=tolerance, rtol=0)


def test_unknown_and_non_smooth_responses_are_rejected() -> None:
    graph, x = random_graph(10, 20), torch.rand(10, 1)
    with pytest.raises(ValueError, match="low-pass"):
        pb.apply_response(graph, x, "hi-pass")
    with pytest.raises(ValueError, match="not smooth"):
        apply_smooth(graph, x, lambda lam: np.abs(lam - 1))


def test_an_expansion_that_agrees_on_its_grid_only_is_refined() -> None:
    """T_64 is -1 at all 32 points of the first grid."""
    graph = random_graph(40, 90)
    mu, U = torch.linalg.eigh(dense(graph))
    x = torch.randn(40, 1, dtype=torch.float64)
    response = np.polynomial.Chebyshev.basis(64)
    expected = U @ (torch.from_numpy(response(mu.numpy()))[:, None] * (U.T @ x))
    torch.testing.assert_close(apply_smooth(graph, x, lambda lam: response(1 - lam)), expected, atol=1e-10, rtol=0)


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
    with pytest.raises(ValueError, match=r"picture\.png is not a readable image"):
        read_image(path)
    with pytest.raises(FileNotFoundError, match="0 of the 15 images"):
        published_images(tmp_path)
    with pytest.raises(ValueError, match=r"expected \(rows, columns\)"):
        image_signals(np.zeros((2, 2, 2), dtype=np.uint8))
