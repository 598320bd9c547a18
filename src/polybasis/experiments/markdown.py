"""Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a table with the first column left-aligned and all others right-aligned.

    Args:
        header: column names.
        rows: cells, as many in each row as in the header.

    Returns:
        The lines of the table, without a trailing newline.

    >>> print(markdown_table(["basis", "MSE"], [["optimal", "0.0035"]]))
    | basis | MSE |
    | --- | ---: |
    | optimal | 0.0035 |
    """
    alignment = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, alignment, *rows))
