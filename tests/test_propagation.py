"""The propagation operators against dense matrices, which NumPy builds from the definitions."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

import polybasis as pb
from polybasis.nn.interpret import spectral_density
from polybasis.propagation import Normalization

Matrix = np.ndarray[Any, np.dtype[Any]]
NORMALIZATIONS: list[Normalization | None] = ["sym", "rw", "laplacian", None]


def dense_operator(A: Matrix, normalization: Normalization | None, q: float | None) -> Matrix:
    """P from its definition; ``q`` is None for an undirected graph, whose A is symmetric."""
    both = A + A.T
    S = A if q is None else both / 2
    D = np.diag(S.sum(1))
    H = S
    if q is not None:
        flow = np.divide(A - A.T, both, out=np.zeros_like(A), where=both > 0)
        H = S * np.exp(2j * np.pi * q * flow)
    inverse = np.diag(np.divide(1, S.sum(1), out=np.zeros(len(A)), where=S.sum(1) > 0))
    if normalization == "sym":
        return np.asarray(np.sqrt(inverse) @ H @ np.sqrt(inverse))
    if normalization == "rw":
        return np.asarray(inverse @ H)
    if normalization == "laplacian":
        largest = np.linalg.eigvalsh(D - H)[-1]
        return np.eye(len(A)) - (2 / largest * (D - H) if largest > 1e-12 else 0 * H)
    largest = np.abs(np.linalg.eigvalsh(H)).max()
    return H / largest if largest > 1e-12 else H


@dataclass(frozen=True)
class Case:
    """A graph by its directed adjacency matrix, of which undirected graphs use the larger weight of both directions."""

    name: str
    nodes: int
    edges: int
    weighted: bool = False
    loops: bool = False

    def adjacency(self, directed: bool) -> Matrix:
        rng = np.random.default_rng(self.nodes + self.edges)
        A = np.zeros((self.nodes, self.nodes))
        if self.edges:
            # The last node is isolated.
            source, target = rng.integers(0, self.nodes - 1, (2, self.edges))
            A[source, target] = rng.uniform(0.1, 5, self.edges) if self.weighted else 1.0
        if not self.loops:
            np.fill_diagonal(A, 0)
        return A if directed else np.maximum(A, A.T)

    def graph(self, normalization: Normalization | None, q: float | None, **arguments: Any) -> pb.Graph:
        A = self.adjacency(q is not None)
        kind = {"directed": False} if q is None else {"directed": True, "q": q}
        return pb.Graph.from_scipy(sp.csr_array(A), "keep", normalization=normalization, **kind, **arguments)


CASES = [
    Case("sparse", 40, 50),
    Case("weighted", 40, 120, weighted=True),
    Case("loops", 40, 100, loops=True),
    Case("dense", 60, 3000, weighted=True, loops=True),
    Case("no edges", 5, 0),
]
OPERATORS = pytest.mark.parametrize("normalization", NORMALIZATIONS)
DIRECTIONS = pytest.mark.parametrize("q", [None, 0.25, 0.1, 0.0])
GRAPHS = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def signal(nodes: int, q: float | None, channels: int = 3, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(nodes, channels, dtype=dtype if q is None else dtype.to_complex())


def dense_polynomial(P: Matrix, coefficients: Matrix, x: Tensor) -> Tensor:
    """p(P) x by Horner's rule, for coefficients of powers, (K+1,)."""
    y = np.zeros_like(P @ x.numpy())
    for coefficient in coefficients[::-1]:
        y = P @ y + coefficient * x.numpy()
    return torch.from_numpy(y)


# ---- the operator --------------------------------------------------------------------------------------------------


@GRAPHS
@OPERATORS
@DIRECTIONS
def test_matrix_product_and_spectrum(case: Case, normalization: Normalization | None, q: float | None) -> None:
    graph, P = case.graph(normalization, q), dense_operator(case.adjacency(q is not None), normalization, q)
    np.testing.assert_allclose(graph.matrix().to_dense().numpy(), P, atol=2e-7)  # lambda_max is accurate to 1e-7
    own = graph.matrix().to_dense().numpy()
    eigenvalues = np.linalg.eigvals(own)
    assert np.abs(eigenvalues.imag).max() < 1e-7
    assert np.abs(eigenvalues).max() <= 1 + 1e-6
    x = signal(case.nodes, q)
    np.testing.assert_allclose((graph @ x).numpy(), own @ x.numpy(), atol=1e-13)
    np.testing.assert_allclose((graph @ x[:, 0]).numpy(), own @ x[:, 0].numpy(), atol=1e-13)


