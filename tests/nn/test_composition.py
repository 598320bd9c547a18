"""Filter layers compose with PyTorch and PyTorch Geometric: transforms, compilers, copies, batches, edge weights."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import random_graph
from layer_table import LAYERS, K, perturbed
from torch import Tensor
from torch.func import functional_call
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data

import polybasis as pb
from polybasis.krylov.reference_kernels import ReferenceKernels
from polybasis.nn.filter_layer import FilterLayer
from polybasis.nn.interpret import filters_of

NODES, CHANNELS = 20, 3


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> FilterLayer:
    return perturbed(LAYERS[request.param](CHANNELS)).double()


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def signal(*shape: int) -> Tensor:
    return torch.randn(*shape, NODES, CHANNELS, dtype=torch.float64)


def both_directions(graph: pb.Graph) -> Tensor:
    return graph.edge_index()


GRAPH = random_graph(NODES, 50)
EDGES = both_directions(GRAPH)


def gradients(layer: FilterLayer, x: Tensor, call: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
    x = x.clone().requires_grad_()
    z = call(x)
    return z, *torch.autograd.grad((z * torch.linspace(1, 2, z.numel()).view_as(z)).sum(), (x, *layer.parameters()))


# ---- compilers -----------------------------------------------------------------------------------------------------

ADJACENCIES: dict[str, Any] = {"graph": GRAPH, "edges": EDGES}


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_compiled_layers_agree_with_eager_ones(layer: FilterLayer, adjacency: str) -> None:
    x, argument = signal(), ADJACENCIES[adjacency]
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    expected = gradients(layer, x, lambda x: layer(x, argument))
    for got, wanted in zip(gradients(layer, x, lambda x: compiled(x, argument)), expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["optbasis", "favard", "chebyshev"])
def test_layers_compile_with_the_default_backend(name: str) -> None:
    layer, x = perturbed(LAYERS[name](CHANNELS)).double(), signal()
    compiled = torch.compile(layer, fullgraph=True)
    expected = gradients(layer, x, lambda x: layer(x, GRAPH))
    for got, wanted in zip(gradients(layer, x, lambda x: compiled(x, GRAPH)), expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-6)


def test_a_compiled_layer_takes_a_batch(layer: FilterLayer) -> None:
    batch = torch.arange(NODES) // 7
    edges = EDGES[:, batch[EDGES[0]] == batch[EDGES[1]]]
    x = signal()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, edges, None, batch), layer(x, edges, None, batch), rtol=1e-6, atol=1e-6)


def test_exported_layers_take_other_graphs(layer: FilterLayer) -> None:
    """The program is saved and loaded again, and called with other numbers of nodes and edges."""
    nodes, edges = torch.export.Dim("nodes"), torch.export.Dim("edges")
    program = torch.export.export(layer, (signal(), EDGES), dynamic_shapes={"x": {0: nodes}, "edge_index": {1: edges}})
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    other = random_graph(33, 90)
    x = torch.randn(33, CHANNELS, dtype=torch.float64)
    torch.testing.assert_close(loaded(x, other.edge_index()), layer(x, other), rtol=1e-6, atol=1e-6)


# ---- transforms ----------------------------------------------------------------------------------------------------


def function_of(layer: FilterLayer) -> Callable[..., Tensor]:
    names = [name for name, _ in layer.named_parameters()]

    def apply(x: Tensor, *parameters: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, parameters, strict=True)), (x, GRAPH))

    return apply


def arguments_of(layer: FilterLayer) -> tuple[Tensor, ...]:
    return signal(), *(parameter.detach().clone() for parameter in layer.parameters())


def test_func_grad_agrees_with_autograd(layer: FilterLayer) -> None:
    arguments = arguments_of(layer)
    every = tuple(range(len(arguments)))
    got = torch.func.grad(lambda *a: function_of(layer)(*a).square().sum(), every)(*arguments)
    leaves = [argument.clone().requires_grad_() for argument in arguments]
    expected = torch.autograd.grad(function_of(layer)(*leaves).square().sum(), leaves)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


def test_jvp_agrees_with_finite_differences(layer: FilterLayer) -> None:
    arguments = arguments_of(layer)
    directions = tuple(torch.randn_like(argument) for argument in arguments)
    value, got = torch.func.jvp(function_of(layer), arguments, directions)
    assert torch.equal(value, function_of(layer)(*arguments))
    step = 1e-6
    ahead, behind = (
        function_of(layer)(*(a + sign * step * t for a, t in zip(arguments, directions, strict=True)))
        for sign in (1, -1)
    )
    torch.testing.assert_close(got, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-6)


def test_dual_numbers_carry_tangents(layer: FilterLayer) -> None:
    x, tangent = signal(), signal()
    expected = torch.func.jvp(lambda x: layer(x, GRAPH), (x,), (tangent,))[1]
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        got = torch.autograd.forward_ad.unpack_dual(layer(dual, GRAPH)).tangent
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


def test_vmap_agrees_with_a_loop(layer: FilterLayer) -> None:
    signals = signal(4)
    expected = torch.stack([layer(x, GRAPH) for x in signals])
    torch.testing.assert_close(torch.func.vmap(layer, (0, None))(signals, GRAPH), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(layer(signals, GRAPH), expected, rtol=1e-6, atol=1e-6)


def test_vmap_over_parameters_agrees_with_a_loop(layer: FilterLayer) -> None:
    x, *parameters = arguments_of(layer)
    several = [torch.stack([p, p + 0.1, p + 0.2]) for p in parameters]
    expected = torch.stack([function_of(layer)(x, *each) for each in zip(*several, strict=True)])
    got = torch.func.vmap(function_of(layer), (None, *(0 for _ in parameters)))(x, *several)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


def test_gradients_of_every_sample(layer: FilterLayer) -> None:
    signals = signal(4)
    per_sample = torch.func.grad(lambda x: layer(x, GRAPH).square().sum())
    expected = torch.stack([per_sample(x) for x in signals])
    torch.testing.assert_close(torch.func.vmap(per_sample)(signals), expected, rtol=1e-6, atol=1e-6)


def test_jacobians_of_both_modes_agree(layer: FilterLayer) -> None:
    x = signal()
    forward, reverse = (jacobian(lambda x: layer(x, GRAPH))(x) for jacobian in (torch.func.jacfwd, torch.func.jacrev))
    torch.testing.assert_close(forward, reverse, rtol=1e-6, atol=1e-6)


def test_gradgradcheck(layer: FilterLayer) -> None:
    leaves = [argument.requires_grad_() for argument in arguments_of(layer)]
    assert torch.autograd.gradgradcheck(function_of(layer), leaves)


def test_hessian_vector_products_forward_over_reverse(layer: FilterLayer) -> None:
    x, v = signal(), signal()
    gradient = torch.func.grad(lambda x: layer(x, GRAPH).pow(3).sum())
    _, got = torch.func.jvp(gradient, (x,), (v,))
    leaf = x.clone().requires_grad_()
    first = torch.autograd.grad(layer(leaf, GRAPH).pow(3).sum(), leaf, create_graph=True)[0]
    torch.testing.assert_close(got, torch.autograd.grad((first * v).sum(), leaf)[0], rtol=1e-6, atol=1e-6)


# ---- modes and copies ----------------------------------------------------------------------------------------------


def test_autocast_computes_in_single_precision(layer: FilterLayer) -> None:
    layer, linear, x = layer.float(), torch.nn.Linear(CHANNELS, CHANNELS), signal().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = linear(x)
        z = layer(hidden, GRAPH)
        z.float().square().sum().backward()
    assert hidden.dtype == z.dtype == torch.bfloat16
    torch.testing.assert_close(z, layer(hidden.float(), GRAPH).bfloat16())
    assert torch.isfinite(linear.weight.grad).all()


def test_a_graph_first_used_in_inference_mode_trains_later(layer: FilterLayer) -> None:
    graph, x = random_graph(NODES, 50, seed=3), signal()
    with torch.inference_mode():
        inferred = layer(x, graph)
    z, *bars = gradients(layer, x, lambda x: layer(x, graph))
    assert torch.equal(z, inferred)
    assert all(torch.isfinite(bar).all() for bar in bars)


def test_a_graph_first_used_in_a_transform_stays_usable(layer: FilterLayer) -> None:
    graph, x = random_graph(NODES, 50, seed=4), signal()
    torch.func.vmap(torch.func.grad(lambda x: layer(x, graph).sum()))(signal(2))
    assert torch.equal(layer(x, graph), layer(x, copy.deepcopy(graph)))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_copies_give_the_same_result(layer: FilterLayer, copied: Callable[[FilterLayer], FilterLayer]) -> None:
    x = signal()
    assert torch.equal(copied(layer)(x, EDGES), layer(x, EDGES))


def test_averaged_models(layer: FilterLayer) -> None:
    """The average of two layers filters like a layer with the mean of their parameters."""
    first, mean, x = copy.deepcopy(layer), copy.deepcopy(layer), signal()
    averaged = torch.optim.swa_utils.AveragedModel(layer)
    averaged.update_parameters(layer)
    averaged.update_parameters(perturbed(layer))
    with torch.no_grad():
        for parameter, one, other in zip(mean.parameters(), first.parameters(), layer.parameters(), strict=True):
            parameter.copy_((one + other) / 2)
    torch.testing.assert_close(averaged(x, GRAPH), mean(x, GRAPH))
    assert not torch.allclose(averaged(x, GRAPH), first(x, GRAPH))


DISTRIBUTED = """
import os, sys, torch
sys.path[:0] = sys.argv[2:]
from layer_table import LAYERS, perturbed
from conftest import random_graph

