"""Recipes: scikit-learn's encoders are the reference, columns are matched by name, and nothing leaks."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import polybasis as pb
from polybasis.data.columns import Column, Columns
from polybasis.data.dataset import NodeDataset, Split
from polybasis.data.recipe import Recipe
from polybasis.features import SparseFeatures, as_dense

NODES = 400


def categorical(name: str, texts: list[str | None]) -> Column:
    categories = tuple(sorted({text for text in texts if text is not None}))
    index = {text: i for i, text in enumerate(categories)}
    return Column(name, "categorical", np.array([index.get(text, -1) for text in texts], dtype=np.int32), categories)


def columns(seed: int = 0, nodes: int = NODES, cities: int = 15) -> Columns:
    """Three numbers, two of them with gaps, a boolean with gaps, and two categorical columns."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(5, 3, (nodes, 3)).astype(np.float32)
    numbers[rng.random((nodes, 3)) < [0.2, 0.0, 0.1]] = np.nan
    flags = rng.choice(3, nodes, p=[0.2, 0.5, 0.3]) - 1
    zipf = 1 / np.arange(1, cities + 1)
    names = [f"city {i}" for i in range(cities)]
    return (
        *(Column(f"number {i}", "numeric", numbers[:, i].copy()) for i in range(3)),
        Column("vip", "boolean", flags.astype(np.int32), ("No", "yes")),
        categorical("city", rng.choice(names, nodes, p=zipf / zipf.sum()).tolist()),
        categorical("plan", [None if i % 7 == 0 else "abc"[i % 3] for i in range(nodes)]),
    )


def dataset(found: Columns) -> NodeDataset:
    nodes = len(found[0].values)
    graph = pb.Graph.from_edge_index(np.stack([np.arange(nodes - 1), np.arange(1, nodes)]), nodes, directed=False)
    x = Recipe.learn(found, scaled=False).apply(found)
    return NodeDataset(name="path", graph=graph, x=x, y=torch.arange(nodes) % 2, columns=found)


def with_values(column: Column, values: Any) -> Column:
    return Column(column.name, column.kind, values, column.categories)


# ---- against scikit-learn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_numbers_as_scikit_learn_imputes_and_scales_them(seed: int) -> None:
    """SimpleImputer and StandardScaler, fitted on some rows and applied to all."""
    found = columns(seed)[:3]
    rows = np.random.default_rng(seed).random(NODES) < 0.6
    matrix = np.stack([column.values for column in found], axis=1)
    pipeline = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit(matrix[rows].astype(np.float64))
    recipe = Recipe.learn(found, rows)
    x = as_dense(recipe.apply(found)).numpy()
    assert recipe.width == x.shape[1] == 5  # two columns have gaps
    np.testing.assert_allclose(x[:, [0, 2, 3]], pipeline.transform(matrix), rtol=2e-6, atol=1e-6)
    np.testing.assert_array_equal(x[:, [1, 4]], np.isnan(matrix[:, [0, 2]]))
    assert x.dtype == np.float32


@pytest.mark.parametrize("cities", [3, 15, 180])
def test_categories_as_scikit_learn_encodes_them(cities: int) -> None:
    """Categories of fewer than ten rows, beyond the hundred commonest, and unseen ones share a feature."""
    rng = np.random.default_rng(cities)
    counts = np.arange(cities) + (12 if cities != 15 else 4)  # no ties, where the two could differ
    texts = np.repeat([f"c{i}" for i in range(cities)], counts)
    rng.shuffle(texts)
    learned = categorical("city", texts.tolist())
    new = categorical("city", ["c0", "c1", f"c{cities - 1}", "never seen", "c2"])
    encoder = OneHotEncoder(
        min_frequency=10, max_categories=101, handle_unknown="infrequent_if_exist", sparse_output=False
    ).fit(texts[:, None])
    recipe = Recipe.learn((learned,))
    for column in (learned, new):
        cells = np.array([column.categories[i] for i in column.values])[:, None]
        np.testing.assert_array_equal(as_dense(recipe.apply((column,))), encoder.transform(cells))