@OPERATORS
@DIRECTIONS
def test_symmetric_form_is_exactly_symmetric(normalization: Normalization | None, q: float | None) -> None:
    graph = CASES[3].graph(normalization, q)
    for dtype in (torch.float32, torch.float64):
        M = graph.propagation(dtype, torch.device("cpu")).to_sparse().to_dense()
        assert torch.equal(M, M.T)


def test_the_default_is_the_symmetric_normalisation_bit_for_bit() -> None:
    graph, x = CASES[1].graph("sym", None), torch.randn(40, 2)
    assert graph.to_symmetric(x) is x
    assert graph.from_symmetric(x) is x
    assert torch.equal(graph @ x, pb.Graph.from_scipy(graph.adjacency()) @ x)


def test_quarter_turns_store_half_the_entries() -> None:
    quarter, other = (
        pb.Graph.from_edge_index([[0, 1], [1, 2]], directed=True, q=q).propagation(torch.float32, torch.device("cpu"))
        for q in (0.25, 0.1)
    )
    assert (len(quarter.values), len(other.values)) == (8, 16)


def test_phases_do_not_depend_on_the_unit_of_weights() -> None:
    A = sp.csr_array(CASES[1].adjacency(True))
    one, other = (pb.Graph.from_scipy(A * unit, directed=True) for unit in (1.0, 4.0))
    torch.testing.assert_close(one.matrix().to_dense(), other.matrix().to_dense())


@OPERATORS
def test_real_signals_on_directed_graphs_have_no_imaginary_part(normalization: Normalization | None) -> None:
    graph, x = CASES[0].graph(normalization, 0.25), torch.randn(40, 2)
    assert (graph @ x).dtype == torch.complex64
    assert torch.equal(graph @ x, graph @ x.to(torch.complex64))
    assert pb.optimal_basis(graph, x, 3).vectors.dtype == torch.complex64


# ---- optimal bases -------------------------------------------------------------------------------------------------


@GRAPHS
@OPERATORS
@DIRECTIONS
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_bases_are_orthonormal(
    case: Case, normalization: Normalization | None, q: float | None, dtype: torch.dtype, bound: float
) -> None:
    """With respect to the complex inner product of directed graphs, and weighted by degrees for the random walk."""
    graph, x = case.graph(normalization, q), signal(case.nodes, q, dtype=dtype)
    basis = pb.optimal_basis(graph, x, 20)
    degree = torch.from_numpy(np.where(graph.degree() > 0, graph.degree(), 1))
    weight = (degree if normalization == "rw" else torch.ones_like(degree)).to(x.dtype)
    gram = torch.einsum("knd,n,lnd->dkl", basis.vectors.conj(), weight, basis.vectors)
    for channel, rank in enumerate(basis.rank.tolist()):
        expected = torch.diag((torch.arange(21) < rank).to(x.dtype))
        assert (gram[channel] - expected).abs().max() < bound


@GRAPHS
@OPERATORS
@DIRECTIONS
def test_bases_represent_polynomials(case: Case, normalization: Normalization | None, q: float | None) -> None:
    """p(P) x = |x| V p(T) e_0, against the dense matrix."""
    graph, x = case.graph(normalization, q), signal(case.nodes, q)
    K, rng = 8, np.random.default_rng(0)
    coefficients = rng.standard_normal(K + 1)
    basis = pb.optimal_basis(graph, x, K)
    coordinates = torch.einsum("jkd,k->jd", basis.coordinates(pb.bases.Monomial()), torch.from_numpy(coefficients))
    found = torch.einsum("jnd,jd->nd", basis.vectors, coordinates.to(x.dtype))
    expected = dense_polynomial(graph.matrix().to_dense().numpy(), coefficients, x)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@DIRECTIONS