torch.distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=0, world_size=1)
graph, x = random_graph(20, 50), torch.randn(20, 3)
for create in LAYERS.values():
    layer = perturbed(create(3))
    expected = torch.autograd.grad(layer(x, graph).square().sum(), tuple(layer.parameters()))
    torch.nn.parallel.DistributedDataParallel(layer)(x, graph).square().sum().backward()
    for parameter, wanted in zip(layer.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, wanted)
print("done", flush=True)
os._exit(0)
"""


def test_distributed_data_parallel(tmp_path: Path) -> None:
    """In a process of its own, which ends without the shutdown of gloo: that can deadlock."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    command = [sys.executable, "-W", "ignore", "-c", DISTRIBUTED, str(tmp_path), *folders]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.stdout.strip() == "done", result.stderr[-2000:]


# ---- adjacency formats ---------------------------------------------------------------------------------------------


def dense_adjacency() -> Tensor:
    return torch.from_numpy(GRAPH.adjacency().toarray())


FORMATS: dict[str, Callable[[], Any]] = {
    "edge_index": lambda: EDGES,
    "EdgeIndex": lambda: EdgeIndex(EDGES, sparse_size=(NODES, NODES)),
    "COO": lambda: dense_adjacency().to_sparse_coo(),
    "CSR": lambda: dense_adjacency().to_sparse_csr(),
    "CSC": lambda: dense_adjacency().to_sparse_csc(),
    "SciPy": lambda: sp.coo_array(dense_adjacency().numpy()),
    "NumPy": lambda: EDGES.numpy(),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_any_adjacency_format(kind: str, layer: FilterLayer) -> None:
    x = signal()
    assert torch.equal(layer(x, FORMATS[kind]()), layer(x, GRAPH))


def test_transposed_edges_are_refused(layer: FilterLayer) -> None:
    with pytest.raises(ValueError, match=r"pass edge_index\.T"):
        layer(signal(), EDGES.T.numpy())


def test_a_changed_edge_index_gives_the_result_of_the_new_graph(layer: FilterLayer) -> None:
    """Graphs are kept with the tensors they were built from, not by size."""
    x, edges, other = signal(), EDGES.clone(), random_graph(NODES, 50, seed=5).edge_index()
    layer(x, edges)
    assert not torch.equal(layer(x, other[:, : edges.shape[1]]), layer(x, edges))
    edges[:, 0] = torch.tensor([0, 0])
    assert torch.equal(layer(x, edges), layer(x, edges.clone()))
    ones = torch.ones(edges.shape[1])
    layer(x, edges, ones)
    ones[:] = (edges.sum(0) + 1).float()
    assert torch.equal(layer(x, edges, ones), layer(x, edges.clone(), ones.clone()))


# ---- batches of graphs ---------------------------------------------------------------------------------------------


def random_batch(graphs: int, *, weighted: bool = False) -> list[Data]:
    """Graphs of 0 to 50 nodes with signals; the scale of the weights differs by graph, from 1e-12 to 1e12."""
    found = []
    for seed, nodes in enumerate([0, 1, 2, *torch.randint(1, 51, (graphs - 3,)).tolist()]):
        edges = random_graph(nodes, 2 * nodes, seed).edge_index() if nodes > 1 else torch.empty(2, 0, dtype=torch.long)
        one = Data(x=torch.randn(nodes, CHANNELS, dtype=torch.float64), edge_index=edges, num_nodes=nodes)
        if weighted:
            pair = edges.min(0).values * nodes + edges.max(0).values  # both directions have the same weight
            one.edge_weight = 10.0 ** (seed * 5 % 25 - 12) * (1 + 0.37 * pair.double()) / (1 + pair.double().sqrt())
        found.append(one)
    return found


@pytest.mark.parametrize(
    "weighted",
    [
        pytest.param(False, id="unweighted"),
        pytest.param(True, id="weights of different scales"),
    ],
)
def test_a_graph_alone_and_in_a_batch_are_bit_identical(layer: FilterLayer, weighted: bool) -> None:
    data = random_batch(100, weighted=weighted)
    batch = Batch.from_data_list(data)
    x = batch.x.clone().requires_grad_()
    for argument, weight, vector in (
        (batch.edge_index, batch.get("edge_weight"), batch.batch),
        (pb.Graph.from_pyg(batch), None, None),
    ):
        z = layer(x, argument, weight, vector)
        x_bar = torch.autograd.grad(z.square().sum(), x)[0]
        for i, one in enumerate(data):
            nodes, alone = slice(int(batch.ptr[i]), int(batch.ptr[i + 1])), one.x.clone().requires_grad_()
            z_alone = layer(alone, one.edge_index, one.get("edge_weight"))
            assert torch.equal(z[nodes], z_alone)
            if one.num_nodes:
                assert torch.equal(x_bar[nodes], torch.autograd.grad(z_alone.square().sum(), alone)[0])


def test_a_batch_has_no_common_optimal_basis() -> None:
    graph, mu = pb.Graph.from_edge_index(EDGES, batch=torch.zeros(NODES, dtype=torch.long)), torch.linspace(-1, 1, 5)
    conv = pb.nn.OptBasisConv(CHANNELS, K)
    for call in (
        lambda: conv.polynomials(signal(), graph),
        lambda: conv.response(mu, signal(), graph),
        lambda: filters_of(pb.nn.OptBasisGNN(CHANNELS, 4, 2), signal().float(), graph),
    ):
        with pytest.raises(ValueError, match=r"graph is a batch \(num_graphs=1\), and each graph has its own basis"):
            call()
    assert pb.nn.PolyConv(CHANNELS, K).response(mu, signal(), graph).shape == (5, CHANNELS)


def test_second_derivatives_in_a_batch(layer: FilterLayer) -> None:
    graph = pb.Graph.from_edge_index(
        EDGES[:, (EDGES < 10).all(0) | (EDGES >= 10).all(0)], NODES, batch=torch.arange(NODES) // 10
    )
    x = signal().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(x, graph), (x,))
    assert torch.autograd.gradgradcheck(lambda x: layer(x, graph), (x,))


