"""Dirty tables: each message names file, line, column and node where they exist, and says what to do."""

from __future__ import annotations

import gzip
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest
import scipy.sparse as sp
from tables_on_disk import EDGES, FEATURES, LABELS, parquet, write

from polybasis.data.tables import TableError, read_tables

Files = dict[str, Path]
TEXT = "The quick brown fox jumps over the lazy dog, number"


def changed(**contents: str | bytes) -> Callable[[Path], Files]:
    return lambda folder: write(folder, **contents)


def saved(name: str, file: str, make: Callable[[Path], Any]) -> Callable[[Path], Files]:
    def write_file(folder: Path) -> Files:
        make(folder / file)
        return {name: folder / file}

    return write_file


def lines(count: int, row: Callable[[int], str]) -> str:
    return "".join(f"{row(i)}\n" for i in range(count))


GRAPHML = "<graphml xmlns='http://graphml.graphdrawing.org/xmlns'><graph edgedefault='undirected'>{}</graph></graphml>"
LONG = lines(40, lambda i: f"n{i},{TEXT} {i}")
CYCLE = "source,target\n" + lines(40, lambda i: f"n{i},n{(i + 1) % 40}")

# For each kind: the files, the message without the folder, and what to do about it.
DIRTY: dict[str, tuple[Callable[[Path], Files], str, str]] = {
    "short row": (
        changed(edges="s,t\na,b\nb\n"),
        "edges.csv:3: the row that starts with 'b' has 1 cell",
        "the header has 2: quote cells that contain the delimiter",
    ),
    "long row": (
        changed(features="node,f\na,1\nb,2,3\nc,1\n"),
        "features.csv:3: the row that starts with 'b', '2' has 3 cells",
        "the header has 2",
    ),
    "empty file": (changed(edges=""), "edges.csv:1: the file is empty", "expected the columns source, target"),
    "blank file": (changed(features="\n\n \n"), "features.csv:1: the file is empty", "expected a column of nodes"),
    "header only": (changed(edges="source,target\n"), "edges.csv: the file has no edges", "expected a row for each"),
    "header only, features": (changed(features="node,f\n"), "features.csv: the file has no nodes", "expected a column"),
    "no labels": (changed(labels="node,class\na,\nb, \n"), "labels.csv:1: column 'class' has no values", "give"),
    "wrong delimiter": (
        changed(edges="source:target\na:b\nb:c\n"),
        "edges.csv:1: found 1 column ('source:target')",
        "separated by commas, tabs, semicolons or |",
    ),
    "three columns of weights": (
        changed(edges="source,target,amount,fee\na,b,1,2\n"),
        "edges.csv:1: several columns besides 'source' and 'target': 'amount', 'fee'",
        "name the weights 'weight', or drop columns",
    ),
    "blank endpoint": (
        changed(edges="source,target\na,b\nb,\n"),
        "edges.csv:3: column 'target' is empty; the other end of the edge is 'b'",
        "give both nodes of the edge",
    ),
    "weight in words": (
        changed(edges="s,t,w\na,b,1\nb,c,much\n"),
        "edges.csv:3: column 'w', edge 'b' - 'c': 'much' is not a number",
        "or drop 'w' with drop=[..] or --drop if it does not hold weights",
    ),
    "blank weight": (
        changed(edges="s,t,w\na,b,\nb,c,1\n"),
        "edges.csv:2: column 'w', edge 'a' - 'b': the weight is missing",
        "correct the weights",
    ),
    "NaN weight": (
        changed(edges="s,t,w\na,b,nan\nb,c,1\n"),
        "edges.csv:2: column 'w', edge 'a' - 'b': the weight is missing",
        "correct the weights",
    ),
    "infinite weight": (
        changed(edges="s,t,w\na,b,1\nb,c,inf\n"),
        "edges.csv:3: column 'w', edge 'b' - 'c': inf is too large for float32",
        "correct the weights",
    ),
    "negative weight": (
        changed(edges="s,t,w\na,b,1\nb,c,-1\n"),
        "edges.csv:3: column 'w', edge 'b' - 'c': -1 is negative",
        "correct the weights",
    ),
    "two payments of one pair": (
        changed(edges="s,t,w\na,b,10\nb,c,5\na,b,7\n"),
        "edges.csv:4: edge 'a' - 'b' is repeated, with weights 10 and 7 (first on line 2)",
        "pass merge='sum', 'mean', 'max' or 'first' (--merge)",
    ),
    "two equal payments": (
        changed(edges="s,t,w\na,b,10\na,b,10\n"),
        "edges.csv:3: edge 'a' - 'b' is repeated, with weights 10 and 10 (first on line 2)",
        "--merge",
    ),
    "infinite feature": (
        changed(features="node,age\na,1\nb,-inf\nc,2\n"),
        "features.csv:3: column 'age', node 'b': the number is infinite or too large for float32",
        "correct the cells, leave them empty, or drop the column",
    ),
    "huge integer": (
        changed(features=f"node,age\na,1\nb,{10**40}\nc,2\n"),
        "features.csv:3: column 'age', node 'b': the number is infinite or too large for float32",
        "correct the cells",
    ),
    "text in a numeric column": (
        changed(features="node,age\na,1.5\nb,unknown\nc,2\n"),
        "features.csv:3: column 'age', node 'b': 'unknown' is not a number",
        "correct the cells, leave them empty, or drop the column",
    ),
    "thousands separator next to a decimal comma": (
        changed(edges="s;t;w\na;b;1,5\nb;c;1.234,5\n"),
        "edges.csv:3: column 'w', edge 'b' - 'c': '1.234,5' is not a number; remove thousands separators",
        "correct the weights",
    ),
    "decimal comma next to decimal points": (
        changed(edges="s;t;w\na;b;1.25\nb;c;1,5\n"),
        "edges.csv:3: column 'w', edge 'b' - 'c': '1,5' is not a number; write decimals with a point",
        "correct the weights",
    ),
    "thousands separator in a numeric column": (
        changed(features='node,age\na,"1,500"\nb,20\nc,30\nd,40\n'),
        "features.csv:2: column 'age', node 'a': '1,500' is not a number; remove thousands separators",
        "correct the cells, leave them empty, or drop the column",
    ),
    "dates": (
        changed(features="node,age,joined\na,1,\nb,2,2024-05-01\nc,3,2024-05-02\n"),
        "features.csv:3: column 'joined' holds dates or times, such as '2024-05-01' for node 'b'",
        "or replace it with a number such as days since a fixed date",
    ),
    "German dates": (
        changed(features="node,joined\na,1.5.2024\nb,2.5.2024\nc,13.5.2024\n"),
        "features.csv:2: column 'joined' holds dates or times, such as '1.5.2024' for node 'a'",
        "drop the column with drop=[..] or --drop",
    ),
    "free text": (
        changed(edges=CYCLE, features="node,about\n" + LONG.replace(", ", "; "), labels="node,class\nn1,x\nn2,y\n"),
        "features.csv:2: column 'about' holds free text or identifiers (40 different values in 40 rows), such as "
        "'The quick brown fox jumps over the lazy ' for node 'n0'",
        "replace it with numbers or categories",
    ),
    "duplicate node": (
        changed(features=FEATURES + "a,1,1\n"),
        "features.csv:6: column 'node': duplicate node 'a' (first on line 2)",
        "keep one row for each node",
    ),
    "duplicate label": (
        changed(labels=LABELS + "b,red\n"),
        "labels.csv:5: column 'node': duplicate node 'b' (first on line 3)",
        "keep one row for each node",
    ),
    "nameless node": (
        changed(features=FEATURES + ",1,1\n"),
        "features.csv:6: column 'node' is empty",
        "name the node, or remove the row",
    ),
    "edge to an unknown node": (
        changed(edges="source,target\na,b\nb,zoe\n"),
        "edges.csv:3: column 'target': node 'zoe' is not in features.csv",
        "add the missing nodes to features.csv",
    ),
    "ids in float notation": (
        changed(edges="source,target\n1,2\n2,3.0\n", features="node,f\n1,1\n2,4\n3,9\n", labels="node,class\n1,x\n"),
        "edges.csv:3: column 'target': node '3.0' is not in features.csv, but '3' is",
        "spell names alike in both files",
    ),
    "label of an unknown node": (
        changed(labels="node,class\na,x\nzoe,red\n"),
        "labels.csv:3: column 'node': node 'zoe' does not occur in any other file",
        "add the node to the edges or features, or remove the row",
    ),
    "two columns with one name": (
        changed(features="node,f,f\na,1,2\nb,1,2\nc,1,2\n"),
        "features.csv:1: two columns are named 'f'",
        "rename one of them",
    ),
    "target among the features": (
        changed(features="node,f,class\na,1,red\nb,2,blue\nc,1,red\n"),
        "features.csv: column 'class' has the same name as the target in labels.csv",
        "drop it with drop=[..] or --drop",
    ),
    "Latin-1": (
        changed(features="node,f\na,1\nb,2\nZoë,2\n".encode("latin-1")),
        "features.csv:4: not valid UTF-8 (in Latin-1: 'Zoë,2')",
        "iconv -f latin1 -t utf-8",
    ),
    "Latin-1 category": (
        changed(features="node,f\na,x\nb,x\nc,ë\n".encode("latin-1")),
        "features.csv:4: not valid UTF-8 (in Latin-1: 'c,ë')",
        "iconv -f latin1 -t utf-8",
    ),
    "UTF-16": (changed(edges=EDGES.encode("utf-16")), "edges.csv:1: the file is encoded in UTF-16", "save it"),
    "binary data": (
        changed(edges=b"a,b\n\0\1,\2\n"),
        "edges.csv:2: the file holds binary data, not text",
        "save the table",
    ),
    "spreadsheet": (
        changed(edges__xlsx=b"PK\3\4"),
        "edges.xlsx: files of type .xlsx are not supported",
        "as CSV, Parquet or JSON lines",
    ),
    "truncated gz": (
        changed(
            edges__csv_gz=gzip.compress(("source,target\n" + lines(5000, lambda i: f"{i},{i * i}")).encode())[:-99]
        ),
        "edges.csv.gz: not a gzip file, or damaged (Truncated compressed stream)",
        "copy or download the file again",
    ),
    "not gz": (changed(edges__csv_gz=EDGES), "edges.csv.gz: not a gzip file, or damaged", "copy or download"),
    "not Parquet": (
        changed(edges__parquet=EDGES),
        "edges.parquet: not a Parquet file, or damaged",
        "write the file",
    ),
    "not Feather": (
        changed(edges__feather=EDGES),
        "edges.feather: not an Arrow or Feather file, or dam",
        "write the f",
    ),
    "Parquet, missing weight": (
        saved("edges", "e.parquet", lambda path: parquet(path, s=["a", "b"], t=["b", "c"], w=[1.0, None])),
        "e.parquet: row 2: column 'w', edge 'b' - 'c': the weight is missing",
        "correct the weights",
    ),
    "Parquet, duplicate node": (
        saved("features", "x.parquet", lambda path: parquet(path, n=["a", "b", "c", "a"], f=[1.0, 2.0, 3.0, 4.0])),
        "x.parquet: row 4: column 'n': duplicate node 'a' (first in row 1)",
        "keep one row for each node",
    ),
    "Parquet, nested": (
        saved("features", "x.parquet", lambda path: parquet(path, n=["a", "b", "c"], f=[{"x": 1}] * 3)),
        "x.parquet: column 'f' has the unsupported type struct<x: int64>",
        "convert it to numbers or text, or drop the column",
    ),
    "lists of unequal lengths": (
        saved(
            "features", "x.parquet", lambda path: parquet(path, node=["a", "b", "c"], v=[[1.0, 2.0], [3.0], [4.0, 5.0]])
        ),
        "x.parquet: row 2: column 'v', node 'b': the list has length 1, others 2",
        "give all lists the same length",
    ),
    "a list is missing": (
        saved("features", "x.parquet", lambda path: parquet(path, node=["a", "b", "c"], v=[[1.0], None, [4.0]])),
        "x.parquet: row 2: column 'v', node 'b': the list is missing",
        "give every node a list",
    ),
    "lists among columns": (
        saved("features", "x.parquet", lambda path: parquet(path, node=["a", "b", "c"], v=[[1.0]] * 3, w=[1, 2, 3])),
        "x.parquet: a column of lists must be the only column of features; found 'v', 'w'",
        "drop the others",
    ),
    "JSON that is a list": (
        changed(features__json="[1, 2]"),
        "features.json: the document is a list",
        "one object with a list",
    ),
    "JSON without lists": (
        changed(features__json='{"a": 1, "b": [2], "c": [3]}'),
        "features.json: node 'a' has '1' instead of a list",
        "expected one object with a list for every node",
    ),
    "JSON with words": (
        changed(features__json='{"a": ["x"], "b": [2], "c": [3]}'),
        "features.json: the list of node 'a' holds values other than numbers",
        "number the words from 0",
    ),
    "JSON, duplicate node": (
        changed(features__json='{"a": [1], "b": [2], "c": [3], "a": [4]}'),
        "features.json: duplicate node 'a'",
        "keep one list for every node",
    ),
    "truncated JSON": (
        changed(features__json='{"a": [1],\n "b": [2'),
        "features.json:2: not JSON",
        "expected one object",
    ),
    "JSON nested deeply": (changed(features__json="[" * 100_000), "features.json: not JSON", "expected one object"),
    "bad JSON line": (
        changed(edges__jsonl='{"source": "a", "target": "b"}\n{"source": \n'),
        "edges.jsonl:2: not JSON",
        "expected one object per line",
    ),
    "JSON line of another shape": (
        changed(edges__jsonl='{"source": "a", "target": "b"}\n["b", "c"]\n'),
        """edges.jsonl:2: '["b", "c"]' is not an object""",
        "expected one object per line",
    ),
    "array with NaN": (
        saved("features", "x.npy", lambda path: np.save(path, np.array([[1.0], [np.nan]]))),
        "x.npy: node 1 has a feature that is not finite",
        "replace NaN and infinite values",
    ),
    "sparse array with NaN": (
        saved("features", "x.npz", lambda path: sp.save_npz(path, sp.csr_array(np.array([[1.0], [np.nan]])))),
        "x.npz: node 1 has a feature that is not finite",
        "replace NaN and infinite values",
    ),
    "MatrixMarket, not square": (
        changed(edges__mtx="%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 1\n"),
        "edges.mtx: the matrix has 2 rows and 3 columns",
        "expected a square matrix",
    ),
    "MatrixMarket, dense": (
        changed(edges__mtx="%%MatrixMarket matrix array real general\n1 1\n1\n"),
        "edges.mtx:1: the first line is '%%matrixmarket matrix array real general'",
        "expected %%MatrixMarket matrix coordinate, then real",
    ),
    "MatrixMarket, huge": (
        changed(edges__mtx="%%MatrixMarket matrix coordinate real general\n9 9 99999999999\n1 1 1\n"),
        "edges.mtx: found 3 numbers",
        "the header announces 99,999,999,999 entries of 3 numbers each",
    ),
    "MatrixMarket, many rows": (
        changed(edges__mtx="%%MatrixMarket matrix coordinate real general\n99999999999 99999999999 1\n1 1 1\n"),
        "edges.mtx: the header announces 99,999,999,999 rows but 1 entry",
        "is it damaged?",
    ),
    "MatrixMarket, row 0": (
        changed(edges__mtx="%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 2\n0 1\n"),
        "edges.mtx: entry 2 is in row 0, column 1",
        "expected rows and columns from 1 to 2",
    ),
    "GraphML with entities": (
        changed(edges__graphml="<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/hostname'>]>\n" + GRAPHML.format("&a;")),
        "edges.graphml:1: <!DOCTYPE> is not allowed",
        "remove it",
    ),
    "truncated GraphML": (
        changed(edges__graphml=GRAPHML[:60]),
        "edges.graphml:1: not XML, or damaged",
        "write the file",
    ),
    "GEXF with a bad weight": (
        changed(
            edges__gexf="<gexf xmlns='http://www.gexf.net/1.2draft' version='1.2'><graph><nodes><node id='a'/>"
            "<node id='b'/></nodes><edges><edge id='0' source='a' target='b' weight='x'/></edges></graph></gexf>"
        ),
        "edges.gexf: ",
        "",
    ),
}


