"""The example of graph classification runs, resumes, and learns; the table of its page equals the committed results."""

from __future__ import annotations

import importlib.util
import json
import shutil
import statistics
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.datasets import TUDataset

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "graph-classification"
DATASETS = ("MUTAG", "ENZYMES", "NCI1")
ROWS = {
    "none": "none (degree 0)",
    "gcn": "`GCNConv` of PyG",
    "gin": "`GINConv` of PyG",
    "chebyshev": "`PolyConv`, Chebyshev",
    "favard": "`FavardConv`, bounded",
    "optbasis": '`OptBasisConv`, `scale="signal"`',
}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = ROOT / "examples" / "graph_classification.py"
    spec = importlib.util.spec_from_file_location("graph_classification", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _threads() -> Any:
    """The example sets the number of threads."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def tu_root(tmp_path: Path) -> Path:
    """Rings (class 0) and stars (class 1) of 5 to 12 nodes with random tags, in the raw files of a TU data set."""
    random = torch.Generator().manual_seed(0)
    pairs, graph_of_node, classes, tags, first = [], [], [], [], 1
    for graph in range(240):
        nodes = int(torch.randint(5, 13, (1,), generator=random))
        ring = [(i, (i + 1) % nodes) for i in range(nodes)]
        ends = ring if graph % 2 == 0 else [(0, i) for i in range(1, nodes)]
        pairs += [(a + first, b + first) for pair in ends for a, b in (pair, pair[::-1])]
        graph_of_node += [graph + 1] * nodes
        tags += torch.randint(0, 3, (nodes,), generator=random).tolist()
        classes.append(graph % 2)
        first += nodes
    raw = tmp_path / "SHAPES" / "raw"
    raw.mkdir(parents=True)
    (raw / "SHAPES_A.txt").write_text("".join(f"{a}, {b}\n" for a, b in pairs))
    for name, column in (("graph_indicator", graph_of_node), ("graph_labels", classes), ("node_labels", tags)):
        (raw / f"SHAPES_{name}.txt").write_text("".join(f"{value}\n" for value in column))
    return tmp_path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_time(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != "cpu_seconds_per_epoch"}


def run(example: ModuleType, root: Path, *options: str) -> list[dict[str, Any]]:
    """The lines that the example writes for two folds."""
    out = root / "out.jsonl"
    example.main(["--data-root", str(root), "--folds", "2", "--out", str(out), *options])
    return read(out)


def test_finished_folds_are_skipped_and_the_others_repeat(
    example: ModuleType, tu_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--dataset", "SHAPES", "--epochs", "2")
    lines = run(example, tu_root, *options)
    assert [line["fold"] for line in lines] == [0, 1]
    last = capsys.readouterr().out.splitlines()[-1]

    out = tu_root / "out.jsonl"
    out.write_text(json.dumps(lines[0]) + "\n")
    again = run(example, tu_root, *options)
    assert [without_time(line) for line in again] == [without_time(line) for line in lines]

    monkeypatch.setattr(example, "run_fold", None)
    assert run(example, tu_root, *options) == again
    assert capsys.readouterr().out.splitlines()[-1] == last


@pytest.mark.parametrize("name", ["none", "gcn", "gin", "chebyshev", "bernstein", "jacobi", "favard", "optbasis"])
def test_predictions_do_not_depend_on_the_batch(example: ModuleType, tu_root: Path, name: str) -> None:
    graphs = list(TUDataset(str(tu_root), "SHAPES"))[:10]
    model = example.GraphClassifier(3, 2, name, K=4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        model.eval()
        together = model(Batch.from_data_list(graphs))
        alone = torch.cat([model(Batch.from_data_list([graph])) for graph in graphs])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["chebyshev", "favard", "optbasis", "gin"])
def test_shapes_are_told_apart(example: ModuleType, tu_root: Path, name: str) -> None:
    """Rings and stars have the same tags, so that only the edges tell them apart."""
    lines = run(example, tu_root, "--dataset", "SHAPES", "--epochs", "40", "--filter", name)
    assert min(line["test_accuracy"] for line in lines) > 0.9


def test_filters_of_degree_0_ignore_the_edges(example: ModuleType, tu_root: Path) -> None:
    graphs = Batch.from_data_list(list(TUDataset(str(tu_root), "SHAPES"))[:4])
    model = example.GraphClassifier(3, 2, "none", K=4).eval()
    other = graphs.clone()
    other.edge_index = graphs.edge_index[:, :2]
    assert torch.equal(model(graphs), model(other))


def test_folds_are_stratified(example: ModuleType) -> None:
    y = torch.tensor([0] * 37 + [1] * 20 + [2] * 6)[torch.randperm(63)]
    fold = example.stratified_folds(y, 5, seed=3)
    counts = torch.stack([torch.bincount(y[fold == k], minlength=3) for k in range(5)])
    assert (counts.amax(0) - counts.amin(0)).max() <= 1
    assert counts.sum() == 63


def test_mutag_runs(example: ModuleType, data_root: Path, tmp_path: Path) -> None:
    if not (data_root / "tu" / "MUTAG").is_dir():
        pytest.skip(f"no MUTAG in {data_root / 'tu'}")
    shutil.copytree(data_root / "tu" / "MUTAG" / "raw", tmp_path / "MUTAG" / "raw", copy_function=shutil.copyfile)
    (tmp_path / "MUTAG").chmod(0o755)
    for line in run(example, tmp_path, "--dataset", "MUTAG", "--epochs", "2"):
        assert line["test_accuracy"] >= 0.3  # 94 graphs; the rarer class has a share of 0.34


def table_row(name: str) -> str:
    """The row of a filter in the table of the page, from the committed lines."""
    lines = read(RESULTS / f"{name}.jsonl")
    cells = [ROWS[name]]
    seconds = []
    for dataset in DATASETS:
        folds = [line for line in lines if line["dataset"] == dataset]
        assert [line["fold"] for line in folds] == list(range(10))
        scores = [100 * line["test_accuracy"] for line in folds]
        cells.append(f"{statistics.fmean(scores):.1f} ± {statistics.pstdev(scores):.1f}")
        seconds.append(f"{statistics.fmean(line['cpu_seconds_per_epoch'] for line in folds):.2f}")
    return f"| {' | '.join([*cells, *seconds])} |"


@pytest.mark.parametrize("name", ROWS)
def test_table_of_the_page_equals_the_results(name: str) -> None:
    assert table_row(name) in (ROOT / "docs" / "how-to" / "graph-classification.md").read_text().splitlines()


def test_all_results_have_the_same_settings() -> None:
    """Everything but the filter is the same for all; NCI1 has fewer epochs of more steps."""
    settings = {
        (line["dataset"], line["epochs"], line["K"], line["lr"], line["folds"], line["seed"])
        for name in ROWS
        for line in read(RESULTS / f"{name}.jsonl")
    }
    assert len(settings) == len(DATASETS)
