"""The README's commands for the paper's tables and figures, on generated files in the published layouts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polybasis.experiments.filter_learning import BASES, COMBINATIONS
from polybasis.experiments.filter_results import CHAMELEON, CONVERGENCE, TABLE
from polybasis.files import read_lines


def polybasis(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "polybasis", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def write_images(folder: Path) -> None:
    """Fifteen pictures named like BernNet's, which has no fourth: smooth colours, an edge, some grain."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(5)
    row, column = np.mgrid[0:100, 0:100] / 100
    for number in (1, 2, 3, *range(5, 17)):
        smooth = np.stack([np.sin(3 * row + c + number) + np.cos(5 * column * (c + 1)) for c in range(3)], axis=2)
        smooth[row + column > 1.2] *= -0.5
        pixels = 128 + 50 * smooth + 10 * rng.standard_normal(smooth.shape)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"img{number}.jpg")


@pytest.mark.slow
def test_filter_learning(tmp_path: Path) -> None:
    """Every basis on fifteen images in four ways; no optimiser is below the closed form (least squares)."""
    write_images(tmp_path / "data" / "images")
    done = polybasis("reproduce", "filter-learning", "--data-root", tmp_path / "data", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    rows = read_lines(tmp_path / "out" / TABLE)
    assert len(rows) == 2 * len(BASES) * 15 * len(COMBINATIONS)
    for row in rows:
        assert row["mse"] >= row["closed_form"] * (1 - 1e-9)
    page = (tmp_path / "out" / "README.md").read_text()
    assert "60 samples" in page
    assert "| closed form |" in page


@pytest.mark.slow
def test_favard_convergence(raw_data: Callable[[str], Path], tmp_path: Path) -> None:
    root = raw_data("chameleon")
    write_images(root / "images")
    arguments = ["favard-convergence", "--epochs", "200", "--data-root", root, "--out", tmp_path / "out"]
    done = polybasis("reproduce", *arguments)
    assert done.returncode == 0, done.stderr
    written = [(tmp_path / "out" / name).read_bytes() for name in (CONVERGENCE, CHAMELEON)]
    assert {row["dataset"] for row in read_lines(tmp_path / "out" / CHAMELEON)} == {"chameleon"}
    again = polybasis("reproduce", *arguments)
    assert again.returncode == 0, again.stderr
    assert written == [(tmp_path / "out" / name).read_bytes() for name in (CONVERGENCE, CHAMELEON)], (
        "nothing is repeated"
    )


def test_missing_images_are_named(tmp_path: Path) -> None:
    done = polybasis("reproduce", "filter-learning", "--data-root", tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith("polybasis: ")
    assert "0 of the 15 images" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["representation", "filtered-images", "responses", "weight-functions"])
def test_figures(name: str, raw_data: Callable[[str], Path], tmp_path: Path) -> None:
    root = raw_data("chameleon")
    done = polybasis("reproduce", "figure", name, "--out", tmp_path / "out", "--data-root", root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "out" / f"{name}.{kind}") for kind in ("png", "svg")]
    assert all(Path(path).stat().st_size > 5000 for path in done.stdout.split())


@pytest.mark.slow
def test_a_data_set_from_files_to_predictions(raw_data: Callable[[str], Path], tmp_path: Path) -> None:
    """train -> precompute -> train on the store -> predict on the store and on the data set."""
    root, store = raw_data("chameleon"), tmp_path / "store"
    given = ["--data-root", root]
    training = ["--model", "favardgnn", "--epochs", "5"]
    steps: list[list[str | Path]] = [
        [
            "train",
            "chameleon",
            "--model",
            "favardgnn",
            "--splits",
            "3",
            "--epochs",
            "5",
            "--results",
            "r.jsonl",
            *given,
        ],
        ["precompute", "chameleon", "--out", store, "--K", "4", "--memory", "2GiB", *given],
        ["train", store, *training, "--results", "s.jsonl", "--out", "model"],
    ]
    for step in steps:
        command = [sys.executable, "-m", "polybasis", *map(str, step)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    results = read_lines(tmp_path / "r.jsonl")
    assert [result["split"] for result in results] == [0, 1, 2]
    assert {result["dataset"] for result in (*results, *read_lines(tmp_path / "s.jsonl"))} == {"chameleon"}
    found = []
    for source in ([store], ["chameleon", *given]):
        done = polybasis("predict", tmp_path / "model", *source, "--json")
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    on_store, on_graph = found
    assert [row["node"] for row in on_store] == [row["node"] for row in on_graph] == list(range(90))
    for one, other in zip(on_store, on_graph, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-4)