@pytest.mark.parametrize("kind", DIRTY)
def test_a_dirty_table_is_refused_with_its_place_and_what_to_do(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, message, advice = DIRTY[kind]
    files = {
        **write(Path(), edges=EDGES, features="node,f1\na,1\nb,0.5\nc,2\nd,0\n", labels=LABELS),
        **make(Path()),
    }
    if files["features"].suffix in (".npy", ".npz"):  # nodes are numbers
        files |= write(Path(), edges="source,target\n0,1\n", labels="node,class\n0,x\n")
    with pytest.raises(TableError) as raised:
        read_tables(**files)
    (problem,) = raised.value.problems
    assert problem.startswith(message)
    assert advice in str(raised.value)
    assert "\n" not in str(raised.value)


def test_at_least_twenty_kinds_of_dirty_tables_name_a_line_and_a_column() -> None:
    placed = [message for _, message, _ in DIRTY.values() if re.match(r"\S+(:| row )\d+: .*column", message)]
    assert len(placed) >= 20


def test_many_problems_of_several_files_are_reported_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = write(
        Path(),
        edges="s,t,w\na,b,1\nb,,2\nb,c,x\n",
        features="node,age,joined\na,1,2024-01-01\nb,inf,2024-01-02\nc,3,\na,4,\n",
        labels="node,class\na,x\nzoe,y\n",
    )
    with pytest.raises(TableError) as raised:
        read_tables(**files)
    assert [problem.partition(": ")[0] for problem in raised.value.problems] == [
        "edges.csv:3", "edges.csv:4", "features.csv:2", "features.csv:3", "features.csv:5", "labels.csv:3",
    ]  # fmt: skip
    assert str(raised.value).splitlines()[0] == "6 problems in the files:"
    assert len(raised.value.advice) == 6  # one for each kind of problem
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.problems) == (str(raised.value), raised.value.problems)


