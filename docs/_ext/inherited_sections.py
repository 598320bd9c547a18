"""What a class inherits: arguments and attributes of its bases in polybasis, but no methods of other packages."""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.application import Sphinx


def section(lines: list[str], name: str) -> list[str]:
    """The lines of a section of a docstring, without its title."""
    starts = [i for i, line in enumerate(lines) if re.match(rf"{name}\b.*:$", line)]
    if not starts:
        return []
    rest = lines[starts[0] + 1 :]
    end = next((i for i, line in enumerate(rest) if line and not line.startswith(" ")), len(rest))
    return rest[:end]


def on_docstring(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    if not inspect.isclass(thing):
        return
    for title in ("Args", "Attributes"):
        bases = [kind for kind in thing.__mro__[1:] if kind.__module__.startswith("polybasis")]
        inherited = [section(inspect.cleandoc(kind.__doc__ or "").splitlines(), title) for kind in bases]
        own, base = section(lines, title), next(filter(None, inherited), [])
        if base and (title == "Attributes" or not own):
            start = next((i for i, line in enumerate(lines) if re.match(rf"{title}\b.*:$", line)), None)
            if start is None:
                lines += ["", f"{title}:", *base]
            else:
                lines[start : start + 1] = [f"{title}:", *[line for line in base if line.strip()]]


def skips(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Whether a member is left out: the methods of torch, PyTorch Geometric and scikit-learn are."""
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    module = getattr(function, "__module__", None) or "polybasis"
    return skip or not module.startswith("polybasis")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-skip-member", skips)
    app.connect("autodoc-process-docstring", on_docstring, priority=100)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
