"""The propagation operator: construction, argument checks, and products compared with a dense matrix."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import dense, graphs, random_graph
from hypothesis import given
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import polybasis as pb
from polybasis import native
from polybasis.adjacency import Adjacency, native_adjacency, numpy_adjacency, symmetric_adjacency
from polybasis.bench.measure import peak_growth


@given(graphs())
def test_product_is_the_dense_product(graph: pb.Graph) -> None:
    x = torch.randn(graph.num_nodes, 5, dtype=torch.float64)
    torch.testing.assert_close(graph @ x, dense(graph) @ x, rtol=1e-12, atol=1e-12)


@given(graphs())
def test_matrix_is_exactly_symmetric(graph: pb.Graph) -> None:
    for dtype in (torch.float32, torch.float64):
        P = graph.matrix(dtype).to_dense()
        assert torch.equal(P, P.T)


@given(graphs())
def test_spectrum_lies_in_the_unit_interval(graph: pb.Graph) -> None:
    eigenvalues = torch.linalg.eigvalsh(graph.matrix().to_dense())
    assert eigenvalues.abs().max() <= 1 + 1e-12


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5,), (8,), (17,), (64,), (100,), (512,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_width(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    graph = random_graph(300, 2000)
    x = torch.randn(300, *shape, dtype=dtype)
    expected = (dense(graph) @ x.double().reshape(300, -1)).reshape(x.shape)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-13
    torch.testing.assert_close((graph @ x).double(), expected, rtol=tolerance, atol=tolerance)


def test_duplicate_and_reversed_edges_are_merged() -> None:
    once = pb.Graph.from_edge_index([[0, 1], [1, 2]])
    for pairs in ([[1, 2], [0, 1]], [[0, 1, 1, 0], [1, 0, 2, 1]]):
        graph = pb.Graph.from_edge_index(torch.tensor(pairs), directed=False)
        assert graph.num_edges == 2
        assert torch.equal(graph.matrix().to_dense(), once.matrix().to_dense())


@pytest.mark.parametrize(
    ("self_loops", "diagonal", "edges"), [("drop", [0, 0, 0], 1), ("keep", [1, 0, 0], 2), ("add", [1, 1, 1], 4)]
)
def test_self_loops(self_loops: pb.graph.SelfLoops, diagonal: list[int], edges: int) -> None:
    graph = pb.Graph.from_edge_index([[0, 0], [0, 1]], num_nodes=3, self_loops=self_loops)
    assert (graph.matrix().to_dense().diagonal() > 0).int().tolist() == diagonal
    assert graph.num_edges == edges
    torch.testing.assert_close(graph.matrix().to_dense(), dense(graph))


def test_added_self_loops_agree_with_pyg() -> None:
    edge_index = torch.randint(0, 20, (2, 50))
    graph = pb.Graph.from_edge_index(edge_index, 20, self_loops="add", directed=False)
    both = torch.cat([edge_index, edge_index.flip(0)], 1).unique(dim=1)
    both = both[:, both[0] != both[1]]
    index, weight = gcn_norm(both, num_nodes=20, add_self_loops=True)
    expected = torch.zeros(20, 20).index_put((index[1], index[0]), weight)
    torch.testing.assert_close(graph.matrix(torch.float32).to_dense(), expected)


def test_isolated_nodes_have_zero_rows() -> None:
    graph = pb.Graph.from_edge_index([[0], [1]], num_nodes=4)
    assert torch.equal((graph @ torch.ones(4))[2:], torch.zeros(2))


def test_all_constructors_agree() -> None:
    edge_index = torch.randint(0, 9, (2, 20)).sort(dim=0).values.unique(dim=1)
    weight = (edge_index.sum(0) + 1).double()
    graph = pb.Graph.from_edge_index(edge_index, 9, weight)
    matrix = sp.coo_matrix((weight.numpy(), edge_index.numpy()), shape=(9, 9))
    data = Data(edge_index=edge_index, edge_weight=weight, num_nodes=9)
    for other in (pb.Graph.from_scipy(matrix), pb.Graph.from_scipy(matrix.tocsr()), pb.Graph.from_pyg(data)):
        assert torch.equal(other.matrix().to_dense(), graph.matrix().to_dense())
    assert repr(graph) == f"Graph(num_nodes=9, num_edges={graph.num_edges})"


def test_edges_of_weight_zero_are_removed() -> None:
    assert pb.Graph.from_edge_index([[0, 1], [1, 2]], edge_weight=[0.0, 1.0]).num_edges == 1


def test_indices_are_int32_while_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert random_graph(50, 100).indices.dtype == torch.int32
    monkeypatch.setattr("polybasis.graph._INT32_NONZEROS", 10)
    wide = random_graph(50, 100)
    assert wide.indices.dtype == wide.indptr.dtype == torch.int64
    x = torch.randn(50, 7, dtype=torch.float64)
    torch.testing.assert_close(wide @ x, dense(wide) @ x)


def random_pairs(seed: int, *, weighted: bool) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Pairs with self-loops, duplicates in both directions, isolated nodes, hubs, and zero weights."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.choice([1, 2, 7, 60, 3000]))
    edges = int(rng.choice([0, 1, 20, 500, 80_000]))
    pairs = (nodes * rng.random((2, edges)) ** rng.choice([1, 4])).astype(np.int64)
    pairs = np.concatenate([pairs, pairs[::-1, : edges // 3], pairs[:, : edges // 5]], axis=1)
    by_pair = rng.permutation(rng.integers(0, 6, 97) / 3)
    return pairs, by_pair[(pairs.min(0) * 7 + pairs.max(0) * 13) % 97] if weighted else None, nodes


def scipy_adjacency(
    pairs: np.ndarray, weight: np.ndarray | None, nodes: int, self_loops: pb.graph.SelfLoops
) -> sp.csr_array:
    """The adjacency matrix computed with SciPy's elementwise maximum."""
    value = np.ones(pairs.shape[1]) if weight is None else weight
    _, once = np.unique(pairs[0] * max(nodes, 1) + pairs[1], return_index=True)
    half = sp.csr_array((value[once], pairs[:, once]), shape=(nodes, nodes))
    matrix = half.maximum(half.T)
    loops = matrix.diagonal()
    if self_loops == "drop":
        matrix = matrix - sp.diags_array(loops)
    elif self_loops == "add":
        matrix = matrix + sp.diags_array((loops == 0).astype(float))
    matrix = sp.csr_array(matrix)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def assert_identical(one: Adjacency, other: Adjacency) -> None:
    for name, a, b in zip(Adjacency._fields, one, other, strict=True):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            assert a.dtype == b.dtype, name
            assert torch.equal(a, b), name
        else:
            assert a == b, name