def test_advice_follows_the_first_problem_of_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    features = "node,age\n" + lines(30, lambda i: f"n{i},{i / 2}") + "n30,x\nn30,2\nn31,y\n"
    with pytest.raises(TableError) as raised:
        read_tables(**write(Path(), edges="source,target\nn0,n1\n", features=features))
    correct = "correct the cells, leave them empty, or drop the column with drop=[..] or --drop"
    assert str(raised.value).splitlines() == [
        "3 problems in the files:",
        f"features.csv:32: column 'age', node 'n30': 'x' is not a number; {correct}",
        "features.csv:33: column 'node': duplicate node 'n30' (first on line 32); keep one row for each node, or name "
        "the column of the nodes with id=.. or --id",
        "features.csv:34: column 'age', node 'n31': 'y' is not a number",
    ]


def test_a_frequent_problem_does_not_hide_another(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        edges="source,target,weight\n" + lines(50, lambda i: f"n{i},n{(i + 1) % 50},x"),
        features="node,joined\n" + lines(50, lambda i: f"n{i},2024-01-{i % 28 + 1:02}"),
    )
    with pytest.raises(TableError, match="51 problems") as raised:
        read_tables(**files)
    assert len(raised.value.problems) == 20
    assert "features.csv:2: column 'joined' holds dates" in raised.value.problems[-1]