@pytest.mark.parametrize("nodes", [1, 2, 3, 7, 50])
def test_ranks_of_small_graphs_in_a_batch(nodes: int) -> None:
    """A signal on node 0 of a path of n nodes has rank n, that of a star's hub has rank 2."""
    path = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    star = torch.stack([torch.zeros(nodes - 1, dtype=torch.long), torch.arange(1, nodes)])
    data = [Data(edge_index=edges, num_nodes=nodes) for edges in (path, star)] + [
        Data(edge_index=path[:, :0], num_nodes=0)
    ]
    graph = pb.Graph.from_pyg(Batch.from_data_list(data))
    x = torch.zeros(2 * nodes, 1, dtype=torch.float64)
    x[0], x[nodes] = 1, 1
    basis = pb.optimal_basis(graph, x, K=60)
    assert basis.rank.tolist() == [[nodes], [min(nodes, 2)], [0]]


# ---- size ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [2, 4, 16])
def test_copies_of_a_graph_have_the_same_result(copies: int, layer: FilterLayer) -> None:
    """True for all layers but the paper's unit scale."""
    x = signal()
    shift = NODES * torch.arange(copies).repeat_interleave(EDGES.shape[1])
    z = layer(x.repeat(copies, 1), EDGES.repeat(1, copies) + shift)
    expected = layer(x, EDGES)
    if getattr(layer, "scale", None) == "unit":
        expected = expected / copies**0.5
    torch.testing.assert_close(z, expected.repeat(copies, 1), rtol=1e-9, atol=1e-9)


