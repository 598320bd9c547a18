"""From raw tables to scores: the three commands of `fraud_tables.py`, measured and scored on all users.

    python benchmarks/fraud_scores.py fraud --users 200000

This writes the tables to the folder unless they are there, runs `polybasis train` and `polybasis predict` for both
weeks with all defaults, appends a line to ``results/fraud/scores.jsonl`` and writes ``results/fraud/README.md`` from
all lines. Commands that have run in the folder are not repeated. Scores are those of users whose label was not in the
files. ``--flags "--drop amount"`` changes the flags of all commands.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fraud_tables
import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

import polybasis as pb
from polybasis.train import Config
from polybasis.train.columns_only import columns_only
from polybasis.train.objective import Objective

RESULTS = Path(__file__).parents[1] / "results" / "fraud"
COLUMNS = {
    "users": "users",
    "flags": "flags",
    "labelled": "labelled users (fraudulent)",
    "oracle": "oracle",
    "columns_only": "columns only",
    "week1": "this week",
    "week2": "next week",
    "new": "next week, new users",
    "epochs": "epochs",
    "train_cpu": "CPU s, training",
    "predict_cpu": "CPU s, scores of a week",
    "memory": "peak memory, GB",
}


def measured(record: Path, *arguments: object) -> dict[str, float]:
    """Runs polybasis unless there is a record; returns CPU time and time in seconds, and peak memory in GB."""
    if not record.exists():
        start = time.monotonic()
        process = subprocess.Popen([sys.executable, "-m", "polybasis", *map(str, arguments)])
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"polybasis {arguments[0]} failed")
        figures = {"cpu": usage.ru_utime + usage.ru_stime, "seconds": time.monotonic() - start}
        record.write_text(json.dumps({**figures, "memory": usage.ru_maxrss * 1024 / 1e9}))
    found: dict[str, float] = json.loads(record.read_text())
    return found


def areas(fraud: NDArray[np.bool_], scores: NDArray[Any]) -> list[float]:
    """ROC AUC and average precision."""
    return [round(float(metric(fraud, scores)), 4) for metric in (roc_auc_score, average_precision_score)]


def truth(week: Path) -> dict[str, bool]:
    """Whether each user is fraudulent."""
    table = pyarrow.csv.read_csv(week / "truth.csv")
    return dict(zip(table["user"].to_pylist(), [label == "yes" for label in table["fraud"].to_pylist()], strict=True))


def scored(week: Path, predictions: Path, names: set[str]) -> list[float]:
    """The areas of predictions for some users."""
    table, fraud = pyarrow.csv.read_csv(predictions), truth(week)
    rows = [
        (fraud[name], score)
        for name, score in zip(table["node"].to_pylist(), table["score"].to_pylist(), strict=True)
        if name in names
    ]
    return areas(np.array([row[0] for row in rows]), np.array([row[1] for row in rows]))


def references(record: Path, week: Path, tables: dict[str, pa.Table], flags: list[str]) -> dict[str, Any]:
    """Figures that do not depend on a graph model, unless they are recorded: labels, the oracle and the columns."""
    if not record.exists():
        options = dict(zip(flags[::2], flags[1::2], strict=True))
        drop = [options["--drop"]] if "--drop" in options else []
        files = [week / f"{name}.csv" for name in ("edges", "users", "labels")]
        data = pb.data.read_tables(*files, merge=options.get("--merge"), drop=drop)
        assert data.nodes is not None
        unknown = (data.y < 0).nonzero()[:, 0]
        split = data.split()._replace(test=unknown)
        objective = Objective.of(Config.of("mlp"), data, split.train)
        linear = columns_only(objective, data.prepared(data.split()), split)
        known = truth(week)
        fraud = np.array([known[name] for name in data.nodes[unknown.numpy()].tolist()])
        scores, everyone = fraud_tables.oracle(tables, weighted=not drop)
        found = {
            "labelled": f"{len(data.labelled):,} ({int((data.y == 1).sum())})",
            "oracle": areas(everyone, scores),
            "columns_only": areas(fraud, (linear[:, 1] - linear[:, 0]).numpy()),
        }
        record.write_text(json.dumps(found))
    recorded: dict[str, Any] = json.loads(record.read_text())
    return recorded


def run(folder: Path, users: int, seed: int, amount_ratio: float, flags: list[str]) -> dict[str, Any]:
    """Runs the commands and returns the figures."""
    weeks = [folder / "week1", folder / "week2"]
    population = fraud_tables.Population(users, seed, amount_ratio)
    tables = population.week(1)
    for number, week in enumerate(weeks, 1):
        if not week.exists():
            for name, table in population.week(number).items():
                fraud_tables.write(table, week / f"{name}.csv")
    compared = references(folder / "references.json", weeks[0], tables, flags)
    files = [["--edges", week / "edges.csv", "--features", week / "users.csv", *flags] for week in weeks]
    model, results, scores = folder / "model", folder / "model.jsonl", [folder / "scores1.csv", folder / "scores2.csv"]
    labels = ["--labels", weeks[0] / "labels.csv", "--out", model, "--results", results]
    trained = measured(folder / "train.json", "train", *files[0], *labels)
    predicted = [
        measured(out.with_suffix(".json"), "predict", model, *given, "--out", out)
        for given, out in zip(files, scores, strict=True)
    ]
    before, after = set(truth(weeks[0])), set(truth(weeks[1]))
    unlabelled = after - set(tables["labels"]["user"].to_pylist())
    result = json.loads(results.read_text().splitlines()[-1])
    return {
        "users": users,
        "seed": seed,
        "amount_ratio": amount_ratio,
        "flags": " ".join(flags),
        **compared,
        "week1": scored(weeks[0], scores[0], unlabelled & before),
        "week2": scored(weeks[1], scores[1], unlabelled),
        "new": scored(weeks[1], scores[1], after - before),
        "epochs": result["epochs"],
        "train_cpu": round(trained["cpu"]),
        "train_seconds": round(trained["seconds"]),
        "predict_cpu": round(predicted[1]["cpu"]),
        "memory": round(max(figures["memory"] for figures in (trained, *predicted)), 2),
        "config": result["config"],
        "code": result["code"],
    }


def page(lines: list[dict[str, Any]]) -> str:
    """The page of the latest result for each set of tables and flags."""
    lines = list(
        {tuple(line[name] for name in ("users", "seed", "amount_ratio", "flags")): line for line in lines}.values()
    )
    rows = ["| " + " | ".join(COLUMNS.values()) + " |", "| --- " * len(COLUMNS) + "|"]
    for line in lines:
        ratio = "" if line["amount_ratio"] == fraud_tables.AMOUNT_RATIO else f", amounts times {line['amount_ratio']:g}"
        cells = {**line, "users": f"{line['users']:,}{ratio}", "flags": f"`{line['flags']}`"}
        shown = [cells[name] for name in COLUMNS]
        rows.append(
            "| " + " | ".join(f"{c[0]:.3f} / {c[1]:.3f}" if isinstance(c, list) else str(c) for c in shown) + " |"
        )
    return (RESULTS / "introduction.md").read_text() + "\n" + "\n".join(rows) + "\n"


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--amount-ratio", type=float, default=fraud_tables.AMOUNT_RATIO)
    parser.add_argument("--flags", default="--merge sum")
    chosen = parser.parse_args()
    line = run(chosen.folder, chosen.users, chosen.seed, chosen.amount_ratio, chosen.flags.split())
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "scores.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    lines = [json.loads(text) for text in (RESULTS / "scores.jsonl").read_text().splitlines()]
    (RESULTS / "README.md").write_text(page(lines))


if __name__ == "__main__":
    main()
