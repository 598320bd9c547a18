"""A person's own files: what is read, and what is said of files that are not right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from polybasis.data.own_files import read_own_graph
from polybasis.features import as_dense

EDGES = "source,target\na,b\nb,c\n"
FEATURES = "node,f1,f2\na,1,0\nb,0,1\nc,1,1\nd,0,0\n"
LABELS = "node,class\na,red\nb,blue\nc,\n"


def write(folder: Path, **contents: str) -> dict[str, Path]:
    paths = {}
    for name, content in contents.items():
        paths[name] = folder / f"{name}.csv"
        paths[name].write_text(content)
    return paths


def test_names_isolated_nodes_and_missing_labels(tmp_path: Path) -> None:
    own = read_own_graph(**write(tmp_path, edges=EDGES, features=FEATURES, labels=LABELS))
    assert own.nodes == ["a", "b", "c", "d"]
    assert own.graph.num_edges == 2
    assert own.labels == ["red", "blue", None, None]
    assert as_dense(own.x).tolist() == [[1, 0], [0, 1], [1, 1], [0, 0]]


def test_structure_alone(tmp_path: Path) -> None:
    own = read_own_graph(**write(tmp_path, edges=EDGES))
    assert not own.has_features
    assert as_dense(own.x).tolist() == np.eye(3).tolist()


@pytest.mark.parametrize("kind", ["npy", "npz", "sparse", "parquet"])
def test_feature_files(kind: str, tmp_path: Path) -> None:
    matrix = np.array([[1, 0], [0, 2], [3, 0]], dtype=np.float32)
    edges = write(tmp_path, edges="a,b,weight\n0,1,0.5\n1,2,2\n")["edges"]
    if kind == "npy":
        path = tmp_path / "x.npy"
        np.save(path, matrix)
    elif kind == "npz":
        path = tmp_path / "x.npz"
        np.savez(path, x=matrix)
    elif kind == "sparse":
        path = tmp_path / "x.npz"
        sp.save_npz(path, sp.csr_matrix(matrix))
    else:
        pd = pytest.importorskip("pandas", reason="pandas writes the Parquet file of this test")
        path = tmp_path / "x.parquet"
        pd.DataFrame({"node": [0, 1, 2], "f": matrix[:, 0], "g": matrix[:, 1]}).to_parquet(path)
    own = read_own_graph(edges, path)
    assert as_dense(own.x).tolist() == matrix.tolist()
    assert own.graph.weight is not None


WRONG = {
    "bad row": ({"edges": "s,t\na,b\nb\n"}, r"edges\.csv:3: 1 columns; the header has 2"),
    "empty": ({"edges": ""}, r"edges\.csv:1: the file is empty"),
    "no edges": ({"edges": "s,t\n"}, r"edges\.csv:1: there are no edges"),
    "half an edge": ({"edges": "s,t\na,\n"}, r"edges\.csv:2: an edge without both its ends"),
    "bad weight": ({"edges": "s,t,w\na,b,x\n"}, r"edges\.csv:2: the weight is 'x'"),
    "negative weight": ({"edges": "s,t,w\na,b,-1\n"}, r"edges\.csv:2: the weight is -1"),
    "two weights": ({"edges": "s,t,w\na,b,1\nb,a,2\n"}, r"edges\.csv: edge_weight gives the pair"),
    "duplicate node": (
        {"features": FEATURES + "a,1,1\n"},
        r"features\.csv:6: node 'a' is there twice, first in line 2",
    ),
    "NaN": ({"features": "node,f\na,1\nb,nan\nc,2\n"}, r"features\.csv:3: feature 1 is nan; expected a finite"),
    "no number": ({"features": "node,f\na,1\nb,two\n"}, r"features\.csv:3: feature 1 is 'two'"),
    "unequal": ({"features": "node,f,g\na,1,2\nb,1\n"}, r"features\.csv:3: 2 columns; the header has 3"),
    "no features": ({"features": "node,f\na,1\nb,2\n"}, r"edges\.csv:3: node 'c' has no features"),
    "unknown node": ({"labels": "node,class\nz,red\n"}, r"labels\.csv:2: node 'z' is in no other file"),
    "label twice": ({"labels": LABELS + "a,red\n"}, r"labels\.csv:5: node 'a' is there twice"),
    "no labels": ({"labels": "node,class\na,\n"}, r"labels\.csv:1: there are no labels"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files(case: str, tmp_path: Path) -> None:
    change, message = WRONG[case]
    paths = write(tmp_path, **({"edges": EDGES, "features": FEATURES, "labels": LABELS} | change))
    with pytest.raises(ValueError, match=message) as raised:
        read_own_graph(**paths)
    assert "\n" not in str(raised.value)


def test_arrays_that_are_none(tmp_path: Path) -> None:
    edges = write(tmp_path, edges="a,b\n0,1\n")["edges"]
    broken = tmp_path / "x.npy"
    broken.write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"x\.npy: not an array of features"):
        read_own_graph(edges, broken)
    np.save(broken, np.array([[1.0], [np.inf]]))
    with pytest.raises(ValueError, match=r"x\.npy: row 1 has a feature that is not finite"):
        read_own_graph(edges, broken)
    np.save(broken, np.ones(3))
    with pytest.raises(ValueError, match="1 axes"):
        read_own_graph(edges, broken)
