"""A small graph in every form that the command line accepts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import polybasis as pb
from polybasis.cli import main
from polybasis.store.graph_writing import write_graph_folder
from polybasis.store.precomputation import precompute


@dataclass
class Outcome:
    """The exit status, standard output and standard error of a command."""

    status: int
    stdout: str
    stderr: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs the command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["polybasis", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Outcome(ended.value.code or 0, captured.out, captured.err)  # type: ignore[arg-type]

    return command


def write_tables(folder: Path) -> dict[str, Path]:
    """Writes a csbm graph as three CSV files, with some labels missing and one isolated node."""
    data = pb.data.csbm(nodes=120, features=6, seed=1)
    low, high = data.graph.edge_index()
    edges = [f"n{a},n{b}" for a, b in zip(low.tolist(), high.tolist(), strict=True) if a < b]
    rows = [f"n{i}," + ",".join(f"{v:.5f}" for v in row) for i, row in enumerate(data.x.numpy())]
    labels = [f"n{i},{'red' if c else 'blue'}" for i, c in enumerate(data.y.tolist()) if i % 4]
    contents = {
        "edges": ["source,target", *edges],
        "features": ["node," + ",".join(f"f{i}" for i in range(6)), *rows, "alone,0,0,0,0,0,0"],
        "labels": ["node,class", *labels],
    }
    paths = {}
    for name, lines in contents.items():
        paths[name] = folder / f"{name}.csv"
        paths[name].write_text("\n".join(lines) + "\n")
    return paths


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The arguments for each source: a data set, a graph folder, a store and tables."""
    folder = tmp_path_factory.mktemp("sources")
    graph = write_graph_folder(folder / "g.graph", pb.data.csbm(nodes=120, features=6, seed=1))
    store = precompute(graph, folder / "g.store", 3, keep="all")
    tables = [item for name, path in write_tables(folder).items() for item in (f"--{name}", str(path))]
    return {"data set": ["csbm"], "graph folder": [str(graph.path)], "store": [str(store.path)], "tables": tables}
