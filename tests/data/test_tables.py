"""The user's own tables: every format gives the same graph, and what is guessed is guessed right and noted."""

from __future__ import annotations

import bz2
import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from sklearn.preprocessing import MultiLabelBinarizer
from tables_on_disk import EDGES, FEATURES, LABELS, assert_same_graph, parquet, write

import polybasis as pb
from polybasis.data.tables import read_tables
from polybasis.features import SparseFeatures, as_dense
from polybasis.train.fitting import fit

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
        "source\ttarget\na\tb\nb\tc\n",
        "source;target\na;b\nb;c\n",
        "source|target\na|b\nb|c\n",
        "source target\na b\nb c\n",
        "# a comment\nsource,target\na,b\nb,c\n",
        "a,b\nb,c\n",
        "kind,to,from\nx,b,a\ny,c,b\n",
        '"source","target"\n"a","b"\n"b","c"\n',
        "source,target\na,b\nb,a\nc,b\nb,b\n",
        b"\xef\xbb\xbfsource,target\na,b\nb,c\n",
    ],
    ids=[
        "CRLF",
        "no final line break",
        "blank lines",
        "blanks",
        "repeated header",
        "tabs",
        "semicolons",
        "|",
        "spaces",
        "comment",
        "no header",
        "by name",
        "quotes",
        "duplicates",
        "BOM",
    ],
)
def test_spellings_of_the_same_edges(edges: str | bytes, tmp_path: Path) -> None:
    """Arrow, unlike Python's reader, must be told about most of these."""
    expected = read_tables(**write(tmp_path, edges=EDGES, features=FEATURES, labels=LABELS))
    files = write(tmp_path, edges=edges, features=FEATURES, labels=LABELS)
    drop = ["kind"] if "kind" in str(edges) else []
    assert_same_graph(read_tables(**files, drop=drop), expected)


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


def test_ids_stay_text(tmp_path: Path) -> None:
    """007, 7 and 7.0 are three nodes, in files of text; NA and null are names of nodes."""
    edges = "source,target,weight\n007,7,1\n7,7.0,1\nNA,null,1\n2024-01-01,007,1\n"
    data = read_tables(**write(tmp_path, edges=edges, labels="node,class\n007,01\n7,1\n"))
    assert data.node_names() == ["007", "7", "7.0", "NA", "null", "2024-01-01"]
    assert data.classes == ("01", "1")


def random_tables(folder: Path, nodes: int = 300, edges: int = 2000, seed: int = 0) -> dict[str, pd.DataFrame]:
    """A weighted graph without repeated edges, with features and labels, as data frames."""
    rng = np.random.default_rng(seed)
    names = np.array([f"user {i}" for i in rng.permutation(nodes)])
    low, high = np.triu_indices(nodes, 1)
    chosen = rng.choice(len(low), edges, replace=False)
    weight = rng.exponential(size=edges).round(3) + 0.001
    return {
        "edges": pd.DataFrame({"source": names[low[chosen]], "target": names[high[chosen]], "weight": weight}),
        "features": pd.DataFrame(
            {"node": names, "f": rng.normal(size=nodes).round(4), "g": rng.integers(0, 99, nodes)}
        ),
        "labels": pd.DataFrame({"node": names, "class": rng.choice(["x", "y"], nodes)}),
    }


def as_json_lines(frame: pd.DataFrame, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))


WRITERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "tsv": lambda frame, path: frame.to_csv(path, sep="\t", index=False),
    "csv": lambda frame, path: frame.to_csv(path, sep=";", decimal=",", index=False),
    "csv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.to_csv(index=False).encode())),
    "csv.bz2": lambda frame, path: path.write_bytes(bz2.compress(frame.to_csv(index=False).encode())),
    "csv.zst": lambda frame, path: path.write_bytes(
        pa.compress(frame.to_csv(index=False).encode(), codec="zstd", asbytes=True)
    ),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "feather": lambda frame, path: pyarrow.feather.write_feather(pa.Table.from_pandas(frame), path),
    "arrow": lambda frame, path: _write_stream(pa.Table.from_pandas(frame), path),
    "jsonl": as_json_lines,
}