def test_coefficients_are_those_of_the_complex_lanczos_process(q: float | None) -> None:
    case = CASES[1]
    graph, x = case.graph("sym", q), signal(case.nodes, q, 1)
    P, v = dense_operator(case.adjacency(q is not None), "sym", q), x[:, 0].numpy() / np.linalg.norm(x.numpy())
    basis = pb.optimal_basis(graph, x, 6)
    vectors = [v]
    for k in range(6):
        w = P @ vectors[-1]
        assert abs(np.vdot(vectors[-1], w) - float(basis.gamma[k, 0])) < 1e-10
        for u in vectors:
            w = w - np.vdot(u, w) * u
        assert abs(np.linalg.norm(w) - float(basis.sqrt_beta[k + 1, 0])) < 1e-10
        vectors.append(w / np.linalg.norm(w))
    np.testing.assert_allclose(basis.vectors[..., 0].numpy(), np.stack(vectors), atol=1e-9)


# ---- filters and layers --------------------------------------------------------------------------------------------


def _layers(channels: int, K: int) -> list[pb.nn.filter_layer.FilterLayer]:
    layers = [
        pb.nn.PolyConv(channels, K, basis="bernstein"),
        pb.nn.PolyConv(channels, K, basis="jacobi"),
        pb.nn.FavardConv(channels, K),
        pb.nn.OptBasisConv(channels, K),
        pb.nn.OptBasisConv(channels, K, scale="signal"),
    ]
    for layer in layers:
        for parameter in layer.parameters():
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return layers


@GRAPHS
@OPERATORS
@DIRECTIONS
def test_layers_are_dense_polynomials(case: Case, normalization: Normalization | None, q: float | None) -> None:
    graph, x = case.graph(normalization, q), signal(case.nodes, q)
    own = graph.matrix().to_dense().numpy()
    values, vectors = np.linalg.eig(own)
    if normalization != "rw":
        values, vectors = np.linalg.eigh(own)
    inverse = np.linalg.inv(vectors)
    for layer in _layers(3, 4):
        z = layer(x, graph)
        response = layer.response(torch.from_numpy(values.real.copy()), x, graph).numpy()  # (n, channels)
        if isinstance(layer, pb.nn.OptBasisConv) and layer.scale == "unit":
            response = response / pb.optimal_basis(graph, x, 4).sqrt_beta[0].numpy()
        expected = vectors @ (response * (inverse @ x.numpy()))
        np.testing.assert_allclose(z.detach().numpy(), expected, atol=2e-6 * np.abs(expected).max())  # float32 alpha


@OPERATORS
@pytest.mark.parametrize("q", [None, 0.25, 0.1])
def test_gradients(normalization: Normalization | None, q: float | None) -> None:
    graph = Case("small", 9, 25, weighted=True).graph(normalization, q)
    x = signal(9, q, 2).requires_grad_()
    alpha = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    s, a, b, c = (
        torch.rand(*size, 2, dtype=torch.float64).add(0.5).requires_grad_() for size in ((), (3,), (3,), (3,))
    )
    assert torch.autograd.gradcheck(lambda x: graph @ x, (x,))
    assert torch.autograd.gradcheck(lambda x, alpha: pb.krylov.optimal_filter(graph, x, alpha), (x, alpha))
    assert torch.autograd.gradcheck(lambda x, alpha: pb.krylov.optimal_filter(graph, x, alpha, "signal"), (x, alpha))
    assert torch.autograd.gradcheck(lambda *args: pb.krylov.recurrence_filter(graph, *args), (x, alpha, s, a, b, c))
    real = torch.randn(9, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: pb.krylov.optimal_filter(graph, x, alpha), (real,))


