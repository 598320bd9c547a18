"""The reference lists everything that is public: names, commands, and keys of a configuration."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from functools import reduce
from typing import Any

import pytest
import typer

from polybasis.cli.app import app
from polybasis.data.tables.text_tables import MISSING, MISSING_NUMBERS

from .documents import ROOT

PACKAGES = ("", ".bases", ".data", ".krylov", ".nn", ".nn.models", ".store", ".train")
API = ROOT / "docs" / "reference" / "api"


def listed() -> dict[str, Any]:
    """What the pages of the API list, by name."""
    text = "\n".join(page.read_text() for page in API.glob("*.rst"))
    blocks = re.findall(r"\.\. autosummary::\n(?:   :.*\n)+\n((?:   \S+\n?)+)", text)
    names = [name for block in blocks for name in block.split()]
    assert len(names) == len({*names}), "a name is listed twice"
    return {name: resolve(name) for name in names}


def resolve(name: str) -> Any:
    *path, last = name.split(".")
    for end in range(len(path), -1, -1):
        try:
            module = importlib.import_module(".".join(["polybasis", *path[:end]]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, [*path[end:], last], module)
    raise AssertionError(f"there is no {name}")


def test_every_public_name_has_a_page() -> None:
    pages = [*listed().values()]
    for package in PACKAGES:
        module = importlib.import_module(f"polybasis{package}")
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                assert thing in pages, f"polybasis{package}.{name} is not in docs/reference/api"


def test_every_argument_is_described_on_its_own() -> None:
    """Sphinx repeats the text of arguments that are described together, and shows ``c (a, b,)`` for attributes."""
    joint = re.compile(r"^ +\w+(?:, \w+)+: .*", re.MULTILINE)
    for name, thing in listed().items():
        members = vars(thing).values() if inspect.isclass(thing) else ()
        for each in (thing, *members):
            each = getattr(each, "__func__", each)
            found = [line for line in joint.findall(inspect.getdoc(each) or "") if "Error" not in line]
            assert not found, f"{name}: {found}"


def test_every_command_has_a_section() -> None:
    def names(command: Any, path: tuple[str, ...] = ()) -> list[str]:
        parts = getattr(command, "commands", None)
        return [" ".join(path)] if parts is None else [n for k, c in parts.items() for n in names(c, (*path, k))]

    text = (ROOT / "docs" / "reference" / "command-line.rst").read_text()
    shown = re.findall(r"^\.\. polybasis-command:: (.+)$", text, re.MULTILINE)
    assert sorted(shown) == sorted(names(typer.main.get_command(app)))


@pytest.fixture
def extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs" / "_ext"), *sys.path])


@pytest.mark.usefixtures("extensions")
def test_every_key_of_a_configuration_is_explained() -> None:
    """Raises KeyError for a field of a section without an entry in its docstring."""
    configuration = importlib.import_module("configuration")
    tables = {section: configuration.keys(section) for section in ("", *configuration.SECTIONS)}
    assert "``patience``" in tables["stopping"]
    assert "``K = 10``" in configuration.hyperparameters()


@pytest.mark.usefixtures("extensions")
def test_help_texts_become_code_and_prose() -> None:
    prose = importlib.import_module("command_line").prose
    assert prose("as `polybasis tune`, --lr and a*b") == r"as ``polybasis tune``, ``--lr`` and a\*b"
    assert prose("well-known") == "well-known"


@pytest.mark.usefixtures("extensions")
def test_links_of_included_documents_lead_to_pages(tmp_path: Any) -> None:
    """A link is relative to the file it is in; on the page that includes the file it leads to the same place."""
    relocate = importlib.import_module("repository_links").relocate
    docs = tmp_path / "docs"
    (docs / "results").mkdir(parents=True)
    (tmp_path / "results").mkdir()
    page, source, security = docs / "results" / "scale.md", tmp_path / "results" / "README.md", tmp_path / "SECURITY.md"
    page.write_text("```{include} ../../results/README.md\n```\n")
    (docs / "security.md").write_text("```{include} ../SECURITY.md\n```\n")
    source.write_text("")
    security.write_text("")
    text = "[a](../SECURITY.md#b) [c](README.md) [d](../results) [e](https://f) [g](missing.md)"
    expected = "[a](../security.md#b) [c](scale.md) d [e](https://f) [g](missing.md)"
    assert relocate(text, source, page, docs) == expected


def test_the_guide_to_tables_lists_all_spellings_of_a_missing_value() -> None:
    page = (ROOT / "docs" / "how-to" / "own-tables.md").read_text()
    (everywhere, numbers) = re.findall(
        r"^Missing values are (.*)\.\nAmong numbers, (.*) are missing", page, re.MULTILINE
    )[0]
    assert ["", *re.findall("`(.*?)`", everywhere)] == [*MISSING]
    assert re.findall("`(.*?)`", numbers) == [*MISSING_NUMBERS[len(MISSING) :]]