def test_the_signal_scale_is_homogeneous() -> None:
    layer, x = perturbed(LAYERS["optbasis-signal"](CHANNELS)).double(), signal()
    torch.testing.assert_close(layer(3 * x, GRAPH), 3 * layer(x, GRAPH))
    unit = pb.nn.OptBasisConv(CHANNELS, K).double()
    unit.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x, GRAPH), x.norm(dim=0) * unit(x, GRAPH))


# ---- edge weights --------------------------------------------------------------------------------------------------


def dense_propagation(edges: Tensor, weight: Tensor, nodes: int) -> Tensor:
    """D^(-1/2) A D^(-1/2) by dense operations, where A has the mean of the weights a pair is listed with."""
    proper = edges[0] != edges[1]
    (i, j), w = edges[:, proper], weight[proper]
    zeros = torch.zeros(nodes, nodes, dtype=weight.dtype)
    total = zeros.index_put((i, j), w, accumulate=True)
    count = zeros.index_put((i, j), torch.ones_like(w), accumulate=True)
    adjacency = (total + total.T) / (count + count.T).clamp(min=1)
    degree = adjacency.sum(1)
    scale = torch.where(degree > 0, torch.where(degree > 0, degree, 1).rsqrt(), 0)
    return scale[:, None] * adjacency * scale


