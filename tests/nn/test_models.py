"""Every model by one contract, and its layers against PyTorch Geometric and the formulas of the papers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import scipy.sparse as sp
import torch
import torch_geometric.nn as pyg
from conftest import random_graph

import polybasis as pb
from polybasis.bases import ChebyshevInterpolation
from polybasis.features import SparseFeatures, as_dense
from polybasis.nn.models import MODELS, Model, model_class
from polybasis.nn.models.arma import ARMALayer
from polybasis.nn.models.chebnet import ChebLayer
from polybasis.nn.models.decoupled import APPNP, GPRGNN, ChebNetII
from polybasis.nn.models.gcn import GCNLayer
from polybasis.nn.models.jacobiconv import JacobiConv
from polybasis.nn.models.precomputed_features import GBP, NDLS, SIGN
from polybasis.testing import MODEL_CHECKS

DATA = pb.data.csbm(nodes=120, features=80, seed=3)
Check = Callable[[type[Model], pb.data.NodeDataset], None]


@pytest.fixture(scope="session", params=["csbm", "texas"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pb.data.NodeDataset:
    """A synthetic graph and a real one."""
    if request.param == "csbm":
        return DATA
    raw: Path = request.getfixturevalue("data_root") / "webkb" / "texas"
    if not raw.is_dir():
        pytest.skip("webkb/texas is not in the data folder")
    root = tmp_path_factory.mktemp("data")
    shutil.copytree(raw, root / "webkb" / "texas")
    return pb.data.load("texas", root)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda check: check.__name__)
def test_contract(
    check: Callable[[type[Model], pb.data.NodeDataset], None], name: str, data: pb.data.NodeDataset
) -> None:
    """The checks of polybasis.testing; tests/nn/test_testing.py shows that each of them can fail."""
    check(model_class(name), data)


@pytest.mark.parametrize("name", MODELS)
def test_repr_starts_with_the_class_and_the_number_of_features(name: str) -> None:
    model = model_class(name)(80, 8, 2, num_nodes=120)
    assert repr(model).startswith(f"{type(model).__name__}(80, ")


def test_roles() -> None:
    assert set(model_class("favardgnn")(4, 4, 2).parameter_groups()) == {"linear", "coefficients", "recurrence"}
    assert set(model_class("optbasisgnn")(4, 4, 2).parameter_groups()) == {"linear", "coefficients"}
    assert set(model_class("appnp")(4, 4, 2).parameter_groups()) == {"linear"}


def test_repr() -> None:
    assert repr(pb.nn.OptBasisGNN(10, 8, 3, K=5)) == "OptBasisGNN(10, 8, 3, K=5)"
    assert repr(JacobiConv(10, 8, 3, K=5, a=0.5, b=1)) == "JacobiConv(10, 3, K=5, basis=Jacobi(0.5, 1))"


def test_unknown_model() -> None:
    with pytest.raises(ValueError, match="unknown model 'gat'; expected one of mlp, gcn"):
        model_class("gat")


@pytest.mark.parametrize("name", ["link", "linkx"])
def test_models_with_weights_for_each_node_require_num_nodes(name: str) -> None:
    with pytest.raises(ValueError, match="pass num_nodes"):
        model_class(name)(4, 4, 2)


# ---- against PyTorch Geometric -------------------------------------------------------------------------------------

GRAPH = random_graph(40, 150)
EDGES = GRAPH.edge_index()


def test_gcn_layer_is_gcnconv() -> None:
    ours, theirs = GCNLayer(6, 5), pyg.GCNConv(6, 5)
    theirs.lin.weight.data, theirs.bias.data = ours.weight.data, torch.randn(5)
    ours.bias.data = theirs.bias.data
    x = torch.randn(40, 6)
    torch.testing.assert_close(ours.propagate(x, GRAPH), theirs(x, EDGES), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("edge_layers", "node_layers"), [(1, 1), (2, 3)])
def test_linkx_is_that_of_pyg(edge_layers: int, node_layers: int) -> None:
    ours = model_class("linkx")(6, 5, 3, edge_layers=edge_layers, node_layers=node_layers, num_nodes=40).eval()
    theirs = pyg.LINKX(40, 6, 5, 3, 2, edge_layers, node_layers, 0.5).eval()
    state = ours.net.state_dict()  # type: ignore[union-attr, operator]
    theirs.load_state_dict(state | {"edge_lin.weight": state["edge_lin.weight"].T})
    x = (torch.randn(40, 6) > 0).float()
    expected = theirs(x, EDGES)
    torch.testing.assert_close(ours(x, GRAPH), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours(SparseFeatures(sp.csr_array(x.numpy())), GRAPH), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("K", [0, 1, 2, 5])
def test_cheb_layer_is_chebconv(K: int) -> None:
    ours, theirs = ChebLayer(6, 5, K), pyg.ChebConv(6, 5, K + 1)
    for lin, block in zip(theirs.lins, ours.lin.weight.chunk(K + 1), strict=True):
        lin.weight.data = block.data
    x = torch.randn(40, 6)
    torch.testing.assert_close(ours(x, GRAPH), theirs(x, EDGES, lambda_max=2.0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("stacks", "layers"), [(1, 1), (3, 1), (2, 3)])
def test_arma_layer_is_armaconv(stacks: int, layers: int) -> None:
    ours = ARMALayer(6, 5, stacks, layers, drop=0.0, act=True)
    theirs = pyg.ARMAConv(6, 5, num_stacks=stacks, num_layers=layers, act=torch.nn.ReLU())
    x = torch.randn(40, 6)
    theirs(x, EDGES)
    with torch.no_grad():
        theirs.init_weight.copy_(torch.stack([block.T for block in ours.init.weight.chunk(stacks)]))
        for t, root in enumerate(ours.roots):
            root.bias.normal_()
            theirs.root_weight[t].copy_(torch.stack([block.T for block in root.weight.chunk(stacks)]))
            theirs.bias[t].copy_(root.bias.view(stacks, 1, 5))
        for t, weight in enumerate(ours.weights):
            theirs.weight[t].copy_(weight)
    torch.testing.assert_close(ours(x, GRAPH), theirs(x, EDGES), rtol=1e-4, atol=1e-5)


def test_appnp_is_pygs() -> None:
    model = APPNP(80, 8, 2, K=6, alpha=0.2).eval()
    x = as_dense(DATA.x)
    scores = model.last(model.first(x).relu())
    expected = pyg.APPNP(K=6, alpha=0.2)(scores, DATA.graph.edge_index())
    torch.testing.assert_close(model(DATA.x, DATA.graph), expected, rtol=1e-4, atol=1e-5)


# ---- the papers' own formulas --------------------------------------------------------------------------------------


def test_gpr_gnn_starts_as_appnp() -> None:
    gpr, appnp = GPRGNN(80, 8, 2, K=6, alpha=0.3).eval(), APPNP(80, 8, 2, K=6, alpha=0.3).eval()
    gpr.load_state_dict(appnp.state_dict())
    torch.testing.assert_close(gpr(DATA.x, DATA.graph), appnp(DATA.x, DATA.graph))


def test_the_response_of_chebnetii_at_the_nodes_is_its_parameters() -> None:
    K = 5
    model = ChebNetII(80, 8, 2, K=K)
    targets = torch.rand(K + 1)
    model.conv.alpha.data = targets.unsqueeze(-1)
    points = ChebyshevInterpolation().points(K)
    values = model.conv.coefficients()[:, 0].double() @ model.conv.basis.evaluate(points, K)
    torch.testing.assert_close(values.float(), targets)


def test_jacobiconv_decomposes_its_coefficients() -> None:
    model = JacobiConv(80, 8, 3, K=4, scale=2.0)
    eta = model.conv.eta.detach()
    torch.testing.assert_close(eta, torch.full((4,), 0.5))
    expected = torch.tensor([(2 * torch.tanh(torch.tensor(0.5)).item()) ** k for k in range(5)])
    torch.testing.assert_close(model.conv.coefficients()[:, 1].detach(), expected)


def test_propagation_of_sign_gbp_and_ndls() -> None:
    graph, x = random_graph(30, 120), torch.rand(30, 4)
    looped = graph.with_self_loops()
    P = looped.matrix(torch.float32).to_dense()
    sign = SIGN(4, 8, 2, K=2)
    torch.testing.assert_close(sign.precompute(x, graph).values[0], torch.stack([x, P @ x, P @ P @ x]))

    gbp = GBP(4, 8, 2, K=3, alpha=0.2, r=0.0)
    walk = looped.adjacency().toarray()
    walk = torch.from_numpy(walk / walk.sum(1, keepdims=True)).float()  # r = 0: D^-1 A
    expected = sum(0.2 * 0.8**k * torch.linalg.matrix_power(walk, k) @ x for k in range(4))
    torch.testing.assert_close(gbp.propagate(x, looped), expected)

    torch.testing.assert_close(looped.stationary(x), torch.linalg.matrix_power(P.double(), 400).float() @ x)
    all_steps = NDLS(4, 8, 2, K=5, epsilon=0.0).propagate(x, looped)
    torch.testing.assert_close(all_steps, sum(torch.linalg.matrix_power(P, k) @ x for k in range(6)) / 6)
    none = NDLS(4, 8, 2, K=5, epsilon=10.0).propagate(x, looped)
    torch.testing.assert_close(none, x)


def test_propagated_features_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is given precomputed inputs propagates nothing."""
    calls, propagate = [], GBP.propagate
    monkeypatch.setattr(GBP, "propagate", lambda *a: (calls.append(1), propagate(*a))[1])
    model: Model = GBP(80, 8, 2).eval()
    inputs = model.precompute(DATA.x, DATA.graph)
    model(inputs, DATA.graph)
    model(inputs, DATA.graph)
    assert len(calls) == 1


@pytest.mark.parametrize("name", MODELS)
def test_the_papers_two_models_are_deterministic_without_dropout(name: str) -> None:
    rates = {key: 0.0 for key in model_class(name).hyperparameters() if "dropout" in key}
    model = model_class(name)(80, 8, 2, num_nodes=120, **rates)
    assert model.deterministic == (name in ("optbasisgnn", "favardgnn"))
    if model.deterministic:
        assert not model_class(name)(80, 8, 2, dropout2=0.1).deterministic