@pytest.mark.parametrize("self_loops", ["drop", "keep", "add"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_adjacency_agrees_with_scipy(seed: int, weighted: bool, self_loops: pb.graph.SelfLoops) -> None:
    pairs, weight, nodes = random_pairs(seed, weighted=weighted)
    expected = scipy_adjacency(pairs, weight, nodes, self_loops)
    graph = pb.Graph.from_edge_index(pairs, nodes, weight, self_loops, directed=False)
    assert np.array_equal(graph.indptr, expected.indptr)
    assert np.array_equal(graph.indices, expected.indices)
    assert (graph.weight is not None) == weighted
    assert np.array_equal(graph.adjacency().data, expected.data)
    assert graph.num_edges == sp.triu(expected).nnz

    degree = expected.sum(axis=1)
    assert np.array_equal(graph.degree(), degree)
    with np.errstate(divide="ignore"):
        scale = np.where(degree > 0, 1 / np.sqrt(degree), 0)
    rows = np.arange(nodes).repeat(np.diff(expected.indptr))
    values = scale[expected.indices] * expected.data * scale[rows]
    np.testing.assert_allclose(graph.values(), values, rtol=1e-15)


@pytest.mark.parametrize("self_loops", ["drop", "keep", "add"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_native_and_numpy_adjacency_agree(seed: int, weighted: bool, self_loops: pb.graph.SelfLoops) -> None:
    module = native.module or pytest.skip("polybasis was built without its native kernels")
    pairs, weight, nodes = random_pairs(seed, weighted=weighted)
    for int32_nonzeros in (2**31 - 1, 10):
        expected = numpy_adjacency(pairs, weight, nodes, self_loops, int32_nonzeros)
        for threads in (1, 2, 5):
            result = native_adjacency(module, pairs, weight, nodes, self_loops, int32_nonzeros, threads)
            assert_identical(result, expected)


@pytest.mark.parametrize("seed", range(10))
def test_native_and_numpy_adjacency_reject_the_same_pair(seed: int) -> None:
    module = native.module or pytest.skip("polybasis was built without its native kernels")
    rng = np.random.default_rng(seed)
    pairs, weight = rng.integers(0, 40, (2, 2000)), rng.integers(1, 5, 2000) / 2
    given: dict[tuple[int, int], list[float]] = {}
    for low, high, value in zip(pairs.min(0).tolist(), pairs.max(0).tolist(), weight.tolist(), strict=True):
        given.setdefault((low, high), []).append(value)
    pair, values = min((pair, values) for pair, values in given.items() if pair[0] < pair[1] and len(set(values)) > 1)
    second = next(value for value in values if value != values[0])
    message = rf"the pair \({pair[0]}, {pair[1]}\) two weights, {values[0]:g} and {second:g};"
    for threads in (1, 5):
        with pytest.raises(ValueError, match=message):
            native_adjacency(module, pairs, weight, 40, "drop", threads=threads)
    with pytest.raises(ValueError, match=message):
        numpy_adjacency(pairs, weight, 40, "drop")


ROUNDED = {
    "equal": ([1.0, 1.0], 1.0),
    "float32 and float64": ([float(np.float32(0.1)), 0.1], float(np.float32(0.1))),
    "the other way round": ([0.1, float(np.float32(0.1))], 0.1),
    "0.9 of the tolerance": ([1.0, 1 + 9e-7], 1.0),
    "1.1 of the tolerance": ([1.0, 1 + 1.1e-6], None),
    "each near the next": ([1.0, 1 + 8e-7, 1 + 1.6e-6], None),
    "large": ([1e300, 1e300 * (1 + 5e-7)], 1e300),
    "zero and nearly zero": ([0.0, 1e-30], None),
    "smallest numbers": ([5e-324, 1e-323], None),
}


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("implementation", ["native", "numpy"])
def test_weights_that_differ_by_rounding_are_one_weight(name: str, implementation: str) -> None:
    """The weight given first is used for both directions; others are compared with it."""
    weights, expected = ROUNDED[name]
    pairs = np.array([[1, 0, 1], [0, 1, 0]])[:, : len(weights)]
    arguments = (pairs, np.array(weights), 2, "drop")

    def build() -> Adjacency:
        if implementation == "numpy":
            return numpy_adjacency(*arguments)
        return native_adjacency(native.module or pytest.skip("no native kernels"), *arguments)

    if expected is None:
        with pytest.raises(ValueError, match=r"the pair \(0, 1\) two weights") as raised:
            build()
        first, second = str(raised.value).split("weights, ")[1].split(";")[0].split(" and ")
        assert float(first) != float(second)
    else:
        weight = build().weight
        assert weight is not None
        assert weight.tolist() == [expected, expected]


def test_weights_computed_for_each_direction_in_float32_are_accepted() -> None:
    """PyG's symmetric normalisation rounds (i, j) and (j, i) differently."""
    rng = np.random.default_rng(0)
    half = rng.integers(0, 300, (2, 4000))
    both = torch.from_numpy(np.unique(np.concatenate([half, half[::-1]], axis=1), axis=1))
    degree = torch.bincount(both[0], minlength=300).float()
    weight = degree.pow(-0.5)[both[0]] * 1.7 * degree.pow(-0.5)[both[1]]
    swapped = {tuple(pair): value for pair, value in zip(both.T.tolist(), weight.tolist(), strict=True)}
    assert any(swapped[(a, b)] != swapped[(b, a)] for a, b in swapped)
    matrix = pb.Graph.from_edge_index(both, 300, weight).adjacency().toarray()
    assert np.array_equal(matrix, matrix.T)


def one_way_by_sets(pairs: np.ndarray, weight: np.ndarray | None) -> int:
    kept = np.ones(pairs.shape[1], dtype=bool) if weight is None else weight > 0
    listed = set(map(tuple, pairs[:, kept & (pairs[0] != pairs[1])].T.tolist()))
    return sum((b, a) not in listed for a, b in listed)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_pairs_in_one_direction_are_counted(seed: int, weighted: bool) -> None:
    pairs, weight, nodes = random_pairs(seed, weighted=weighted)
    for self_loops in ("drop", "keep", "add"):
        found = symmetric_adjacency(pairs, weight, nodes, self_loops)
        assert found.num_one_way == one_way_by_sets(pairs, weight)


def test_weights_of_dropped_self_loops_may_differ() -> None:
    pairs, weight = [[0, 0, 0], [0, 0, 1]], [1.0, 2.0, 1.0]
    assert pb.Graph.from_edge_index(pairs, edge_weight=weight).num_edges == 1
    with pytest.raises(ValueError, match=r"the pair \(0, 0\) two weights, 1 and 2"):
        pb.Graph.from_edge_index(pairs, edge_weight=weight, self_loops="keep")


def test_pairs_can_have_any_layout_and_integer_type() -> None:
    pairs, weight, nodes = random_pairs(3, weighted=True)
    expected = pb.Graph.from_edge_index(pairs, nodes, weight).matrix().to_dense()
    frozen = pairs.copy()
    frozen.flags.writeable = False
    reversed_pairs = np.ascontiguousarray(pairs[:, ::-1])[:, ::-1]
    strided = np.repeat(weight, 2)[::2]
    for other in (pairs[::-1], np.asfortranarray(pairs), frozen, reversed_pairs, pairs.astype(np.uint16)):
        graph = pb.Graph.from_edge_index(other, nodes, strided)
        assert torch.equal(graph.matrix().to_dense(), expected)


def test_the_native_triangle_checks_its_arguments() -> None:
    module = native.module or pytest.skip("polybasis was built without its native kernels")
    ends = np.array([0, 1, 2])
    for first, second, weight, nodes, self_loops in (
        (ends, ends, None, 2, "drop"),
        (ends, -ends, None, 3, "drop"),
        (ends, ends[:2], None, 3, "drop"),
        (ends, ends, np.ones(3), 3, "drop"),
        (ends, ends, None, 2**31, "drop"),
        (ends, ends, None, 3, "none"),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            module.UpperTriangle(first, second, weight, nodes, self_loops, 1)
    triangle = module.UpperTriangle(ends, ends, None, 3, "keep", 1)
    with pytest.raises(ValueError, match="indices has the wrong shape"):
        triangle.mirror(np.empty(4, dtype=np.int32), np.empty(2, dtype=np.int32), None, 1)


@pytest.mark.parametrize(("weighted", "bytes_an_edge"), [(False, 40), (True, 60)])
def test_building_a_graph_takes_little_memory(weighted: bool, bytes_an_edge: int) -> None:
    if native.module is None:
        pytest.skip("polybasis was built without its native kernels")
    edges = 1_000_000
    pairs = np.random.default_rng(0).integers(0, edges // 10, (2, edges))
    weight = pairs.sum(0) + 1.0 if weighted else None
    peak = peak_growth(lambda: pb.Graph.from_edge_index(pairs, edges // 10, weight, directed=False))
    if peak is None:
        pytest.skip("peak memory is read from Linux's /proc")
    assert peak <= bytes_an_edge * edges


@pytest.mark.parametrize("shape", [(20,), (20, 3), (4, 20, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_numpy_signals_of_any_shape(shape: tuple[int, ...], dtype: type) -> None:
    graph = random_graph(20, 50)
    x = (10 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    got = graph @ x
    assert isinstance(got, np.ndarray)
    assert got.dtype == (np.float64 if dtype is np.int64 else dtype)
    np.testing.assert_allclose(got, dense(graph).numpy() @ x.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_product_passes_gradcheck() -> None:
    graph = random_graph(12, 30)
    x = torch.randn(2, 12, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: graph @ x, (x,))


def test_the_constructor_names_the_functions_that_take_edges() -> None:
    for edges in (torch.tensor([[0, 1], [1, 2]]), [[0, 1], [1, 2]]):
        with pytest.raises(TypeError, match=r"use Graph\.from_edge_index for node pairs"):
            pb.Graph(edges)


INVALID = [
    ({"edge_index": [[0], [512]], "num_nodes": 500}, "edge_index has node 512 but num_nodes is 500"),
    ({"edge_index": [[0, -1], [1, 2]]}, "edge_index has node -1"),
    ({"edge_index": [[0, 1, 2]]}, r"edge_index has shape \(1, 3\)"),
    ({"edge_index": [[0, 1], [1, 2], [2, 3]]}, r"edge_index has shape \(3, 2\); .* so pass edge_index\.T"),
    ({"edge_index": torch.zeros(5, 2, dtype=torch.long)}, r"edge_index has shape \(5, 2\); .* so pass edge_index\.T"),
    ({"edge_index": torch.eye(3).to_sparse()}, "edge_index is a sparse Tensor; use Graph.from_adjacency"),
    ({"edge_index": pb.data.csbm(nodes=20, features=2)}, "edge_index is a NodeDataset; pass its graph"),
    ({"edge_index": [[0.0], [1.0]]}, "edge_index has dtype float64"),
    ({"edge_index": [[0], [1]], "num_nodes": -2}, "num_nodes is -2"),
    ({"edge_index": [[0], [1]], "num_nodes": 2.5}, "num_nodes is 2.5"),
    ({"edge_index": [[0], [1]], "edge_weight": [1.0, 2.0]}, r"edge_weight has shape \(2,\)"),
    ({"edge_index": [[0], [1]], "edge_weight": [-1.0]}, r"edge_weight\[0\] is -1, which is negative"),
    ({"edge_index": [[0, 1], [1, 2]], "edge_weight": [1.0, np.nan]}, r"edge_weight\[1\] is nan, which is not finite"),
    ({"edge_index": [[0], [1]], "edge_weight": [np.inf]}, r"edge_weight\[0\] is inf, which is not finite"),
    ({"edge_index": [[0], [1]], "edge_weight": ["a"]}, "edge_weight has dtype"),
    ({"edge_index": [[0, 1], [1, 0]], "edge_weight": [1.0, 2.0]}, r"the pair \(0, 1\) two weights, 1 and 2"),
    ({"edge_index": [[0], [1]], "self_loops": "yes"}, "self_loops is 'yes'"),
]


@pytest.mark.parametrize(("arguments", "message"), INVALID, ids=[message for _, message in INVALID])
def test_invalid_input_is_rejected_with_a_one_line_message(arguments: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message) as raised:
        pb.Graph.from_edge_index(**arguments)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_invalid_matrices_and_signals_are_rejected() -> None:
    graph = random_graph(5, 6)
    with pytest.raises(ValueError, match=r"adjacency has shape \(2, 3\)"):
        pb.Graph.from_scipy(sp.csr_matrix((2, 3)))
    with pytest.raises(TypeError, match="adjacency is a ndarray"):
        pb.Graph.from_scipy(np.eye(3))
    with pytest.raises(ValueError, match="data has no edge_index"):
        pb.Graph.from_pyg(Data())
    with pytest.raises(ValueError, match=r"x has shape \(4,\); expected \(5,\)"):
        graph @ torch.ones(4)
    with pytest.raises(TypeError, match="x is a list"):
        graph @ [1.0] * 5


@pytest.mark.parametrize("unit", [1e-310, 1e-200, 1.0, 1e200, 1e308])
def test_scaling_all_weights_changes_nothing(unit: float) -> None:
    graph = pb.Graph.from_edge_index([[0, 1], [1, 2]], edge_weight=[unit, unit])
    torch.testing.assert_close(graph @ torch.ones(3), torch.tensor([0.7071068, 1.4142135, 0.7071068]))


def test_duplicates_in_a_matrix_are_summed_as_scipy_does() -> None:
    matrix = sp.coo_matrix(([1.0, 1.0, 1.0], ([0, 0, 1], [1, 1, 2])), shape=(3, 3))
    graphs = [pb.Graph.from_scipy(matrix), pb.Graph.from_scipy(matrix.tocsr())]
    assert torch.equal(graphs[0].matrix().to_dense(), graphs[1].matrix().to_dense())


def test_a_used_graph_can_be_copied_and_pickled() -> None:
    graph, x = random_graph(20, 40), torch.rand(20, 2)
    layer = pb.nn.OptBasisConv(2, K=2)
    expected = layer(x, graph.edge_index())
    assert torch.equal(copy.deepcopy(layer)(x, graph.edge_index()), expected)
    other = pickle.loads(pickle.dumps(graph))
    assert torch.equal(other @ x, graph @ x)


def test_narrow_floats_are_computed_in_float32() -> None:
    graph, x = random_graph(20, 40), torch.rand(20, 2).bfloat16()
    assert torch.equal(graph @ x, (graph @ x.float()).bfloat16())


@pytest.mark.parametrize("nodes", [0, 1, 7])
def test_graphs_without_edges(nodes: int) -> None:
    graph = pb.Graph.from_edge_index(np.zeros((2, 0), dtype=np.int64), nodes)
    assert torch.equal(graph @ torch.ones(nodes, 3), torch.zeros(nodes, 3))
    assert (graph @ torch.ones(nodes, 0)).shape == (nodes, 0)
