"""The filter layers follow the conventions of PyTorch Geometric."""

from __future__ import annotations

import pytest
import torch
from conftest import dense, random_graph
from layer_table import LAYERS, K, perturbed
from torch_geometric.nn import APPNP, ChebConv

import polybasis as pb
from polybasis.bases.names import NAMES


@pytest.fixture(params=LAYERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_gradcheck(kind: str) -> None:
    graph = random_graph(20, 50)
    layer = perturbed(LAYERS[kind](3).double())
    x = torch.randn(20, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x, graph), (x, *layer.parameters()))


def test_an_edge_index_and_a_graph_give_the_same_result(kind: str) -> None:
    edge_index = torch.randint(0, 30, (2, 90))
    weight = (edge_index.sum(0) + 1).float()
    x = torch.randn(30, 5)
    layer = perturbed(LAYERS[kind](5))
    for w in (None, weight):
        graph = pb.Graph.from_edge_index(edge_index, 30, w)
        assert torch.equal(layer(x, edge_index, w), layer(x, graph))
    assert layer(x, edge_index).shape == (30, 5)


def test_every_parameter_gets_a_finite_gradient(kind: str) -> None:
    layer = perturbed(LAYERS[kind](6))
    layer(torch.randn(30, 6), random_graph(30, 80)).square().sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert (parameter.grad != 0).any()


def test_initial_values_are_those_of_the_paper() -> None:
    """α_0 = 1, other coefficients 0, √β = 1, γ = 0; filters in a fixed basis start as the identity."""
    x, graph = torch.randn(30, 5), random_graph(30, 80)
    torch.testing.assert_close(LAYERS["optbasis"](5)(x, graph), x / x.norm(dim=0))
    torch.testing.assert_close(LAYERS["favard"](5)(x, graph), x)
    for name in NAMES:
        torch.testing.assert_close(LAYERS[name](5)(x, graph), x, rtol=1e-5, atol=1e-6)


def test_repr() -> None:
    assert repr(pb.nn.OptBasisConv(64, K=10)) == "OptBasisConv(64, K=10)"
    assert repr(pb.nn.FavardConv(8, K=2)) == "FavardConv(8, K=2)"
    assert repr(pb.nn.PolyConv(16, 3, "jacobi")) == "PolyConv(16, K=3, basis=Jacobi(0, 0))"


def test_chebyshev_filters_agree_with_chebconv() -> None:
    """PyG's L̂ = 2L/λ_max - I with λ_max = 2 is -P, and T_k(-μ) = (-1)^k T_k(μ). PyG's K is the number of
    coefficients, ours is the degree."""
    edge_index = torch.randint(0, 25, (2, 70))
    graph = pb.Graph.from_edge_index(edge_index, 25)
    rows = torch.arange(25).repeat_interleave(torch.diff(graph.indptr.long()))
    both = torch.stack([graph.indices.long(), rows])
    reference = ChebConv(1, 1, K=K + 1, bias=False)
    layer = pb.nn.PolyConv(1, K, "chebyshev")
    x = torch.randn(25, 1)
    with torch.no_grad():
        for k, lin in enumerate(reference.lins):
            layer.alpha[k] = (-1) ** k * lin.weight[0, 0]
        torch.testing.assert_close(layer(x, graph), reference(x, both, lambda_max=2.0), rtol=1e-4, atol=1e-5)


def test_monomial_filters_agree_with_appnp() -> None:
    """Personalised PageRank: α_k = a (1-a)^k for k < K and α_K = (1-a)^K."""
    edge_index = torch.randint(0, 25, (2, 70))
    graph = pb.Graph.from_edge_index(edge_index, 25)
    rows = torch.arange(25).repeat_interleave(torch.diff(graph.indptr.long()))
    both = torch.stack([graph.indices.long(), rows])
    reference = APPNP(K=K, alpha=0.2, add_self_loops=False)
    layer = pb.nn.PolyConv(3, K, "monomial")
    x = torch.randn(25, 3)
    with torch.no_grad():
        for k in range(K + 1):
            layer.alpha[k] = 0.8**k * (0.2 if k < K else 1)
        torch.testing.assert_close(layer(x, graph), reference(x, both), rtol=1e-4, atol=1e-5)


def test_favard_clamps_sqrt_beta_to_one_hundredth() -> None:
    x, graph = torch.randn(30, 2), random_graph(30, 80)
    layers = []
    for value in (0.01, -3.0):
        layer = pb.nn.FavardConv(2, K)
        with torch.no_grad():
            layer.alpha.fill_(1)
            layer.sqrt_beta[2] = value
        layers.append(layer(x, graph))
    assert torch.equal(*layers)


def test_a_layer_agrees_with_a_dense_matrix() -> None:
    graph = random_graph(20, 50)
    x = torch.randn(20, 2, dtype=torch.float64)
    layer = pb.nn.PolyConv(2, 2, "monomial").double()
    with torch.no_grad():
        layer.alpha.copy_(torch.tensor([[1.0, 0.0], [0.5, 2.0], [0.0, -1.0]]))
    P = dense(graph)
    expected = torch.stack([x[:, 0] + 0.5 * P @ x[:, 0], 2 * P @ x[:, 1] - P @ P @ x[:, 1]], 1)
    torch.testing.assert_close(layer(x, graph), expected)


def test_invalid_arguments_are_rejected() -> None:
    graph, x = random_graph(20, 50), torch.randn(20, 3)
    with pytest.raises(ValueError, match="K is -1"):
        pb.nn.OptBasisConv(3, K=-1)
    with pytest.raises(ValueError, match="edge_weight was given with a Graph"):
        pb.nn.OptBasisConv(3, K=2)(x, graph, torch.ones(5))
    with pytest.raises(ValueError, match=r"x has shape \(20, 3\); expected \(N, 4\)"):
        pb.nn.OptBasisConv(4, K=2)(x, graph)
