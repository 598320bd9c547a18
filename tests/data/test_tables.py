"""The user's own tables: CSV, Parquet and arrays give the same graph, and every refusal names the file and the line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
import torch

import polybasis as pb
from polybasis.data.dataset import NodeDataset
from polybasis.data.tables import edge_batches, read_tables
from polybasis.features import as_dense
from polybasis.foreign_files import read_sparse
from polybasis.train.fitting import fit

EDGES = "source,target\na,b\nb,c\n"
FEATURES = "node,f1,f2\na,1,0\nb,0,1\nc,1,1\nd,0,0\n"
LABELS = "node,class\na,red\nb,blue\nc,\n"


def write(folder: Path, **contents: str | bytes) -> dict[str, Path]:
    paths = {}
    for name, content in contents.items():
        paths[name] = folder / f"{name}.csv"
        paths[name].write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths


def parquet(path: Path, **columns: Any) -> Path:
    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


def assert_same(one: NodeDataset, other: NodeDataset) -> None:
    assert one.node_names() == other.node_names()
    assert one.classes == other.classes
    assert torch.equal(one.y, other.y)
    assert torch.equal(one.graph.indptr, other.graph.indptr)
    assert torch.equal(one.graph.indices, other.graph.indices)
    assert (one.graph.weight is None) == (other.graph.weight is None)
    if one.graph.weight is not None and other.graph.weight is not None:
        assert torch.equal(one.graph.weight, other.graph.weight)
    assert torch.equal(as_dense(one.x), as_dense(other.x))
    assert one.structure_only == other.structure_only
    assert one.fingerprint == other.fingerprint


# ---- what is read --------------------------------------------------------------------------------------------------


def test_names_isolated_nodes_and_missing_labels(tmp_path: Path) -> None:
    data = read_tables(**write(tmp_path, edges=EDGES, features=FEATURES, labels=LABELS))
    assert data.node_names() == ["a", "b", "c", "d"]
    assert data.graph.num_edges == 2
    assert data.classes == ("blue", "red")
    assert data.y.tolist() == [1, 0, -1, -1]
    assert as_dense(data.x).tolist() == [[1, 0], [0, 1], [1, 1], [0, 0]]
    assert not data.structure_only


def test_without_features_nodes_come_in_the_order_of_the_edges(tmp_path: Path) -> None:
    data = read_tables(**write(tmp_path, edges="s,t\nz,b\na,z\n", labels="node,class\na,1\n"))
    assert data.structure_only
    assert data.node_names() == ["z", "b", "a"]
    assert as_dense(data.x).tolist() == np.eye(3).tolist()
    assert data.y.tolist() == [-1, -1, 0]


@pytest.mark.parametrize(
    "edges",
    [
        "source,target\r\na,b\r\nb,c\r\n",
        "source,target\na,b\nb,c",
        "source,target\n\na,b\n\n\nb,c\n\n",
        "source,target\n a , b\t\nb  ,c\n",
        "source,source\na,b\nb,c\n",
        '"source","target"\n"a","b"\n"b","c"\n',
        "source,target\na,b\nb,a\nc,b\nb,b\n",
        b"\xef\xbb\xbfsource,target\na,b\nb,c\n",
    ],
    ids=["CRLF", "no final line break", "blank lines", "blanks", "repeated header", "quotes", "duplicates", "BOM"],
)
def test_spellings_of_the_same_edges(edges: str | bytes, tmp_path: Path) -> None:
    """Arrow, unlike Python's reader, must be told about most of these."""
    expected = read_tables(**write(tmp_path, edges=EDGES, features=FEATURES, labels=LABELS))
    assert_same(read_tables(**write(tmp_path, edges=edges, features=FEATURES, labels=LABELS)), expected)