@pytest.mark.parametrize("q", [0.25, 0.1, 0.0])
def test_complex_bases_and_gradients_are_stable(q: float) -> None:
    """On a dense graph, converged eigenvectors amplify rounding errors, as :class:`ReferenceKernels` explains.

    The oracle is autograd through complex Gram-Schmidt in complex128.
    """
    K, case = 20, Case("dense", 200, 20_000)
    graph, P = (
        case.graph("sym", q),
        torch.from_numpy(dense_operator(case.adjacency(True), "sym", q)).to(torch.complex128),
    )
    x, target = signal(200, q, 1), signal(200, q, 1)
    alpha = torch.randn(K + 1, 1, dtype=torch.float64)

    def oracle(x: Tensor) -> Tensor:
        vectors = [x / torch.linalg.vector_norm(x)]
        for _ in range(K):
            w = P @ vectors[-1]
            for _ in range(2):
                for v in vectors:
                    w = w - (v.conj() * w).sum() * v
            vectors.append(w / torch.linalg.vector_norm(w))
        return (alpha.unsqueeze(-1) * torch.stack(vectors)).sum(0)

    def value_and_gradient(function: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.clone().requires_grad_()
        z = function(x)
        (z.conj() * target.to(x.dtype)).real.sum().backward()
        assert x.grad is not None
        return z.detach(), x.grad

    exact = value_and_gradient(oracle, x)
    for dtype, bound in ((torch.complex128, 1e-11), (torch.complex64, 1e-3)):
        found = value_and_gradient(lambda x: pb.krylov.optimal_filter(graph, x, alpha), x.to(dtype))
        for one, other in zip(found, exact, strict=True):
            assert (one - other).abs().max() < bound * other.abs().max()


@pytest.mark.parametrize(("normalization", "q"), [("sym", 0.25), ("rw", None), ("rw", 0.1), ("laplacian", None)])
def test_second_derivatives_transforms_and_batches_of_signals(
    normalization: Normalization | None, q: float | None
) -> None:
    graph = Case("small", 6, 12, weighted=True).graph(normalization, q)
    x, alpha = signal(6, q, 1).requires_grad_(), torch.randn(3, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x, alpha: pb.krylov.optimal_filter(graph, x, alpha), (x, alpha))
    several = torch.stack([x.detach(), 2 * x.detach() + 1, -x.detach()])
    one_by_one = torch.stack([pb.krylov.optimal_filter(graph, signals, alpha) for signals in several])
    torch.testing.assert_close(pb.krylov.optimal_filter(graph, several, alpha), one_by_one)
    mapped = torch.func.vmap(lambda signals: pb.krylov.optimal_filter(graph, signals, alpha))(several)
    torch.testing.assert_close(mapped, one_by_one)


@pytest.mark.parametrize(("normalization", "q"), [("rw", None), ("laplacian", None), (None, None), ("sym", 0.25)])
def test_compiled_layers(normalization: Normalization | None, q: float | None) -> None:
    graph, x = CASES[0].graph(normalization, q), signal(40, q, dtype=torch.float32)
    for layer in _layers(3, 4)[1:4]:
        torch._dynamo.reset()  # the number of compilations of one function is limited
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        results = [function(y, graph) for function, y in zip((compiled, layer), inputs, strict=True)]
        for result in results:
            result.abs().square().sum().backward()
        torch.testing.assert_close(results[0], results[1])
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad)


# ---- batches -------------------------------------------------------------------------------------------------------


@OPERATORS
@pytest.mark.parametrize("q", [None, 0.25])
def test_graphs_of_a_batch_are_independent(normalization: Normalization | None, q: float | None) -> None:
    """A graph of a batch has its own lambda_max and basis."""
    blocks = [np.sign(case.adjacency(q is not None)) * 2.0**k for k, case in enumerate((CASES[0], CASES[4], CASES[1]))]
    batch = np.repeat([0, 1, 2], [len(block) for block in blocks])
    entries = sp.coo_array(sp.block_diag(blocks))
    arguments: dict[str, Any] = {"normalization": normalization, "directed": q is not None}
    whole = pb.Graph.from_edge_index(np.stack(entries.coords), None, entries.data, batch=batch, **arguments)
    x, alpha = signal(len(batch), q), torch.randn(5, 3, dtype=torch.float64)
    z, basis = pb.krylov.optimal_filter(whole, x, alpha), pb.optimal_basis(whole, x, 4)
    for k, block in enumerate(blocks):
        graph = pb.Graph.from_scipy(sp.csr_array(block), **arguments)
        inside = torch.from_numpy(batch == k)
        torch.testing.assert_close(z[inside], pb.krylov.optimal_filter(graph, x[inside], alpha))
        torch.testing.assert_close(basis.gamma[:, k], pb.optimal_basis(graph, x[inside], 4).gamma)
        if whole.lambda_max is not None:
            assert whole.lambda_max[k] == graph.lambda_max  # type: ignore[index]


