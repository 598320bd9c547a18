"""Kernels are created once per graph, live as long as the graph, and are reached by a short path."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from conftest import kernels_of, random_graph

import polybasis as pb
from polybasis import native
from polybasis.krylov.kernel_choice import clear_kernels
from polybasis.krylov.reference_kernels import ReferenceKernels

PACKAGE = Path(pb.__file__).parent


@pytest.fixture(params=["native", "reference"])
def graph(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> pb.Graph:
    if request.param == "reference":
        monkeypatch.setattr(native, "module", None)
        monkeypatch.setattr(native, "kernels", lambda: None)
    elif native.kernels() is None:
        pytest.skip("polybasis was built without its native kernels")
    return random_graph(50, 200)


def test_kernels_are_created_once_per_data_type(graph: pb.Graph) -> None:
    x = torch.rand(50, 3)
    kernels = kernels_of(graph, x)
    assert kernels_of(graph, x[:, :1]) is kernels
    assert kernels_of(graph, x.double()) is not kernels
    clear_kernels(graph.operator(x.dtype, x.device))
    assert kernels_of(graph, x) is not kernels


def test_kernels_disappear_with_their_graph(graph: pb.Graph) -> None:
    """The entry must not keep its own key alive."""
    kernels = weakref.ref(kernels_of(graph, torch.rand(50, 3)))
    only = copy.copy(graph)
    own = weakref.ref(kernels_of(only, torch.rand(50, 3)))
    watched = weakref.ref(only)
    del only
    gc.collect()
    assert watched() is None
    assert own() is None
    assert kernels() is not None


def test_a_gradient_outlives_its_graph(graph: pb.Graph) -> None:
    x = torch.rand(50, 3, requires_grad=True)
    z = pb.nn.OptBasisConv(3, K=4)(x, graph.edge_index())  # the layer builds a graph of its own and drops it
    gc.collect()
    z.square().sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_a_copied_graph_starts_without_kernels(graph: pb.Graph, copied: Callable[[pb.Graph], pb.Graph]) -> None:
    x = torch.rand(50, 3)
    kernels = kernels_of(graph, x)
    other = copied(graph)
    assert not other._operators
    assert kernels_of(other, x) is not kernels


def test_threads_share_kernels(graph: pb.Graph) -> None:
    x, found = torch.rand(50, 3), []
    threads = [threading.Thread(target=lambda: found.append(kernels_of(graph, x))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(kernels) for kernels in found}) == 1


def test_torch_serves_where_there_are_no_native_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, x = random_graph(50, 200), torch.rand(50, 3)
    expected = pb.optimal_basis(graph, x.double(), 4)
    monkeypatch.setattr(native, "module", None)
    monkeypatch.setattr(native, "kernels", lambda: None)
    other = copy.copy(graph)
    assert isinstance(kernels_of(other, x.double()), ReferenceKernels)
    torch.testing.assert_close(pb.optimal_basis(other, x.double(), 4).vectors, expected.vectors)


def files_entered(call: Callable[[], Any]) -> list[str]:
    """The package files whose functions are called, in order."""
    files = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            files.append(path.stem)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files


@pytest.mark.skipif(native.kernels() is None, reason="polybasis was built without its native kernels")
def test_a_filter_takes_a_short_path_to_its_kernels() -> None:
    """A reader who follows one forward pass opens each file once: layer, checks, graph, operator, kernels."""
    graph, conv = random_graph(50, 200), pb.nn.OptBasisConv(64, K=10)
    x = torch.rand(50, 64, requires_grad=True)
    z = conv(x, graph)
    forward = files_entered(lambda: conv(x, graph))
    layer = ["filter_layer", "optbasis_conv", "filters"]
    below = ["graph", "custom_op", "operators", "matrix", "basis", "kernel_choice", "native_kernels"]
    assert set(forward) == {*layer, *below}
    assert set(files_entered(lambda: z.sum().backward())) == set(below) - {"graph"}
