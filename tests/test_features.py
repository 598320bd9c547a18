"""Sparse features are the same matrix, to the last operation."""

from __future__ import annotations

import pytest
import torch

from polybasis.features import SparseFeatures, as_dense, as_features, binarize, row_normalize
from polybasis.nn.linear import FeatureLinear, dropout


def bag_of_words(nodes: int = 60, words: int = 100) -> torch.Tensor:
    return (torch.rand(nodes, words) < 0.05).float() * torch.rand(nodes, words)


def test_linear_layer_and_its_gradient() -> None:
    x = bag_of_words()
    sparse = as_features(x)
    assert isinstance(sparse, SparseFeatures)
    sparse.transposed_product(torch.randn(60, 2))  # what is kept for the next time is not kept for other values
    twice = sparse.with_values(2 * sparse.values)
    torch.testing.assert_close(twice.transposed_product(torch.eye(60)), 2 * x.t())
    layer = FeatureLinear(100, 7)
    grads = []
    for features_ in (x, sparse):
        layer.zero_grad()
        out = layer(features_)
        out.square().sum().backward()
        assert layer.weight.grad is not None
        assert layer.bias.grad is not None
        grads.append((out.detach(), layer.weight.grad.clone(), layer.bias.grad.clone()))
    for dense, other in zip(*grads, strict=True):
        torch.testing.assert_close(other, dense)


def test_dropout_has_the_distribution_of_dense_dropout() -> None:
    """Nonzeros are kept with probability 1-p and divided by it; zeros stay zeros; evaluation changes nothing."""
    sparse = as_features(torch.ones(400, 500) * (torch.rand(400, 500) < 0.1))
    assert isinstance(sparse, SparseFeatures)
    dropped = dropout(sparse, 0.3, training=True)
    assert isinstance(dropped, SparseFeatures)
    kept = dropped.values[dropped.values != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / 0.7))
    count = len(sparse.values)
    assert abs(len(kept) / count - 0.7) < 5 * (0.21 / count) ** 0.5
    torch.testing.assert_close(dropped.transposed_product(torch.eye(len(dropped))).T, dropped.to_dense())
    assert dropout(sparse, 0.3, training=False) is sparse


def test_dropout_of_dense_signals() -> None:
    """The distribution, the gradient, and torch's seed and random state as the only ones there are."""
    x = torch.ones(300, 100, requires_grad=True)
    torch.manual_seed(4)
    state = torch.get_rng_state()
    dropped = dropout(x, 0.3, training=True)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], torch.full_like(dropped[kept], 1 / 0.7))
    assert abs(float(kept.float().mean()) - 0.7) < 5 * (0.21 / x.numel()) ** 0.5
    dropped.sum().backward()
    assert torch.equal(x.grad, dropped.detach())
    second = dropout(x, 0.3, training=True)
    assert not torch.equal(second, dropped)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x, 0.3, training=True), dropped)
    assert dropout(x, 0.3, training=False) is x
    assert torch.equal(dropout(x, 1.0, training=True), torch.zeros_like(x))


def test_dropout_of_neighbouring_entries_is_independent() -> None:
    torch.manual_seed(0)
    kept = (dropout(torch.ones(200_003), 0.5, training=True) != 0).float() - 0.5
    for lag in (1, 2, 3, 4, 8, 64, 256):
        assert abs(float((kept[lag:] * kept[:-lag]).mean())) < 5 * 0.25 / len(kept) ** 0.5


def test_rows_are_divided_by_their_sums() -> None:
    x = 9 * bag_of_words()
    x[3] = 0
    x[4] = x[4] / (2 * x[4].sum())  # below 1: stays
    sparse = row_normalize(as_features(x))
    assert isinstance(sparse, SparseFeatures)
    expected = torch.nn.functional.normalize(x, p=1)
    expected[4] = x[4]
    torch.testing.assert_close(sparse.to_dense(), expected)
    torch.testing.assert_close(row_normalize(x), expected)


def test_features_that_are_there_count_as_one() -> None:
    x = 9 * bag_of_words()
    for given in (x, as_features(x)):
        assert torch.equal(as_dense(binarize(given)), (x != 0).float())


def test_dense_where_that_is_faster() -> None:
    assert isinstance(as_features(torch.rand(50, 100)), torch.Tensor)
    assert isinstance(as_features(torch.zeros(50, 10)), torch.Tensor)


def test_rows_and_repr() -> None:
    x = bag_of_words()
    sparse = as_features(x)
    assert isinstance(sparse, SparseFeatures)
    rows = torch.tensor([3, 1, 40])
    assert torch.equal(sparse[rows].to_dense(), x[rows])
    assert repr(sparse) == f"SparseFeatures(shape=(60, 100), nonzeros={int((x != 0).sum())})"
    assert len(sparse) == 60


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_gradient_passes_through_dropout(p: float) -> None:
    sparse = as_features(bag_of_words())
    layer = FeatureLinear(100, 3)
    layer(dropout(sparse, p, training=True)).sum().backward()
    assert layer.weight.grad is not None
    assert torch.isfinite(layer.weight.grad).all()