# ---- lambda_max ----------------------------------------------------------------------------------------------------

NAMED_GRAPHS = {
    "path of 2": nx.path_graph(2),
    "path": nx.path_graph(60),
    "long path": nx.path_graph(700),
    "cycle": nx.cycle_graph(401),
    "star": nx.star_graph(50),
    "complete": nx.complete_graph(40),
    "grid": nx.grid_2d_graph(15, 20),
    "regular": nx.random_regular_graph(3, 300, seed=0),
    "random": nx.gnm_random_graph(300, 1500, seed=0),
    "scale-free": nx.barabasi_albert_graph(500, 3, seed=0),
    "two components": nx.disjoint_union(nx.complete_graph(5), nx.path_graph(100)),
    "bipartite": nx.complete_bipartite_graph(7, 30),
}


@pytest.mark.parametrize("name", NAMED_GRAPHS)
@pytest.mark.parametrize("normalization", ["laplacian", None])
@pytest.mark.parametrize("weighted", [False, True])
def test_lambda_max(name: str, normalization: Normalization | None, weighted: bool) -> None:
    A = nx.to_scipy_sparse_array(NAMED_GRAPHS[name], dtype=float).tocoo()
    if weighted:
        low, high = np.minimum(*A.coords), np.maximum(*A.coords)
        A.data = 1e-3 + np.sin(low * 3.0 + high) ** 2
    dense = A.toarray()
    eigenvalues = np.linalg.eigvalsh(np.diag(dense.sum(1)) - dense if normalization else dense)
    largest = np.abs(eigenvalues).max()
    graph = pb.Graph.from_scipy(A, normalization=normalization)
    assert isinstance(graph.lambda_max, float)
    assert largest * (1 - 1e-9) <= graph.lambda_max <= largest * (1 + 1e-4)
    again = pb.Graph.from_scipy(A, normalization=normalization)
    assert again.lambda_max == graph.lambda_max


def test_lambda_max_is_at_most_gershgorins_bound() -> None:
    graph = pb.Graph.from_networkx(nx.cycle_graph(20_000), normalization="laplacian")
    assert graph.lambda_max == 4.0


def test_given_lambda_max() -> None:
    A = sp.csr_array(nx.to_scipy_sparse_array(nx.star_graph(3), dtype=float))
    graph = pb.Graph.from_scipy(A, normalization="laplacian", lambda_max=8)
    L = np.diag(A.sum(1)) - A.toarray()
    np.testing.assert_allclose(graph.matrix().to_dense().numpy(), np.eye(4) - L / 4)
    assert (graph.lambda_max, graph.eigenvalue(-1), graph.eigenvalue(1)) == (8.0, 8.0, 0.0)


