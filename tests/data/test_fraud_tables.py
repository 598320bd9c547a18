"""The tables of the payment network have the shape that their description states, and are the same for a seed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

import polybasis as pb

FILE = Path(__file__).parents[2] / "benchmarks" / "fraud_tables.py"


@pytest.fixture(scope="module")
def fraud_tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fraud_tables", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_both_weeks(fraud_tables: ModuleType) -> None:
    population = fraud_tables.Population(4000, seed=1)
    first, second = population.week(1), population.week(2)
    assert all(table.equals(fraud_tables.Population(4000, seed=1).week(2)[name]) for name, table in second.items())
    before, after = (set(week["users"]["user"].to_pylist()) for week in (first, second))
    assert before < after
    assert len(after - before) == 200
    assert len(first["labels"]) == pytest.approx(120, abs=40)
    assert first["truth"]["fraud"].to_pylist().count("yes") == pytest.approx(80, abs=30)
    assert first["users"].num_columns == 41
    assert all(0.04 < column.null_count / 4000 < 0.08 for column in first["users"].columns[1:])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_they_are_read_and_structure_tells(suffix: str, fraud_tables: ModuleType, tmp_path: Path) -> None:
    tables = fraud_tables.Population(4000, seed=1).week(1)
    for name, table in tables.items():
        fraud_tables.write(table, tmp_path / f"{name}.{suffix}")
    files = [tmp_path / f"{name}.{suffix}" for name in ("edges", "users", "truth")]
    data = pb.data.read_tables(*files, merge="sum")
    kinds = [column.kind for column in data.columns or ()]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"numeric": 24, "categorical": 10, "boolean": 6}
    assert data.classes == ("no", "yes")
    low, high = data.graph.edge_index()
    fraud = data.y == 1
    neighbours = torch.zeros(len(fraud)).index_add_(0, low, fraud[high].float()) / data.graph.indptr.diff().clamp(min=1)
    assert roc_auc_score(fraud, neighbours) > 0.95  # most neighbours of a fraudulent user are fraudulent


def test_the_difficulty_is_that_of_the_description(fraud_tables: ModuleType) -> None:
    """What can be known from the files, and what a linear model knows from the columns and 4,800 labels."""
    tables = fraud_tables.Population(8000, seed=0).week(1)
    scores, fraud = fraud_tables.oracle(tables)
    assert roc_auc_score(fraud, scores) > 0.99
    assert average_precision_score(fraud, scores) > 0.8
    columns = pd.get_dummies(tables["users"].drop_columns(["user"]).to_pandas(), dtype=float)
    columns = ((columns - columns.mean()) / columns.std()).fillna(0.0)
    linear = LogisticRegression(C=0.01, max_iter=1000).fit(columns[:4800], fraud[:4800])
    assert 0.67 < roc_auc_score(fraud[4800:], linear.decision_function(columns[4800:])) < 0.8


def test_amounts_that_tell_nothing_drown_the_graph(fraud_tables: ModuleType) -> None:
    tables = fraud_tables.Population(8000, seed=0, amount_ratio=1.0).week(1)
    precision = [
        average_precision_score(*reversed(fraud_tables.oracle(tables, weighted))) for weighted in (True, False)
    ]
    assert precision[0] < 0.6
    assert precision[1] > 0.85
