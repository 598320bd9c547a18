"""Runs the engine on adversarial cases: a fixed selection by default, or for POLYBASIS_HUNT_MINUTES.

POLYBASIS_HUNT_MINUTES=60 python -m pytest tests/hunt -k long
"""

from __future__ import annotations

import math
import os
import time

import numpy as np
import pytest
import torch
from cases import GRAPHS, Case, case
from hunt import Record, examine, hunt, summary
from oracles import Spectrum, exact_filter, exact_matrix, polynomials

ROUNDS = 10
NOTABLE = {
    Case("near_identity", 281, "relu", 12): "the adjoint may not depend on a multiple of the identity",
    Case("bridged_cliques", 321, "tiny", 12): "a residual of 1e-6 that float64 can resolve",
    Case("copies", 394, "relu", 40): "errors that have grown to 1e-3 by the end of the basis",
    Case("bridged_cliques", 475, "relu", 12): "a residual of 1e-7 that float64 can resolve",
    Case("copies", 592, "sine", 40): "errors that have grown by the end of the basis, in float64",
    Case("copies", 724, "huge", 20): "eigenvalues that repeat and an end that float32 can see",
    Case("complete", 870, "nearly_top", 20): "two eigenvalues, one of them in a millionth of the signal",
    Case("bridged_cliques", 937, "one_node", 40): "one node of a clique and a bridge of 1e-5",
}


def described(record: Record) -> str:
    place = ", ".join(f"{key} {record[key]}" for key in ("kind", "seed", "signal", "K", "nodes", "dtype", "kernels"))
    numbers = ", ".join(
        f"{key} {record[key]:.1e}" for key in ("defect", "gradient_error", "sensitivity") if not math.isnan(record[key])
    )
    return f"{', '.join(record['violations'])}: {place}; rank {record['rank']} of {record['exact_rank']}, {numbers}"


@pytest.mark.parametrize("kind", GRAPHS)
def test_every_property_holds(kind: str) -> None:
    """Orthonormal and finite; V p(T) e_0 ‖x‖ = p(P) x; rank and gradient exact wherever the data type can know them;
    the same bits for any number of threads and either register size."""
    first = list(GRAPHS).index(kind)
    found = [
        record
        for number in range(first, ROUNDS * len(GRAPHS), len(GRAPHS))
        for record in examine(case(number))
        if record["violations"]
    ]
    assert not found, "\n".join(["", *map(described, found)])


@pytest.mark.parametrize("notable", NOTABLE, ids=lambda notable: f"{notable.kind}-{notable.seed}")
def test_every_property_holds_in_notable_cases(notable: Case) -> None:
    found = [record for record in examine(notable) if record["violations"]]
    assert not found, "\n".join([NOTABLE[notable], *map(described, found)])


@pytest.mark.skipif("POLYBASIS_HUNT_MINUTES" not in os.environ, reason="POLYBASIS_HUNT_MINUTES is not set")
def test_long_hunt() -> None:
    """New cases in every run; a failure names its seed."""
    records = hunt(first=int(time.time()), count=math.inf, minutes=float(os.environ["POLYBASIS_HUNT_MINUTES"]))
    found = [record for record in records if record["violations"]]
    assert not found, "\n".join(["", *map(described, found), summary(records)])


# ---- the oracles themselves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["random_sparse", "near_identity", "random_degree_60"])
def test_exact_gradient_is_autograds(kind: str) -> None:
    """Plain Lanczos with full orthogonalisation, differentiated by torch in float64."""
    graph = GRAPHS[kind](np.random.default_rng(5))
    rng = np.random.default_rng(6)
    x, z_bar, alpha = rng.standard_normal(graph.num_nodes), rng.standard_normal(graph.num_nodes), rng.standard_normal(5)
    exact = exact_filter(exact_matrix(graph), x, alpha, z_bar)
    P = graph.matrix().to_dense()
    signal = torch.tensor(x, requires_grad=True)
    V = (signal / signal.norm())[None]
    for _ in range(4):
        w = P @ V[-1]
        for _ in range(2):
            w = w - (V @ w) @ V
        V = torch.cat([V, (w / w.norm())[None]])
    z = torch.tensor(alpha) @ V
    (x_bar,) = torch.autograd.grad(z, signal, torch.tensor(z_bar))
    assert exact.rank == 5
    np.testing.assert_allclose(exact.z, z.detach(), rtol=0, atol=1e-9)
    np.testing.assert_allclose(exact.alpha_bar, (V @ torch.tensor(z_bar)).detach(), rtol=0, atol=1e-8)
    np.testing.assert_allclose(exact.x_bar, x_bar, rtol=0, atol=1e-9 * np.abs(exact.x_bar).max())


@pytest.mark.parametrize(("kind", "rank"), [("star", 3), ("complete", 2), ("bipartite_complete", 3)])
def test_both_ranks_are_the_known_one(kind: str, rank: int) -> None:
    """The number of eigenvalues of these graphs, all of which a random signal touches."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        graph = GRAPHS[kind](rng)
        if graph.num_nodes < 5 or graph.num_nodes > 500:
            continue
        x, alpha = rng.standard_normal(graph.num_nodes), np.ones(8)
        assert Spectrum.of(graph).touched(x, gap=1e-10, share=1e-12) == rank
        assert exact_filter(exact_matrix(graph), x, alpha, x).rank == rank


@pytest.mark.parametrize("K", [1, 5, 40])
def test_closed_forms_are_the_packages_polynomials(K: int) -> None:
    mu = np.cos(np.linspace(0, np.pi, 101))
    for basis, values in polynomials(K, seed=0).values():
        expected = values(mu)
        got = basis.evaluate(torch.from_numpy(mu), K).numpy()
        assert np.abs(got - expected).max() <= 1e-11 * np.abs(expected).max()