def dense_filter(layer: FilterLayer, x: Tensor, P: Tensor) -> Tensor:
    """The filter by its definition on a dense matrix."""
    if isinstance(layer, pb.nn.OptBasisConv):
        kernels = ReferenceKernels(P)
        basis = kernels.optimal_basis(x, kernels.peak(x), K, last_gamma=False)
        return kernels.combine(basis.vectors, layer.coordinates(basis.gamma, basis.sqrt_beta))
    basis, alpha = layer.polynomials(x, GRAPH)
    powers = [torch.eye(len(P), dtype=P.dtype)]
    for _ in range(K):
        powers.append(powers[-1] @ P)
    points = torch.linspace(-1, 1, K + 1, dtype=torch.float64)
    vandermonde = torch.linalg.vander(points, N=K + 1)
    values = basis.evaluate(points, K)
    values = values if values.dim() == 3 else values.unsqueeze(-1).expand(-1, -1, CHANNELS)
    monomial = torch.linalg.solve(vandermonde, (values * alpha.unsqueeze(1)).sum(0))  # (K+1, channels)
    return torch.stack([sum(monomial[k, c] * powers[k] for k in range(K + 1)) @ x[:, c] for c in range(CHANNELS)], 1)


def test_gradients_of_edge_weights_agree_with_the_dense_formula(layer: FilterLayer) -> None:
    """With zero weights, isolated nodes, self-loops, pairs listed twice with different weights."""
    edges = torch.randint(0, NODES - 3, (2, 60))
    weight = torch.rand(60, dtype=torch.float64)
    weight[:6] = 0
    weight.requires_grad_()
    x = signal().requires_grad_()
    factor = torch.randn(NODES, CHANNELS, dtype=torch.float64)
    z, expected = layer(x, edges, weight), dense_filter(layer, x, dense_propagation(edges, weight, NODES))
    torch.testing.assert_close(z, expected, rtol=1e-10, atol=1e-10)
    got, wanted = (torch.autograd.grad((y * factor).sum(), (weight, x)) for y in (z, expected))
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)
    assert (got[0][:6] != 0).any()


