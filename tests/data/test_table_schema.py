"""A model reads further tables as it read those of its training: by name, and without what it never used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tables_on_disk import write

from polybasis.data.recipe import Recipe
from polybasis.data.schema import TableSchema
from polybasis.data.tables import TableError, read_tables
from polybasis.features import as_dense

NODES = 100
NAMES = [f"u{i}" for i in range(NODES)]
PAYMENTS = "a,b,weight\n" + "".join(f"u{i},u{(i + 1) % NODES},2\nu{i},u{(i + 1) % NODES},1\n" for i in range(NODES))


def frame_of(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "user": NAMES,
            "age": rng.integers(18, 90, NODES),
            "zip": [f"{code:05d}" for code in rng.integers(0, 9, NODES)],
            "flag": rng.integers(0, 2, NODES),
            "plan": rng.choice(["basic", "pro"], NODES),
            "joined": pd.Series(pd.date_range("2024-01-01", periods=NODES)).astype(str),
            "spent": rng.exponential(size=NODES),
        }
    )


@pytest.fixture
def schema(tmp_path: Path) -> TableSchema:
    found = read(tmp_path, frame_of(), target="spent", drop=["joined"], merge="sum", categorical=["zip"]).schema
    assert found is not None
    return found


def read(folder: Path, frame: pd.DataFrame, **options: Any) -> Any:
    frame.to_csv(folder / "accounts.csv", index=False)
    return read_tables(write(folder, edges=PAYMENTS)["edges"], folder / "accounts.csv", **options)


def test_the_schema_names_every_column(schema: TableSchema) -> None:
    assert schema == TableSchema(
        id="user",
        target=("spent",),
        task="regression",
        drop=("joined",),
        merge="sum",
        kinds={"age": "numeric", "zip": "categorical", "flag": "boolean", "plan": "categorical"},
    )
    assert TableSchema.from_dict(schema.to_dict(), "regression", schema.kinds) == schema


@pytest.mark.parametrize("without", [[], ["spent"], ["joined"], ["spent", "joined"]])
def test_unused_columns_are_ignored_whatever_they_hold(without: list[str], schema: TableSchema, tmp_path: Path) -> None:
    """A target that is not known yet may hold anything; columns are in another order."""
    frame = frame_of(1)
    expected = read(tmp_path, frame.drop(columns=["joined", "spent"]), merge="sum", categorical=["zip"])
    changed = frame.assign(spent="unknown").drop(columns=without)[::1]
    data = read(tmp_path, changed[list(reversed(changed.columns))], schema=schema)
    assert {column.name for column in data.columns} == set(schema.kinds or ())
    ours, theirs = ({column.name: column for column in found.columns} for found in (data, expected))
    for name, column in ours.items():
        assert (column.kind, column.categories) == (theirs[name].kind, theirs[name].categories)
        np.testing.assert_array_equal(column.values, theirs[name].values)
    assert data.graph.weight.unique().tolist() == [3]  # the sum of two payments
    assert not len(data.labelled)
    assert data.node_names() == NAMES
    assert data.schema.target == ("spent",)


def test_a_column_keeps_its_kind_whatever_it_looks_like(schema: TableSchema, tmp_path: Path) -> None:
    frame = frame_of(2)
    frame["plan"] = [f"plan number {i} with a very long description" for i in range(NODES)]  # would be free text
    frame["age"] = 1  # would be boolean
    data = read(tmp_path, frame, schema=schema)
    assert {column.name: column.kind for column in data.columns} == schema.kinds
    zips = next(column for column in data.columns if column.name == "zip")
    assert set(zips.categories) == set(frame["zip"])  # with their zeros


def test_the_target_is_read_where_it_is_asked_for(schema: TableSchema, tmp_path: Path) -> None:
    frame = frame_of(3)
    data = read(tmp_path, frame, schema=schema, target="spent")
    np.testing.assert_allclose(data.y.numpy(), frame["spent"])
    with pytest.raises(TableError, match=r"accounts.csv:1: no column 'spent', the target of the model; pass labels"):
        read(tmp_path, frame.drop(columns="spent"), schema=schema, target="spent")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f: f.drop(columns="age"),
            r"accounts.csv:1 lacks column 'age'; the model was trained with columns 'age'",
        ),
        (lambda f: f.rename(columns={"age": "years"}), r"accounts.csv:1 lacks column 'age'"),
        (lambda f: f.assign(extra=1), r"has column 'extra', which the model was not trained with; .* --drop"),
        (
            lambda f: f.assign(flag=[2, *f["flag"][1:]]),
            r"csv:2: column 'flag', node 'u0': '2' is neither true nor false",
        ),
        (lambda f: f.assign(age=["old", *f["age"][1:]]), r"csv:2: column 'age', node 'u0': 'old' is not a number"),
    ],
)
def test_other_columns_are_refused(change: Any, message: str, schema: TableSchema, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=message):
        read(tmp_path, change(frame_of()), schema=schema)


def test_choices_override_the_schema(schema: TableSchema, tmp_path: Path) -> None:
    frame = frame_of()
    data = read(tmp_path, frame.assign(extra=1), schema=schema, drop=["extra"], merge="max")
    assert data.graph.weight.unique().tolist() == [2]
    with pytest.raises(TableError, match=r"drop \(--drop\): the model needs 'age'"):
        read(tmp_path, frame, schema=schema, drop=["age"])
    swapped = frame.rename(columns={"user": "name"})
    assert read(tmp_path, swapped, schema=schema).node_names() == NAMES  # guessed: no column 'user'


@pytest.mark.parametrize("change", [{"merge": "add"}, {"id": 3}, {"target": "spent"}, {"drop": [1]}, {"more": 1}])
def test_damaged_schemas_are_refused(change: dict[str, Any], schema: TableSchema) -> None:
    with pytest.raises(ValueError, match=r"^tables: "):
        TableSchema.from_dict(schema.to_dict() | change, "regression", None)


# ---- kinds that are chosen -----------------------------------------------------------------------------------------


def test_codes_are_categories_if_that_is_said(tmp_path: Path) -> None:
    frame = frame_of()
    guessed = read(tmp_path, frame, target="spent", drop=["joined"], merge="sum")
    assert {column.name: column.kind for column in guessed.columns}["zip"] == "numeric"
    hint = "accounts.csv: numeric with few different integers: 'zip'; if these are codes, pass categorical=[..]"
    assert any(note.startswith(hint) for note in guessed.notes)
    assert "accounts.csv: numeric columns 'age', 'zip'" in guessed.notes
    chosen = read(
        tmp_path, frame, target="spent", drop=["joined"], merge="sum", categorical=["zip", "age"], numeric=["flag"]
    )
    kinds = {column.name: column.kind for column in chosen.columns}
    assert kinds == {"age": "categorical", "zip": "categorical", "flag": "numeric", "plan": "categorical"}
    flag = next(column for column in chosen.columns if column.name == "flag")
    np.testing.assert_array_equal(flag.values, frame["flag"].astype(np.float32))
    assert not any("codes" in note for note in chosen.notes)


@pytest.mark.parametrize("most", [9, 10])
def test_categories_that_are_all_rare_are_noted(most: int, tmp_path: Path) -> None:
    """They share one feature, so that the column says nothing."""
    codes = [10000 + max(0, i - most + 1) for i in range(NODES)]  # the first one in ``most`` rows, others in one
    frame = pd.DataFrame({"user": NAMES, "zip": codes})
    data = read(tmp_path, frame, merge="sum", categorical=["zip"])
    note = (
        "accounts.csv: column 'zip': no category has 10 rows, so it becomes a constant; drop it, or group its values, "
        "for example by their first digits"
    )
    assert (note in data.notes) == (most < 10)
    x = as_dense(Recipe.learn(data.columns).apply(data.columns))
    assert bool((x == x[0]).all()) == (most < 10)
    assert note not in read(tmp_path, frame, schema=data.schema).notes  # nothing can be changed about a trained model


def test_the_same_codes_in_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": NAMES, "code": np.arange(NODES) % 7, "price": np.arange(NODES) % 3 / 2})
    frame.to_parquet(tmp_path / "f.parquet")
    frame.to_csv(tmp_path / "f.csv", index=False)
    edges = write(tmp_path, edges=PAYMENTS)["edges"]
    one, other = (
        read_tables(edges, tmp_path / name, merge="sum", categorical=["code"]).columns or ()
        for name in ("f.parquet", "f.csv")
    )
    for ours, theirs in zip(one, other, strict=True):
        assert (ours.kind, ours.categories) == (theirs.kind, theirs.categories)
        np.testing.assert_array_equal(ours.values, theirs.values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"categorical": ["zap"]},
            r"accounts.csv: no column 'zap' \(categorical, --categorical\); the columns are 'user', 'age', 'zip'",
        ),
        ({"numeric": ["weight"]}, r"accounts.csv: no column 'weight' \(numeric, --numeric\); the columns are 'user'"),
        ({"numeric": ["plan"]}, "column 'plan', node 'u0': '(basic|pro)' is not a number"),
        ({"categorical": ["zip"], "numeric": ["zip"]}, "column 'zip' is listed as both categorical and numeric"),
        ({"categorical": "zip"}, "categorical is 'zip'; expected a list of names"),
    ],
)
def test_kinds_that_cannot_be(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, frame_of(), target="spent", drop=["joined"], merge="sum", **options)