def test_a_point_is_never_a_decimal_point_next_to_a_decimal_comma(tmp_path: Path) -> None:
    """Reading 1.234 as 1.234 would be wrong by a factor of 1000; the first row with a point is beyond the sample."""
    edges = "s;t;w\n" + lines(3000, lambda i: f"a{i};b;0,5") + "x;y;1.234\n"
    with pytest.raises(TableError, match=r":3002: .*'1\.234' is not a number; remove thousands separators"):
        read_tables(**write(tmp_path, edges=edges))


@pytest.mark.parametrize(("mark", "stray", "name"), [(",", "24.00", "comma"), (".", "0,125", "point")])
def test_a_stray_decimal_mark_is_a_problem_of_its_line_only(mark: str, stray: str, name: str, tmp_path: Path) -> None:
    """The decimal mark of most numbers is that of the file, in weights, features and targets."""
    numbers = [f"{i}{mark}5" for i in range(60)]
    numbers[30] = stray
    edges = "s;t;w\n" + lines(60, lambda i: f"n{i};n{(i + 1) % 60};{numbers[i]}")
    features = "node;age;income\n" + lines(60, lambda i: f"n{i};{numbers[i]};{numbers[i]}")
    with pytest.raises(TableError, match="3 problems") as raised:
        read_tables(**write(tmp_path, edges=edges, features=features), target="income")
    what = f"'{stray}' is not a number; write decimals with a {name}, as most numbers of the file do"
    assert [problem.rpartition("/")[2] for problem in raised.value.problems] == [
        f"edges.csv:32: column 'w', edge 'n30' - 'n31': {what}",
        f"features.csv:32: column 'age', node 'n30': {what}",
        f"features.csv:32: column 'income', node 'n30': {what}",
    ]


