"""`polybasis verify`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from polybasis.cli.options import AsJson
from polybasis.cli.printable import echo


def verify(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Stores, graph folders, models, checkpoints or studies."),
    ],
    as_json: AsJson = False,
) -> None:
    """Verify the checksums of all files of a store, graph folder, model, checkpoint or study.

    Other commands only verify what they read; this one reads everything. It stops at the first damaged file.
    """
    from polybasis.cli.display import bytes_bar, print_json
    from polybasis.verification import verify as verify_path

    rows: list[dict[str, Any]] = []
    for path in paths:
        start, size = time.monotonic(), _size(path)
        with bytes_bar(f"verifying {path}", size) as on_bytes:
            kind = verify_path(path, on_bytes)
        rows.append({"path": str(path), "kind": kind, "bytes": size, "seconds": round(time.monotonic() - start, 2)})
        if not as_json:
            echo(f"{path}: {kind} of {size / 2**20:,.1f} MiB, no damage found")
    if as_json:
        print_json(rows)


def _size(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
