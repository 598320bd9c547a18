"""Adjacency formats of other packages compared with dense matrices, directions, and batches of graphs."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data

import polybasis as pb
from polybasis.graph import as_graph

NODES = 12


def weights(seed: int, *, symmetric: bool = True) -> np.ndarray:
    """A sparse matrix of positive weights with a zero diagonal, as a dense array."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.integers(1, 9, (NODES, NODES)) * (rng.random((NODES, NODES)) < 0.3), 1) / 4
    return upper + upper.T if symmetric else upper


class SparseTensor:
    """The two methods of torch_sparse's class that are used."""

    def __init__(self, matrix: np.ndarray, *, unweighted: bool = False) -> None:
        self.matrix, self.unweighted = matrix, unweighted

    def coo(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        row, column = (torch.from_numpy(ends) for ends in np.nonzero(self.matrix))
        return row, column, None if self.unweighted else torch.from_numpy(self.matrix[row, column])

    def sparse_sizes(self) -> tuple[int, ...]:
        return self.matrix.shape


MATRICES: dict[str, Callable[[np.ndarray], Any]] = {
    "scipy csr": sp.csr_array,
    "scipy csc": sp.csc_array,
    "scipy coo": sp.coo_array,
    "scipy lil": sp.lil_array,
    "scipy matrix": sp.csr_matrix,
    "torch coo": lambda matrix: torch.from_numpy(matrix).to_sparse_coo(),
    "torch coo, uncoalesced": lambda matrix: sum_of_halves(matrix),
    "torch csr": lambda matrix: torch.from_numpy(matrix).to_sparse_csr(),
    "torch csc": lambda matrix: torch.from_numpy(matrix).to_sparse_csc(),
    "torch float32": lambda matrix: torch.from_numpy(matrix).float().to_sparse_csr(),
    "SparseTensor": SparseTensor,
}


def sum_of_halves(matrix: np.ndarray) -> torch.Tensor:
    half = torch.from_numpy(matrix / 2).to_sparse_coo()
    indices, values = torch.cat([half.indices(), half.indices()], 1), torch.cat([half.values(), half.values()])
    return torch.sparse_coo_tensor(indices, values, half.shape, check_invariants=True)


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "upper triangle"])
@pytest.mark.parametrize("name", MATRICES)
def test_matrices_become_their_symmetric_adjacency(name: str, symmetric: bool) -> None:
    expected = weights(0)
    adjacency = MATRICES[name](weights(0, symmetric=symmetric))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph, through_layer = pb.Graph.from_adjacency(adjacency), as_graph(adjacency, NODES)
    assert np.array_equal(graph.adjacency().toarray(), expected)
    assert np.array_equal(through_layer.adjacency().toarray(), expected)


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_of_ones_has_no_weights(name: str) -> None:
    graph = pb.Graph.from_adjacency(MATRICES[name]((weights(1) > 0).astype(np.float64)))
    assert graph.weight is None
    assert np.array_equal(graph.adjacency().toarray(), weights(1) > 0)


