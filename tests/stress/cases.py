"""Adversarial graphs and signals, each determined by its kind and a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import polybasis as pb

Rng = np.random.Generator
Pairs = NDArray[np.int64]  # (2, E)
Signal = NDArray[np.float64]  # (N,)

DEGREES = (1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 30, 40)


@dataclass(frozen=True)
class Case:
    """A signal on a graph and the degree of its filter.

    Attributes:
        kind: kind of the graph, a key of :data:`GRAPHS`.
        seed: seed of the graph, the signal and the coefficients.
        signal: kind of the signal, a key of :data:`SIGNALS`.
        K: degree.
    """

    kind: str
    seed: int
    signal: str
    K: int

    def graph(self) -> pb.Graph:
        return GRAPHS[self.kind](_rng(self.seed, "graph"))

    def x(self, graph: pb.Graph) -> Signal:
        return SIGNALS[self.signal](graph, _rng(self.seed, "signal"))

    def coefficients(self, nodes: int) -> tuple[Signal, Signal]:
        """Draws alpha, (K+1,), and z_bar, (N,), both representable in float32."""
        rng = _rng(self.seed, "coefficients")
        alpha, z_bar = rng.standard_normal(self.K + 1), rng.standard_normal(nodes)
        return alpha.astype(np.float32).astype(np.float64), z_bar.astype(np.float32).astype(np.float64)


def case(number: int) -> Case:
    """Returns case ``number`` of an infinite sequence that cycles through the kinds of graphs."""
    rng = _rng(number, "case")
    kind = list(GRAPHS)[number % len(GRAPHS)]
    return Case(kind, number, str(rng.choice(list(SIGNALS))), int(rng.choice(DEGREES)))


def _rng(seed: int, purpose: str) -> Rng:
    return np.random.default_rng([seed, *purpose.encode()])


# ---- graphs --------------------------------------------------------------------------------------------------------


def _num_nodes(rng: Rng, minimum: int = 2, maximum: int = 200) -> int:
    """Draws a number of nodes, mostly small; one in twenty exceeds ``maximum``, by a factor of up to ten."""
    draw = rng.random()
    if draw < 0.05:
        return int(rng.integers(maximum, 10 * maximum + 1))
    middle = max(minimum, 3 * maximum // 10)
    return int(rng.integers(minimum, middle + 1) if draw < 0.6 else rng.integers(middle, maximum + 1))


def _graph(pairs: Pairs, nodes: int, weight: Signal | None = None) -> pb.Graph:
    return pb.Graph.from_edge_index(pairs, nodes, weight)


def _path(nodes: int) -> Pairs:
    return np.stack([np.arange(nodes - 1), np.arange(1, nodes)])


def _clique(nodes: int) -> Pairs:
    return np.stack(np.triu_indices(nodes, 1))


def _random(rng: Rng, nodes: int, degree: float) -> Pairs:
    """Erdős-Rényi graph with this mean degree."""
    pairs = _clique(nodes)
    return pairs[:, rng.random(pairs.shape[1]) < degree / max(nodes - 1, 1)]


def _disjoint_union(*parts: tuple[Pairs, int]) -> tuple[Pairs, int]:
    """Edges and number of nodes of a disjoint union."""
    starts = np.cumsum([0, *(nodes for _, nodes in parts)])
    shifted = [pairs + start for (pairs, _), start in zip(parts, starts, strict=False)]
    return np.concatenate(shifted, axis=1), int(starts[-1])


def random_sparse(rng: Rng) -> pb.Graph:
    nodes = _num_nodes(rng)
    return _graph(_random(rng, nodes, rng.uniform(1, 6)), nodes)


def random_degree_60(rng: Rng) -> pb.Graph:
    nodes = int(rng.integers(100, 301))
    return _graph(_random(rng, nodes, 60), nodes)


def random_degree_100(rng: Rng) -> pb.Graph:
    nodes = int(rng.integers(150, 401))
    return _graph(_random(rng, nodes, 100), nodes)


def bipartite_random(rng: Rng) -> pb.Graph:
    nodes = _num_nodes(rng, 4)
    left = int(rng.integers(1, nodes))
    ends = np.stack([rng.integers(0, left, 3 * nodes), rng.integers(left, nodes, 3 * nodes)])
    return _graph(ends, nodes)


def bipartite_complete(rng: Rng) -> pb.Graph:
    left, right = (int(n) for n in rng.integers(1, 60, 2))
    return _graph(np.stack(np.meshgrid(np.arange(left), left + np.arange(right))).reshape(2, -1), left + right)


def star(rng: Rng) -> pb.Graph:
    nodes = _num_nodes(rng)
    return _graph(np.stack([np.zeros(nodes - 1, np.int64), np.arange(1, nodes)]), nodes)


def path(rng: Rng) -> pb.Graph:
    nodes = _num_nodes(rng)
    return _graph(_path(nodes), nodes)


def cycle(rng: Rng) -> pb.Graph:
    nodes = _num_nodes(rng, 3)
    return _graph(np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes]), nodes)


def grid(rng: Rng) -> pb.Graph:
    height, width = (int(n) for n in rng.integers(2, 15, 2))
    node = np.arange(height * width).reshape(height, width)
    across = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()])
    down = np.stack([node[:-1].ravel(), node[1:].ravel()])
    return _graph(np.concatenate([across, down], axis=1), height * width)


def random_tree(rng: Rng) -> pb.Graph:
    nodes = _num_nodes(rng)
    child = np.arange(1, nodes)
    return _graph(np.stack([rng.integers(0, child), child]), nodes)


def balanced_tree(rng: Rng) -> pb.Graph:
    arity = int(rng.integers(2, 5))
    nodes = sum(arity**level for level in range(int(rng.integers(2, 6 if arity == 2 else 4)) + 1))
    child = np.arange(1, nodes)
    return _graph(np.stack([(child - 1) // arity, child]), nodes)


def hypercube(rng: Rng) -> pb.Graph:
    dimension = int(rng.integers(1, 9))
    node = np.arange(2**dimension)
    return _graph(np.concatenate([np.stack([node, node ^ (1 << bit)]) for bit in range(dimension)], axis=1), len(node))


def complete(rng: Rng) -> pb.Graph:
    nodes = int(rng.integers(2, 150))
    return _graph(_clique(nodes), nodes)


def bridged_cliques(rng: Rng) -> pb.Graph:
    """Two cliques joined by an edge of weight 1e-2 to 1e-8."""
    sizes = [int(n) for n in rng.integers(2, 50, 2)]
    pairs, nodes = _disjoint_union(*((_clique(n), n) for n in sizes))
    bridge = np.array([[0], [sizes[0]]])
    weight = np.append(np.ones(pairs.shape[1]), 10.0 ** -rng.integers(2, 9))
    return _graph(np.concatenate([pairs, bridge], axis=1), nodes, weight)


def barbell(rng: Rng) -> pb.Graph:
    """Two cliques joined by a path, or one clique attached to a path (a lollipop)."""
    sizes = [int(n) for n in rng.integers(3, 40, 2)]
    length = int(rng.integers(1, 40))
    if rng.random() < 0.5:
        pairs, nodes = _disjoint_union((_clique(sizes[0]), sizes[0]), (_path(length), length))
        joints = [[0], [sizes[0]]]
    else:
        parts = ((_clique(sizes[0]), sizes[0]), (_path(length), length), (_clique(sizes[1]), sizes[1]))
        pairs, nodes = _disjoint_union(*parts)
        joints = [[0, sizes[0] + length - 1], [sizes[0], sizes[0] + length]]
    return _graph(np.concatenate([pairs, np.array(joints)], axis=1), nodes)


def disconnected(rng: Rng) -> pb.Graph:
    """A random graph, a clique, a path, and isolated nodes."""
    a, b, c, isolated = (int(n) for n in rng.integers([2, 2, 2, 1], [60, 20, 20, 10]))
    pairs, nodes = _disjoint_union((_random(rng, a, 3), a), (_clique(b), b), (_path(c), c))
    return _graph(pairs, nodes + isolated)


def wide_weights(rng: Rng) -> pb.Graph:
    """Edge weights that span twelve orders of magnitude."""
    nodes = _num_nodes(rng, 3)
    pairs = np.concatenate([_path(nodes), _random(rng, nodes, 4)], axis=1)
    pairs = np.unique(pairs, axis=1)
    return _graph(pairs, nodes, 10.0 ** rng.uniform(-6, 6, pairs.shape[1]))


def near_identity(rng: Rng) -> pb.Graph:
    """Self-loops with large weights, so that P is close to the identity."""
    nodes = _num_nodes(rng)
    pairs = np.unique(np.concatenate([_path(nodes), _random(rng, nodes, 3)], axis=1), axis=1)
    loops = np.stack([np.arange(nodes)] * 2)
    weight = np.concatenate([np.ones(pairs.shape[1]), np.full(nodes, 10.0 ** rng.uniform(1, 5))])
    return pb.Graph.from_edge_index(np.concatenate([pairs, loops], axis=1), nodes, weight, self_loops="keep")


def regular(rng: Rng) -> pb.Graph:
    """A union of random Hamiltonian cycles, in which almost all nodes have the same degree."""
    nodes, cycles = _num_nodes(rng, 3), int(rng.integers(1, 5))
    orders = [rng.permutation(nodes) for _ in range(cycles)]
    return _graph(np.concatenate([np.stack([order, np.roll(order, 1)]) for order in orders], axis=1), nodes)


def preferential(rng: Rng) -> pb.Graph:
    """Barabási-Albert graph: each node attaches to earlier ones with probability proportional to their degree."""
    nodes, attachments = _num_nodes(rng, 3), int(rng.integers(1, 5))
    ends = [0, 1]
    for node in range(2, nodes):
        chosen = rng.choice(ends, size=attachments)
        for other in np.unique(chosen):
            ends += [int(other), node]
    return _graph(np.array(ends).reshape(-1, 2).T, nodes)


def copies(rng: Rng) -> pb.Graph:
    """Several copies of a random graph, so that every eigenvalue is repeated."""
    nodes, count = int(rng.integers(2, 40)), int(rng.integers(2, 6))
    part = _random(rng, nodes, 3)
    pairs, total = _disjoint_union(*[(part, nodes)] * count)
    return _graph(pairs, total)


def caterpillar(rng: Rng) -> pb.Graph:
    """A path with the same number of leaves at every node."""
    spine, leaves = int(rng.integers(2, 30)), int(rng.integers(1, 6))
    pairs = np.stack([np.repeat(np.arange(spine), leaves), spine + np.arange(spine * leaves)])
    return _graph(np.concatenate([_path(spine), pairs], axis=1), spine * (1 + leaves))


GRAPHS: dict[str, Callable[[Rng], pb.Graph]] = {
    make.__name__: make
    for make in (
        random_sparse, random_degree_60, random_degree_100, bipartite_random, bipartite_complete, star, path, cycle,
        grid, random_tree, balanced_tree, hypercube, complete, bridged_cliques, barbell, disconnected, wide_weights,
        near_identity, regular, preferential, copies, caterpillar,
    )
}  # fmt: skip


# ---- signals -------------------------------------------------------------------------------------------------------


def normal(graph: pb.Graph, rng: Rng) -> Signal:
    return rng.standard_normal(graph.num_nodes)


def relu(graph: pb.Graph, rng: Rng) -> Signal:
    return normal(graph, rng).clip(min=0)


def binary(graph: pb.Graph, rng: Rng) -> Signal:
    """One at about a tenth of the nodes, zero at the others."""
    return (rng.random(graph.num_nodes) < 0.1).astype(np.float64)


def constant(graph: pb.Graph, rng: Rng) -> Signal:
    return np.full(graph.num_nodes, rng.uniform(0.1, 10))


def one_node(graph: pb.Graph, rng: Rng) -> Signal:
    x = np.zeros(graph.num_nodes)
    x[rng.integers(graph.num_nodes)] = 1
    return x


def top(graph: pb.Graph, rng: Rng) -> Signal:
    """The eigenvector to the eigenvalue 1."""
    x = np.sqrt(graph.degree())
    return x / max(np.linalg.norm(x), 1e-300)


def nearly_top(graph: pb.Graph, rng: Rng) -> Signal:
    """The eigenvector to the eigenvalue 1 with relative noise of 1e-6."""
    return top(graph, rng) + 1e-6 * normal(graph, rng) / np.sqrt(graph.num_nodes)


def sine(graph: pb.Graph, rng: Rng) -> Signal:
    return np.sin(2 * np.pi * rng.integers(1, 4) * np.arange(graph.num_nodes) / graph.num_nodes)


def ramp(graph: pb.Graph, rng: Rng) -> Signal:
    return np.arange(graph.num_nodes) / graph.num_nodes


def stripes(graph: pb.Graph, rng: Rng) -> Signal:
    return (np.arange(graph.num_nodes) % rng.integers(2, 12) == 0).astype(np.float64)


def few_eigenvectors(graph: pb.Graph, rng: Rng) -> Signal:
    _, U = np.linalg.eigh(np.asarray(graph.matrix().to_dense()))
    chosen = rng.integers(0, graph.num_nodes, 3)
    return U[:, chosen] @ rng.uniform(0.5, 2, 3)


def tiny(graph: pb.Graph, rng: Rng) -> Signal:
    return 1e-30 * normal(graph, rng)


def huge(graph: pb.Graph, rng: Rng) -> Signal:
    return 1e30 * normal(graph, rng)


def zero(graph: pb.Graph, rng: Rng) -> Signal:
    return np.zeros(graph.num_nodes)


SIGNALS: dict[str, Callable[[pb.Graph, Rng], Signal]] = {
    make.__name__: make
    for make in (
        normal, relu, binary, constant, one_node, top, nearly_top, sine, ramp, stripes, few_eigenvectors, tiny, huge,
        zero,
    )
}  # fmt: skip
