"""Builds the symmetric weights and the flow of a directed graph from node pairs."""

from __future__ import annotations

import numpy as np
import torch

from polybasis.adjacency import INT32_MAX, SAME_WEIGHT, Adjacency, FloatArray, IntArray, SelfLoops


def directed_adjacency(
    pairs: IntArray, weight: FloatArray | None, nodes: int, self_loops: SelfLoops, int32_nonzeros: int = INT32_MAX
) -> tuple[Adjacency, FloatArray]:
    r"""Coalesces directed edges into symmetric weights and a flow.

    .. math:: A_s = \frac{A + A^\top}{2}, \qquad F = \frac{A - A^\top}{A + A^\top} \text{ on the nonzeros of } A_s

    The flow is 1 along an edge, -1 against it, and 0 if both directions have the same weight.

    Args:
        pairs: The edges, (2, E), from the first to the second node, with indices below ``nodes``.
        weight: The weights, (E,), finite and non-negative, or None. Equal edges must have the same weight.
        nodes: The number of nodes.
        self_loops: See :meth:`polybasis.Graph.from_edge_index`.
        int32_nonzeros: The largest number of nonzeros with int32 indices; larger matrices have int64 indices.

    Returns:
        :math:`A_s`, whose ``num_edges`` counts the directed edges, and the flow of each of its nonzeros.

    Raises:
        ValueError: If an edge has two different weights.

    >>> import numpy as np
    >>> adjacency, flow = directed_adjacency(np.array([[0, 1, 2], [1, 2, 1]]), None, 3, "drop")
    >>> adjacency.weight, flow.tolist()
    (tensor([0.5000, 0.5000, 1.0000, 1.0000], dtype=torch.float64), [1.0, -1.0, 0.0, 0.0])
    """
    edge, value = _coalesced(pairs, weight, nodes, drop_loops=self_loops == "drop")
    if self_loops == "add":
        source, target = np.divmod(edge, max(nodes, 1))
        missing = np.setdiff1d(np.arange(nodes), source[source == target])
        edge, value = np.concatenate([edge, missing * (nodes + 1)]), np.concatenate([value, np.ones(len(missing))])
    source, target = np.divmod(edge, max(nodes, 1))
    key, place = np.unique(np.concatenate([edge, target * nodes + source]), return_inverse=True)
    along = np.bincount(place[: len(edge)], value, len(key))
    against = np.bincount(place[len(edge) :], value, len(key))
    flow: FloatArray = (along - against) / (along + against)
    symmetric = 0.5 * along + 0.5 * against
    row, column = np.divmod(key, max(nodes, 1))
    index = torch.int32 if len(key) <= int32_nonzeros and nodes <= INT32_MAX else torch.int64
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=nodes))])
    adjacency = Adjacency(
        torch.from_numpy(indptr).to(index),
        torch.from_numpy(column).to(index),
        None if np.all(symmetric == 1) else torch.from_numpy(symmetric),
        len(edge),
        int(np.count_nonzero(flow == 1)),
    )
    return adjacency, flow


def _coalesced(
    pairs: IntArray, weight: FloatArray | None, nodes: int, *, drop_loops: bool
) -> tuple[IntArray, FloatArray]:
    """Returns every edge once, as the number source * nodes + target in ascending order, and its positive weight."""
    kept = pairs[0] != pairs[1] if drop_loops else np.ones(pairs.shape[1], dtype=bool)
    key = (pairs[0] * nodes + pairs[1])[kept]
    if weight is None:
        unique = np.unique(key)
        return unique, np.ones(len(unique))
    unique, first, place = np.unique(key, return_index=True, return_inverse=True)
    given = weight[kept]
    value = given[first]
    differ = np.flatnonzero(np.abs(given - value[place]) > SAME_WEIGHT * np.maximum(given, value[place]))
    if len(differ):
        source, target = divmod(int(key[differ[0]]), nodes)
        raise ValueError(
            f"edge_weight gives the edge from {source} to {target} two weights, {value[place[differ[0]]]:.9g} and "
            f"{given[differ[0]]:.9g}; expected one weight per edge"
        )
    return unique[value > 0], value[value > 0]
