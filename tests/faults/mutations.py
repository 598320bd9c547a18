"""Seeded damage to the bytes of a file."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

Rng = np.random.Generator
Mutation = Callable[[bytes, Rng], tuple[bytes, str]]

HUGE = (b"1000000000000000000", b"1e308", b"-1", b"2147483648", b"1099511627776", b"18446744073709551616", b"nan")
HEADER = 128  # bytes at the start of a file that describe the rest in most formats


def _place(content: bytes, rng: Rng) -> int:
    return int(rng.integers(len(content))) if content else 0


def flip_bit(content: bytes, rng: Rng) -> tuple[bytes, str]:
    if not content:
        return b"\0", "byte added to an empty file"
    place, bit = _place(content, rng), int(rng.integers(8))
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[
        place + 1 :
    ], f"bit flipped: {bit} of byte {place}"


def change_byte(content: bytes, rng: Rng) -> tuple[bytes, str]:
    if not content:
        return b"\xff", "byte added to an empty file"
    place, change = _place(content, rng), int(rng.integers(1, 256))
    return content[:place] + bytes([content[place] ^ change]) + content[place + 1 :], f"byte changed: {place}"


def change_header(content: bytes, rng: Rng) -> tuple[bytes, str]:
    changed, fault = change_byte(content[:HEADER], rng)
    return changed + content[HEADER:], f"header {fault}"


def cut(content: bytes, rng: Rng) -> tuple[bytes, str]:
    length = _place(content, rng)
    return content[:length], f"cut: {length} bytes left"


def append(content: bytes, rng: Rng) -> tuple[bytes, str]:
    more = rng.bytes(int(rng.integers(1, 65)))
    return content + more, f"bytes appended: {len(more)}"


def insert(content: bytes, rng: Rng) -> tuple[bytes, str]:
    place, more = _place(content, rng), rng.bytes(int(rng.integers(1, 17)))
    return content[:place] + more + content[place:], f"bytes inserted: {len(more)} at {place}"


def repeat_chunk(content: bytes, rng: Rng) -> tuple[bytes, str]:
    start, end = sorted((_place(content, rng), _place(content, rng)))
    return content[:end] + content[start:], f"part repeated: bytes {start} to {end}"


def splice(content: bytes, rng: Rng) -> tuple[bytes, str]:
    """Exchanges two parts of the file."""
    first, second = sorted((_place(content, rng), _place(content, rng)))
    return content[second:] + content[first:second] + content[:first], f"parts exchanged: at {first} and {second}"


def replace_number(content: bytes, rng: Rng) -> tuple[bytes, str]:
    """Replaces a decimal number by an extreme one; changes a byte if the file has no number."""
    places = list(re.finditer(rb"[0-9]+", content))
    if not places:
        return change_byte(content, rng)
    chosen, huge = places[int(rng.integers(len(places)))], HUGE[int(rng.integers(len(HUGE)))]
    return content[: chosen.start()] + huge + content[
        chosen.end() :
    ], f"number replaced: at {chosen.start()} by {huge.decode()}"


DAMAGE: tuple[Mutation, ...] = (flip_bit, flip_bit, change_byte, change_byte, cut, append)
# A journal that is cut cannot be told from one whose last entries were not written yet.
DAMAGE_TO_JOURNAL: tuple[Mutation, ...] = tuple(mutation for mutation in DAMAGE if mutation is not cut)
FOREIGN: tuple[Mutation, ...] = (
    flip_bit, change_byte, change_header, cut, append, insert, repeat_chunk, splice, replace_number, replace_number,
)  # fmt: skip


def mutate(content: bytes, mutations: tuple[Mutation, ...], rng: Rng) -> tuple[bytes, str]:
    """Applies a mutation that changes the content; returns the new content and a description."""
    while True:
        changed, fault = mutations[int(rng.integers(len(mutations)))](content, rng)
        if changed != content:
            return changed, fault
