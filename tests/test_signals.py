"""Signals of all shapes and types, as matrices and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis.signals import as_channels

SHAPES = [(6,), (6, 1), (6, 3), (4, 6, 3), (1, 6, 1), (0, 6, 2), (6, 0)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("numpy", [False, True], ids=["torch", "numpy"])
def test_a_signal_is_restored(shape: tuple[int, ...], numpy: bool) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    signal, restore = as_channels(x if numpy else torch.from_numpy(x), 6)
    assert signal.shape == (6, x.size // 6)
    restored = restore(signal)
    assert isinstance(restored, np.ndarray if numpy else torch.Tensor)
    assert np.array_equal(np.asarray(restored), x)
    stacked = restore(torch.stack([signal, 2 * signal]))  # such as the vectors of a basis
    assert np.array_equal(np.asarray(stacked), np.stack([x, 2 * x]))


def test_channels_of_a_batch_keep_their_nodes() -> None:
    x = torch.randn(4, 6, 3)
    signal, _ = as_channels(x)
    for batch in range(4):
        assert torch.equal(signal[:, 3 * batch : 3 * batch + 3], x[batch])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.float16, torch.float16),
        (np.float32, torch.float32),
        (np.dtype(">f4"), torch.float32),
        (np.float64, torch.float64),
        (np.longdouble, torch.float64),
        (np.int32, torch.float64),
        (np.uint64, torch.float64),
        (np.bool_, torch.float64),
    ],
)
def test_types_of_arrays(given: Any, expected: torch.dtype) -> None:
    x = np.array([0, 1, 1, 0]).astype(given)
    signal, _ = as_channels(x)
    assert signal.dtype == expected
    assert signal.flatten().tolist() == [0, 1, 1, 0]


def test_memory_of_any_layout() -> None:
    x = np.arange(12.0).reshape(6, 2)
    frozen = x.copy()
    frozen.flags.writeable = False
    for view in (x[::-1], x.T[:, ::-1].T, np.asfortranarray(x), frozen):
        assert np.array_equal(as_channels(view, 6)[0].numpy(), view)


def test_gradients_flow_through() -> None:
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    signal, restore = as_channels(x)
    restore(3 * signal).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 3))


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.ones(5), ValueError, r"x has shape \(5,\); expected \(6,\), \(6, d\) or \(B, 6, d\), one row per node$"),
        (torch.ones(2, 6), ValueError, r"x has shape \(2, 6\); .*; pass x\.T"),
        (torch.ones(6, 5, 2), ValueError, r"x has shape \(6, 5, 2\); expected .* \(B, 6, d\)"),
        (torch.tensor(1.0), ValueError, r"x has shape \(\); expected"),
        (torch.ones(1, 2, 6, 3), ValueError, r"x has shape \(1, 2, 6, 3\)"),
        ([1.0] * 6, TypeError, "x is a list; expected a torch tensor or a NumPy array"),
        (None, TypeError, "x is a NoneType"),
        (torch.ones(6, 6).to_sparse(), TypeError, "x is a sparse tensor"),
        (torch.ones(6, dtype=torch.complex64), TypeError, "x has dtype torch.complex64; expected real numbers"),
        (np.ones(6, dtype=complex), TypeError, r"x has dtype torch\.complex128"),
        (np.array(["a"] * 6), TypeError, "x has dtype <U1; expected real numbers"),
    ],
)
def test_other_signals_are_rejected(x: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        as_channels(x, 6)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("shape", [(6,), (6, 3), (4, 6, 3)])
def test_filters_treat_channels_independently(shape: tuple[int, ...]) -> None:
    graph = pb.Graph.from_edge_index([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    x = np.random.default_rng(0).standard_normal(shape)
    fitted = pb.GraphFilter(2).fit(graph, np.eye(6)[0], np.eye(6)[1])
    matrix = fitted.polynomial()
    mu, U = np.linalg.eigh(graph.matrix().to_dense().numpy())
    for result, response in (
        (fitted.transform(graph, x), matrix(mu)),
        (pb.apply_response(graph, x, "low-pass"), np.exp(-10 * (1 - mu) ** 2)),
    ):
        assert isinstance(result, np.ndarray)
        expected = np.apply_along_axis(lambda s, h=response: U @ (h * (U.T @ s)), -2 if x.ndim > 1 else 0, x)
        np.testing.assert_allclose(result, expected, atol=1e-12)
