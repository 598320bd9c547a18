"""Damage to files that polybasis wrote: it is refused, or it does not change the outcome."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache, partial
from pathlib import Path

import numpy as np

from faults.artefacts import USES, WRITERS, write_once
from faults.isolation import SCRATCH, forks, run_isolated
from faults.judgement import judge
from faults.mutations import DAMAGE, DAMAGE_TO_JOURNAL, mutate
from faults.record import Record
from polybasis import checksums

PART = "flips"
BLOCK = 512  # bytes that share a checksum; small, so that arrays are read block by block, as large ones are


def run(numbers: range, folder: Path) -> list[Record]:
    """Examines cases in a process of their own.

    Args:
        numbers: the cases.
        folder: folder for one artefact of every kind, which are written if it does not exist.
    """
    write_once(folder, _write_artefacts)
    return run_isolated(partial(examine, artefacts=folder), numbers)


def _write_artefacts(folder: Path) -> None:
    process = forks().Process(target=_write_all, args=(folder,))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError("the artefacts were not written; see standard error")


def _write_all(folder: Path) -> None:
    checksums.BLOCK = BLOCK
    for name, write in WRITERS.items():
        write(folder / name)


def examine(number: int, artefacts: Path) -> Record:
    """Damages one file of a copy of an artefact and uses the copy."""
    checksums.BLOCK = BLOCK
    name = list(WRITERS)[number % len(WRITERS)]
    honest = artefacts / name
    files = sorted(path for path in honest.rglob("*") if path.is_file())
    chosen = files[number // len(WRITERS) % len(files)].relative_to(honest)
    expected = _expected(artefacts, name)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        copy = Path(shutil.copytree(honest, Path(scratch) / "copy"))
        mutations = DAMAGE_TO_JOURNAL if name == "study" else DAMAGE
        damaged, fault = mutate((honest / chosen).read_bytes(), mutations, np.random.default_rng([number, 1]))
        (copy / chosen).write_bytes(damaged)
        label = "weights" if chosen.name.startswith("weights-") else chosen
        record = Record(PART, f"{name}/{label}", number, fault)
        return judge(record, lambda: USES[name](copy) == expected, folder=copy)


@cache
def _expected(artefacts: Path, name: str) -> str:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        return USES[name](Path(shutil.copytree(artefacts / name, Path(scratch) / "copy")))
