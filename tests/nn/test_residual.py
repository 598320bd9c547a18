"""The residual network: its filters against dense matrices and PyTorch Geometric, its blocks against their formula."""

from __future__ import annotations

from typing import get_args

import pytest
import scipy.sparse as sp
import torch
import torch_geometric.nn as pyg
from conftest import random_graph
from torch.nn.functional import gelu

import polybasis as pb
from polybasis.features import SparseFeatures
from polybasis.nn.models.residual import Filter, FilterBlock, PyGConv, ResidualFilterNet, make_filter

GRAPH = random_graph(40, 150)
P = GRAPH.matrix().to_dense()  # float64
POLYNOMIAL = ("favard", "chebyshev", "bernstein", "monomial")
FILTERS = get_args(Filter)


def signal(channels: int = 16, nodes: int = 40) -> torch.Tensor:
    return torch.randn(nodes, channels, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("K", [1, 2, 5, 12])
@pytest.mark.parametrize("name", POLYNOMIAL)
def test_polynomial_filters_start_at_p_or_at_the_identity(name: Filter, K: int) -> None:
    x = signal()
    assert torch.allclose(make_filter(name, 16, K)(x, GRAPH), (P @ x.double()).float(), atol=2e-6)
    assert torch.allclose(make_filter(name, 16, K, "identity")(x, GRAPH), x, atol=2e-6)


def test_the_optimal_filter_starts_at_its_vector_of_degree_one() -> None:
    r"""That is :math:`P x` without its component along x, scaled to the length of x."""
    x = signal()
    rest = P @ x.double()
    unit = x.double() / x.double().norm(dim=0)
    rest = rest - unit * (unit * rest).sum(0)
    expected = rest / rest.norm(dim=0) * x.double().norm(dim=0)
    assert torch.allclose(make_filter("optbasis", 16, 3)(x, GRAPH).double(), expected, atol=1e-5)


def test_gcn_is_gcnconv_without_weights() -> None:
    conv = pyg.GCNConv(16, 16, bias=False)
    torch.nn.init.eye_(conv.lin.weight)
    x = signal()
    assert torch.allclose(make_filter("gcn", 16, 4)(x, GRAPH), conv(x, GRAPH.edge_index()), atol=1e-6)


@pytest.mark.parametrize("name", ["sage", "gat"])
def test_message_passing_is_that_of_pyg_on_edges(name: Filter) -> None:
    layer = make_filter(name, 16, 4)
    assert isinstance(layer, PyGConv)
    x = signal()
    assert torch.allclose(layer(x, GRAPH), layer.conv(x, GRAPH.edge_index()), atol=1e-6)


def test_a_block_is_its_formula() -> None:
    block = FilterBlock(16, "chebyshev", 3, 0.5, "layer", "propagation").eval()
    torch.nn.init.normal_(block.conv.alpha)  # type: ignore[union-attr, arg-type]
    x = signal()
    own = (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    filtered = block.conv(own, GRAPH)
    hidden = gelu(filtered @ block.first.weight.T + block.first.bias)
    assert torch.allclose(block(x, GRAPH), x + hidden @ block.last.weight.T + block.last.bias, atol=1e-5)


@pytest.mark.parametrize("jumping", [False, True])
def test_the_network_is_its_formula(jumping: bool) -> None:
    model = ResidualFilterNet(5, 16, 3, blocks=2, K=3, norm="none", jumping=jumping).eval()
    x = signal(5)
    outputs = [gelu(x @ model.first.weight.T + model.first.bias)]
    for block in model.blocks:
        outputs.append(block(outputs[-1], GRAPH))
    last = torch.cat(outputs, 1) if jumping else outputs[-1]
    assert torch.allclose(model(x, GRAPH), last @ model.last.weight.T + model.last.bias, atol=1e-5)


def test_adjacency_rows_are_features() -> None:
    """Appending the rows to the features is the same as a second linear layer for them."""
    model = ResidualFilterNet(5, 16, 3, K=3, adjacency=True, num_nodes=40).eval()
    other = ResidualFilterNet(45, 16, 3, K=3).eval()
    state = model.state_dict()
    rows = state.pop("rows.weight")
    other.load_state_dict(state | {"first.weight": torch.cat([state["first.weight"], rows], 1)})
    x = signal(5)
    appended = torch.cat([x, torch.from_numpy(GRAPH.adjacency().toarray()).float()], 1)
    assert torch.allclose(model(x, GRAPH), other(appended, GRAPH), atol=1e-5)
    assert model.transductive
    assert not other.transductive
    with pytest.raises(ValueError, match="pass num_nodes"):
        ResidualFilterNet(5, 16, 3, adjacency=True)


def test_feature_dropout_zeroes_features_in_training_only() -> None:
    """Without features, all that is left of a layer is its bias."""
    model = ResidualFilterNet(5, 16, 3, dropout=0.0, feature_dropout=1.0, K=3)
    x = signal(5)
    assert torch.allclose(model.train()(x, GRAPH), model(torch.zeros_like(x), GRAPH))
    assert not torch.allclose(model.eval()(x, GRAPH), model(torch.zeros_like(x), GRAPH))


@pytest.mark.parametrize("name", FILTERS)
def test_predictions_do_not_change_with_copies_of_the_graph(name: Filter) -> None:
    torch.manual_seed(0)
    model = ResidualFilterNet(5, 16, 3, filter=name, blocks=2, K=3).eval()
    x, pairs = signal(5), GRAPH.edge_index()
    copies = pb.Graph.from_edge_index(torch.cat([pairs, pairs + 40, pairs + 80], dim=1), 120)
    with torch.no_grad():
        once, thrice = model(x, GRAPH), model(x.repeat(3, 1), copies)
    assert torch.allclose(thrice, once.repeat(3, 1), atol=1e-5)


@pytest.mark.parametrize("name", FILTERS)
def test_a_reset_restores_the_initial_filter(name: Filter) -> None:
    x, graph = signal(5), GRAPH
    model = ResidualFilterNet(5, 16, 3, filter=name, K=3, norm="batch").eval()
    torch.manual_seed(1)
    model.reset_parameters()
    expected = model(x, graph)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    assert not torch.allclose(model(x, graph), expected, atol=1e-2)
    torch.manual_seed(1)
    model.reset_parameters()
    assert torch.equal(model(x, graph), expected)


def test_sparse_features_give_the_same_scores_as_dense_ones() -> None:
    x = (signal(30) > 1).float()
    model = ResidualFilterNet(30, 8, 2).eval()
    assert torch.allclose(model(SparseFeatures(sp.csr_array(x.numpy())), GRAPH), model(x, GRAPH), atol=1e-6)


def test_roles() -> None:
    groups = {name: set(ResidualFilterNet(5, 8, 2, filter=name).parameter_groups()) for name in FILTERS}
    assert groups["favard"] == {"linear", "coefficients", "recurrence"}
    assert groups["optbasis"] == groups["bernstein"] == {"linear", "coefficients"}
    assert groups["gcn"] == groups["sage"] == groups["gat"] == groups["none"] == {"linear"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"filter": "favad"}, "filter is 'favad'; expected one of favard"),
        ({"norm": "instance"}, "norm is 'instance'; expected one of layer, batch, none"),
        ({"start": "P"}, "start is 'P'; expected propagation or identity"),
        ({"K": 0}, "K is 0; a filter that starts at P needs K of at least 1"),
        ({"filter": "gat", "hidden_channels": 10}, "hidden_channels is 10; gat needs a multiple of 8"),
        ({"blocks": 0}, "blocks is 0; expected at least 1"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ResidualFilterNet(**{"in_channels": 5, "hidden_channels": 8, "out_channels": 2, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FILTERS)
def test_double_precision_agrees_with_single_precision(name: Filter) -> None:
    torch.manual_seed(0)
    model = ResidualFilterNet(5, 16, 3, filter=name, K=3).eval()
    single = model(signal(5), GRAPH)
    double = model.double()(signal(5).double(), GRAPH)
    assert double.dtype == torch.float64
    assert torch.allclose(single.double(), double, atol=1e-4)