def test_edge_weights_pass_gradgradcheck(layer: FilterLayer) -> None:
    weight = (1 + torch.rand(EDGES.shape[1], dtype=torch.float64)).requires_grad_()
    call = lambda weight: layer(torch.linspace(-1, 1, NODES * CHANNELS).double().sin().view(NODES, -1), EDGES, weight)  # noqa: E731
    assert torch.autograd.gradcheck(call, (weight,))
    assert torch.autograd.gradgradcheck(call, (weight,))


def test_invalid_learned_weights_are_refused(layer: FilterLayer) -> None:
    weight = torch.full((EDGES.shape[1],), -1.0, requires_grad=True)
    with pytest.raises(ValueError, match=r"edge_weight\[0\] is -1, which is negative"):
        layer(signal(), EDGES, weight)


def test_numpy_signals_have_numpy_bases() -> None:
    x = np.random.default_rng(0).standard_normal((5, NODES, CHANNELS))
    basis = pb.optimal_basis(GRAPH, x, K)
    assert basis.vectors.shape == (K + 1, 5, NODES, CHANNELS)
    assert basis.gamma.shape == (K + 1, 5, CHANNELS)
    for i in range(5):
        alone = pb.optimal_basis(GRAPH, torch.from_numpy(x[i]), K)
        np.testing.assert_allclose(basis.vectors[:, i], alone.vectors, atol=1e-12)
        np.testing.assert_allclose(
            basis.coordinates(pb.bases.Bernstein(K))[:, :, i], alone.coordinates(pb.bases.Bernstein(K))
        )
    assert isinstance(basis.weight_function()[0], np.ndarray)


# ---- the same rules whatever takes part in autograd ----------------------------------------------------------------


def test_learned_weights_mean_the_same_in_evaluation(layer: FilterLayer) -> None:
    """Both directions of an edge may have different weights, with and without gradients."""
    x, weight = signal(), torch.rand(EDGES.shape[1], dtype=torch.float64, requires_grad=True)
    trained = layer(x, EDGES, weight)
    with torch.no_grad():
        torch.testing.assert_close(layer(x, EDGES, weight.detach()), trained)
        torch.testing.assert_close(layer(x, EDGES, weight.detach().unsqueeze(1)), trained)


def test_gradients_flow_to_the_weights_of_pyg_data(layer: FilterLayer) -> None:
    weight = torch.rand(EDGES.shape[1], dtype=torch.float64, requires_grad=True)
    x = signal()
    graph = pb.Graph.from_pyg(Data(edge_index=EDGES, edge_weight=weight, num_nodes=NODES))
    got, expected = (torch.autograd.grad(z.pow(3).sum(), weight) for z in (layer(x, graph), layer(x, EDGES, weight)))
    torch.testing.assert_close(got, expected)


