"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers.

    >>> print(markdown_table(["basis", "MSE"], [["optimal", "0.0035"]]))
    | basis | MSE |
    | --- | ---: |
    | optimal | 0.0035 |
    """
    marks = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, marks, *rows))
