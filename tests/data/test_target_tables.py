"""Targets in tables: classes, labels and numbers, guessed where that is clear and refused where it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from sklearn.preprocessing import MultiLabelBinarizer
from tables_on_disk import parquet, write

from polybasis.data.dataset import NodeDataset
from polybasis.data.tables import TableError, read_tables

NODES = 60
NAMES = [f"n{i}" for i in range(NODES)]
EDGES = "source,target\n" + "".join(f"n{i},n{(i + 1) % NODES}\n" for i in range(NODES))


def with_target(folder: Path, cells: Any, name: str = "y", **options: Any) -> NodeDataset:
    """A ring whose table of labels has one column; missing cells are empty."""
    frame = pd.DataFrame({"node": NAMES, name: cells})
    frame.to_csv(folder / "labels.csv", index=False)
    return read_tables(write(folder, edges=EDGES)["edges"], labels=folder / "labels.csv", **options)


# ---- numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "decimal comma", "parquet", "among features", "missing rows"])
def test_numbers_are_those_of_pandas(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = 1e6 + rng.normal(size=NODES).round(6)  # float32 would lose the decimals
    values[::5] = np.nan
    frame = pd.DataFrame({"node": NAMES, "f": rng.normal(size=NODES), "income": values})
    files = write(tmp_path, edges=EDGES)
    if form == "among features":
        frame.to_csv(tmp_path / "features.csv", index=False)
        data = read_tables(files["edges"], tmp_path / "features.csv", target="income")
    else:
        labels = tmp_path / ("labels.parquet" if form == "parquet" else "labels.csv")
        labelled = frame[["node", "income"]]
        if form == "parquet":
            labelled.to_parquet(labels)
        elif form == "decimal comma":
            labelled.to_csv(labels, index=False, sep=";", decimal=",")
        else:
            (labelled.dropna() if form == "missing rows" else labelled).to_csv(labels, index=False)
        data = read_tables(files["edges"], labels=labels)
    assert data.node_names() == NAMES
    assert (data.target, data.metric, data.classes, data.num_outputs) == ("regression", "rmse", (), 1)
    np.testing.assert_array_equal(data.y.numpy(), values)
    assert data.labelled.tolist() == [i for i in range(NODES) if i % 5]
    assert "numbers from 999" in data.notes[-2] + data.notes[-1]


def test_the_target_is_no_feature_and_no_edge_is_lost(tmp_path: Path) -> None:
    frame = pd.DataFrame({"node": NAMES, "f": range(NODES), "price": np.linspace(0.5, 9.5, NODES)})
    frame.to_csv(tmp_path / "f.csv", index=False)
    data = read_tables(write(tmp_path, edges=EDGES)["edges"], tmp_path / "f.csv", target="price")
    assert [column.name for column in data.columns or ()] == ["f"]
    assert data.graph.num_edges == NODES


# ---- which kind of target ------------------------------------------------------------------------------------------

REPEATED = np.arange(NODES) // 2 + 0.5
KINDS: dict[str, tuple[Any, str | None]] = {
    "words": (["a", "b", None] * 20, "classification"),
    "0 and 1": ([0, 1] * 30, "classification"),
    "few integers": ([1, 2, 3, 4, 5] * 12, "classification"),
    "class codes with zeros": ([f"{i % 25:03d}" for i in range(NODES)], "classification"),
    "different integers": (range(1000, 1000 + NODES), "regression"),
    "different decimals": (np.linspace(0, 1, NODES), "regression"),
    "repeated decimals": (REPEATED, "regression"),
    "repeated integers": ([i // 2 for i in range(NODES)], None),
    "few decimals": ([0.5, 1.0, 1.5] * 20, None),
    "a name each": (NAMES, None),
}


@pytest.mark.parametrize("case", KINDS)
def test_the_kind_of_target_is_guessed_if_it_is_clear(case: str, tmp_path: Path) -> None:
    cells, kind = KINDS[case]
    if kind is None:
        with pytest.raises(TableError, match=r"'y' has \d+ different .* in 60 rows.*--task classification"):
            with_target(tmp_path, cells)
        return
    data = with_target(tmp_path, cells)
    assert data.target == kind
    said = [note for note in data.notes if note.startswith("labels.csv: the target is read as")]
    assert len(said) == (case in ("few integers", "different integers", "different decimals", "repeated decimals"))
    if kind == "classification":
        texts = [None if cell is None else str(cell) for cell in cells]
        assert [data.classes[i] if i >= 0 else None for i in data.y.tolist()] == texts
        assert list(data.classes) == sorted(data.classes)


@pytest.mark.parametrize("case", ["repeated integers", "few decimals", "few integers", "different integers"])
def test_the_task_decides_what_is_not_clear(case: str, tmp_path: Path) -> None:
    cells, _ = KINDS[case]
    numbers = with_target(tmp_path, cells, task="regression")
    np.testing.assert_array_equal(numbers.y.numpy(), np.asarray(cells, dtype=np.float64))
    classes = with_target(tmp_path, cells, task="classification")
    assert classes.target == "classification"
    assert [float(classes.classes[i]) for i in classes.y] == list(cells)
    assert numbers.notes[-1].endswith("60 of 60 nodes labelled")  # nothing was guessed


@pytest.mark.parametrize("gap", ["NAN", "Nan", "+nan"])
@pytest.mark.parametrize("task", [None, "classification"])
def test_every_spelling_of_nan_is_a_gap(gap: str, task: Any, tmp_path: Path) -> None:
    data = with_target(tmp_path, [gap, *(["0", "1"] * NODES)[: NODES - 1]], task=task)
    assert data.classes == ("0", "1")
    assert data.labelled.tolist() == [*range(1, NODES)]


def test_question_marks_among_numbers_are_gaps(tmp_path: Path) -> None:
    data = with_target(tmp_path, ["1", "0", "?"] * 20)
    assert data.classes == ("0", "1")
    assert (data.y >= 0).tolist() == [True, True, False] * 20
    assert with_target(tmp_path, ["x", "y", "?"] * 20).classes == ("?", "x", "y")


# ---- several labels ------------------------------------------------------------------------------------------------


def label_lists(seed: int = 0) -> list[list[str] | None]:
    rng = np.random.default_rng(seed)
    words = ["red", "green", "blue", "round", "10", "9"]
    lists = [rng.choice(words, rng.integers(0, 4), replace=False).tolist() for _ in range(NODES)]
    return [None if i % 7 == 0 else words for i, words in enumerate(lists)]


@pytest.mark.parametrize("form", ["lists.parquet", "lists.jsonl", "columns", "columns of words", "guessed columns"])
def test_labels_are_those_of_scikit_learn(form: str, tmp_path: Path) -> None:
    lists = label_lists()
    encoder = MultiLabelBinarizer()
    expected = encoder.fit_transform([words or [] for words in lists])
    expected[[words is None for words in lists]] = -1
    edges, labels = write(tmp_path, edges=EDGES)["edges"], tmp_path / "labels.csv"
    options: dict[str, Any] = {}
    if form == "lists.parquet":
        labels = parquet(tmp_path / form, node=NAMES, tags=pa.array(lists, pa.list_(pa.string())))
    elif form == "lists.jsonl":
        labels = tmp_path / form
        rows = [{"node": name, "tags": words} for name, words in zip(NAMES, lists, strict=True)]
        labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        frame = pd.DataFrame(expected, columns=encoder.classes_).astype(object)
        frame = frame.where(expected >= 0, "" if form == "columns" else "NA")
        frame = frame.replace({0: "no", 1: "YES"}) if form == "columns of words" else frame
        frame.insert(0, "node", NAMES)
        frame.to_csv(labels, index=False)
        options = {"task": "multilabel"} if form == "guessed columns" else {"target": list(encoder.classes_)}
    data = read_tables(edges, labels=labels, **options)
    assert (data.target, data.metric) == ("multi-label", "roc_auc")
    assert data.classes == tuple(encoder.classes_)
    np.testing.assert_array_equal(data.y.numpy(), expected)
    assert f"{len(data.classes)} labels in column" in data.notes[-1]
    assert f"{sum(words is not None for words in lists)} of 60 nodes labelled" in data.notes[-1]


def test_labels_in_columns_of_the_features(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, (NODES, 2))
    pd.DataFrame({"a": y[:, 0], "node": NAMES, "f": rng.normal(size=NODES), "b": y[:, 1]}).to_csv(
        tmp_path / "f.csv", index=False
    )
    data = read_tables(write(tmp_path, edges=EDGES)["edges"], tmp_path / "f.csv", target=["b", "a"])
    assert data.classes == ("b", "a")
    np.testing.assert_array_equal(data.y.numpy(), y[:, ::-1])
    assert [column.name for column in data.columns or ()] == ["f"]


# ---- problems ------------------------------------------------------------------------------------------------------

ROW = "n{},1,0\n"
LONG = "".join(f"n{i},{i + 0.5}\n" for i in range(30))
DIRTY: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "a word among numbers": (
        "node,y\n" + LONG + "n30,unknown\n",
        {},
        "labels.csv:32: column 'y', node 'n30': 'unknown' is not a number",
        "pass task='classification' or --task classification",
    ),
    "a word in a regression": (
        "node,y\nn1,2\nn2,x\n",
        {"task": "regression"},
        "labels.csv:3: column 'y', node 'n2': 'x' is not a number",
        "or leave them empty if they are unknown",
    ),
    "an infinite number": (
        "node,y\n" + LONG + "n30,inf\n",
        {},
        "labels.csv:32: column 'y', node 'n30': 'inf' is too large for float32",
        "correct the cells",
    ),
    "a label other than 0 and 1": (
        "node,a,b\n" + ROW.format(1) + "n2,1,2\n",
        {"target": ["a", "b"]},
        "labels.csv:3: column 'b', node 'n2': '2' is neither 0 nor 1",
        "give each label a column of 0 and 1",
    ),
    "a missing label": (
        "node,a,b\n" + ROW.format(1) + "n2,1,\n",
        {"target": ["a", "b"]},
        "labels.csv:3: column 'b', node 'n2': the label is missing, others are not",
        "fill in all labels of a node, or leave all of them empty",
    ),
    "classes in two columns": (
        "node,a,b\n" + ROW.format(1),
        {"target": ["a", "b"], "task": "classification"},
        "labels.csv: the target 'a', 'b' is 2 columns, which holds labels; the task is classification",
        "--task multi-label",
    ),
    "no values": (
        "node,a,b\nn1,,\n",
        {"target": ["a", "b"]},
        "labels.csv:1: columns 'a', 'b' has no values",
        "--target",
    ),
    "unknown column": ("node,a\nn1,1\n", {"target": ["z"]}, "labels.csv: no column 'z' (target, --target)", "'a'"),
}


@pytest.mark.parametrize("case", DIRTY)
def test_dirty_targets_are_refused_with_their_place_and_what_to_do(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    labels, options, message, advice = DIRTY[case]
    files = write(Path(), edges=EDGES, labels=labels)
    with pytest.raises(TableError) as raised:
        read_tables(files["edges"], labels=files["labels"], **options)
    (problem,) = raised.value.problems
    assert problem.startswith(message)
    assert advice in str(raised.value)


def test_an_unknown_task_and_too_many_labels_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="task is 'ranking'; expected one of classification, multi-label, regression"):
        with_target(tmp_path, [0, 1] * 30, task="ranking")
    monkeypatch.setattr("polybasis.data.tables.target_values.MAX_LABELS", 50)
    labels = parquet(tmp_path / "l.parquet", node=NAMES, tags=[[name] for name in NAMES])
    with pytest.raises(ValueError, match="the lists in column 'tags' have 60 different labels"):
        read_tables(tmp_path / "edges.csv", labels=labels)


def test_a_list_of_labels_that_is_not_text_keeps_its_spelling(tmp_path: Path) -> None:
    labels = parquet(tmp_path / "l.parquet", node=["n0", "n1", "n2"], tags=[[10, 9], [], None])
    data = read_tables(write(tmp_path, edges=EDGES)["edges"], labels=labels)
    assert data.classes == ("10", "9")
    assert data.y[:3].tolist() == [[1, 1], [0, 0], [-1, -1]]
    assert torch.equal(data.labelled, torch.tensor([0, 1]))