def test_numbers_with_thousands_separators_are_not_categories(tmp_path: Path) -> None:
    rows = lines(30, lambda i: f"n{i};{i + 1}.{100 + i},50;{'x' if i % 2 else 'y'}")
    files = write(tmp_path, edges="s,t\nn0,n1\n", features="node;sales;kind\n" + rows)
    with pytest.raises(TableError, match="30 problems") as raised:
        read_tables(**files)
    assert all("remove thousands separators" in problem for problem in raised.value.problems)


def test_the_first_twenty_problems_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    rows = lines(50, lambda i: f"n{i},{'x' if i % 2 else i}")
    edges = write(tmp_path, edges="source,target\nn0,n1\n", features="node,age\n" + rows)
    with pytest.raises(TableError, match="25 problems in the files") as raised:
        read_tables(**edges)
    assert len(raised.value.problems) == 20
    assert raised.value.more == 5
    found = [re.search(r"csv:(\d+): column 'age', node '(n\d+)'", problem) for problem in raised.value.problems]
    assert [(int(m[1]), m[2]) for m in found if m] == [(i + 2, f"n{i}") for i in range(1, 41, 2)]


BEFORE: dict[str, tuple[str, int]] = {
    "blank lines": ("\n\na,b\n\n\n\n", 8),
    "line breaks in cells": ('"a","b\nwith\nthree lines"\n', 5),
    "CRLF": ("a,b\r\n\r\nb,a\r\n", 5),
    "both": ('\n"x\n\ny",b\n\n', 7),
    "many rows": ("a,b\n" * 70_000, 70_002),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize(("row", "message"), [("b", "has 1 cell"), (",b", "is empty")], ids=["ragged", "missing"])
def test_lines_are_counted_as_an_editor_counts_them(
    before: str, row: str, message: str, packed: bool, tmp_path: Path
) -> None:
    text, line = BEFORE[before]
    edges = tmp_path / ("edges.csv.gz" if packed else "edges.csv")
    content = f"s,t\n{text}{row}\n".encode()
    edges.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(TableError, match=rf"edges\.csv(\.gz)?:{line}: .*{message}"):
        read_tables(edges)


@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_a_decompression_bomb_is_refused(compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polybasis.data.tables.text_files.MIN_UNPACKED", 1 << 20)
    rows = b"source,target\n" + b"a,b\n" * (1 << 19)
    packed = gzip.compress(rows) if compression == "gz" else pa.compress(rows, codec="zstd", asbytes=True)
    path = tmp_path / f"edges.csv.{compression}"
    path.write_bytes(packed)
    with pytest.raises(TableError, match=r"holds more than 1,0\d\d,\d+ bytes, far more than its size suggests"):
        read_tables(path)
    monkeypatch.setattr("polybasis.data.tables.text_files.MIN_UNPACKED", 1 << 28)
    assert read_tables(path).graph.num_edges == 1


def test_run_lengths_of_feather_files_cannot_state_any_number_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polybasis.data.tables.arrow_tables.MIN_CELLS", 1 << 10)
    monkeypatch.setattr("polybasis.data.tables.arrow_tables.MAX_CELLS_PER_BYTE", 1)
    column = pa.array(np.zeros(100_000))
    pyarrow.feather.write_feather(pa.table({"s": column, "t": column}), tmp_path / "e.feather", compression="zstd")
    with pytest.raises(TableError, match=r"rows of 2 columns in a file of .* bytes; are all rows the same\?"):
        read_tables(tmp_path / "e.feather")


def test_a_missing_file_and_wrong_options_are_refused(tmp_path: Path) -> None:
    files = write(tmp_path, edges=EDGES, features=FEATURES, labels=LABELS)
    for options, message in (
        ({"merge": "add"}, "merge is 'add'; expected one of sum, mean, max, first"),
        ({"drop": "f1"}, "drop is 'f1'; expected a list of names"),
        (
            {"drop": ["f1", "f9"]},
            r"edges.csv and \S+features.csv: no column 'f9' \(drop, --drop\); "
            "the columns are 'source', 'target', 'node', 'f1', 'f2'",
        ),
        (
            {"id": "user"},
            r"features.csv and \S+labels.csv: no column 'user' \(id, --id\); "
            "the columns are 'node', 'f1', 'f2', 'class'",
        ),
        ({"target": "fraud"}, r"labels.csv: no column 'fraud' \(target, --target\); the columns are 'node', 'class'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_tables(**files, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="target is 'class', but there is no table of features or labels"):
        read_tables(files["edges"], target="class")
    with pytest.raises(FileNotFoundError, match=r"none\.csv does not exist"):
        read_tables(files["edges"], tmp_path / "none.csv")
    matrix = write(tmp_path, edges__mtx="%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
    with pytest.raises(ValueError, match=r"no table has the column 'fee' \(drop, --drop\)"):
        read_tables(matrix["edges"], drop=["fee"])