def test_a_byte_order_mark_is_not_part_of_a_name(tmp_path: Path) -> None:
    mark = "\N{ZERO WIDTH NO-BREAK SPACE}"
    paths = write(tmp_path, edges=mark + EDGES, features=mark + FEATURES, labels=mark + LABELS)
    assert read_tables(**paths).node_names() == ["a", "b", "c", "d"]


def test_names_may_contain_anything(tmp_path: Path) -> None:
    edges = 'source,target\n"Doe, Jane","two\nlines"\n"two\nlines",Zoë\n7,"say ""hi"""\n'
    data = read_tables(**write(tmp_path, edges=edges))
    assert data.node_names() == ["Doe, Jane", "two\nlines", "Zoë", "7", 'say "hi"']


@pytest.mark.parametrize("text", ["+0.5", "5e-1", ".5", " 0.5 ", "0.50"])
def test_spellings_of_the_same_number(text: str, tmp_path: Path) -> None:
    paths = write(tmp_path, edges=f"s,t,w\na,b,{text}\nb,c,2\n", features=f"node,f\na,{text}\nb,1\nc,2\n")
    data = read_tables(**paths)
    assert as_dense(data.x)[:, 0].tolist() == [0.5, 1, 2]
    assert data.graph.weight is not None
    assert sorted(data.graph.weight.tolist()) == [0.5, 0.5, 2, 2]


MATRIX = np.array([[1, 0], [0, 2], [3, 0.25]], dtype=np.float32)


def feature_file(kind: str, folder: Path) -> Path:
    if kind == "npy":
        np.save(folder / "x.npy", MATRIX)
        return folder / "x.npy"
    if kind == "npz":
        np.savez(folder / "dense.npz", x=MATRIX)
        return folder / "dense.npz"
    if kind == "sparse":
        sp.save_npz(folder / "sparse.npz", sp.csr_matrix(MATRIX))
        return folder / "sparse.npz"
    if kind == "csv":
        rows = "".join(f"{i},{','.join(map(str, row.tolist()))}\n" for i, row in enumerate(MATRIX))
        return write(folder, features="node,f,g\n" + rows)["features"]
    nodes: Any = pa.array([0, 1, 2]) if kind == "integers" else pa.array(["0", "1", "2"])
    nodes = nodes.dictionary_encode() if kind == "dictionary" else nodes
    types = {"integers": pa.float32(), "dictionary": pa.float64(), "text": pa.large_string()}
    columns = {name: pa.array(MATRIX[:, i]).cast(types[kind]) for i, name in enumerate("fg")}
    return parquet(folder / f"{kind}.parquet", node=nodes, **columns)