def test_booleans_and_gaps() -> None:
    column = Column("vip", "boolean", np.array([1, 0, -1, 2, 1], dtype=np.int32), ("F", "True", "yes"))
    recipe = Recipe.learn((column,))
    assert as_dense(recipe.apply((column,))).tolist() == [[1, 0], [0, 0], [1, 1], [1, 0], [1, 0]]
    complete = with_values(column, np.array([1, 0, 0, 2, 0], dtype=np.int32))
    assert as_dense(recipe.apply((complete,))).tolist() == [[1, 0], [0, 0], [0, 0], [1, 0], [0, 0]]
    assert as_dense(Recipe.learn((complete,)).apply((column,))).tolist() == [[1], [0], [0], [1], [1]]  # 0 is commoner


def test_wide_categories_are_sparse_and_equal_to_dense_ones() -> None:
    found = columns(cities=90, nodes=4000)
    recipe = Recipe.learn(found)
    x = recipe.apply(found)
    assert isinstance(x, SparseFeatures)
    parts = [Recipe.learn((column,)).apply((column,)) for column in found]
    assert torch.equal(as_dense(x), torch.cat([as_dense(part) for part in parts], dim=1))


@pytest.mark.parametrize("value", [7.0, np.nan])
def test_constant_and_empty_columns_are_finite(value: float) -> None:
    column = Column("c", "numeric", np.full(5, value, dtype=np.float32))
    assert torch.isfinite(as_dense(Recipe.learn((column,)).apply((column,)))).all()
    other = Column("c", "numeric", np.array([3e38, -3e38, np.nan, 0, 1], dtype=np.float32))
    tiny = Column("c", "numeric", np.array([1e-30, 0], dtype=np.float32))
    for learned in (column, tiny):
        assert torch.isfinite(as_dense(Recipe.learn((learned,)).apply((other,)))).all()


# ---- columns by name -----------------------------------------------------------------------------------------------


def test_the_order_of_columns_does_not_matter() -> None:
    found = columns()
    recipe = Recipe.learn(found)
    assert torch.equal(as_dense(recipe.apply(found[::-1])), as_dense(recipe.apply(found)))


def test_missing_and_foreign_columns_are_refused_by_name() -> None:
    found = columns()
    recipe = Recipe.learn(found)
    with pytest.raises(ValueError, match="the table lacks columns 'vip', 'plan'"):
        recipe.apply((*found[:3], found[4]))
    extra = Column("extra", "numeric", found[0].values)
    with pytest.raises(
        ValueError, match=r"the table has column 'extra', which the model was not trained with; .* --drop"
    ):
        recipe.apply((*found, extra))


def test_a_column_that_looks_like_another_kind_is_read_as_learned() -> None:
    """A small table may show only numbers in a categorical column, or only 0 and 1 in a numeric one."""
    numbers = Column("c", "numeric", np.array([1, 2, np.nan, 30], dtype=np.float32))
    words = categorical("c", [text for text in ("1", "2", "x") for _ in range(10)])
    as_words = as_dense(Recipe.learn((words,)).apply((numbers,)))
    assert as_words.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]
    bits = Column("c", "boolean", np.array([0, 1, -1], dtype=np.int32), ("0", "1"))
    plain = Recipe.learn((numbers,), scaled=False)
    assert as_dense(plain.apply((bits,))).tolist() == [[0, 0], [1, 0], [2, 1]]
    flags = Recipe.learn((bits,))
    with pytest.raises(ValueError, match="column 'c' has the value '2'; expected true or false"):
        flags.apply((numbers,))
    with pytest.raises(ValueError, match="column 'c' has the value '2'; expected true or false"):
        flags.apply((words,))
    with pytest.raises(ValueError, match="column 'c' has the value 'x'; expected numbers"):
        plain.apply((words,))
    gone = Column("c", "numeric", np.full(2, np.nan, dtype=np.float32))
    assert as_dense(flags.apply((gone,))).tolist() == [[1, 1], [1, 1]]


# ---- nothing leaks -------------------------------------------------------------------------------------------------


