"""Sections of docstrings in Google's style."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any


def entries(thing: Any, section: str) -> dict[str, str]:
    """The names that a section of a docstring describes, with their descriptions on one line.

    ``Args`` of a class are looked for in its bases too: a subclass with the same arguments need not repeat them.
    """
    found: dict[str, str] = {}
    for kind in reversed(inspect.getmro(thing)) if inspect.isclass(thing) else (thing,):
        match = re.search(
            rf"^{section}.*:\n((?:[ ]+.*\n|\n)+)", f"{inspect.cleandoc(kind.__doc__ or '')}\n", re.MULTILINE
        )
        for item in re.split(r"\n(?=\S)", textwrap.dedent(match[1]).strip()) if match else ():
            names, _, text = item.partition(":")
            found |= {name.strip("* "): " ".join(text.split()) for name in names.split(",")}
    return found
