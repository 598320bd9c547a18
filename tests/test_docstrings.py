"""Every public function and class has a summary, documents its arguments and errors, and has an example."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

PACKAGES = ("", ".bases", ".data", ".krylov", ".nn", ".nn.models", ".store", ".train")
WITHOUT_EXAMPLE = {
    "load_model_file": "needs a file; docs/how-to/own-models-and-bases.md runs it",
    "read_tables": "needs files; docs/how-to/own-tables.md runs it",
    "Recipe": "a part of what read_tables returns",
    "open_store": "needs a store; docs/how-to/larger-than-memory.md runs it, and the next ones by their commands",
    "BasisStore": "what open_store returns",
    "GraphFolder": "a folder on disk",
    "Plan": "what plan_precompute returns",
    "build_graph_folder": "writes a folder",
    "graph_folder_of": "writes a folder",
    "make_synthetic": "writes a folder",
    "plan_precompute": "needs a graph folder",
    "precompute": "needs a graph folder",
    "synthetic_edges": "a part of make_synthetic",
    "write_graph_folder": "writes a folder",
    "load_campus": "needs files that are not generated",
    "read_image": "needs an image",
    "image_signals": "needs an image",
    "ImageSignals": "what image_signals returns",
    "Fit": "what fit returns; its example shows it",
    "Assessment": "what assess returns; its example shows it",
    "run_job": "writes files; docs/how-to/training.md runs it by its command",
    "run_jobs": "writes files; docs/how-to/training.md runs it by its command",
}


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


def exported() -> dict[str, Any]:
    """What the packages export, without methods."""
    modules = {package: importlib.import_module(f"polybasis{package}") for package in PACKAGES}
    things = {
        f"polybasis{key}.{name}": getattr(module, name) for key, module in modules.items() for name in module.__all__
    }
    return {name: thing for name, thing in things.items() if inspect.isclass(thing) or inspect.isfunction(thing)}


EXPORTED = exported()


@pytest.mark.parametrize("name", sorted(EXPORTED))
def test_a_docstring_starts_with_a_sentence_and_has_an_example(name: str) -> None:
    thing = EXPORTED[name]
    summary, _, rest = inspect.cleandoc(thing.__doc__ or "").partition("\n\n")
    assert summary.endswith("."), f"the summary is not a sentence: {summary!r}"
    assert (">>>" in rest) != (name.rpartition(".")[2] in WITHOUT_EXAMPLE), "no example, or listed as without one"


@pytest.mark.parametrize("name", sorted(EXPORTED))
def test_every_argument_has_an_entry(name: str) -> None:
    """An entry of Args or Attributes, ``a, b: ...``, of the class or of a class that it inherits from."""
    thing = EXPORTED[name]
    kinds = thing.__mro__ if inspect.isclass(thing) else (thing,)
    text = "\n".join(inspect.cleandoc(kind.__doc__ or "") for kind in kinds)
    listed = {word.strip("* ") for line in re.findall(r"^    ([\w*][\w*, ]*):", text, re.M) for word in line.split(",")}
    signature = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
    names = {p for p in signature.parameters if p not in ("self", "args", "kwargs") and not p.startswith("_")}
    assert names <= listed, f"no entry for {sorted(names - listed)}"
