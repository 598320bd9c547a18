"""The outcome of one injected fault."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Record:
    """What happened when a fault was injected.

    Attributes:
        part: the part of the campaign, such as ``flips``.
        target: what the fault hit, such as ``store/vectors.npy`` or a command.
        number: number of the case, which seeds it.
        fault: the kind of fault and, after a colon, its details.
        verdict: the outcome in a few words, such as ``refused``.
        failed: whether the outcome breaks a promise.
        message: the error message or the difference found.
        seconds: time that the case took.
        memory: growth of the peak resident memory in bytes.
    """

    part: str
    target: str
    number: int
    fault: str
    verdict: str = ""
    failed: bool = False
    message: str = ""
    seconds: float = 0.0
    memory: int = 0


def describe_failures(records: list[Record]) -> str:
    """One line for each failure; empty if there is none."""
    return "\n".join(
        f"{record.part} case {record.number}: {record.target}, {record.fault}: {record.verdict} {record.message}"
        for record in records
        if record.failed
    )
