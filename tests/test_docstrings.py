"""Every public function and class documents its arguments and errors."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

PACKAGES = ("", ".bases", ".data", ".krylov", ".nn", ".nn.models", ".store", ".train")


def public() -> Iterator[tuple[str, Any]]:
    """The functions, classes and public methods that the packages export."""
    for package in PACKAGES:
        module = importlib.import_module(f"polybasis{package}")
        for name in module.__all__:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            yield f"polybasis{package}.{name}", thing
            if inspect.isclass(thing):
                for key, member in vars(thing).items():
                    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                    if not key.startswith("_") and inspect.isfunction(function):
                        yield f"polybasis{package}.{name}.{key}", function


THINGS = dict(public())


def documented(thing: Any, name: str) -> str:
    """The docstring, followed by that of the overridden method or of the base class."""
    base = thing.__mro__[1] if inspect.isclass(thing) else inherited(name)
    return f"{inspect.getdoc(thing) or ''}\n{inspect.getdoc(base) or ''}".strip()


def inherited(name: str) -> Any:
    owner, _, method = name.rpartition(".")
    kind = THINGS.get(owner)
    bases = kind.__mro__[1:] if inspect.isclass(kind) else ()
    return next((vars(base)[method] for base in bases if method in vars(base) and vars(base)[method].__doc__), None)


@pytest.mark.parametrize("name", sorted(THINGS))
def test_arguments_and_errors_are_documented(name: str) -> None:
    thing = THINGS[name]
    text = documented(thing, name)
    assert text, "no docstring"
    signature = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
    names = [p for p in signature.parameters if p not in ("self", "args", "kwargs", "cls") and not p.startswith("_")]
    # A method with one argument may describe it in its summary; an overriding method may rely on its base class.
    if len(names) > 1 or not inspect.isfunction(thing):
        missing = [argument for argument in names if not re.search(rf"(?<!\w){re.escape(argument)}(?!\w)", text)]
        assert not missing, f"undocumented arguments: {missing}"
    source = inspect.getsource(thing) if inspect.isfunction(thing) else ""
    if re.search(r"^\s+raise \w+Error\(", source, re.M):
        assert "Raises:" in text or "refuse" in text.lower(), "errors are not documented"