@pytest.mark.parametrize(("normalization", "factor"), [("sym", 1.0), ("rw", 1.0), ("laplacian", 1.0), (None, 1.0)])
def test_eigenvalues_are_those_of_the_unscaled_matrix(normalization: Normalization | None, factor: float) -> None:
    A = CASES[1].adjacency(False)
    graph = CASES[1].graph(normalization, None)
    mu = np.sort(np.linalg.eigvals(graph.matrix().to_dense().numpy()).real)
    D = A.sum(1)
    scale = np.divide(1, np.sqrt(D), out=np.zeros_like(D), where=D > 0)
    matrix = {"laplacian": np.diag(D) - A, None: A}.get(normalization, np.eye(len(A)) - scale[:, None] * A * scale)
    np.testing.assert_allclose(np.sort(graph.eigenvalue(mu)), np.linalg.eigvalsh(matrix), atol=1e-6)
    torch.testing.assert_close(graph.eigenvalue(torch.from_numpy(mu)).numpy(), graph.eigenvalue(mu))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"normalization": "symmetric"}, "normalization is 'symmetric'; expected one of sym, rw, laplacian or None"),
        ({"lambda_max": 2.0}, "lambda_max is not used with normalization='sym'"),
        ({"normalization": "laplacian", "lambda_max": -1.0}, "lambda_max is -1.0; expected a positive"),
        ({"normalization": "laplacian", "lambda_max": 3.0}, "has an eigenvalue of at least 3.4641"),
        ({"normalization": None, "lambda_max": 1.0}, "has an eigenvalue of at least 1.73205"),
        ({"normalization": None, "lambda_max": [1.0, 2.0]}, r"lambda_max has shape \(2,\)"),
        ({"directed": True, "q": float("nan")}, "q is nan"),
    ],
)
def test_invalid_operators(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pb.Graph.from_edge_index([[0, 0, 0], [1, 2, 3]], **arguments)


# ---- the graph -----------------------------------------------------------------------------------------------------


@OPERATORS
@pytest.mark.parametrize("q", [None, 0.1])
def test_copies_keep_the_operator(normalization: Normalization | None, q: float | None) -> None:
    graph, x = CASES[1].graph(normalization, q), signal(40, q)
    for other in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert repr(other) == repr(graph)
        assert torch.equal(other @ x, graph @ x)
    A = CASES[1].adjacency(q is not None) + np.eye(40)
    looped = graph.with_self_loops()
    np.testing.assert_allclose(looped.matrix().to_dense().numpy(), dense_operator(A, normalization, q), atol=2e-7)


def test_self_loops_with_a_given_lambda_max() -> None:
    arguments: list[tuple[Normalization | None, float]] = [("laplacian", 5.0), (None, 6.0)]
    for normalization, expected in arguments:
        graph = pb.Graph.from_edge_index([[0, 1], [1, 2]], normalization=normalization, lambda_max=5.0)
        assert graph.with_self_loops().lambda_max == expected


def test_directed_graphs_return_their_edges() -> None:
    graph = CASES[1].graph("sym", 0.25)
    A = CASES[1].adjacency(True)
    np.testing.assert_allclose(graph.adjacency().toarray(), A, rtol=1e-14)
    assert graph.num_edges == np.count_nonzero(A)
    again = pb.Graph.from_edge_index(graph.edge_index(), 40, graph.adjacency().data, directed=True)
    torch.testing.assert_close(again.matrix().to_dense(), graph.matrix().to_dense())
    assert repr(pb.Graph.from_edge_index([[0, 1], [1, 0]], directed=True)) == (
        "Graph(num_nodes=2, num_edges=2, directed=True, q=0.25)"
    )


def test_other_constructors_pass_the_operator_on() -> None:
    edge_index = torch.tensor([[0, 1], [1, 2]])
    expected = pb.Graph.from_edge_index(edge_index, directed=True, q=0.1, normalization="rw").matrix().to_dense()
    arguments: dict[str, Any] = {"directed": True, "q": 0.1, "normalization": "rw"}
    matrix = sp.csr_array(([1.0, 1.0], edge_index.numpy()), shape=(3, 3))
    for graph in (
        pb.Graph.from_pyg(Data(edge_index=edge_index, num_nodes=3), **arguments),
        pb.Graph.from_scipy(matrix, **arguments),
        pb.Graph.from_adjacency(matrix, **arguments),
        pb.Graph.from_networkx(nx.DiGraph([(0, 1), (1, 2)]), **arguments),
    ):
        torch.testing.assert_close(graph.matrix().to_dense(), expected)


def test_edges_of_undirected_sources_have_no_direction() -> None:
    graph = pb.Graph.from_networkx(nx.path_graph(4), directed=True)
    assert torch.equal(graph.matrix().to_dense().imag, torch.zeros(4, 4, dtype=torch.float64))


def test_conflicting_weights_of_a_directed_edge() -> None:
    with pytest.raises(ValueError, match="the edge from 0 to 1 two weights, 1 and 2"):
        pb.Graph.from_edge_index([[0, 0, 1], [1, 1, 0]], edge_weight=[1.0, 2.0, 7.0], directed=True)


@pytest.mark.parametrize("normalization", ["rw", "laplacian"])
def test_stationary_is_the_limit_of_powers(normalization: Normalization) -> None:
    """On a disconnected graph with an isolated node; lambda_max above the spectrum excludes the eigenvalue -1."""
    pairs = [[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]]
    given = {"lambda_max": 4.0} if normalization == "laplacian" else {}
    graph = pb.Graph.from_edge_index(pairs, 7, normalization=normalization, **given)
    x = torch.randn(7, 2, dtype=torch.float64)
    limit = x
    for _ in range(300):
        limit = graph @ limit
    torch.testing.assert_close(graph.stationary(x), limit)


@pytest.mark.parametrize(("normalization", "q"), [("rw", None), ("laplacian", None), ("sym", 0.25), (None, 0.25)])
def test_spectral_density_is_that_of_the_eigenvalues(normalization: Normalization | None, q: float | None) -> None:
    graph = Case("large", 300, 1500).graph(normalization, q)
    eigenvalues = np.linalg.eigvals(graph.matrix().to_dense().numpy()).real
    edges, heights = spectral_density(graph, bins=10)
    expected = np.histogram(eigenvalues, bins=edges, density=True)[0]
    assert np.abs(heights - expected).max() < 0.2 * expected.max()


def test_refusals_name_the_reason() -> None:
    directed, unscaled = CASES[0].graph("sym", 0.25), CASES[0].graph(None, None)
    x = torch.randn(40, 1)
    with pytest.raises(ValueError, match="not available for directed graphs"):
        directed.stationary(x)
    with pytest.raises(ValueError, match="not available for graphs with normalization=None"):
        unscaled.stationary(x)
    with pytest.raises(ValueError, match=r"use matrix\(\)"):
        directed.values()
    with pytest.raises(ValueError, match="requires an undirected graph"):
        pb.GraphFilter(2).fit(directed, x, x)
    with pytest.raises(TypeError, match="or a directed graph"):
        _ = unscaled @ x.to(torch.complex64)
    broken = x.to(torch.complex64)
    broken[7] = complex(0, float("nan"))
    with pytest.raises(ValueError, match=r"x\[7, 0\]"):
        pb.optimal_basis(directed, broken, 2)


@pytest.mark.parametrize("normalization", ["rw", "laplacian", None])
def test_fitted_filters(normalization: Normalization | None) -> None:
    """A filter within reach is found exactly, in the weighted inner product of the random walk too."""
    graph, x = CASES[1].graph(normalization, None), signal(40, None)
    fitted = pb.GraphFilter(K=2).fit(graph, x, 2 * x - graph @ (graph @ x))
    np.testing.assert_allclose(fitted.response([-1.0, 0.0, 0.5]), [1.0, 2.0, 1.75], atol=1e-9)


# ---- a task that needs directions ----------------------------------------------------------------------------------


def cyclic_flow(nodes: int, seed: int) -> tuple[Matrix, Matrix]:
    """Edges between all pairs of classes alike, but directed 0 -> 1 -> 2 -> 0, and the class of each node."""
    rng = np.random.default_rng(seed)
    y = np.arange(nodes) % 3
    one, other = rng.integers(0, nodes, (2, 12 * nodes))
    forward = (y[other] - y[one]) % 3
    swap = np.where(forward == 0, rng.random(len(one)) < 0.5, forward == 2)
    return np.where(swap, np.stack([other, one]), np.stack([one, other])), y


@pytest.mark.parametrize("kind", ["optbasis", "favard"])
def test_directions_determine_the_classes(kind: str) -> None:
    """Without directions, the graph and the random features are independent of the classes."""
    accuracy = {directed: _accuracy(kind, directed) for directed in (True, False)}
    assert accuracy[True] > 0.9
    assert accuracy[False] < 0.45


def _accuracy(kind: str, directed: bool, nodes: int = 300, channels: int = 16) -> float:
    pairs, classes = cyclic_flow(nodes, seed=0)
    torch.manual_seed(0)
    y = torch.from_numpy(classes)
    train = torch.rand(nodes) < 0.5
    x = torch.randn(nodes, channels)
    graph = pb.Graph.from_edge_index(pairs, nodes, directed=directed, q=1 / 3)
    conv = pb.nn.OptBasisConv(channels, 6, scale="signal") if kind == "optbasis" else pb.nn.FavardConv(channels, 6)
    linear = torch.nn.Linear(2 * channels, 3)
    optimizer = torch.optim.Adam([*conv.parameters(), *linear.parameters()], lr=0.02, weight_decay=1e-3)
    for _ in range(150):
        z = conv(x, graph)
        z = z if z.is_complex() else torch.complex(z, torch.zeros_like(z))
        logits = linear(torch.cat([z.real, z.imag], dim=1))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits[train], y[train]).backward()
        optimizer.step()
    return float((logits.argmax(1) == y)[~train].float().mean())
