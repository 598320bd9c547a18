"""Results: one JSON line for each finished job, and their summary over splits."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from polybasis.files import read_lines

Result = dict[str, Any]


def read_results(path: Path) -> list[Result]:
    """The results in a file, one for each job; an empty list if the file does not exist."""
    return list({result["key"]: result for result in read_lines(path) if "key" in result}.values())


def summary(scores: list[float]) -> dict[str, float]:
    """Mean, standard deviation and half-width of the 95 % confidence interval (Student's t)."""
    values = np.asarray(scores)
    if len(values) < 2:
        return {"mean": float(values.mean()), "std": 0.0, "ci95": 0.0}
    from scipy.stats import t

    std = float(values.std(ddof=1))
    return {
        "mean": float(values.mean()),
        "std": std,
        "ci95": float(t.ppf(0.975, len(values) - 1)) * std / len(values) ** 0.5,
    }


def summarize(results: list[Result]) -> list[dict[str, Any]]:
    """One row for each model, data set, protocol and configuration; scores in percent.

    ``mean``, ``std`` and ``ci95`` summarise the test scores; they are None if there are no test nodes.
    """
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        config = json.dumps(result["config"], sort_keys=True)
        key = (result["model"], result["dataset"], result["preset"], result["protocol"], config)
        groups.setdefault(key, []).append(result)
    rows = []
    for (model, dataset, preset, *_), group in groups.items():
        scores = [100 * result["test_score"] for result in group if result["test_score"] is not None]
        rows.append(
            {
                "model": model,
                "dataset": dataset,
                "preset": preset,
                "metric": group[0]["metric"],
                "splits": len(group),
                "val": statistics.mean(100 * result["val_score"] for result in group),
                **(summary(scores) if scores else dict.fromkeys(("mean", "std", "ci95"))),
                "epochs": statistics.mean(result["epochs"] for result in group),
                "seconds": statistics.mean(result["seconds"] for result in group),
            }
        )
    return rows
