"""Results reported in the paper.

Guo and Wei, "Graph Neural Networks with Learnable and Optimal Polynomial Bases" (ICML 2023).
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

# Splits or seeds of a table, and how to obtain the standard error of a mean from its uncertainty. The 95% interval of
# the node classification table is the larger distance of a bootstrap interval's ends (1,000 resamples of the mean,
# percentiles 2.5 and 97.5) from the mean, as in the authors' train_models.py; it is taken as 1.96 standard errors.
REPETITIONS = {"node-classification": 20, "large-heterophilous": 5, "large-citation": 10}
ERRORS_PER_UNCERTAINTY = {
    "node-classification": 1 / 1.959964,
    "large-heterophilous": 1.0,
    "large-citation": 1.0,
}


@cache
def table(name: str) -> dict[str, Any]:
    """Returns a table of the paper.

    Args:
        name: ``filter-learning``, ``node-classification``, ``large-heterophilous`` or ``large-citation``.

    Returns:
        Mean and uncertainty by row and column, as in ``table["mlp"]["chameleon"]``; by row for ``filter-learning``.
        The uncertainty is a 95% interval, a standard error or a standard deviation; ``paper.toml`` says which.

    Raises:
        KeyError: if the paper has no such table.
    """
    text = resources.files("polybasis.experiments").joinpath("paper.toml").read_text()
    values: dict[str, Any] = tomllib.loads(text)[name]
    return values
