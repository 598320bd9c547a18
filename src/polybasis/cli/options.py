"""Options that several commands share."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from polybasis.nn.models import MODELS

Model = Annotated[str, typer.Option(help=f"Model: {', '.join(MODELS)}.")]
DataRoot = Annotated[
    str | None,
    typer.Option("--data-root", help="Folder of all data sets; POLYBASIS_DATA or the user's cache unless given."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Ray = Annotated[
    str | None,
    typer.Option("--ray", metavar="auto|ADDRESS", help="Work on a Ray cluster: its address, or auto."),
]
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def as_bytes(text: str) -> int:
    """A size such as 8GiB.

    >>> as_bytes("1.5GiB")
    1610612736
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]iB|)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size; write it as 8GiB or 512MiB")
    return int(float(found[1]) * UNITS[found[2]])