@pytest.mark.parametrize("kind", ["npy", "npz", "sparse", "integers", "dictionary", "text"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_file_type_gives_the_same_data(kind: str, weighted: bool, tmp_path: Path) -> None:
    """Edges and labels in CSV and in Parquet with integer and null cells, features in every format."""
    weight = [0.5, 2.0] if weighted else None
    header, ends = ("s,t,w", [",0.5", ",2"]) if weighted else ("s,t", ["", ""])
    text = write(tmp_path, edges=f"{header}\n0,1{ends[0]}\n1,2{ends[1]}\n", labels="n,c\n0,7\n1,\n2,5\n")
    expected = read_tables(text["edges"], feature_file("csv", tmp_path), text["labels"])
    columns: dict[str, Any] = {"s": [0, 1], "t": [1, 2]} | ({"w": weight} if weighted else {})
    edges = parquet(tmp_path / "edges.parquet", **columns)
    labels = parquet(tmp_path / "labels.parquet", n=[0, 1, 2], c=[7, None, 5])
    features = feature_file(kind, tmp_path)
    if kind == "sparse":
        other = read_tables(edges, features, labels)
        assert torch.equal(as_dense(other.x), as_dense(expected.x))
        other = NodeDataset(**{**vars(other), "x": expected.x})  # the same numbers, kept sparse
    else:
        other = read_tables(edges, features, labels)
    assert_same(other, expected)
    assert other.classes == ("5", "7")


# ---- weights -------------------------------------------------------------------------------------------------------


def test_weights_define_the_operator(tmp_path: Path) -> None:
    """P = D^-1/2 A D^-1/2 with weighted degrees, by hand: on a path with weights 1 and 4, P_01 = 1/√5, P_12 = 2/√5."""
    paths = write(tmp_path, edges="s,t,w\na,b,1\nb,c,4\n", features="n,f\na,1\nb,0\nc,0\n", labels="n,c\na,x\nb,y\n")
    data = read_tables(**paths)
    P = data.graph @ torch.eye(3, dtype=torch.float64)
    expected = torch.tensor([[0, 1, 0], [1, 0, 2], [0, 2, 0]], dtype=torch.float64) / 5**0.5
    torch.testing.assert_close(P, expected)
    assert data.fingerprint != read_tables(**write(tmp_path, edges="s,t,w\na,b,1\nb,c,3\n")).fingerprint


@pytest.mark.parametrize("precomputed", [False, True])
def test_training_uses_the_weights(precomputed: bool, tmp_path: Path) -> None:
    """Equal weights are those of an unweighted graph; other weights give other scores."""
    source = pb.data.csbm(nodes=60, features=5, seed=3)
    pairs = list(zip(*source.graph.edge_index().tolist(), strict=True))
    features = "node," + ",".join("abcde") + "\n"
    features += "".join(f"{i}," + ",".join(f"{v:.6f}" for v in row) + "\n" for i, row in enumerate(as_dense(source.x)))
    labels = "node,class\n" + "".join(f"{i},{c}\n" for i, c in enumerate(source.y.tolist()))
    logits = {}
    for name, weight in (("none", None), ("equal", lambda a, b: 3), ("other", lambda a, b: 1 + (a * b) % 7)):
        rows = [f"{a},{b}" + ("" if weight is None else f",{weight(a, b)}") for a, b in pairs]
        edges = ("s,t" if weight is None else "s,t,w") + "\n" + "\n".join(rows) + "\n"
        data = read_tables(**write(tmp_path, edges=edges, features=features, labels=labels))
        config = pb.train.Config.of("optbasisgnn", precomputed=precomputed, hidden=8, K=3, epochs=5, dropout=0.0)
        fitted = fit(config, data, data.split("stratified"), 0)
        logits[name] = fitted.task.evaluate(fitted.model, torch.arange(60)).logits
    rounding, change = (float((logits[name] - logits["none"]).abs().max()) for name in ("equal", "other"))
    assert rounding < 1e-5
    assert change > 1e-3


# ---- what is refused -----------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[dict[str, str | bytes], str]] = {
    "short row": ({"edges": "s,t\na,b\nb\n"}, r"edges\.csv:3: 1 columns; the header has 2"),
    "long row": ({"edges": "s,t\na,b\nb,c,d\n"}, r"edges\.csv:3: 3 columns; the header has 2"),
    "blanks only": ({"edges": "s,t\na,b\n  \nb,c\n"}, r"edges\.csv:3: 1 columns; the header has 2"),
    "ragged features": ({"features": "node,f,g\na,1,2\nb,1\n"}, r"features\.csv:3: 2 columns; the header has 3"),
    "empty": ({"edges": ""}, r"edges\.csv:1: the file is empty; expected a header and the columns source and target"),
    "blank": ({"edges": "\n\n"}, r"edges\.csv:1: the file is empty"),
    "empty features": ({"features": ""}, r"features\.csv:1: the file is empty; expected a header and the node"),
    "empty labels": ({"labels": ""}, r"labels\.csv:1: the file is empty; expected a header and the columns node"),
    "no edges": ({"edges": "s,t\n"}, r"edges\.csv:1: the file has no edges"),
    "no nodes": ({"features": "node,f\n"}, r"features\.csv:1: the file has no nodes"),
    "no labels": ({"labels": "node,class\n"}, r"labels\.csv:1: the file has no labels"),
    "unknown labels only": ({"labels": "node,class\na,\nb, \n"}, r"labels\.csv:1: the file has no labels"),
    "one column": ({"edges": "s\na\n"}, r"edges\.csv:1: the header has 1 columns; expected the columns source"),
    "four columns": ({"edges": "s,t,w,z\na,b,1,2\n"}, r"edges\.csv:1: 4 columns; expected source, target and, o"),
    "only nodes": ({"features": "node\na\n"}, r"features\.csv:1: the header has 1 columns; expected the node and"),
    "missing target": ({"edges": "s,t\na,b\nb,\n"}, r"edges\.csv:3: edge with a missing endpoint"),
    "missing source": ({"edges": "s,t\n , b\n"}, r"edges\.csv:2: edge with a missing endpoint"),
    "weight in words": ({"edges": "s,t,w\na,b,1\nb,c,x\n"}, r"edges\.csv:3: weight is 'x'; expected a number"),
    "missing weight": ({"edges": "s,t,w\na,b,\nb,c,1\n"}, r"edges\.csv:2: weight is ''; expected a number"),
    "grouped digits": ({"edges": "s,t,w\na,b,1_0\n"}, r"edges\.csv:2: weight is '1_0'; expected a number"),
    "negative weight": ({"edges": "s,t,w\na,b,1\nb,c,-1\n"}, r"edges\.csv:3: the weight is negative"),
    "infinite weight": ({"edges": "s,t,w\na,b,inf\n"}, r"edges\.csv:2: weight is inf; expected a finite number"),
    "NaN weight": ({"edges": "s,t,w\na,b,nan\n"}, r"edges\.csv:2: weight is nan; expected a finite number"),
    "two weights": ({"edges": "s,t,w\na,b,1\nb,a,2\n"}, r"edges\.csv: edge_weight gives the pair"),
    "duplicate node": ({"features": FEATURES + "a,1,1\n"}, r"features\.csv:6: duplicate node 'a' \(first on line 2\)"),
    "duplicate label": ({"labels": LABELS + "b,red\n"}, r"labels\.csv:5: duplicate node 'b' \(first on line 3\)"),
    "nameless node": ({"features": FEATURES + ",1,1\n"}, r"features\.csv:6: missing node"),
    "NaN": ({"features": "node,f\na,1\nb,nan\nc,2\n"}, r"features\.csv:3: feature 1 is nan; expected a finite"),
    "too large": ({"features": "node,f\na,1\nb,1e39\nc,2\n"}, r"features\.csv:3: feature 1 is 1e39; expected a fin"),
    "feature in words": ({"features": "node,f\na,1\nb,two\nc,2\n"}, r"features\.csv:3: feature 1 is 'two'; expected"),
    "no features": ({"features": "node,f\na,1\nb,2\n"}, r"edges\.csv:3: node 'c' has no features in .*features\.csv"),
    "unknown node": ({"labels": "node,class\na,x\nz,red\n"}, r"labels\.csv:3: node 'z' does not occur in any"),
    "not UTF-8": ({"edges": b"s,t\na,b\nb,c\n\xff,d\n"}, r"edges\.csv:4: not text in UTF-8"),
    "UTF-16": ({"edges": EDGES.encode("utf-16")}, r"edges\.csv:1: not text in UTF-8"),
    "Latin-1 features": ({"features": "node,f\na,1\nZoë,2\n".encode("latin-1")}, r"features\.csv:3: not text in UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_csv_file_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    change, message = WRONG[case]
    paths = write(tmp_path, **({"edges": EDGES, "features": FEATURES, "labels": LABELS} | change))
    with pytest.raises(ValueError, match=message) as raised:
        read_tables(**paths)
    assert "\n" not in str(raised.value)


BEFORE: dict[str, tuple[str, int]] = {
    "blank lines": ("\n\na,b\n\n\n\n", 8),
    "line breaks in cells": ('"a","b\nwith\nthree lines"\n', 5),
    "CRLF": ("a,b\r\n\r\nb,a\r\n", 5),
    "both": ('\n"x\n\ny",b\n\n', 7),
    "many rows": ("a,b\n" * 70_000, 70_002),
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize(
    ("row", "message"),
    [("b", "1 columns"), (",b", "missing endpoint")],
    ids=["ragged", "missing"],
)
def test_lines_are_counted_as_an_editor_counts_them(before: str, row: str, message: str, tmp_path: Path) -> None:
    text, line = BEFORE[before]
    edges = write(tmp_path, edges=f"s,t\n{text}{row}\n")["edges"]
    with pytest.raises(ValueError, match=rf"edges\.csv:{line}: .*{message}"):
        read_tables(edges)
    if '"' in text:  # not a node number in itself
        return
    with pytest.raises(ValueError, match=rf"edges\.csv:{line}: "):
        list(
            edge_batches(write(tmp_path, edges=f"s,t\n{text.replace('a', '1').replace('b', '2')}{row}\n")["edges"], 400)
        )


def test_a_line_far_into_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are parsed block by block; the line is still counted from the start."""
    monkeypatch.setattr("polybasis.data.tables.BLOCK", 1 << 12)
    rows = "".join(f"{i},{i + 1}\n" for i in range(20_000))
    for last, message in (("5", "1 columns"), ("5,", "'5,'"), ("5,x", "'5,x'"), ("5,99999999999999999999", "'5,99")):
        edges = write(tmp_path, edges=f"s,t\n{rows}{last}\n")["edges"]
        with pytest.raises(ValueError, match=rf"edges\.csv:20002: {message}|edges\.csv:20002: '5'"):
            list(edge_batches(edges, 20_001))


WRONG_PARQUET: dict[str, tuple[Callable[[Path], dict[str, Path]], str]] = {
    "null endpoint": (
        lambda at: {"edges": parquet(at / "e.parquet", s=["a", "b"], t=["b", None])},
        r"e\.parquet: row 2: edge with a missing endpoint",
    ),
    "null weight": (
        lambda at: {"edges": parquet(at / "e.parquet", s=["a", "b"], t=["b", "c"], w=[1.0, None])},
        r"e\.parquet: row 2: weight is missing; expected a finite number",
    ),
    "negative weight": (
        lambda at: {"edges": parquet(at / "e.parquet", s=["a", "b"], t=["b", "c"], w=[1, -2])},
        r"e\.parquet: row 2: the weight is negative",
    ),
    "weight in words": (
        lambda at: {"edges": parquet(at / "e.parquet", s=["a", "b"], t=["b", "c"], w=["1", "x"])},
        r"e\.parquet: row 2: weight is 'x'; expected a number",
    ),
    "four columns": (
        lambda at: {"edges": parquet(at / "e.parquet", s=["a"], t=["b"], w=[1], z=[1])},
        r"e\.parquet: 4 columns; expected source, target and, optionally, weight",
    ),
    "one column": (lambda at: {"edges": parquet(at / "e.parquet", s=["a"])}, r"e\.parquet: 1 columns; expected"),
    "no rows": (
        lambda at: {"edges": parquet(at / "e.parquet", s=pa.array([], pa.string()), t=pa.array([], pa.string()))},
        r"e\.parquet: the file has no edges",
    ),
    "nested": (
        lambda at: {"edges": parquet(at / "e.parquet", s=[{"a": 1}], t=[{"a": 2}])},
        r"e\.parquet: column 1 has type struct<.*>; expected text or numbers",
    ),
    "null feature": (
        lambda at: {"features": parquet(at / "x.parquet", n=["a", "b", "c"], f=[1.0, None, 2.0])},
        r"x\.parquet: row 2: feature 1 is missing; expected a finite number",
    ),
    "null node": (
        lambda at: {"features": parquet(at / "x.parquet", n=["a", None, "c"], f=[1.0, 1.0, 2.0])},
        r"x\.parquet: row 2: missing node",
    ),
    "duplicate node": (
        lambda at: {"features": parquet(at / "x.parquet", n=["a", "b", "a"], f=[1.0, 1.0, 2.0])},
        r"x\.parquet: row 3: duplicate node 'a' \(first in row 1\)",
    ),
    "duplicate label": (
        lambda at: {"labels": parquet(at / "y.parquet", n=["a", "b", "b"], c=[1, 2, 3])},
        r"y\.parquet: row 3: duplicate node 'b' \(first in row 2\)",
    ),
    "unknown node": (
        lambda at: {"labels": parquet(at / "y.parquet", n=["a", "z"], c=[1, 2])},
        r"y\.parquet: row 2: node 'z' does not occur in any other file",
    ),
}


@pytest.mark.parametrize("case", WRONG_PARQUET)
def test_a_bad_parquet_file_is_refused_with_its_row(case: str, tmp_path: Path) -> None:
    make, message = WRONG_PARQUET[case]
    paths = write(tmp_path, edges=EDGES, features=FEATURES, labels=LABELS) | make(tmp_path)
    with pytest.raises(ValueError, match=message) as raised:
        read_tables(**paths)
    assert "\n" not in str(raised.value)


def test_files_that_are_not_parquet_or_do_not_exist(tmp_path: Path) -> None:
    (tmp_path / "e.parquet").write_text(EDGES)
    with pytest.raises(ValueError, match=r"e\.parquet: not a Parquet file"):
        read_tables(tmp_path / "e.parquet")
    with pytest.raises(ValueError, match=r"e\.parquet: not a Parquet file"):
        list(edge_batches(tmp_path / "e.parquet", 400))
    for name in ("none.csv", "none.parquet"):
        with pytest.raises(FileNotFoundError) as raised:
            read_tables(tmp_path / name)
        assert name in str(raised.value)


def test_arrays_that_are_no_features(tmp_path: Path) -> None:
    edges = write(tmp_path, edges="a,b\n0,1\n")["edges"]
    broken = tmp_path / "x.npy"
    broken.write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"x\.npy: not a NumPy array"):
        read_tables(edges, broken)
    for array, message in (
        (np.array([[1.0], [np.inf]]), r"x\.npy: row 1 has a feature that is not finite"),
        (np.array([[1.0], [1e39]]), r"x\.npy: row 1 has a feature that is not finite"),
        (np.ones(3), r"x\.npy: the array has 1 axes; expected 2"),
        (np.ones((2, 1), dtype=complex), r"x\.npy: the array has dtype complex128; expected real numbers"),
        (np.array([["a"], ["b"]]), r"x\.npy: the array has dtype <U1; expected real numbers"),
        (np.ones((1, 2)), r"edges\.csv:2: node '1' has no features in .*x\.npy"),
    ):
        np.save(broken, array)
        with pytest.raises(ValueError, match=message):
            read_tables(edges, broken)


def test_pickled_arrays_are_never_opened(tmp_path: Path) -> None:
    """Unpickling would run code of whoever wrote the file."""
    edges = write(tmp_path, edges="a,b\n0,1\n")["edges"]
    np.save(tmp_path / "x.npy", np.array([[object()]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=np.array([[object()]], dtype=object))
    for name in ("x.npy", "x.npz"):
        with pytest.raises(ValueError, match=rf"{name}: .*holds Python objects"):
            read_tables(edges, tmp_path / name)


# ---- edges between numbered nodes ----------------------------------------------------------------------------------


def test_edge_lists_of_every_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in several batches, they are the same edges in the same order."""
    monkeypatch.setattr("polybasis.data.tables.ROWS", 700)
    monkeypatch.setattr("polybasis.data.tables.BLOCK", 5000)
    edges = np.random.default_rng(2).integers(0, 400, (3000, 2))
    np.savetxt(tmp_path / "e.csv", edges, fmt="%d", delimiter=",", header="source,target", comments="")
    np.save(tmp_path / "pairs.npy", edges)
    np.save(tmp_path / "rows.npy", edges.T)
    parquet(tmp_path / "e.parquet", source=edges[:, 0], target=edges[:, 1].astype(np.int32))
    parquet(tmp_path / "text.parquet", source=[str(i) for i in edges[:, 0]], target=edges[:, 1].astype(np.float64))
    for name in ("e.csv", "pairs.npy", "rows.npy", "e.parquet", "text.parquet"):
        batches = list(edge_batches(tmp_path / name, 400))
        assert len(batches) > 3, name
        assert np.array_equal(np.concatenate(batches), edges), name


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_weight_column_is_refused_for_numbered_nodes(kind: str, tmp_path: Path) -> None:
    """Graph folders hold no weights; dropping them silently would train on another graph."""
    if kind == "csv":
        path = write(tmp_path, e="s,t,w\n0,1,2\n")["e"]
    else:
        path = parquet(tmp_path / "e.parquet", s=[0], t=[1], w=[2.0])
    with pytest.raises(ValueError, match=rf"e\.{kind} has 3 columns; expected source and target: .* holds no weights"):
        list(edge_batches(path, 400))


def test_bad_edge_lists_are_refused_with_their_place(tmp_path: Path) -> None:
    for text, message in (
        ("a,b\n1,2\n3,x\n", r"e\.csv:3: '3,x'; expected two node numbers"),
        ("a,b\n1,2\n3,\n", r"e\.csv:3: '3,'; expected two node numbers"),
        ("a,b\n1,2\n3,1.5\n", r"e\.csv:3: '3,1.5'; expected two node numbers"),
        ("a,b\n\n1,2\n3\n", r"e\.csv:4: "),
        ("", r"e\.csv:1: the file is empty"),
        (b"a,b\n1,2\n\xff,2\n", r"e\.csv:3: not text in UTF-8"),
    ):
        with pytest.raises(ValueError, match=message):
            list(edge_batches(write(tmp_path, e=text)["e"], 400))
    for columns, message in (
        ({"s": [0, 1], "t": [1, None]}, r"e\.parquet: row 2: None; expected a node number"),
        ({"s": [0, 1], "t": ["1", "x"]}, r"e\.parquet: row 2: 'x'; expected a node number"),
        ({"s": [0.0, 1.5], "t": [1, 2]}, r"e\.parquet: row 2: 1\.5; expected a node number"),
    ):
        with pytest.raises(ValueError, match=message):
            list(edge_batches(parquet(tmp_path / "e.parquet", **columns), 400))
    np.save(tmp_path / "e.npy", np.zeros((3, 3), dtype=np.int64))
    with pytest.raises(ValueError, match=r"e\.npy: the array has shape \(3, 3\)"):
        list(edge_batches(tmp_path / "e.npy", 400))
    (tmp_path / "e.npy").write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"e\.npy: not a NumPy array"):
        list(edge_batches(tmp_path / "e.npy", 400))
    with pytest.raises(ValueError, match=r"e\.txt: unknown file type '\.txt'; expected \.csv"):
        edge_batches(tmp_path / "e.txt", 400)


def test_offsets_of_a_sparse_matrix_must_not_decrease(tmp_path: Path) -> None:
    """SciPy does not notice it in a matrix whose last offset is 0, and reads out of bounds."""
    arrays = {"data": np.zeros(0), "indices": np.zeros(0, np.int32), "indptr": np.array([0, 1 << 20, 0], np.int32)}
    np.savez(tmp_path / "x.npz", format=np.array(b"csc"), shape=np.array([2, 2]), **arrays)
    with pytest.raises(ValueError, match=r"x\.npz: not a valid sparse matrix \(the offsets decrease\)"):
        read_sparse(tmp_path / "x.npz")
