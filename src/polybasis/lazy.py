"""Lazy imports (PEP 562): names are imported on first use, so that importing the package is fast."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, modules: dict[str, list[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package that re-exports names from its modules.

    Args:
        package: ``__name__`` of the package.
        modules: exported names by module, relative to the package; a module without names is itself exported.
    """
    places = {name: module for module, names in modules.items() for name in names or [module]}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{places[name]}")
        return module if name == places[name] and not modules[name] else getattr(module, name)

    return get, lambda: sorted(places), sorted(places)
