"""Edges between numbered nodes: the same from every file type, and refused with their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tables_on_disk import parquet, write

from polybasis.data.tables import edge_batches
from polybasis.foreign_files import read_sparse


def test_edge_lists_of_every_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in several batches, they are the same edges in the same order."""
    monkeypatch.setattr("polybasis.data.tables.numbered.ROWS", 700)
    monkeypatch.setattr("polybasis.data.tables.numbered.BLOCK", 5000)
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
    with pytest.raises(
        ValueError, match=rf"e\.{kind} has 3 columns; expected source and target only, .* holds no weights"
    ):
        list(edge_batches(path, 400))


def test_bad_edge_lists_are_refused_with_their_place(tmp_path: Path) -> None:
    for text, message in (
        ("a,b\n1,2\n3,x\n", r"e\.csv:3: '3,x'; expected two node numbers"),
        ("a,b\n1,2\n3,\n", r"e\.csv:3: '3,'; expected two node numbers"),
        ("a,b\n1,2\n3,1.5\n", r"e\.csv:3: '3,1.5'; expected two node numbers"),
        ("a,b\n\n1,2\n3\n", r"e\.csv:4: "),
        ("a;b\n1;2\n", r"e\.csv:1: the header is 'a;b'; expected .* separated by a comma"),
        ("", r"e\.csv:1: the file is empty"),
        (b"a,b\n1,2\n\xff,2\n", r"e\.csv:3: not valid UTF-8"),
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


@pytest.mark.parametrize(
    ("before", "line"), [("\n\n1,2\n\n\n\n", 8), ("1,2\r\n\r\n2,1\r\n", 5), ("1,2\n" * 70_000, 70_002)]
)
@pytest.mark.parametrize("row", ["2", ",2"])
def test_lines_are_counted_as_an_editor_counts_them(before: str, line: int, row: str, tmp_path: Path) -> None:
    edges = write(tmp_path, edges=f"s,t\n{before}{row}\n")["edges"]
    with pytest.raises(ValueError, match=rf"edges\.csv:{line}: "):
        list(edge_batches(edges, 400))


def test_a_line_far_into_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are parsed block by block; the line is still counted from the start."""
    monkeypatch.setattr("polybasis.data.tables.numbered.BLOCK", 1 << 12)
    rows = "".join(f"{i},{i + 1}\n" for i in range(20_000))
    for last, message in (("5", "1 columns"), ("5,", "'5,'"), ("5,x", "'5,x'"), ("5,99999999999999999999", "'5,99")):
        edges = write(tmp_path, edges=f"s,t\n{rows}{last}\n")["edges"]
        with pytest.raises(ValueError, match=rf"edges\.csv:20002: {message}|edges\.csv:20002: '5'"):
            list(edge_batches(edges, 20_001))
