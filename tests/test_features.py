"""Sparse features represent the same matrix as dense ones, in every operation and transform."""

from __future__ import annotations

import pickle

import pytest
import torch

from polybasis.features import (
    FeatureTransform,
    SparseFeatures,
    as_dense,
    as_features,
    binarize,
    hstack,
    row_normalize,
    transform_features,
)


def bag_of_words(nodes: int = 60, words: int = 100) -> torch.Tensor:
    return (torch.rand(nodes, words) < 0.05).float() * torch.rand(nodes, words)


def sparse_bag_of_words(nodes: int = 60, words: int = 100) -> tuple[torch.Tensor, SparseFeatures]:
    x = bag_of_words(nodes, words)
    sparse = as_features(x)
    assert isinstance(sparse, SparseFeatures)
    return x, sparse


def test_products_equal_those_of_the_dense_matrix() -> None:
    x, sparse = sparse_bag_of_words()
    weight, y = torch.randn(100, 3), torch.randn(60, 2)
    torch.testing.assert_close(sparse @ weight, x @ weight)
    torch.testing.assert_close(sparse.transposed_product(y), x.t() @ y)


def test_cached_values_in_column_order_are_not_reused_for_other_values() -> None:
    x, sparse = sparse_bag_of_words()
    sparse.transposed_product(torch.randn(60, 2))
    twice = sparse.with_values(2 * sparse.values)
    torch.testing.assert_close(twice.transposed_product(torch.eye(60)), 2 * x.t())


def test_row_normalize_divides_rows_by_sums_above_1() -> None:
    x = 9 * bag_of_words()
    x[3] = 0
    x[4] = x[4] / (2 * x[4].sum())  # the sum is 1/2: unchanged
    sparse = row_normalize(as_features(x))
    assert isinstance(sparse, SparseFeatures)
    expected = torch.nn.functional.normalize(x, p=1)
    expected[4] = x[4]
    torch.testing.assert_close(sparse.to_dense(), expected)
    torch.testing.assert_close(row_normalize(x), expected)


def test_binarize_replaces_nonzeros_by_1() -> None:
    x = 9 * bag_of_words()
    x[5] = -x[5]
    for features in (x, as_features(x)):
        assert torch.equal(as_dense(binarize(features)), (x != 0).float())


@pytest.mark.parametrize("transform", [None, "row-normalize", "binarize"])
def test_transforms_are_idempotent_and_leave_their_argument_unchanged(transform: FeatureTransform | None) -> None:
    """Applying a transform twice would otherwise go unnoticed only by luck: the second one changes nothing."""
    x, sparse = sparse_bag_of_words()
    before = sparse.values.clone()
    once = transform_features(sparse, transform)
    torch.testing.assert_close(as_dense(transform_features(once, transform)), as_dense(once))
    torch.testing.assert_close(as_dense(once), as_dense(transform_features(x, transform)))
    assert torch.equal(sparse.values, before)
    if transform is None:
        assert once is sparse


def test_dense_where_that_is_faster() -> None:
    assert isinstance(as_features(torch.rand(50, 100)), torch.Tensor)
    assert isinstance(as_features(torch.zeros(50, 10)), torch.Tensor)


def test_rows_columns_and_repr() -> None:
    x, sparse = sparse_bag_of_words()
    rows = torch.tensor([3, 1, 40])
    assert torch.equal(sparse[rows].to_dense(), x[rows])
    more = torch.rand(60, 2)
    wider = hstack(sparse, more)
    assert isinstance(wider, SparseFeatures)
    assert torch.equal(wider.to_dense(), torch.cat([x, more], dim=1))
    assert torch.equal(as_dense(hstack(x, more)), torch.cat([x, more], dim=1))
    assert repr(sparse) == f"SparseFeatures(shape=(60, 100), nonzeros={int((x != 0).sum())})"
    assert len(sparse) == 60


def test_features_survive_pickling() -> None:
    """Processes that train in parallel receive the features this way."""
    x, sparse = sparse_bag_of_words()
    again = pickle.loads(pickle.dumps(sparse))
    assert torch.equal(again.to_dense(), x)
    torch.testing.assert_close(again.transposed_product(torch.eye(60)), x.t())
