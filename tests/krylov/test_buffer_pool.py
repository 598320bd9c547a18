"""Buffers are reused, but never while a tensor still refers to them."""

from __future__ import annotations

import gc

import torch

from polybasis.krylov.native_kernels import MIN_POOLED_BYTES, BufferPool

LARGE = MIN_POOLED_BYTES // 4 + 1000  # float32 numbers


def test_the_buffer_of_a_freed_tensor_is_reused() -> None:
    pool = BufferPool()
    first = pool.empty(LARGE, dtype=torch.float32)
    address = first.data_ptr()
    del first
    assert pool.empty(LARGE, dtype=torch.float32).data_ptr() == address


def test_a_buffer_is_kept_while_a_view_of_it_exists() -> None:
    pool = BufferPool()
    first = pool.empty(2, LARGE, dtype=torch.float32)
    view = first[1, :5]
    view.fill_(7)
    del first
    gc.collect()
    second = pool.empty(2, LARGE, dtype=torch.float32).fill_(0)
    assert torch.equal(view, torch.full((5,), 7.0))
    assert second.data_ptr() != view.data_ptr()


def test_other_sizes_clear_the_pool() -> None:
    pool = BufferPool()
    small = pool.empty(LARGE, dtype=torch.float32)
    del small
    big = pool.empty(5 * LARGE, dtype=torch.float32)
    assert not pool._free
    assert big.shape == (5 * LARGE,)


def test_a_tensor_outlives_its_pool() -> None:
    pool = BufferPool()
    tensor = pool.empty(LARGE, dtype=torch.float64)
    del pool
    tensor.fill_(3)
    assert tensor.sum() == 3 * LARGE


def test_small_tensors_are_not_pooled() -> None:
    pool = BufferPool()
    tensor = pool.empty(3, 4, dtype=torch.float64)
    assert tensor.shape == (3, 4)
    del tensor
    assert not pool._free