def _write_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=70)


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_table_format_gives_the_same_data(suffix: str, tmp_path: Path) -> None:
    """Compared with plain CSV files as pandas writes them."""
    frames = random_tables(tmp_path)
    files, others = {}, {}
    for name, frame in frames.items():
        files[name], others[name] = tmp_path / f"{name}.csv", tmp_path / "others" / f"{name}.{suffix}"
        others[name].parent.mkdir(exist_ok=True)
        frame.to_csv(files[name], index=False)
        WRITERS[suffix](frame, others[name])
    expected, found = read_tables(**files), read_tables(**others)
    assert_same_graph(found, expected)
    assert found.fingerprint == expected.fingerprint
    assert found.name == "edges"


@pytest.mark.parametrize("block", [1 << 9, 1 << 20])
def test_blocks_of_a_file_make_one_table(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with pandas; each block of text has texts of its own."""
    monkeypatch.setattr("polybasis.data.tables.text_tables.BLOCK", block)
    frames = random_tables(tmp_path, seed=1)
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    data = read_tables(*(tmp_path / f"{name}.csv" for name in ("edges", "features", "labels")))
    assert data.node_names() == frames["features"]["node"].tolist()
    np.testing.assert_array_equal(as_dense(data.x), frames["features"][["f", "g"]].to_numpy(np.float32))
    assert [data.classes[i] for i in data.y] == frames["labels"]["class"].tolist()
    index = {name: i for i, name in enumerate(data.node_names())}
    ends = [frames["edges"][end].map(index).to_numpy() for end in ("source", "target")]
    weight = frames["edges"]["weight"].to_numpy()
    matrix = sp.coo_array((weight, ends), shape=(300, 300)).toarray()
    np.testing.assert_array_equal(data.graph.adjacency().toarray(), matrix + matrix.T)


# ---- files of graphs and matrices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("suffix", ["graphml", "gexf", "graphml.gz", "mtx", "mtx.gz"])
def test_files_of_graphs(suffix: str, weighted: bool, tmp_path: Path) -> None:
    """As NetworkX and SciPy write them, with isolated nodes."""
    graph = nx.gnp_random_graph(40, 0.1, seed=3)
    graph.add_nodes_from([40, 41])
    if weighted:
        nx.set_edge_attributes(graph, {edge: 0.25 + i for i, edge in enumerate(graph.edges)}, "weight")
    expected = nx.to_scipy_sparse_array(graph, weight="weight").toarray()
    path = tmp_path / f"g.{suffix.removesuffix('.gz')}"
    if "graphml" in suffix:
        nx.write_graphml(graph, path)
    elif suffix == "gexf":
        nx.write_gexf(graph, path)
    else:
        matrix = sp.coo_array(expected)
        scipy.io.mmwrite(path, matrix, symmetry="symmetric", field="real" if weighted else "pattern")
    if suffix.endswith(".gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    data = read_tables(path)
    assert data.node_names() == [str(i) for i in range(42)]
    assert (data.graph.weight is None) == (not weighted)
    np.testing.assert_allclose(data.graph.adjacency().toarray(), expected)


MATRIX = np.array([[1, 0], [0, 2], [3, 0.25]], dtype=np.float32)


def feature_file(kind: str, folder: Path) -> Path:
    path = folder / kind
    if kind == "x.npy":
        np.save(path, MATRIX)
    elif kind == "x.npz":
        np.savez(path, x=MATRIX)
    elif kind == "sparse.npz":
        sp.save_npz(path, sp.csr_matrix(MATRIX))
    elif kind == "list.parquet":
        parquet(path, node=["0", "1", "2"], x=MATRIX.tolist())
    elif kind == "fixed.parquet":
        parquet(path, node=[0, 1, 2], x=pa.FixedSizeListArray.from_arrays(MATRIX.ravel(), 2))
    elif kind == "list.jsonl":
        path.write_text("".join(json.dumps({"id": i, "x": row.tolist()}) + "\n" for i, row in enumerate(MATRIX)))
    else:
        path.write_text(json.dumps({str(i): row.tolist() for i, row in enumerate(MATRIX)}))
    return path


KINDS = ["x.npy", "x.npz", "sparse.npz", "list.parquet", "fixed.parquet", "list.jsonl", "lists.json"]


@pytest.mark.parametrize("kind", KINDS)
def test_matrices_stay_as_they_are(kind: str, tmp_path: Path) -> None:
    edges = write(tmp_path, edges="s,t\n0,1\n1,2\n")["edges"]
    data = read_tables(edges, feature_file(kind, tmp_path))
    assert torch.equal(as_dense(data.x), torch.from_numpy(MATRIX))
    assert data.columns is None
    assert data.prepared(pb.data.Split(*(torch.tensor([i]) for i in range(3)))) is data
    assert data.node_names() == ["0", "1", "2"]


@pytest.mark.parametrize("kind", ["json", "parquet", "jsonl"])
def test_lists_of_words_become_zeros_and_ones(kind: str, tmp_path: Path) -> None:
    """Against scikit-learn's encoding; a word may be listed twice, and a node may have no words."""
    rng = np.random.default_rng(0)
    words = [rng.integers(0, 500, rng.integers(0, 12)).tolist() for _ in range(200)]
    names = [f"n{i}" for i in range(200)]
    path = tmp_path / f"words.{kind}"
    if kind == "json":
        path.write_text(json.dumps(dict(zip(names, words, strict=True))))
    elif kind == "parquet":
        parquet(path, node=names, words=words)
    else:
        as_json_lines(pd.DataFrame({"node": names, "words": words}), path)
    edges = write(tmp_path, edges="s,t\nn0,n1\n")["edges"]
    data = read_tables(edges, path)
    width = max(max(row, default=0) for row in words) + 1
    expected = MultiLabelBinarizer(classes=range(width)).fit_transform(words)
    assert isinstance(data.x, SparseFeatures)
    np.testing.assert_array_equal(data.x.to_dense(), expected)


# ---- headers and columns -------------------------------------------------------------------------------------------

HEADERS = {
    "known names": ("from,to\na,b\nb,c\n", True),
    "word above numbers": ("anything,else\n1,2\n", True),
    "numbers": ("1,2\n2,3\n", False),
    "node that occurs again": ("a,b\nb,c\n", False),
    "names of one shape": ("user-1,user-2\nuser-3,user-4\n", False),
    "numbered columns": ("id,0,1\na,0.5,2\nb,1,3\n", True),
    "index of a data frame": (",0,1\na,0.5,2\nb,1,3\n", True),
    "weights": ("a,b,0.5\nc,d,2\n", False),
    "decimal comma": ("a;b;0,5\nc;d;2,5\n", False),
    "nothing to tell": ("alice,bob\ncarol,dave\n", True),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_are_detected_or_given(case: str, tmp_path: Path) -> None:
    text, header = HEADERS[case]
    edges = write(tmp_path, edges=text)["edges"]
    rows = text.count("\n")
    options = {"drop": ["1"]} if "0,1" in text.splitlines()[0] else {}
    if not options:
        for forced in (True, False):
            data = read_tables(edges, header=forced)
            assert data.notes[0].startswith(f"edges.csv: {rows - forced} row")
            assert ("no header" in data.notes[0]) == (not forced)
    if case == "index of a data frame":
        options = {"drop": ["1"]}
    data = read_tables(edges, **options)  # type: ignore[arg-type]
    assert data.notes[0].startswith(f"edges.csv: {rows - header} row")
    assert ("taken as the header" in data.notes[0]) == (case == "nothing to tell")


def test_columns_of_nodes_and_classes_are_guessed_and_noted(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        edges="source,target\n1,2\n2,3\n",
        features="age,who,score\n31,1,0.5\n25,2,0.25\n44,3,1.5\n",
        labels="id,name,ml_target\n1,x1,0\n2,x2,1\n3,x3,0\n",
    )
    data = read_tables(**files)
    assert data.node_names() == ["1", "2", "3"]
    assert [column.name for column in data.columns or ()] == ["age", "score"]
    assert data.classes == ("0", "1")
    assert data.notes == (
        "edges.csv: 2 rows, edges between 'source' and 'target'",
        "features.csv: 3 nodes in column 'who' (guessed)",
        "features.csv: numeric columns 'age', 'score'",
        "graph: 3 nodes, 2 edges",
        "labels.csv: 2 classes in column 'ml_target' (guessed) of the nodes in 'id' (guessed); 3 of 3 nodes labelled",
    )
    chosen = read_tables(**files, id="who", target="name")
    assert chosen.classes == ("x1", "x2", "x3")
    assert chosen.notes[1] == "features.csv: 3 nodes in column 'who'"


def test_one_table_may_hold_nodes_features_and_the_target(tmp_path: Path) -> None:
    edges = "payer,payee,date,weight\nu1,u2,2024-01-01,5\nu2,u3,2024-01-02,1\n"
    nodes = "name,user,age,vip,joined,fraud\nAnn,u1,31,F,2020-01-01,no\nBob,u2,,True,2020-01-02,yes\nCy,u3,44,,,\n"
    data = read_tables(
        **write(tmp_path, edges=edges, features=nodes), id="user", target="fraud", drop=["name", "joined", "date"]
    )
    assert data.classes == ("no", "yes")
    assert data.y.tolist() == [0, 1, -1]
    assert [(column.name, column.kind) for column in data.columns or ()] == [("age", "numeric"), ("vip", "boolean")]
    assert data.notes[1:] == (
        "features.csv: 3 nodes in column 'user', 2 empty cells",
        "features.csv: numeric column 'age'",
        "features.csv: boolean column 'vip'",
        "graph: 3 nodes, 2 edges",
        "features.csv: 2 classes in column 'fraud'; 2 of 3 nodes labelled",
    )


def test_features_are_encoded_on_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training encodes them anew for its split, so encoding them before would be wasted."""
    files = write(tmp_path, edges=EDGES, features=FEATURES, labels=LABELS)
    calls = []
    apply = pb.data.Recipe.apply
    monkeypatch.setattr(pb.data.Recipe, "apply", lambda *arguments: calls.append(1) or apply(*arguments))
    data = read_tables(**files)
    assert data.fingerprint
    everyone = pb.data.Split(torch.arange(4), torch.arange(0), torch.arange(0))
    assert data.prepared(everyone).num_features == 2
    assert len(calls) == 1
    again = pickle.loads(pickle.dumps(data))
    assert as_dense(again.x).tolist() == as_dense(data.x).tolist() == [[1, 0], [0, 1], [1, 1], [0, 0]]
    assert data.x is data.x
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'x'"):
        pb.data.NodeDataset(name="g", graph=data.graph, y=data.y)


COLUMNS: dict[str, tuple[list[str], str]] = {
    "integers": (["3", "4", "", "-7"], "numeric"),
    "unusual numbers": (["+3", "1e2", "NaN", " .5 "], "numeric"),
    "None": (["3", "None", "?", "-7"], "numeric"),
    "empty": (["", "NA", "null", ""], "numeric"),
    "0 and 1": (["0", "1", "", "1"], "boolean"),
    "F and True": (["F", "True", "f", "false"], "boolean"),
    "yes and no": (["yes", "No", "", "YES"], "boolean"),
    "words": (["red", "blue", "NA", "red"], "categorical"),
    "numbers and words": (["1", "x", "1", "x"], "categorical"),
}


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("case", COLUMNS)
def test_kinds_of_columns(case: str, suffix: str, tmp_path: Path) -> None:
    """pandas' reading of the same numbers; text from JSON is judged as text from CSV is."""
    cells, kind = COLUMNS[case]
    path = tmp_path / f"features.{suffix}"
    if suffix == "csv":
        path.write_text("node,c\n" + "".join(f"{name},{cell}\n" for name, cell in zip("abcd", cells, strict=True)))
    else:
        as_json_lines(pd.DataFrame({"node": list("abcd"), "c": cells}), path)
    (column,) = read_tables(write(tmp_path, edges=EDGES)["edges"], path).columns or ()
    assert column.kind == kind
    missing = [cell in ("", "NA", "null", "NaN") or (kind == "numeric" and cell in ("None", "?")) for cell in cells]
    assert column.missing.tolist() == missing
    if kind == "numeric":
        expected = pd.to_numeric(pd.Series(cells).str.strip(), errors="coerce").to_numpy(np.float32)
        np.testing.assert_array_equal(column.values, expected)
    elif kind == "boolean":
        truths = [cell.casefold() in ("1", "true", "yes") for cell in cells]
        assert [bool(t) for t, gap in zip(column.truths(), missing, strict=True) if not gap] == [
            t for t, gap in zip(truths, missing, strict=True) if not gap
        ]
    else:
        texts = [column.categories[i] for i in column.values if i >= 0]
        assert texts == [cell for cell, gap in zip(cells, missing, strict=True) if not gap]


def test_a_parquet_file_keeps_its_types(tmp_path: Path) -> None:
    columns = {
        "flag": [True, None, False],
        "price": pa.array([1.5, 2.25, None]).cast(pa.decimal128(5, 2)),
        "city": pa.array(["Rome", "Oslo", "Rome"]).dictionary_encode(),
        "count": pa.array([1, 2, 300], pa.uint16()),
    }
    features = parquet(tmp_path / "x.parquet", node=pa.array(["a", "b", "c"], pa.large_string()), **columns)
    found = {c.name: c for c in read_tables(write(tmp_path, edges=EDGES)["edges"], features).columns or ()}
    assert {name: column.kind for name, column in found.items()} == {
        "flag": "boolean", "price": "numeric", "city": "categorical", "count": "numeric",
    }  # fmt: skip
    np.testing.assert_array_equal(found["flag"].truths(), np.float32([1, np.nan, 0]))
    np.testing.assert_array_equal(found["price"].values, np.float32([1.5, 2.25, np.nan]))
    assert [found["city"].categories[i] for i in found["city"].values] == ["Rome", "Oslo", "Rome"]
    assert found["count"].values.tolist() == [1, 2, 300]


def test_integers_that_a_float_cannot_hold_are_rounded(tmp_path: Path) -> None:
    """Arrow refuses such a conversion unless told otherwise."""
    large = 10**18 + 1
    edges = parquet(tmp_path / "e.parquet", source=["a", "b"], target=["b", "c"], weight=[large, 1])
    features = parquet(tmp_path / "x.parquet", node=["a", "b", "c"], f=[large, 2, 3])
    lists = parquet(tmp_path / "l.parquet", node=["a", "b", "c"], f=[[large, 1], [2, 1], [3, 1]])
    data = read_tables(edges, features)
    assert data.graph.weight is not None
    assert data.graph.weight.max() == float(large)
    assert as_dense(data.x)[0, 0] == np.float32(large) == as_dense(read_tables(edges, lists).x)[0, 0]


# ---- repeated edges ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("merge", ["sum", "mean", "max", "first"])
def test_repeated_edges_are_merged_as_pandas_would(merge: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.integers(0, 12, (400, 2)), columns=["source", "target"])
    frame["weight"] = rng.exponential(size=400).round(3) + 0.001
    frame.to_csv(tmp_path / "e.csv", index=False)
    data = read_tables(tmp_path / "e.csv", merge=merge)  # type: ignore[arg-type]
    low, high = frame[["source", "target"]].min(axis=1), frame[["source", "target"]].max(axis=1)
    table = frame["weight"].groupby([low, high]).agg(merge)
    index = {int(name): i for i, name in enumerate(data.node_names())}
    expected = np.zeros((12, 12))
    for (a, b), weight in table.items():
        if a != b:
            expected[index[a], index[b]] = expected[index[b], index[a]] = weight
    np.testing.assert_allclose(data.graph.adjacency().toarray(), expected)


def test_repeated_edges_without_weights(tmp_path: Path) -> None:
    edges = write(tmp_path, edges="source,target\na,b\nb,a\na,b\nb,c\nc,c\n")["edges"]
    data = read_tables(edges)
    assert data.graph.weight is None
    assert data.notes[1] == "graph: 3 nodes, 2 edges, 2 repeated or of weight 0, 1 self-loop dropped"
    counted = read_tables(edges, merge="sum").graph.adjacency().toarray()
    assert counted.tolist() == [[0, 3, 0], [3, 0, 1], [0, 1, 0]]


def test_an_edge_in_both_directions_with_one_weight_is_one_edge(tmp_path: Path) -> None:
    data = read_tables(**write(tmp_path, edges="source,target,weight\na,b,2\nb,a,2\nb,c,1\n"))
    assert data.graph.adjacency().toarray().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]


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


# ---- arrays --------------------------------------------------------------------------------------------------------


def test_arrays_that_are_no_features(tmp_path: Path) -> None:
    edges = write(tmp_path, edges="a,b\n0,1\n")["edges"]
    broken = tmp_path / "x.npy"
    broken.write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"x\.npy: not a NumPy array"):
        read_tables(edges, broken)
    for array, message in (
        (np.array([[1.0], [np.inf]]), r"x\.npy: node 1 has a feature that is not finite"),
        (np.array([[1.0], [1e39]]), r"x\.npy: node 1 has a feature that is not finite"),
        (np.ones(3), r"x\.npy: the array has 1 axes; expected 2"),
        (np.ones((2, 1), dtype=complex), r"x\.npy: the array has dtype complex128; expected real numbers"),
        (np.array([["a"], ["b"]]), r"x\.npy: the array has dtype <U1; expected real numbers"),
        (np.ones((1, 2)), r"edges\.csv:2: column 'b': node '1' is not in .*x\.npy"),
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
