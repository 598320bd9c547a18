"""Dropout and linear layers: the same operation on dense and on sparse features."""

from __future__ import annotations

import pytest
import torch

from polybasis.features import SparseFeatures, as_features
from polybasis.nn.linear import FeatureLinear, dropout


def bag_of_words(nodes: int = 60, words: int = 100) -> torch.Tensor:
    return (torch.rand(nodes, words) < 0.05).float() * torch.rand(nodes, words)


def test_linear_layer_and_its_gradient_equal_those_of_dense_features() -> None:
    x = bag_of_words()
    layer = FeatureLinear(100, 7)
    found = []
    for features in (x, as_features(x)):
        layer.zero_grad()
        out = layer(features)
        out.square().sum().backward()
        assert layer.weight.grad is not None
        assert layer.bias.grad is not None
        found.append((out.detach(), layer.weight.grad.clone(), layer.bias.grad.clone()))
    for dense, sparse in zip(*found, strict=True):
        torch.testing.assert_close(sparse, dense)


def test_dropout_of_sparse_features_has_the_distribution_of_dense_dropout() -> None:
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
    """The distribution, the gradient, and torch's generator as the only source of randomness."""
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


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_gradient_passes_through_dropout_of_sparse_features(p: float) -> None:
    """The gradient of sum(X W) in W has the column sums of the dropped X in every column."""
    sparse = as_features(bag_of_words())
    layer = FeatureLinear(100, 3)
    dropped = dropout(sparse, p, training=True)
    layer(dropped).sum().backward()
    assert isinstance(dropped, SparseFeatures)
    assert layer.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, dropped.to_dense().sum(0).expand(3, 100))
