"""Runs the kernels on adversarial cases and compares them with the oracles.

python tests/stress/stress.py --minutes 60 --json stress.jsonl
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from cases import Case, Signal, case
from oracles import Exact, Spectrum, exact_filter, exact_matrix, gradient_error, polynomials, sensitivity

import polybasis as pb
from polybasis import native
from polybasis.krylov.kernels import Kernels
from polybasis.krylov.native_kernels import NativeKernels
from polybasis.krylov.reference_kernels import ReferenceKernels
from polybasis.matrix import native_operator

Record = dict[str, Any]

MAX_EIGENPROBLEM = 500  # nodes
DTYPES = {"float32": torch.float32, "float64": torch.float64}
BASES = ("monomial", "chebyshev", "interpolation", "bernstein", "jacobi", "legendre", "favard")

# Tolerances by data type.
ORTHONORMAL = {"float32": 1e-5, "float64": 1e-12}
IDENTITY = {"float32": 1e-4, "float64": 1e-10}
GRADIENT = {"float32": 1e-3, "float64": 1e-8}
WELL_CONDITIONED = {"float32": 1e-4, "float64": 1e-9}  # bound on Sensitivity.gradient and Sensitivity.end
CLEAR_END = {"float32": 3e-6, "float64": 3e-15}  # bound on Sensitivity.end alone


# ---- one case ------------------------------------------------------------------------------------------------------


def examine(case: Case, dtypes: Iterable[str] = tuple(DTYPES)) -> Iterator[Record]:
    """Runs a case and yields one record per data type and kernel implementation."""
    graph = case.graph()
    spectrum = Spectrum.of(graph) if graph.num_nodes <= MAX_EIGENPROBLEM else None
    alpha, z_bar = case.coefficients(graph.num_nodes)
    for name in dtypes:
        dtype = DTYPES[name]
        x = torch.from_numpy(case.x(graph)).to(dtype)
        signal = x.double().numpy()
        exact = exact_filter(exact_matrix(graph), signal, alpha, z_bar)
        change = sensitivity(graph, exact, signal, alpha, z_bar, dtype)
        common = {
            "kind": case.kind, "seed": case.seed, "signal": case.signal, "K": case.K, "nodes": graph.num_nodes,
            "dtype": name, "exact_rank": exact.rank, "sensitivity": change.gradient, "noise_at_end": change.end,
            "well_conditioned": max(change) < WELL_CONDITIONED[name], "clear_end": change.end < CLEAR_END[name],
        }  # fmt: skip
        rounded = None
        if spectrum is not None:
            eps = torch.finfo(dtype).eps
            rounded = Spectrum.of_rounded(graph, dtype)
            common["min_rank"] = min(spectrum.krylov_dimension(signal, gap=1e-8, tolerance=16 * eps), case.K + 1)
            common["max_rank"] = min(spectrum.krylov_dimension(signal, gap=1e-13, tolerance=1e-14), case.K + 1)
        columns = [torch.from_numpy(values).to(dtype).unsqueeze(1) for values in (alpha, z_bar)]
        runs = {"reference": Run(ReferenceKernels(graph.matrix(dtype)), x, *columns)}
        if native.kernels() is not None:
            runs["native"] = Run(_native(graph, dtype), x, *columns)
        for kernels, run in runs.items():
            record = common | {"kernels": kernels} | run.measure(case, rounded, exact, signal, alpha, z_bar)
            if kernels == "native":
                record["same_rank"] = run.rank == runs["reference"].rank
                record["same_bits"] = _same_bits(run, graph, dtype, x, *columns)
            record["violations"] = violations(record)
            yield record


class Run:
    """Basis, filter output and gradients of one channel, computed by one kernel implementation."""

    def __init__(self, kernels: Kernels, x: torch.Tensor, alpha: torch.Tensor, z_bar: torch.Tensor) -> None:
        signal = x.unsqueeze(1).contiguous()
        self.basis = kernels.optimal_basis(signal, kernels.peak(signal), len(alpha) - 1, last_gamma=True)
        self.z = kernels.combine(self.basis.vectors, alpha)
        self.x_bar, self.alpha_bar = kernels.optimal_adjoint(self.basis, alpha, z_bar)
        self.rank = int(self.basis.rank[0])

    def results(self) -> list[torch.Tensor]:
        """Returns all tensors the kernels computed."""
        return [*self.basis, self.z, self.x_bar, self.alpha_bar]

    def measure(
        self, case: Case, spectrum: Spectrum | None, exact: Exact, x: Signal, alpha: Signal, z_bar: Signal
    ) -> Record:
        """Compares the results with the oracles."""
        V = self.basis.vectors[..., 0].double()
        identity = torch.diag((torch.arange(len(V)) < self.rank).double())
        x_bar, alpha_bar = (bar[:, 0].double().numpy() for bar in (self.x_bar, self.alpha_bar))
        record: Record = {
            "rank": self.rank,
            "defect": float((V @ V.T - identity).abs().max()),
            "finite": all(bool(torch.isfinite(values).all()) for values in self.results()),
            "gradient_error": gradient_error(x_bar, alpha_bar, exact, x, alpha, z_bar),
            "value_error": float(np.abs(self.z[:, 0].double().numpy() - exact.z).max()),
        }
        if self.rank < exact.rank:  # size of the dropped residual relative to the largest one before
            residuals = exact.sqrt_beta[1 : self.rank + 1]
            record["dropped"] = float(residuals[-1] / residuals.max()) if self.rank else 1.0
        if spectrum is not None:
            for name, error in self._identity_errors(case, spectrum, x, V.numpy()).items():
                record[f"identity_{name}"] = error
        return record

    def _identity_errors(self, case: Case, spectrum: Spectrum, x: Signal, V: Any) -> dict[str, float]:
        """Returns the largest entry of V g_k(T) e_0 ‖x‖ - g_k(P) x over k, relative to ‖x‖ max |g_k| on [-1, 1]."""
        peak = float(np.abs(x).max()) or 1.0
        length = float(np.linalg.norm(x / peak)) * peak or 1.0
        errors = {}
        interval = np.cos(np.linspace(0, np.pi, 8 * case.K + 1))
        for name, (basis, values) in polynomials(case.K, case.seed).items():
            response = values(spectrum.mu)
            through_T = basis.coordinates(self.basis.gamma, self.basis.sqrt_beta)[..., 0].numpy().T @ V  # (K+1, N)
            scale = length * np.abs(values(interval)).max(1)
            errors[name] = float((np.abs(through_T - spectrum.filtered(x, response)) / scale[:, None]).max())
        return errors


def _native(graph: pb.Graph, dtype: torch.dtype, isa: str | None = None) -> NativeKernels:
    return NativeKernels(native_operator(graph.indptr, graph.indices, graph.values(dtype), isa=isa))


def _same_bits(run: Run, graph: pb.Graph, dtype: torch.dtype, *signals: torch.Tensor) -> bool:
    """Whether 1, 2 and 4 threads, each with AVX2 and AVX-512, reproduce the results of ``run`` bit for bit."""
    module: Any = native.kernels()
    isas = ["avx2", "avx512"] if module.best_isa() == "avx512" else [module.best_isa()]
    threads = torch.get_num_threads()
    try:
        for isa in isas:
            kernels = _native(graph, dtype, isa)
            for count in (1, 2, 4):
                torch.set_num_threads(count)
                other = Run(kernels, *signals)
                pairs = zip(run.results(), other.results(), strict=True)
                if not all(np.array_equal(a.numpy(), b.numpy(), equal_nan=True) for a, b in pairs):
                    return False
    finally:
        torch.set_num_threads(threads)
    return True


# ---- evaluation of records -----------------------------------------------------------------------------------------


def violations(record: Record) -> list[str]:
    """Returns the names of the properties that a record violates."""
    dtype = record["dtype"]
    broken = {
        "not finite": not record["finite"],
        "not orthonormal": not record["defect"] <= ORTHONORMAL[dtype],
        "rank too high (clear end)": record["clear_end"] and record["rank"] > record["exact_rank"],
        "wrong rank (well-conditioned)": record["well_conditioned"] and record["rank"] != record["exact_rank"],
        **{f"identity {name}": not record.get(f"identity_{name}", 0) <= IDENTITY[dtype] for name in BASES},
        "value (well-conditioned)": record["well_conditioned"] and not record["value_error"] <= GRADIENT[dtype],
        "gradient (well-conditioned)": record["well_conditioned"] and not record["gradient_error"] <= GRADIENT[dtype],
        "bits differ": not record.get("same_bits", True),
    }
    return [name for name, is_broken in broken.items() if is_broken]


def observations(record: Record) -> list[str]:
    """Returns the names of the properties of a record that are counted but are not violations."""
    observed = {
        "well-conditioned": record["well_conditioned"],
        "rank too high": record["rank"] > record.get("max_rank", math.inf),
        "rank too low": record["rank"] < record.get("min_rank", 0),
        "gradient (any)": not record["gradient_error"] <= GRADIENT[record["dtype"]],
        "rank differs from reference": not record.get("same_rank", True),
    }
    return [name for name, holds in observed.items() if holds]


def summary(records: list[Record]) -> str:
    """Formats tables of counts by data type and kernels, and of violations by graph and by signal."""
    columns = sorted({(record["dtype"], record["kernels"]) for record in records})
    counts = {column: {"cases": 0} for column in columns}
    worst: dict[tuple[str, str], float] = dict.fromkeys(columns, 0.0)
    for record in records:
        column = record["dtype"], record["kernels"]
        for name in ("cases", *observations(record), *violations(record)):
            counts[column][name] = counts[column].get(name, 0) + 1
        if record["well_conditioned"]:
            error = record["gradient_error"]
            worst[column] = max(worst[column], math.inf if math.isnan(error) else error)
    names = [
        "cases", "well-conditioned", "not finite", "not orthonormal", "rank too high", "rank too high (clear end)",
        "rank too low", "wrong rank (well-conditioned)",
        *(f"identity {name}" for name in BASES), "value (well-conditioned)", "gradient (well-conditioned)",
        "gradient (any)",
        "rank differs from reference", "bits differ",
    ]  # fmt: skip
    lines = _table(
        ["", *(" ".join(column) for column in columns)],
        [[name, *(str(counts[column].get(name, 0)) for column in columns)] for name in names]
        + [["largest gradient error (well-conditioned)", *(f"{worst[column]:.1e}" for column in columns)]],
    )
    for key in ("kind", "signal"):
        lines += ["", *_table(*_violations_by(key, records))]
    return "\n".join(lines)


def _violations_by(key: str, records: list[Record]) -> tuple[list[str], list[list[str]]]:
    groups = {
        "orthonormal": ("not orthonormal",),
        "rank": ("rank too high (clear end)", "wrong rank (well-conditioned)"),
        "identity": tuple(f"identity {name}" for name in BASES),
        "gradient": ("value (well-conditioned)", "gradient (well-conditioned)"),
        "other": ("not finite", "bits differ"),
    }
    rows = []
    for value in sorted({record[key] for record in records}):
        chosen = [record for record in records if record[key] == value]
        broken = [set(violations(record)) for record in chosen]
        counts = [sum(not found.isdisjoint(names) for found in broken) for names in groups.values()]
        rows.append([value, str(len(chosen)), str(sum(r["well_conditioned"] for r in chosen)), *map(str, counts)])
    return [key, "records", "well-conditioned", *groups], rows


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in lines]


# ---- command line --------------------------------------------------------------------------------------------------


def run_cases(first: int, count: float, minutes: float, out: TextIO | None = None) -> list[Record]:
    """Examines consecutive cases until their number or the time reaches its limit.

    Args:
        first: number of the first case.
        count: maximum number of cases.
        minutes: time limit.
        out: file to write the records to, as JSON lines.

    Returns:
        The records.
    """
    records: list[Record] = []
    start = logged = time.monotonic()
    number, found = first, 0
    while number < first + count and (now := time.monotonic()) < start + 60 * minutes:
        for record in examine(case(number)):
            found += bool(record["violations"])
            records.append(record)
            if out is not None:
                out.write(json.dumps(record) + "\n")
        number += 1
        if now > logged + 10:
            logged = now
            seconds = now - start
            print(f"{number - first} cases, {found} records with violations, {seconds:.0f} s", file=sys.stderr)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=math.inf, help="time limit")
    parser.add_argument("--cases", type=float, default=math.inf, help="maximum number of cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--json", type=Path, help="write the records to this file, as JSON lines")
    parser.add_argument("--summarise", type=Path, help="print the summary of such a file instead of running cases")
    arguments = parser.parse_args()
    if arguments.summarise:
        records = [json.loads(line) for line in arguments.summarise.read_text().splitlines()]
    else:
        if math.isinf(arguments.minutes) and math.isinf(arguments.cases):
            parser.error("pass --minutes or --cases")
        out = arguments.json.open("w") if arguments.json else None
        try:
            records = run_cases(arguments.first, arguments.cases, arguments.minutes, out)
        finally:
            if out is not None:
                out.close()
    print(summary(records))


if __name__ == "__main__":
    main()
