"""Text from files and file names, made safe to print."""

from __future__ import annotations

import typer


def printable(text: str) -> str:
    r"""Escapes characters that a terminal would interpret, such as the escape codes of colours and window titles.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def echo(text: object) -> None:
    """Prints a line to standard output; names from files cannot control the terminal or fake another line."""
    typer.echo(printable(str(text).replace("\n", "\\n")))


def spreadsheet_safe(cell: object) -> object:
    """A cell of a table; text that a spreadsheet would run as a formula is prefixed with an apostrophe.

    >>> spreadsheet_safe("=1+1"), spreadsheet_safe("a"), spreadsheet_safe(-1)
    ("'=1+1", 'a', -1)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
