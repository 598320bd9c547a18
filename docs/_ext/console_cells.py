"""Shows the commands of tutorials as a reader types them.

A script runs a command by ``shell("polybasis ..")``, in a block of its own, with a function that it hides between
``# sphinx_gallery_start_ignore`` and ``# sphinx_gallery_end_ignore``. Its page has the command in a console block.
"""

from __future__ import annotations

import ast
import re
import textwrap
from typing import Any

from sphinx.application import Sphinx

CELL = re.compile(r"^\.\. code-block:: Python\n+((?: {4}.*\n|\n)+)", re.MULTILINE | re.IGNORECASE)


def command_of(code: str) -> str | None:
    """The command that a block runs, or None if it does anything else."""
    match ast.parse(code).body:
        case [ast.Expr(ast.Call(func=ast.Name("shell"), args=[ast.Constant(str(command))]))]:
            return textwrap.dedent(command).strip()
    return None


def as_console(cell: re.Match[str]) -> str:
    command = command_of(textwrap.dedent(cell[1]))
    if command is None:
        return cell[0]
    return ".. code-block:: console\n\n" + textwrap.indent(command, " " * 4) + "\n\n\n"


def on_source(app: Sphinx, docname: str, content: list[str]) -> None:
    if docname.startswith("auto_tutorials/"):
        content[0] = CELL.sub(as_console, content[0])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", on_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
