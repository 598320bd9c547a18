"""Commands for the kill campaign: small inputs, and outcomes that do not depend on time."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch
from conftest import write_raw

import polybasis as pb
from faults.artefacts import dataset, write_graph, write_model, write_store
from faults.foreign_files import write_examples
from polybasis.data.dataset import NodeDataset
from polybasis.store import write_graph_folder
from polybasis.train.study_file import study_backend

IGNORED = ("seconds", "waited", "code")  # the commit may change while a campaign runs
TRIALS = 4


@dataclass(frozen=True)
class Command:
    """A command line.

    Attributes:
        words: the arguments of ``polybasis``; ``{in}`` is the folder of inputs. Everything is written to ``out``.
        once: whether a second run refuses to write again what is complete.
        several: whether it starts processes.
        program: what starts it; a forked process if None.
    """

    words: str
    once: bool = False
    several: bool = False
    program: tuple[str, ...] | None = None

    def arguments(self, inputs: Path) -> list[str]:
        return [word.replace("{in}", str(inputs)) for word in self.words.split()]


TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "polybasis")
PYTHON = (sys.executable, "-m", "polybasis")
ON_STORE = "train {in}/store --model optbasisgnn --set hidden=4 --batch-size 40"
SPLITS = "train {in}/graph --protocol stratified --model gpr-gnn --set hidden=4 --set K=2"
COMMANDS = {
    "train": Command(f"{SPLITS} --epochs 12 --splits 4 --results out/r.jsonl"),
    "train --out": Command(
        "train {in}/graph --model gpr-gnn --set hidden=4 --set ensemble_size=3 --epochs 12 --out out/model "
        "--results out/r.jsonl"
    ),
    "train on tables": Command(
        "train --edges {in}/tables/edges.csv --features {in}/tables/features.csv --labels {in}/tables/labels.csv "
        "--set hidden=4 --epochs 10 --out out/model --results out/r.jsonl"
    ),
    "train on a store": Command(f"{ON_STORE} --epochs 10 --out out/model --results out/r.jsonl"),
    "predict": Command("predict {in}/model {in}/graph --out out/predictions.csv"),
    "evaluate": Command("evaluate {in}/model {in}/graph --json"),
    "plot": Command("plot {in}/filters {in}/graph --out out/plots"),
    "verify": Command("verify {in}/store"),
    "tune": Command(
        f"tune {{in}}/graph --model gpr-gnn --trials {TRIALS} --splits 1 --epochs 6 --study out/study.log "
        "--out out/best.toml"
    ),
    "precompute": Command("precompute {in}/wide --out out/store --K 4 --rows all"),
    "precompute a data set": Command("precompute csbm --out out/csbm.store --K 3"),
    "datasets build": Command(
        "datasets build --edges {in}/tables/edges.csv --features {in}/tables/features.csv "
        "--labels {in}/tables/labels.csv --out out/graph",
        once=True,
    ),
    "datasets synth": Command(
        "datasets synth --nodes 20000 --edges 100000 --features 8 --out out/graph --memory 64MiB", once=True
    ),
    "reproduce": Command(
        "reproduce node-classification --models mlp --datasets texas --splits 2 --jobs 1 --out out "
        "--data-root {in}/data"
    ),
    "train --jobs": Command(f"{SPLITS} --epochs 60 --splits 5 --jobs 2 --results out/r.jsonl", several=True),
    "train with torchrun": Command(
        f"{ON_STORE} --epochs 40 --out out/model --results out/r.jsonl", several=True, program=TORCHRUN
    ),
    "precompute with Ray": Command(
        "precompute {in}/wide --out out/store --K 4 --rows all --ray auto", several=True, program=PYTHON
    ),
}  # fmt: skip


def write_inputs(folder: Path) -> Path:
    """Writes the files that the commands read."""
    folder.mkdir(parents=True)
    write_graph(folder / "graph")
    write_store(folder / "store")
    write_model(folder / "model")
    config = pb.train.Config.of("optbasisgnn", hidden=2, K=2, epochs=2)
    fitted = pb.train.fit(config, dataset(), dataset().split("fixed"))
    pb.train.TrainedModel.of(config, fitted).save(folder / "filters")
    write_examples(folder / "examples")
    (folder / "examples" / "tables").rename(folder / "tables")
    data = pb.data.csbm(nodes=400, features=130, seed=1)  # three blocks of channels
    y = torch.from_numpy(np.asarray(data.y))
    write_graph_folder(folder / "wide", NodeDataset(name="wide", graph=data.graph, x=data.x, y=y))
    write_raw("texas", folder / "data")
    return folder


def results_in(folder: Path) -> list[dict[str, Any]]:
    """All results in a folder, without their timings and commit; a line that is not JSON is an error."""
    lines = [line for file in sorted(folder.rglob("*.jsonl")) for line in file.read_text().splitlines()]
    found = [json.loads(line) for line in lines]
    return [
        {name: value for name, value in result.items() if name not in IGNORED} for result in found if "key" in result
    ]


def outcome(folder: Path, output: str, command: Command) -> dict[str, str]:
    """What a command wrote, by file, without what depends on time."""
    found = {} if (folder / "out").exists() else {"standard output": output}
    for path in sorted((folder / "out").rglob("*")):
        if path.is_file() or path.name.startswith("."):
            found[str(path.relative_to(folder))] = _content(path)
    return found


def _content(path: Path) -> str:
    readers: dict[str, Callable[[Path], Any]] = {
        "README.md": lambda path: re.sub(r"[0-9.]+", "0", path.read_text()),
        "log.jsonl": lambda path: "blocks and their times",
        "model.json": _model,
        "study.log": trials_in,
    }
    if path.is_dir():
        return "a hidden folder"
    if path.suffix == ".jsonl" and path.name != "log.jsonl":
        return "\n".join(sorted(json.dumps(result, sort_keys=True) for result in results_in(path.parent)))
    if path.name in readers:
        return str(readers[path.name](path))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _model(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return {name: value for name, value in document.items() if name != "checksum"}


def trials_in(path: Path) -> list[Any]:
    """Parameters, value and state of every trial that ended."""
    storage = optuna.storages.JournalStorage(study_backend(path))
    (summary,) = optuna.get_all_study_summaries(storage)
    trials = optuna.load_study(study_name=summary.study_name, storage=storage).trials
    return [(trial.params, trial.value, trial.state.name) for trial in trials if trial.state.is_finished()]
