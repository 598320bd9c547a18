"""Results reported in the paper.

Guo and Wei, "Graph Neural Networks with Learnable and Optimal Polynomial Bases" (ICML 2023).
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def table(name: str) -> dict[str, Any]:
    """Returns a table of the paper.

    Args:
        name: ``filter-learning``, ``node-classification``, ``large-heterophilous`` or ``large-citation``.

    Returns:
        Mean and uncertainty by row and column, as in ``table["mlp"]["chameleon"]``; by row for ``filter-learning``.
        The uncertainty is a 95 % interval, a standard error or a standard deviation; ``paper.toml`` says which.

    Raises:
        KeyError: if the paper has no such table.
    """
    text = resources.files("polybasis.experiments").joinpath("paper.toml").read_text()
    values: dict[str, Any] = tomllib.loads(text)[name]
    return values
