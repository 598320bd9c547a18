"""Stress tests of the kernels on adversarial cases: a fixed selection, and new ones for POLYBASIS_STRESS_MINUTES.

POLYBASIS_STRESS_MINUTES=60 python -m pytest tests/stress -k new_cases
"""

from __future__ import annotations

import math
import os
import time

import numpy as np
import pytest
import torch
from cases import GRAPHS, Case, case
from oracles import Spectrum, exact_filter, exact_matrix, polynomials
from stress import Record, examine, run_cases, summary

ROUNDS = 10
NOTABLE = {
    Case("near_identity", 281, "relu", 12): "the adjoint must not depend on a multiple of the identity",
    Case("bridged_cliques", 321, "tiny", 12): "a residual of 1e-6 that float64 can resolve",
    Case("copies", 394, "relu", 40): "errors that grow to 1e-3 by the last basis vector",
    Case("bridged_cliques", 475, "relu", 12): "a residual of 1e-7 that float64 can resolve",
    Case("copies", 592, "sine", 40): "errors that grow by the last basis vector, in float64",
    Case("copies", 724, "huge", 20): "repeated eigenvalues and a final residual that float32 can resolve",
    Case("complete", 870, "nearly_top", 20): "two eigenvalues, one with a component of 1e-6 of the signal",
    Case("bridged_cliques", 937, "one_node", 40): "a signal at one node of a clique, and a bridge of weight 1e-5",
}


def describe(record: Record) -> str:
    identity = ", ".join(f"{key} {record[key]}" for key in ("kind", "seed", "signal", "K", "nodes", "dtype", "kernels"))
    errors = ", ".join(
        f"{key} {record[key]:.1e}" for key in ("defect", "gradient_error", "sensitivity") if not math.isnan(record[key])
    )
    return f"{', '.join(record['violations'])}: {identity}; rank {record['rank']} of {record['exact_rank']}, {errors}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", GRAPHS)
def test_every_property_holds(kind: str) -> None:
    """The basis is orthonormal and finite; V p(T) e_0 ‖x‖ = p(P) x; rank and gradient are accurate if well-conditioned;
    results are bit-identical for any number of threads and for AVX2 and AVX-512."""
    first = list(GRAPHS).index(kind)
    found = [
        record
        for number in range(first, ROUNDS * len(GRAPHS), len(GRAPHS))
        for record in examine(case(number))
        if record["violations"]
    ]
    assert not found, "\n".join(["", *map(describe, found)])


@pytest.mark.parametrize("notable", NOTABLE, ids=lambda notable: f"{notable.kind}-{notable.seed}")
def test_every_property_holds_in_notable_cases(notable: Case) -> None:
    found = [record for record in examine(notable) if record["violations"]]
    assert not found, "\n".join([NOTABLE[notable], *map(describe, found)])


@pytest.mark.skipif("POLYBASIS_STRESS_MINUTES" not in os.environ, reason="POLYBASIS_STRESS_MINUTES is not set")
def test_every_property_holds_in_new_cases() -> None:
    """Every run draws other cases; a failure names its seed."""
    minutes = float(os.environ["POLYBASIS_STRESS_MINUTES"])
    records = run_cases(first=int(time.time()), count=math.inf, minutes=minutes)
    found = [record for record in records if record["violations"]]
    assert not found, "\n".join(["", *map(describe, found), summary(records)])


# ---- tests of the oracles ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["random_sparse", "near_identity", "random_degree_60"])
def test_exact_gradient_equals_autograd(kind: str) -> None:
    """Lanczos with full orthogonalisation in float64, differentiated by torch."""
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
def test_both_ranks_equal_the_number_of_distinct_eigenvalues(kind: str, rank: int) -> None:
    """A random signal has a component in every eigenspace."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        graph = GRAPHS[kind](rng)
        if graph.num_nodes < 5 or graph.num_nodes > 500:
            continue
        x, alpha = rng.standard_normal(graph.num_nodes), np.ones(8)
        assert Spectrum.of(graph).krylov_dimension(x, gap=1e-10, tolerance=1e-12) == rank
        assert exact_filter(exact_matrix(graph), x, alpha, x).rank == rank


@pytest.mark.parametrize("K", [1, 5, 40])
def test_closed_forms_equal_the_polynomials_of_the_package(K: int) -> None:
    mu = np.cos(np.linspace(0, np.pi, 101))
    for basis, values in polynomials(K, seed=0).values():
        expected = values(mu)
        got = basis.evaluate(torch.from_numpy(mu), K).numpy()
        assert np.abs(got - expected).max() <= 1e-11 * np.abs(expected).max()
