"""Memory is used again, and never while somebody still holds it."""

from __future__ import annotations

import gc

import torch

from polybasis.krylov.workspace import SMALLEST, Workspace

LARGE = SMALLEST // 4 + 1000  # float32 numbers


def test_memory_of_a_dead_array_is_used_again() -> None:
    workspace = Workspace()
    first = workspace.empty(LARGE, dtype=torch.float32)
    address = first.data_ptr()
    del first
    assert workspace.empty(LARGE, dtype=torch.float32).data_ptr() == address


def test_memory_is_kept_while_any_view_lives() -> None:
    workspace = Workspace()
    first = workspace.empty(2, LARGE, dtype=torch.float32)
    view = first[1, :5]
    view.fill_(7)
    del first
    gc.collect()
    second = workspace.empty(2, LARGE, dtype=torch.float32).fill_(0)
    assert torch.equal(view, torch.full((5,), 7.0))
    assert second.data_ptr() != view.data_ptr()


def test_another_size_lets_old_memory_go() -> None:
    workspace = Workspace()
    del_me = workspace.empty(LARGE, dtype=torch.float32)
    del del_me
    big = workspace.empty(5 * LARGE, dtype=torch.float32)
    assert not workspace._free
    assert big.shape == (5 * LARGE,)


def test_an_array_outlives_its_workspace() -> None:
    workspace = Workspace()
    array = workspace.empty(LARGE, dtype=torch.float64)
    del workspace
    array.fill_(3)
    assert array.sum() == 3 * LARGE


def test_small_arrays_are_torchs_own() -> None:
    workspace = Workspace()
    array = workspace.empty(3, 4, dtype=torch.float64)
    assert array.shape == (3, 4)
    del array
    assert not workspace._free
