"""Names that are imported when they are first used (PEP 562), so that importing the package is fast."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, modules: dict[str, list[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package that offers names of its modules.

    Args:
        package: ``__name__`` of the package.
        modules: names by module, relative to the package; a module without names is offered itself.
    """
    places = {name: module for module, names in modules.items() for name in names or [module]}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{places[name]}")
        return module if name == places[name] and not modules[name] else getattr(module, name)

    return get, lambda: sorted(places), sorted(places)
