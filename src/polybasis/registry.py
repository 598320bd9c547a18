"""Models and bases from outside the package, by name: registered in Python, defined in a file, or installed.

A worker process knows installed ones by their entry points. It gets the :class:`Definition` of the others from the
process that started it, and imports the module or file when the name is first used.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from polybasis.foreign_files import MAX_TEXT, regular_file

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Definition:
    """Where something registered is defined.

    Attributes:
        kind: what it is, such as ``model``.
        name: its registered name.
        module: the module that defines it; ``""`` for a file.
        attribute: its name in the module or file.
        file: the file that defines it, if it is not a module's.
        sha256: SHA-256 hash of the file.
    """

    kind: str
    name: str
    module: str
    attribute: str
    file: Path | None = None
    sha256: str | None = None

    def load(self) -> Any:
        """Imports the module, or runs the file, and returns what it defines.

        Raises:
            ValueError: if it cannot be imported, or the file has changed.
        """
        if self.file is not None:
            return attribute_of(run_file(self.file, self.sha256), self.attribute, str(self.file))
        try:
            found: Any = sys.modules[self.module] if self.module in sys.modules else import_module(self.module)
            for part in self.attribute.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise ValueError(
                f"the {self.kind} {self.name!r} is {self.attribute} of {self.module}, which a worker process cannot "
                f"import; define it at the top level of a module that is installed or in the current folder ({error})"
            ) from error
        return found


class Registry(Generic[T]):
    """Things of one kind from outside the package.

    Args:
        kind: what they are, such as ``model``.
        group: the group of entry points by which installed packages provide them.
        reserved: names that cannot be registered.
    """

    def __init__(self, kind: str, group: str, reserved: Iterable[str]) -> None:
        self._kind, self._group, self._reserved = kind, group, frozenset(reserved)
        self._things: dict[str, T] = {}
        self._definitions: dict[str, Definition] = {}
        _REGISTRIES[kind] = self

    def register(self, name: str, thing: T, definition: Definition | None = None) -> None:
        """Registers something; a second definition of the same class or function replaces the first one.

        Args:
            name: letters, digits, ``.``, ``_`` and ``-``.
            thing: a class or function.
            definition: where it is defined; by default, the module and name it has itself.

        Raises:
            ValueError: if the name is invalid or taken.
        """
        if definition is None:
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a valid name of a {self._kind}; use letters, digits, '.', '_', '-'")
            if name in self._reserved:
                raise ValueError(f"the name {name!r} is taken by polybasis; choose another name for the {self._kind}")
            if name in self._entry_points:
                owner = self._entry_points[name][0].value
                raise ValueError(f"the {self._kind} {name!r} is already provided by {owner}; choose another name")
            definition = Definition(self._kind, name, thing.__module__, thing.__qualname__)  # type: ignore[attr-defined]
            known = self._definitions.get(name, definition)
            if known != definition:
                owner = f"{known.module}.{known.attribute}"
                raise ValueError(f"the {self._kind} {name!r} is already registered, as {owner}; choose another name")
        self._things[name], self._definitions[name] = thing, definition

    def find(self, name: str) -> T | None:
        """What a name stands for; None if it is unknown.

        Raises:
            ValueError: if several packages provide the name, or it cannot be imported.
        """
        if name in self._things:
            return self._things[name]
        if name in self._definitions:
            self._things[name] = self._definitions[name].load()
        elif name in self._entry_points:
            self._things[name] = self._loaded(self._entry_points[name])
        return self._things.get(name)

    def definition(self, name: str) -> Definition | None:
        """Where something registered is defined; None for what a package provides, and for unknown names."""
        return self._definitions.get(name)

    def names(self) -> list[str]:
        """All names, registered ones first."""
        return list(dict.fromkeys([*self._definitions, *self._entry_points]))

    @cached_property
    def _entry_points(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self._group):
            if point.name not in self._reserved and NAME.fullmatch(point.name):
                found.setdefault(point.name, []).append(point)
        return found

    def _loaded(self, points: list[EntryPoint]) -> Any:
        values = sorted({point.value for point in points})
        if len(values) > 1:
            places = " and ".join(values)
            raise ValueError(f"the {self._kind} {points[0].name!r} is provided by {places}; uninstall all but one")
        try:
            return points[0].load()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(
                f"the {self._kind} {points[0].name!r} of {values[0]} cannot be imported ({reason})"
            ) from error


_REGISTRIES: dict[str, Registry[Any]] = {}


def definitions() -> list[Definition]:
    """Everything that is registered in this process, for worker processes."""
    return [found for registry in _REGISTRIES.values() for found in registry._definitions.values()]


def accept_definitions(definitions: Iterable[Definition]) -> None:
    """Makes the names of another process known; modules and files are imported when they are used."""
    for definition in definitions:
        registry = _REGISTRIES[definition.kind]
        if registry.definition(definition.name) != definition:
            registry._definitions[definition.name] = definition
            registry._things.pop(definition.name, None)


# ---- files ---------------------------------------------------------------------------------------------------------


def read_source(path: Path) -> tuple[bytes, str]:
    """The contents of a Python file and their SHA-256 hash.

    Raises:
        FileNotFoundError, ValueError: if the file does not exist, is not regular, or is too large.
    """
    size = regular_file(path)
    if size > MAX_TEXT:
        raise ValueError(f"{path} has {size:,} bytes; expected a Python file of at most {MAX_TEXT:,}")
    content = path.read_bytes()
    return content, hashlib.sha256(content).hexdigest()


def run_file(path: Path, sha256: str | None = None) -> ModuleType:
    """Runs a Python file as a module; the same contents run once in a process.

    Args:
        path: the file.
        sha256: the hash that the file must have.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file has another hash, in which case it does not run, or raises an error.
    """
    content, found = read_source(path)
    if sha256 is not None and found != sha256:
        raise ValueError(f"{path} has the SHA-256 hash {found[:16]}..; expected {str(sha256)[:16]}..: it has changed")
    name = f"polybasis_file_{found[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and pickle look modules up
    try:
        exec(compile(content, str(path), "exec"), module.__dict__)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, Exception | SystemExit):
            raise ValueError(f"{path}{_line_in(path, error)}: {type(error).__name__}: {error}") from error
        raise
    return module


def _line_in(path: Path, error: BaseException) -> str:
    """``:LINE``, the last line of the file that was running, or that has a syntax error."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f":{error.lineno}"
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f":{lines[-1]}" if lines else ""


def attribute_of(module: ModuleType, attribute: str, origin: str) -> Any:
    """What a file defines under a name.

    Raises:
        ValueError: if it does not define the name.
    """
    if attribute not in vars(module):
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        raise ValueError(f"{origin} does not define {attribute!r}; it defines {', '.join(own) or 'no class'}")
    return vars(module)[attribute]
