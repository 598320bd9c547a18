"""`polybasis verify`: everything that the package writes is verified, and damage to any file of it is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from faults.artefacts import WRITERS
from former_versions import to_version_2

from .conftest import Run

KINDS = {"store": "store", "graph": "graph folder", "model": "model", "checkpoint": "checkpoint", "study": "study"}


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artefacts")
    for name, write in WRITERS.items():
        write(folder / name)
    return folder


def target(folder: Path) -> Path:
    """What the command is given: a folder, or the one file of a checkpoint or study."""
    return next((path for path in folder.iterdir() if path.suffix in (".log",)), None) or (
        folder if any(path.suffix == ".json" for path in folder.iterdir()) else next(folder.glob("*.safetensors"))
    )


@pytest.mark.parametrize("name", KINDS)
def test_intact_files_are_verified(name: str, artefacts: Path, run: Run) -> None:
    path = target(artefacts / name)
    before = {file: file.stat().st_mtime_ns for file in path.parent.rglob("*")}
    outcome = run("verify", path)
    assert outcome.status == 0
    assert outcome.stdout.startswith(f"{path}: {KINDS[name]} of ")
    assert outcome.stdout.endswith("MiB, no damage found\n")
    assert outcome.stderr == ""
    (row,) = json.loads(run("verify", path, "--json").stdout)
    assert row["kind"] == KINDS[name]
    assert row["bytes"] == sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir()))
    assert {file: file.stat().st_mtime_ns for file in path.parent.rglob("*")} == before  # nothing is written


@pytest.mark.parametrize("name", KINDS)
def test_damage_to_any_file_is_found(name: str, artefacts: Path, run: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(artefacts / name, tmp_path / "copy"))
    unread = {"log.jsonl"}  # timings, which nothing reads
    for file in sorted(path for path in copy.iterdir() if path.name not in unread):
        content = file.read_bytes()
        for place in (len(content) // 2, len(content) - 2):
            file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
            outcome = run("verify", target(copy))
            assert outcome.status == 1, file
            assert outcome.stdout == ""
            assert outcome.stderr.count("\n") == 1
            assert file.name in outcome.stderr
        file.unlink()
        if any(copy.iterdir()) and file.name != "store.json":
            outcome = run("verify", target(copy) if file.suffix != ".json" or name == "store" else copy)
            assert outcome.status == 1, file
        file.write_bytes(content)
    assert run("verify", target(copy)).status == 0


def test_anything_else_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.txt").write_text("text")
    for path, message in (
        ("nowhere", "nowhere does not exist"),
        ("folder", "is not a store"),
        ("text.txt", "is not a"),
    ):
        outcome = run("verify", path)
        assert (outcome.status, outcome.stdout) == (1, "")
        assert message in outcome.stderr


def test_several_paths_are_verified_in_turn(artefacts: Path, run: Run) -> None:
    paths = [target(artefacts / name) for name in KINDS]
    assert len(run("verify", *paths).stdout.splitlines()) == len(KINDS)
    outcome = run("verify", paths[0], "nowhere", paths[1])
    assert outcome.status == 1
    assert len(outcome.stdout.splitlines()) == 1


def test_files_without_checksums_are_not_called_intact(artefacts: Path, run: Run, tmp_path: Path) -> None:
    graph, store, model, study = (
        Path(shutil.copytree(artefacts / name, tmp_path / name)) for name in ("graph", "store", "model", "study")
    )
    to_version_2(graph, store)
    document = json.loads((model / "model.json").read_text())
    del document["checksum"]
    (model / "model.json").write_text(json.dumps({**document, "version": 1}))
    (study / "study.log").write_text('{"op_code": 0}\n')
    for path in (graph, store, model, study / "study.log"):
        outcome = run("verify", path)
        assert outcome.status == 1
        assert "was written by an earlier version, without" in outcome.stderr
