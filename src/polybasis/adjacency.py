"""Builds the symmetric adjacency matrix of an undirected graph from node pairs, natively or with NumPy."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis import native

SelfLoops = Literal["drop", "keep", "add"]
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

INT32_MAX = 2**31 - 1
# The weights of both directions of an edge are often computed separately in float32. Each of a handful of operations
# rounds by up to 2^-24, so weights that should be equal differ by a few such steps; 1e-6 is about sixteen of them.
# native/adjacency.cpp has the same rule.
SAME_WEIGHT = 1e-6
_MIN_PAIRS_PER_THREAD = 2**20  # below this number, a thread costs more than it saves


class ConflictingWeightsError(ValueError):
    """A node pair is listed with different weights."""


class Adjacency(NamedTuple):
    """A symmetric matrix in CSR format with sorted columns; ``weight`` is None if every nonzero is 1.

    ``num_one_way`` counts the edges between two nodes that were given in one direction only.
    """

    indptr: Tensor
    indices: Tensor
    weight: Tensor | None
    num_edges: int
    num_one_way: int = 0


def symmetric_adjacency(
    pairs: IntArray, weight: FloatArray | None, nodes: int, self_loops: SelfLoops, int32_nonzeros: int = INT32_MAX
) -> Adjacency:
    """Coalesces node pairs, in either direction, into a symmetric matrix without explicit zeros.

    Weights of one pair that agree up to float32 rounding (relative difference 1e-6) are one weight, the first given.

    Args:
        pairs: The node pairs, (2, E), with indices below ``nodes``.
        weight: The weights, (E,), finite and non-negative, or None.
        nodes: The number of nodes.
        self_loops: See :meth:`polybasis.Graph.from_edge_index`.
        int32_nonzeros: The largest number of nonzeros with int32 indices; larger matrices have int64 indices.

    Raises:
        ValueError: If a pair has two different weights.

    >>> import numpy as np
    >>> symmetric_adjacency(np.array([[0, 1], [1, 2]]), None, 3, "drop").indices
    tensor([1, 0, 2, 1], dtype=torch.int32)
    """
    module = native.module
    if module is None or nodes > INT32_MAX:
        return numpy_adjacency(pairs, weight, nodes, self_loops, int32_nonzeros)
    threads = min(torch.get_num_threads(), 1 + pairs.shape[1] // _MIN_PAIRS_PER_THREAD)
    return native_adjacency(module, pairs, weight, nodes, self_loops, int32_nonzeros, threads)


def native_adjacency(
    module: Any,
    pairs: IntArray,
    weight: FloatArray | None,
    nodes: int,
    self_loops: SelfLoops,
    int32_nonzeros: int = INT32_MAX,
    threads: int = 1,
) -> Adjacency:
    """Implements :func:`symmetric_adjacency` by counting sorts in C++, with the same result for any thread count."""
    first, second = np.ascontiguousarray(pairs[0]), np.ascontiguousarray(pairs[1])
    if weight is None:
        upper = module.UpperTriangle(first, second, None, nodes, self_loops, threads)
    else:
        upper = module.WeightedUpperTriangle(first, second, np.ascontiguousarray(weight), nodes, self_loops, threads)
        if upper.conflict is not None:
            raise _conflicting_weights(upper.conflict, pairs, weight)
    index = _index_type(upper.nonzeros, nodes, int32_nonzeros)
    indptr = torch.empty(nodes + 1, dtype=index)
    indices = torch.empty(upper.nonzeros, dtype=index)
    weights = None if weight is None else torch.empty(upper.nonzeros, dtype=torch.float64)
    upper.mirror(indptr, indices, weights, threads)
    edges, one_way = upper.edges
    return Adjacency(indptr, indices, weights, edges, one_way)


def numpy_adjacency(
    pairs: IntArray, weight: FloatArray | None, nodes: int, self_loops: SelfLoops, int32_nonzeros: int = INT32_MAX
) -> Adjacency:
    """Implements :func:`symmetric_adjacency` by sorting one key per pair, for builds without native kernels."""
    low, high, weight, one_way = _merged(pairs, weight, nodes, drop_loops=self_loops == "drop")
    if self_loops == "add":
        missing = np.setdiff1d(np.arange(nodes), low[low == high])
        low, high = np.concatenate([low, missing]), np.concatenate([high, missing])
        weight = None if weight is None else np.concatenate([weight, np.ones(len(missing))])
    matrix = _symmetric(low, high, weight, nodes)
    index = _index_type(matrix.nnz, nodes, int32_nonzeros)
    return Adjacency(
        torch.from_numpy(matrix.indptr).to(index),
        torch.from_numpy(matrix.indices).to(index),
        None if weight is None else torch.from_numpy(matrix.data),
        len(low),
        one_way,
    )


def _merged(
    pairs: IntArray, weight: FloatArray | None, nodes: int, *, drop_loops: bool
) -> tuple[IntArray, IntArray, FloatArray | None, int]:
    """Returns every pair once, the smaller index first, and the number of pairs given in one direction only."""
    key = np.minimum(pairs[0], pairs[1])
    key *= nodes
    key += np.maximum(pairs[0], pairs[1])
    kept = pairs[0] != pairs[1] if drop_loops else slice(None)
    key, reverse = key[kept], (pairs[0] > pairs[1])[kept]
    if weight is None:  # sorting numbers is faster than sorting their places; the lowest bit holds the direction
        tagged = key.view(np.uint64) << np.uint64(1) | reverse
        tagged.sort()
        key, reverse = (tagged >> np.uint64(1)).view(np.int64), (tagged & np.uint64(1)).astype(np.bool_)
        starts = np.flatnonzero(_first_of_equals(key))
    else:
        order = np.argsort(key, kind="stable")
        key, reverse, given = key[order], reverse[order], weight[kept][order]
        starts = np.flatnonzero(_first_of_equals(key))
        counts = np.diff(starts, append=len(key))
        differ = _different(given[starts].repeat(counts), given)
        if differ.any():
            raise _conflicting_weights(divmod(int(key[differ][0]), nodes), pairs, weight)
        weight = given[starts]
    one_way = np.logical_and.reduceat(reverse, starts) | ~np.logical_or.reduceat(reverse, starts)
    key = key[starts]
    if weight is not None:
        positive = weight > 0
        key, weight, one_way = key[positive], weight[positive], one_way[positive]
    low, high = key // max(nodes, 1), key % max(nodes, 1)
    return low, high, weight, int(np.count_nonzero(one_way & (low != high)))


def _different(one: FloatArray, other: FloatArray) -> NDArray[np.bool_]:
    """Returns where two weights differ by more than float32 rounding."""
    return np.abs(one - other) > SAME_WEIGHT * np.maximum(one, other)


def _first_of_equals(ordered: IntArray) -> NDArray[np.bool_]:
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def _conflicting_weights(pair: tuple[int, int], pairs: IntArray, weight: FloatArray) -> ConflictingWeightsError:
    low, high = pair
    given = weight[(np.minimum(pairs[0], pairs[1]) == low) & (np.maximum(pairs[0], pairs[1]) == high)]
    other = given[_different(given[0], given)][0]
    return ConflictingWeightsError(
        f"edge_weight gives the pair {pair} two weights, {_distinct(given[0], other)}; "
        "expected one weight per undirected edge"
    )


def _distinct(one: float, other: float) -> str:
    """Returns two numbers with enough digits to see that they differ."""
    digits = next(digits for digits in (6, 9, 17) if f"{one:.{digits}g}" != f"{other:.{digits}g}")
    return f"{one:.{digits}g} and {other:.{digits}g}"


def _symmetric(low: IntArray, high: IntArray, weight: FloatArray | None, nodes: int) -> sp.csr_array:
    """Returns the symmetric matrix of coalesced pairs."""
    value = np.ones(len(low), dtype=np.int8) if weight is None else weight
    off = low != high
    rows, columns = np.concatenate([low, high[off]]), np.concatenate([high, low[off]])
    matrix = sp.coo_array((np.concatenate([value, value[off]]), (rows, columns)), shape=(nodes, nodes)).tocsr()
    matrix.sort_indices()
    return matrix


def _index_type(nonzeros: int, nodes: int, int32_nonzeros: int) -> torch.dtype:
    return torch.int32 if nonzeros <= int32_nonzeros and nodes <= INT32_MAX else torch.int64
