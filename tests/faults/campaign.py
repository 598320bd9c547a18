"""The fault-injection campaign: ``make campaign``.

Runs all parts, resumes after an interruption, and writes ``results/reliability``. Records are kept in
``build/campaign``, one JSON line for each case; remove that folder to start over.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path

from faults.page import summarize, write_page
from faults.record import Record, describe_failures
from polybasis.files import append_line, read_lines

ROOT = Path(__file__).resolve().parents[2]
INTERVAL = 15.0  # seconds between two lines of progress


@dataclass(frozen=True)
class Part:
    """A part of the campaign.

    Attributes:
        module: a module with ``PART``, the name of the part, and ``run(numbers, folder)``, which returns the records of
            some cases and may keep files in a folder that no other process uses.
        cases: number of cases.
        chunk: cases to run before their records are written.
    """

    module: str
    cases: int
    chunk: int


PARTS = {
    "flips": Part("faults.flips", 2_000, 25),
    "foreign-files": Part("faults.foreign_files", 20_000, 50),
    "kills": Part("faults.kills", 1_000, 4),
    "hazards": Part("faults.hazards", 160, 4),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults.campaign", description="Run the fault-injection campaign.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"Default: all of {', '.join(PARTS)}.")
    parser.add_argument("--cases", type=int, help="Number of cases of each part; default: as many as published.")
    parser.add_argument("--processes", type=int, default=2, help="Cases to run at a time; default: 2.")
    parser.add_argument("--records", type=Path, default=ROOT / "build" / "campaign", help="Folder of the records.")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "reliability", help="Folder of the page.")
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; expected {', '.join(PARTS)}")
    failures = []
    for name in options.parts or PARTS:
        part = PARTS[name]
        if importlib.util.find_spec(part.module) is None:
            print(f"{name}: {part.module} does not exist; skipped", flush=True)
            continue
        cases = range(options.cases or part.cases)
        records = run_part(name, part, cases, options.processes, options.records)
        summarize(records, options.out / f"{name}.jsonl")
        failures += [record for record in records if record.failed]
    write_page(options.out)
    print(describe_failures(failures) or "no failures")
    print(f"results in {options.out / 'README.md'}")
    return 1 if failures else 0


def run_part(name: str, part: Part, cases: range, processes: int, folder: Path) -> list[Record]:
    """Runs the cases that have no record yet; returns the records of all cases, in order.

    Raises:
        KeyboardInterrupt: if interrupted; the records of finished chunks are kept.
    """
    file = folder / f"{name}.jsonl"
    records = {record.number: record for record in map(_record, read_lines(file)) if record.number in cases}
    chunks = [cases[first : first + part.chunk] for first in range(0, len(cases), part.chunk)]
    pending = [chunk for chunk in chunks if any(number not in records for number in chunk)]
    module, lock, stop = importlib.import_module(part.module), threading.Lock(), threading.Event()
    start, printed, done_before = time.monotonic(), 0.0, len(records)

    def work(worker: int) -> None:
        while not stop.is_set():
            with lock:
                if not pending:
                    return
                numbers = pending.pop(0)
            found = module.run(numbers, folder / name / str(worker))
            with lock:
                append_line(file, "\n".join(json.dumps(asdict(record)) for record in found))
                records.update({record.number: record for record in found})

    def report() -> None:
        done, failed = len(records), sum(record.failed for record in records.values())
        speed = (done - done_before) / (time.monotonic() - start)
        left = f", {(len(cases) - done) / speed / 60:.0f} min left" if speed and done < len(cases) else ""
        print(f"{name}: {done:,} of {len(cases):,} cases, {failed} failures{left}", flush=True)

    with ThreadPoolExecutor(processes) as pool:
        try:
            running = {pool.submit(work, worker) for worker in range(processes)}
            while running:
                finished, running = wait(running, timeout=1, return_when=FIRST_COMPLETED)
                for task in finished:
                    task.result()
                if time.monotonic() - printed > INTERVAL:
                    report()
                    printed = time.monotonic()
        except BaseException:
            stop.set()
            print("stopping after the current cases; run the command again to resume", flush=True)
            raise
    report()
    return [records[number] for number in cases]


def _record(line: dict[str, object]) -> Record:
    return Record(**line)  # type: ignore[arg-type]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
