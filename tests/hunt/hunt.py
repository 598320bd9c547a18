"""Runs the engine over adversarial cases and compares it with the oracles.

python tests/hunt/hunt.py --minutes 60 --json hunt.jsonl
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
from polybasis.graph import native_operator
from polybasis.krylov.kernels import Kernels
from polybasis.krylov.native_kernels import NativeKernels
from polybasis.krylov.reference_kernels import ReferenceKernels

Record = dict[str, Any]

LARGEST_EIGENPROBLEM = 500  # nodes
DTYPES = {"float32": torch.float32, "float64": torch.float64}
BASES = ("monomial", "chebyshev", "interpolation", "bernstein", "jacobi", "legendre", "favard")

ORTHONORMAL = {"float32": 1e-5, "float64": 1e-12}
IDENTITY = {"float32": 1e-4, "float64": 1e-10}
GRADIENT = {"float32": 1e-3, "float64": 1e-8}
KNOWABLE = {"float32": 1e-4, "float64": 1e-9}  # both numbers of a Sensitivity
VISIBLE_END = {"float32": 3e-6, "float64": 3e-15}  # Sensitivity.end, whatever the gradient's


# ---- one case ------------------------------------------------------------------------------------------------------


def examine(case: Case, dtypes: Iterable[str] = tuple(DTYPES)) -> Iterator[Record]:
    """A record for each data type and each set of kernels."""
    graph = case.graph()
    spectrum = Spectrum.of(graph) if graph.num_nodes <= LARGEST_EIGENPROBLEM else None
    alpha, z_bar = case.coefficients(graph.num_nodes)
    for name in dtypes:
        dtype = DTYPES[name]
        x = torch.from_numpy(case.x(graph)).to(dtype)
        signal = x.double().numpy()
        exact = exact_filter(exact_matrix(graph), signal, alpha, z_bar)
        moves = sensitivity(graph, exact, signal, alpha, z_bar, dtype)
        common = {
            "kind": case.kind, "seed": case.seed, "signal": case.signal, "K": case.K, "nodes": graph.num_nodes,
            "dtype": name, "exact_rank": exact.rank, "sensitivity": moves.gradient, "noise_at_end": moves.end,
            "knowable": max(moves) < KNOWABLE[name], "visible_end": moves.end < VISIBLE_END[name],
        }  # fmt: skip
        rounded = None
        if spectrum is not None:
            eps = torch.finfo(dtype).eps
            rounded = Spectrum.of_rounded(graph, dtype)
            common["clear_rank"] = min(spectrum.touched(signal, gap=1e-8, share=16 * eps), case.K + 1)
            common["most_rank"] = min(spectrum.touched(signal, gap=1e-13, share=1e-14), case.K + 1)
        bar = [torch.from_numpy(numbers).to(dtype).unsqueeze(1) for numbers in (alpha, z_bar)]
        runs = {"reference": Run(ReferenceKernels(graph.matrix(dtype)), x, *bar)}
        if native.kernels() is not None:
            runs["native"] = Run(_native(graph, dtype), x, *bar)
        for kernels, run in runs.items():
            record = common | {"kernels": kernels} | run.measured(case, rounded, exact, signal, alpha, z_bar)
            if kernels == "native":
                record["same_rank"] = run.rank == runs["reference"].rank
                record["same_bits"] = _same_bits(run, graph, dtype, x, *bar)
            record["violations"] = violations(record)
            yield record


class Run:
    """The basis of one channel, its filter and its gradient, by one set of kernels."""

    def __init__(self, kernels: Kernels, x: torch.Tensor, alpha: torch.Tensor, z_bar: torch.Tensor) -> None:
        signal = x.unsqueeze(1).contiguous()
        self.basis = kernels.optimal_basis(signal, kernels.peak(signal), len(alpha) - 1, last_gamma=True)
        self.z = kernels.combine(self.basis.vectors, alpha)
        self.x_bar, self.alpha_bar = kernels.optimal_adjoint(self.basis, alpha, z_bar)
        self.rank = int(self.basis.rank[0])

    def numbers(self) -> list[torch.Tensor]:
        return [*self.basis, self.z, self.x_bar, self.alpha_bar]

    def measured(
        self, case: Case, spectrum: Spectrum | None, exact: Exact, x: Signal, alpha: Signal, z_bar: Signal
    ) -> Record:
        V = self.basis.vectors[..., 0].double()
        identity = torch.diag((torch.arange(len(V)) < self.rank).double())
        x_bar, alpha_bar = (bar[:, 0].double().numpy() for bar in (self.x_bar, self.alpha_bar))
        record: Record = {
            "rank": self.rank,
            "defect": float((V @ V.T - identity).abs().max()),
            "finite": all(bool(torch.isfinite(numbers).all()) for numbers in self.numbers()),
            "gradient_error": gradient_error(x_bar, alpha_bar, exact, x, alpha, z_bar),
            "value_error": float(np.abs(self.z[:, 0].double().numpy() - exact.z).max()),
        }
        if self.rank < exact.rank:  # the residual that was taken for noise, as a share of the largest so far
            lengths = exact.sqrt_beta[1 : self.rank + 1]
            record["dropped"] = float(lengths[-1] / lengths.max()) if self.rank else 1.0
        if spectrum is not None:
            for name, error in self._identity_errors(case, spectrum, x, V.numpy()).items():
                record[f"identity_{name}"] = error
        return record

    def _identity_errors(self, case: Case, spectrum: Spectrum, x: Signal, V: Any) -> dict[str, float]:
        """The largest entry of V g_k(T) e_0 ‖x‖ - g_k(P) x over k, relative to ‖x‖ max |g_k| on [-1, 1]."""
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
    return NativeKernels(native_operator(graph.indptr, graph.indices, graph.values(dtype), isa))


def _same_bits(run: Run, graph: pb.Graph, dtype: torch.dtype, *signals: torch.Tensor) -> bool:
    """Whether 1, 2 and 4 threads and AVX2 and AVX-512 all return what ``run`` did."""
    module: Any = native.kernels()
    isas = ["avx2", "avx512"] if module.best_isa() == "avx512" else [module.best_isa()]
    threads = torch.get_num_threads()
    try:
        for isa in isas:
            kernels = _native(graph, dtype, isa)
            for count in (1, 2, 4):
                torch.set_num_threads(count)
                other = Run(kernels, *signals)
                pairs = zip(run.numbers(), other.numbers(), strict=True)
                if not all(np.array_equal(a.numpy(), b.numpy(), equal_nan=True) for a, b in pairs):
                    return False
    finally:
        torch.set_num_threads(threads)
    return True


# ---- what a record says --------------------------------------------------------------------------------------------


def violations(record: Record) -> list[str]:
    """The properties that a record breaks."""
    dtype = record["dtype"]
    broken = {
        "not finite": not record["finite"],
        "not orthonormal": not record["defect"] <= ORTHONORMAL[dtype],
        "rank above (visible end)": record["visible_end"] and record["rank"] > record["exact_rank"],
        "wrong rank (knowable)": record["knowable"] and record["rank"] != record["exact_rank"],
        **{f"identity {name}": not record.get(f"identity_{name}", 0) <= IDENTITY[dtype] for name in BASES},
        "value (knowable)": record["knowable"] and not record["value_error"] <= GRADIENT[dtype],
        "gradient (knowable)": record["knowable"] and not record["gradient_error"] <= GRADIENT[dtype],
        "bits differ": not record.get("same_bits", True),
    }
    return [name for name, is_broken in broken.items() if is_broken]


def observations(record: Record) -> list[str]:
    """What is counted, but not an error."""
    noted = {
        "knowable": record["knowable"],
        "rank above": record["rank"] > record.get("most_rank", math.inf),
        "rank below": record["rank"] < record.get("clear_rank", 0),
        "gradient (any)": not record["gradient_error"] <= GRADIENT[record["dtype"]],
        "rank differs from reference": not record.get("same_rank", True),
    }
    return [name for name, is_noted in noted.items() if is_noted]


def summary(records: list[Record]) -> str:
    """Counts by data type and kernels, and violations by kind of graph and by signal."""
    columns = sorted({(record["dtype"], record["kernels"]) for record in records})
    counts = {column: {"cases": 0} for column in columns}
    worst: dict[tuple[str, str], float] = dict.fromkeys(columns, 0.0)
    for record in records:
        column = record["dtype"], record["kernels"]
        for name in ("cases", *observations(record), *violations(record)):
            counts[column][name] = counts[column].get(name, 0) + 1
        if record["knowable"]:
            error = record["gradient_error"]
            worst[column] = max(worst[column], math.inf if math.isnan(error) else error)
    names = [
        "cases", "knowable", "not finite", "not orthonormal", "rank above", "rank above (visible end)",
        "rank below", "wrong rank (knowable)",
        *(f"identity {name}" for name in BASES), "value (knowable)", "gradient (knowable)", "gradient (any)",
        "rank differs from reference", "bits differ",
    ]  # fmt: skip
    lines = _table(
        ["", *(" ".join(column) for column in columns)],
        [[name, *(str(counts[column].get(name, 0)) for column in columns)] for name in names]
        + [["worst gradient (knowable)", *(f"{worst[column]:.1e}" for column in columns)]],
    )
    for key in ("kind", "signal"):
        lines += ["", *_table(*_violations_by(key, records))]
    return "\n".join(lines)


def _violations_by(key: str, records: list[Record]) -> tuple[list[str], list[list[str]]]:
    groups = {
        "orthonormal": ("not orthonormal",),
        "rank": ("rank above (visible end)", "wrong rank (knowable)"),
        "identity": tuple(f"identity {name}" for name in BASES),
        "gradient": ("value (knowable)", "gradient (knowable)"),
        "other": ("not finite", "bits differ"),
    }
    rows = []
    for value in sorted({record[key] for record in records}):
        chosen = [record for record in records if record[key] == value]
        broken = [set(violations(record)) for record in chosen]
        numbers = [sum(not found.isdisjoint(names) for found in broken) for names in groups.values()]
        rows.append([value, str(len(chosen)), str(sum(r["knowable"] for r in chosen)), *map(str, numbers)])
    return [key, "records", "knowable", *groups], rows


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in lines]


# ---- many cases ----------------------------------------------------------------------------------------------------


def hunt(first: int, count: float, minutes: float, out: TextIO | None = None) -> list[Record]:
    """Examines cases from number ``first`` on until ``count`` of them or the time is used up."""
    records: list[Record] = []
    start = shown = time.monotonic()
    number, found = first, 0
    while number < first + count and (now := time.monotonic()) < start + 60 * minutes:
        for record in examine(case(number)):
            found += bool(record["violations"])
            records.append(record)
            if out is not None:
                out.write(json.dumps(record) + "\n")
        number += 1
        if now > shown + 10:
            shown = now
            seconds = now - start
            print(f"{number - first} cases, {found} records with violations, {seconds:.0f} s", file=sys.stderr)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=math.inf, help="time limit")
    parser.add_argument("--cases", type=float, default=math.inf, help="maximum number of cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--json", type=Path, help="write one record a line to this file")
    parser.add_argument("--summarise", type=Path, help="only print the summary of such a file")
    arguments = parser.parse_args()
    if arguments.summarise:
        records = [json.loads(line) for line in arguments.summarise.read_text().splitlines()]
    else:
        if math.isinf(arguments.minutes) and math.isinf(arguments.cases):
            parser.error("pass --minutes or --cases")
        out = arguments.json.open("w") if arguments.json else None
        try:
            records = hunt(arguments.first, arguments.cases, arguments.minutes, out)
        finally:
            if out is not None:
                out.close()
    print(summary(records))


if __name__ == "__main__":
    main()
