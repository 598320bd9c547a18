"""What the paper reports.

Guo and Wei, "Graph Neural Networks with Learnable and Optimal Polynomial Bases" (ICML 2023).
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def table(name: str) -> dict[str, Any]:
    """A table of the paper: mean and spread by row and column."""
    text = resources.files("polybasis.experiments").joinpath("paper.toml").read_text()
    found: dict[str, Any] = tomllib.loads(text)[name]
    return found
