"""The reference of a command, from the command itself: ``.. polybasis-command:: datasets build``."""

from __future__ import annotations

import re
from typing import Any

import typer
from generated_text import add_directive
from sphinx.application import Sphinx

from polybasis.cli.app import app as polybasis

ROOT: Any = typer.main.get_command(polybasis)


def commands(command: Any = ROOT, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """All commands by their names, such as ``datasets build``."""
    if not hasattr(command, "commands"):
        return {" ".join(path): command}
    return {name: leaf for key, part in command.commands.items() for name, leaf in commands(part, (*path, key)).items()}


def prose(text: str) -> str:
    """Help text as reStructuredText: what is in backticks, and options, are code."""
    parts = re.split(r"(`[^`\n]+`|(?<![\w-])--[a-z][a-z-]*)", text)
    code = [f"``{part.strip('`')}``" for part in parts[1::2]]
    words = [re.sub(r"([*|_`])", r"\\\1", part) for part in parts[::2]]
    return "".join(word + typed for word, typed in zip(words, [*code, ""], strict=True))


def description(text: str) -> list[str]:
    """The paragraphs of a command's docstring; its examples become a block of code."""
    body, _, examples = text.partition("\nExamples:\n")
    lines = [prose(body), ""]
    if examples:
        typed = [line for line in examples.strip("\n").splitlines() if line.strip()]
        lines += [".. code-block:: console", "", *(f"   {line.removeprefix('  ')}" for line in typed), ""]
    return lines


def reference(name: str) -> str:
    """Description, usage and options of a command."""
    command = commands()[name]
    context = typer.Context(command, info_name=f"polybasis {name}")
    usage = " ".join(["polybasis", name, *command.collect_usage_pieces(context)])
    lines = [f".. program:: polybasis {name}", "", *description(command.help or "")]
    lines += [".. code-block:: text", "", f"   {usage}", ""]
    for parameter in command.params:
        found = parameter.get_help_record(context)
        if found is None:
            continue
        names, help_text = found
        lines += [f".. option:: {names}", "", f"   {prose(help_text)}", ""]
    return "\n".join(lines)


def overview() -> str:
    """A table of the commands with their first sentences; those that reproduce the paper have one row."""
    rows = []
    for name, command in commands().items():
        if not name.startswith("reproduce"):
            summary = prose((command.help or "").split("\n\n")[0].replace("\n", " "))
            rows += [f"   * - :ref:`{name} <command-{name.replace(' ', '-')}>`", f"     - {summary}"]
    rows += [
        "   * - :ref:`reproduce .. <reproduce>`",
        "     - Reproduce the tables and figures of the paper and of the results pages.",
    ]
    return "\n".join([".. list-table::", "   :widths: 25 75", "", *rows, ""])


def setup(app: Sphinx) -> dict[str, Any]:
    add_directive(app, "polybasis-command", reference)
    add_directive(app, "polybasis-commands", overview)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