def test_scipy_matrices_are_not_changed() -> None:
    duplicates = sp.csr_array((np.array([1.0, 1.0, 2.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert pb.Graph.from_scipy(duplicates).adjacency().toarray().tolist() == [[0, 2], [2, 0]]
    assert duplicates.nnz == 3


def test_a_sparse_tensor_without_values_is_unweighted() -> None:
    graph = pb.Graph.from_adjacency(SparseTensor(weights(2), unweighted=True))
    assert graph.weight is None
    assert np.array_equal(graph.adjacency().toarray(), weights(2) > 0)


def test_the_number_of_nodes_of_a_pyg_edge_index() -> None:
    pairs = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    known = EdgeIndex(pairs, sparse_size=(5, 5), is_undirected=True)
    for graph in (pb.Graph.from_adjacency(known), pb.Graph.from_edge_index(known), as_graph(known)):
        assert (graph.num_nodes, graph.num_edges) == (5, 2)
    assert pb.Graph.from_edge_index(EdgeIndex(pairs)).num_nodes == 3
    weighted = as_graph(known, 5, torch.tensor([1.0, 1.0, 2.0, 2.0]))
    assert weighted.adjacency()[1, 2] == 2
    one_size = EdgeIndex(pairs, sparse_size=(None, 5))
    assert pb.Graph.from_edge_index(one_size).num_nodes == 5


@pytest.mark.parametrize("convert", [pb.Graph.from_adjacency, pb.Graph.from_edge_index, as_graph])
def test_an_edge_index_that_is_not_square_is_refused(convert: Callable[[Any], pb.Graph]) -> None:
    bipartite = EdgeIndex(torch.tensor([[0, 1], [1, 2]]), sparse_size=(3, 5))
    with pytest.raises(ValueError, match=r"adjacency has shape \(3, 5\); expected a square matrix"):
        convert(bipartite)


INVALID_MATRICES = [
    (lambda: torch.rand(3, 3), TypeError, r"dense Tensor of shape \(3, 3\); pass a sparse matrix, adjacency.to_sparse"),
    (lambda: np.eye(3), TypeError, r"dense ndarray of shape \(3, 3\); pass a sparse matrix, scipy.sparse.csr_array"),
    (lambda: torch.zeros(2, 7, dtype=torch.long), TypeError, "use Graph.from_edge_index"),
    (lambda: "graph", TypeError, "adjacency is a str; expected a torch sparse tensor"),
    (lambda: torch.rand(2, 3).to_sparse(), ValueError, r"adjacency has shape \(2, 3\); expected a square matrix"),
    (lambda: SparseTensor(np.ones((2, 3))), ValueError, r"adjacency has shape \(2, 3\)"),
    (lambda: torch.ones(2, 2, 3).to_sparse(2), ValueError, r"adjacency has shape \(2, 2, 3\)"),
    (lambda: (-torch.ones(2, 2)).to_sparse(), ValueError, "is -1, which is negative"),
    (lambda: sp.csr_array([[0, 1], [2, 0]]), ValueError, r"the pair \(0, 1\) two weights, 1 and 2"),
]


@pytest.mark.parametrize(("adjacency", "error", "message"), INVALID_MATRICES, ids=[row[2] for row in INVALID_MATRICES])
def test_invalid_matrices_are_rejected_with_one_line(
    adjacency: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        pb.Graph.from_adjacency(adjacency())
    assert "\n" not in str(raised.value)


def test_layers_refuse_weights_twice_and_other_sizes() -> None:
    graph, matrix = pb.Graph.from_edge_index([[0], [1]]), torch.ones(2, 2).to_sparse()
    assert as_graph(graph, 2) is graph
    assert as_graph(torch.tensor([[0], [1]]), 4, torch.tensor([2.0])).num_nodes == 4
    for value, kind in ((graph, "Graph"), (matrix, "sparse matrix")):
        with pytest.raises(ValueError, match=f"edge_weight was given with a {kind}"):
            as_graph(value, 2, torch.ones(1))
        with pytest.raises(ValueError, match=f"the {kind} has 2 nodes; expected 3"):
            as_graph(value, 3)


# ---- graphs of other packages --------------------------------------------------------------------------------------


def networkx_graph(kind: str, seed: int) -> Any:
    nx = pytest.importorskip("networkx")
    graph = nx.from_numpy_array(weights(seed), create_using=getattr(nx, kind))
    return nx.relabel_nodes(graph, {i: f"node {(5 * i) % NODES}" for i in range(NODES)})


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_networkx_graphs_have_their_adjacency_matrix(kind: str) -> None:
    nx = pytest.importorskip("networkx")
    graph = networkx_graph(kind, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        converted = pb.Graph.from_networkx(graph)
    assert np.array_equal(converted.adjacency().toarray(), nx.to_numpy_array(graph))
    assert pb.Graph.from_networkx(graph, weight=None).weight is None
    assert pb.Graph.from_networkx(graph, weight="length").weight is None


def test_networkx_weights_are_1_where_missing_and_parallel_edges_must_agree() -> None:
    nx = pytest.importorskip("networkx")
    graph = nx.MultiGraph([("a", "b", {"weight": 2.0}), ("a", "b", {"weight": 2.0}), ("b", "c")])
    expected = [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    assert pb.Graph.from_networkx(graph).adjacency().toarray().tolist() == expected
    graph.add_edge("b", "a", weight=3.0)
    with pytest.raises(ValueError, match=r"the pair \(0, 1\) two weights, 2 and 3"):
        pb.Graph.from_networkx(graph)
    assert pb.Graph.from_networkx(nx.empty_graph(4)).num_nodes == 4
    with pytest.raises(TypeError, match="graph is a ndarray; expected a NetworkX graph"):
        pb.Graph.from_networkx(np.eye(2))


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_directed_graph_warns_unless_it_is_symmetric(symmetric: bool) -> None:
    """A graph that is known to be directed warns even if no pair is listed in both directions."""
    nx = pytest.importorskip("networkx")
    igraph = pytest.importorskip("igraph")
    ends = [(0, 1), (1, 2)] + ([(1, 0), (2, 1)] if symmetric else [])
    for convert, graph in (
        (pb.Graph.from_networkx, nx.DiGraph(ends)),
        (pb.Graph.from_igraph, igraph.Graph(ends, directed=True)),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            convert(graph)
            convert(graph, directed=False)
        assert len(caught) == (0 if symmetric else 1)
        if caught:
            assert "2 of 2 node pairs are listed in one direction only" in str(caught[0].message)
            assert caught[0].filename == __file__


def test_igraph_graphs_have_their_adjacency_matrix() -> None:
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph.Weighted_Adjacency(weights(4), mode="undirected")
    assert np.array_equal(pb.Graph.from_igraph(graph).adjacency().toarray(), weights(4))
    ring = igraph.Graph.Ring(5)
    ring.es[0]["weight"] = 3.0  # the others are None
    expected = np.array(ring.get_adjacency().data, dtype=float)
    expected[0, 1] = expected[1, 0] = 3
    assert np.array_equal(pb.Graph.from_igraph(ring).adjacency().toarray(), expected)
    with pytest.raises(TypeError, match="expected an igraph graph"):
        pb.Graph.from_igraph(weights(4))


def test_pygsp_graphs_have_their_weight_matrix() -> None:
    graphs = pytest.importorskip("pygsp").graphs
    graph = graphs.Graph(weights(5))
    assert np.array_equal(pb.Graph.from_pygsp(graph).adjacency().toarray(), weights(5))
    ring = pb.Graph.from_pygsp(graphs.Ring(7))
    assert (ring.num_nodes, ring.num_edges) == (7, 7)
    with pytest.raises(TypeError, match="without a sparse weight matrix W"):
        pb.Graph.from_pygsp(weights(5))


# ---- directions ----------------------------------------------------------------------------------------------------

DIRECTIONS = {
    "each pair once": ([[0, 1], [1, 2]], None),
    "each pair once, in any order": ([[1, 1], [0, 2]], None),
    "both directions": ([[0, 1, 1, 2], [1, 0, 2, 1]], None),
    "self-loops only": ([[0, 1, 1], [1, 0, 1]], None),
    "repeated pairs": ([[0, 0, 1], [1, 1, 2]], None),
    "mixed": ([[0, 1, 1, 3], [1, 0, 2, 2]], "2 of 3 node pairs"),
    "mixed, repeated": ([[0, 1, 1, 1, 0], [1, 0, 2, 2, 0]], "1 of 2 node pairs"),
    "empty": (np.zeros((2, 0), dtype=int), None),
}


@pytest.mark.parametrize("self_loops", ["drop", "keep", "add"])
@pytest.mark.parametrize("name", DIRECTIONS)
def test_evidently_directed_lists_warn_once(name: str, self_loops: pb.graph.SelfLoops) -> None:
    pairs, message = DIRECTIONS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graph = pb.Graph.from_edge_index(pairs, self_loops=self_loops)
        pb.Graph.from_edge_index(pairs, self_loops=self_loops, directed=False)
        graph.with_self_loops()
    assert [message in str(one.message) for one in caught] == ([] if message is None else [True])
    if caught:
        assert caught[0].category is UserWarning
        assert caught[0].filename == __file__
        assert "directed=False" in str(caught[0].message)
        assert "\n" not in str(caught[0].message)


def test_a_matrix_that_is_partly_symmetric_warns() -> None:
    with pytest.warns(UserWarning, match="1 of 2 node pairs"):
        pb.Graph.from_adjacency(sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 0, 0]]))


# ---- PyG data and batches ------------------------------------------------------------------------------------------

PAIR = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("attributes", "hint"),
    [
        (torch.ones(2), r"edge_weight=data\.edge_attr to"),
        (torch.ones(2, 1), r"edge_weight=data\.edge_attr to"),
        (torch.ones(2, 3), r"edge_weight=data\.edge_attr\[:, column\] to"),
    ],
)
def test_edge_attributes_are_not_ignored_silently(attributes: torch.Tensor, hint: str) -> None:
    data = Data(edge_index=PAIR, edge_attr=attributes, num_nodes=2)
    with pytest.warns(UserWarning, match=hint):
        assert pb.Graph.from_pyg(data).weight is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pb.Graph.from_pyg(data, edge_weight=3 * attributes[..., :1].reshape(-1)[:1].repeat(2)).weight is not None
        data.edge_weight = torch.tensor([2.0, 2.0])
        assert pb.Graph.from_pyg(data).adjacency()[0, 1] == 2


def test_data_with_a_transposed_matrix() -> None:
    graph = pb.Graph.from_pyg(Data(adj_t=torch.from_numpy(weights(6)).to_sparse_csr(), num_nodes=NODES))
    assert np.array_equal(graph.adjacency().toarray(), weights(6))


def test_a_batch_keeps_the_boundaries_of_its_graphs() -> None:
    sizes = [3, 1, 4]
    graphs = [Data(edge_index=torch.tensor([[0], [size - 1]]), num_nodes=size) for size in sizes]
    batch = Batch.from_data_list(graphs)
    graph = pb.Graph.from_pyg(batch)
    again = pb.Graph.from_edge_index(batch.edge_index, batch=batch.batch)
    for one in (graph, again, graph.with_self_loops(), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert one.ptr is not None
        assert one.ptr.tolist() == [0, 3, 4, 8]
        assert one.ptr.dtype == torch.int64
        assert one.num_graphs == 3
    assert repr(graph) == "Graph(num_nodes=8, num_edges=2, num_graphs=3)"
    single = pb.Graph.from_edge_index(PAIR)
    assert single.ptr is None
    assert single.num_graphs == 1


def test_graphs_of_a_batch_may_be_empty() -> None:
    graph = pb.Graph.from_edge_index([[0], [1]], batch=np.array([0, 0, 3]))
    assert graph.ptr is not None
    assert graph.ptr.tolist() == [0, 2, 2, 2, 3]
    assert graph.num_graphs == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": [-1, 1, 2, 2]}, "batch starts with -1"),
        ({"batch": [0, 1, 0, 1]}, r"batch\[2\] is 0 after 1; sort the nodes by graph"),
        ({"batch": [[0, 0, 1, 1]]}, r"batch has shape \(1, 4\)"),
        ({"batch": [0.0, 0.0, 1.0, 1.0]}, "batch has dtype torch.float32"),
        ({"batch": [0, 1, 1, 1]}, r"joins node 0 of graph 0 and node 1 of graph 1 \(1 such edges\)"),
        ({"batch": [0, 0, 1]}, "edge_index has node 3 but num_nodes is 3"),
        ({"batch": [0, 0, 1, 1], "num_nodes": 5}, "the graphs of the batch have 4 nodes, but num_nodes is 5"),
    ],
)
def test_invalid_batches_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message) as raised:
        pb.Graph.from_edge_index([[0, 2], [1, 3]], **arguments)
    assert "\n" not in str(raised.value)