def test_held_out_nodes_do_not_change_the_recipe() -> None:
    found = columns()
    data = dataset(found)
    split = data.split("stratified")
    held = torch.cat([split.val, split.test]).numpy()
    spoilt = []
    for column in found:
        values = column.values.copy()
        values[held] = 1e6 if column.kind == "numeric" else len(column.categories)
        spoilt.append(Column(column.name, column.kind, values, (*column.categories, "1")))
    one, other = data.prepared(split), dataset(tuple(spoilt)).prepared(split)
    assert one.recipe == other.recipe
    assert one.recipe != Recipe.learn(found)
    kept = np.setdiff1d(np.arange(NODES), held)
    assert torch.equal(as_dense(one.x)[kept], as_dense(other.x)[kept])


def test_unlabelled_nodes_count_and_the_data_keep_their_identity() -> None:
    found = columns()
    data = replace(dataset(found), y=torch.where(torch.arange(NODES) < 300, torch.arange(NODES) % 2, -1))
    split = data.split("stratified")
    prepared = data.prepared(split)
    rows = np.ones(NODES, dtype=bool)
    rows[torch.cat([split.val, split.test]).numpy()] = False
    assert rows[300:].all()
    assert prepared.recipe == Recipe.learn(found, rows)
    assert prepared.fingerprint == data.fingerprint
    scaled = tuple(with_values(c, c.values * 2) if c.kind == "numeric" else c for c in found)
    renamed = (Column("new", "numeric", found[0].values), *found[1:])
    assert len({dataset(part).fingerprint for part in (found, scaled, renamed)}) == 3


# ---- JSON ----------------------------------------------------------------------------------------------------------


def test_a_recipe_survives_json() -> None:
    found = columns()
    recipe = Recipe.learn(found)
    again = Recipe.from_dict(json.loads(json.dumps(recipe.to_dict())))
    assert again == recipe
    assert torch.equal(as_dense(again.apply(found)), as_dense(recipe.apply(found)))


NUMBER = {"name": "a", "kind": "numeric", "gaps": False, "fill": 0.0, "mean": 0.0, "scale": 1.0}
WORDS = {"name": "a", "kind": "categorical", "gaps": False, "categories": ["x"], "other": True}


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"columns": {}},
        {"columns": [1]},
        {"columns": [{}]},
        {"columns": [NUMBER | {"name": 1}]},
        {"columns": [NUMBER | {"kind": "date"}]},
        {"columns": [NUMBER | {"gaps": 1}]},
        {"columns": [NUMBER | {"scale": 0}]},
        {"columns": [NUMBER | {"scale": "1"}]},
        {"columns": [NUMBER | {"mean": float("nan")}]},
        {"columns": [NUMBER | {"fill": True}]},
        {"columns": [NUMBER | {"more": 1}]},
        {"columns": [{key: value for key, value in NUMBER.items() if key != "fill"}]},
        {"columns": [WORDS | {"categories": "x"}]},
        {"columns": [WORDS | {"categories": ["x", "x"]}]},
        {"columns": [WORDS | {"categories": [1]}]},
        {"columns": [WORDS | {"other": None}]},
        {"columns": [NUMBER, NUMBER]},
    ],
)
def test_damaged_recipes_are_refused_in_one_line(document: Any) -> None:
    with pytest.raises(ValueError, match=r"^recipe: ") as raised:
        Recipe.from_dict(document)
    assert "\n" not in str(raised.value)


def test_a_table_of_pandas_gives_the_same_numbers(tmp_path: Any) -> None:
    """From a file to features, against get_dummies on the same table."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"node": [f"n{i}" for i in range(200)], "city": rng.choice(["x", "y", "z"], 200)})
    frame["age"] = rng.normal(40, 10, 200).round(2)
    frame["vip"] = rng.choice(["yes", "no"], 200)
    frame.to_csv(tmp_path / "f.csv", index=False)
    (tmp_path / "e.csv").write_text("source,target\nn0,n1\n")
    data = pb.data.read_tables(tmp_path / "e.csv", tmp_path / "f.csv")
    everyone = Split(torch.arange(200), torch.arange(0), torch.arange(0))
    expected = pd.get_dummies(frame.drop(columns="node"), columns=["city", "vip"], dtype=float)
    expected["age"] = (frame["age"] - frame["age"].mean()) / frame["age"].std(ddof=0)
    wanted = expected[["city_x", "city_y", "city_z", "age", "vip_yes"]].to_numpy()
    np.testing.assert_allclose(as_dense(data.prepared(everyone).x), wanted, rtol=2e-6, atol=1e-6)