def test_a_sparse_matrix_that_requires_gradients_is_refused(layer: FilterLayer) -> None:
    values = torch.ones(EDGES.shape[1], dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match="pass edge_index and edge_weight"):
        layer(signal(), torch.sparse_coo_tensor(EDGES, values, (NODES, NODES)))


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e308])
def test_the_unit_of_learned_weights_does_not_matter(unit: float, layer: FilterLayer) -> None:
    x, weight = signal(), torch.full((EDGES.shape[1],), unit, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(layer(x, EDGES, weight), layer(x, EDGES))


@pytest.mark.parametrize("kind", FORMATS)
def test_graphs_are_built_inside_transforms(kind: str, layer: FilterLayer) -> None:
    x, adjacency = signal(), FORMATS[kind]()
    got = torch.func.grad(lambda x: layer(x, adjacency).square().sum())(x)
    expected = torch.func.grad(lambda x: layer(x, GRAPH).square().sum())(x)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_vmap_over_edge_weights_agrees_with_a_loop(layer: FilterLayer) -> None:
    x, weights = signal(), torch.rand(3, EDGES.shape[1], dtype=torch.float64)
    expected = torch.stack([layer(x, EDGES, weight) for weight in weights])
    torch.testing.assert_close(torch.func.vmap(lambda w: layer(x, EDGES, w))(weights), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_learned_weights_compile_with_the_default_backend() -> None:
    layer, x = perturbed(LAYERS["optbasis"](CHANNELS)).double(), signal()
    weight = torch.rand(EDGES.shape[1], dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(layer, fullgraph=True)
    got, expected = (torch.autograd.grad(f(x, EDGES, weight).pow(3).sum(), weight) for f in (compiled, layer))
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


def test_a_graph_with_learned_weights_has_the_methods_of_a_graph() -> None:
    weight = (EDGES.sum(0) + 1.0).double()
    plain = pb.Graph.from_edge_index(EDGES, NODES, weight)
    learned = pb.Graph.from_edge_index(EDGES, NODES, weight.clone().requires_grad_())
    for one, other in ((plain, learned), (plain.with_self_loops(), learned.with_self_loops())):
        assert one.num_edges == other.num_edges
        assert torch.equal(one.edge_index(), other.edge_index())
        np.testing.assert_allclose(one.degree(), other.degree())
        assert (abs(one.adjacency() - other.adjacency()) > 1e-12).nnz == 0
        torch.testing.assert_close(one.values(), other.values().detach())


def test_an_empty_batch_of_signals(layer: FilterLayer) -> None:
    assert layer(signal(0), GRAPH).shape == (0, NODES, CHANNELS)


def test_wrong_signals_are_refused(layer: FilterLayer) -> None:
    with pytest.raises(TypeError, match="x is a ndarray"):
        layer(signal().numpy(), GRAPH)
    with pytest.raises(ValueError, match=rf"x has shape \({NODES},\); expected \(N, {CHANNELS}\)"):
        layer(signal()[:, 0], GRAPH)


def test_a_norm_out_of_range_is_refused() -> None:
    layer = pb.nn.OptBasisConv(1, 1, scale="signal")
    with pytest.raises(OverflowError, match="the norm of x exceeds the range"):
        layer(torch.full((NODES, 1), 3e38), GRAPH)


def test_the_transpose_of_pyg_keeps_directions() -> None:
    one_way = torch.tensor([[0, 1], [1, 2]])
    adj_t = torch.sparse_coo_tensor(one_way.flip(0), torch.ones(2), (3, 3)).to_sparse_csr()
    data, transposed = Data(edge_index=one_way, num_nodes=3), Data(adj_t=adj_t, num_nodes=3)
    one, other = (pb.Graph.from_pyg(d, directed=True).matrix().to_dense() for d in (data, transposed))
    assert torch.equal(one, other)
