"""For every command and source, each flag is either applied or rejected with a one-line error; none is ignored.

The tables below list all flags. A test fails if a command and its table have different flags, so that a new flag cannot
be forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from polybasis.cli.app import app
from polybasis.train import job as jobs
from polybasis.train.config import Config
from polybasis.train.source import Source
from polybasis.train.trained_model import TrainedModel

from .conftest import Run

SOURCES = ("data set", "graph folder", "store", "tables")
EVERYWHERE = {*SOURCES}
SOURCE_FLAGS = ("--edges", "--features", "--labels")


def flags_of(name: str) -> set[str]:
    """The long flags of a command, except --help."""
    command = typer.main.get_command(app)
    for part in name.split():
        command = command.commands[part]  # type: ignore[attr-defined]
    options = [max(p.opts, key=len) for p in command.params if p.param_type_name == "option"]
    return {flag for flag in options if flag.startswith("--")} - {"--help"}


class Spy:
    """Records the jobs that the command line starts, and runs them."""

    def __init__(self) -> None:
        self.jobs: list[jobs.Job] = []
        self.options: dict[str, Any] = {}
        self.threads = 0

    def __call__(self, planned: list[jobs.Job], results: Path, **options: Any) -> list[Any]:
        self.jobs, self.options, self.threads = planned, {**options, "results": results}, torch.get_num_threads()
        return self.run(planned, results, out=options.get("out"))

    run = staticmethod(jobs.run_jobs)

    @property
    def config(self) -> Config:
        return self.jobs[0].config


# For each flag of `train`: a value, the sources it applies to, and a check that it was applied.
TRAIN: dict[str, tuple[Any, set[str], Callable[[Spy, Any], bool]]] = {
    "--model": ("favardgnn", EVERYWHERE, lambda spy, _: spy.config.model.name == "favardgnn"),
    "--config": ("config.toml", EVERYWHERE, lambda spy, _: spy.config.optimizer.ema_decay == 0.875),
    "--set": ("dropout=0.125", EVERYWHERE, lambda spy, _: spy.config.model.arguments["dropout"] == 0.125),
    "--lr": (0.25, EVERYWHERE, lambda spy, _: spy.config.optimizer.lr == {"linear": 0.25}),
    "--epochs": (2, EVERYWHERE, lambda spy, out: spy.config.stopping.epochs == out["results"][0]["epochs"] == 2),
    "--batch-size": (7, {"store"}, lambda spy, _: spy.config.optimizer.batch_size == 7),
    "--metric": ("f1", EVERYWHERE, lambda _, out: out["results"][0]["metric"] == "f1"),
    "--class-weight": ("balanced", EVERYWHERE, lambda spy, _: spy.config.loss.class_weight == "balanced"),
    "--calibrate": ("temperature", EVERYWHERE, lambda _, out: TrainedModel.load(out["model"]).calibration is not None),
    "--threshold": ("recall=0.5", EVERYWHERE, lambda _, out: TrainedModel.load(out["model"]).threshold is not None),
    "--time-limit": (5, set(), lambda *_: False),  # applies to --model auto only
    "--splits": (2, EVERYWHERE, lambda _, out: [r["split"] for r in out["results"]] == [0, 1]),
    "--split": (3, EVERYWHERE, lambda _, out: [(r["split"], r["seed"]) for r in out["results"]] == [(3, 3)]),
    "--protocol": ("train-val", EVERYWHERE, lambda _, out: out["results"][0]["test_score"] is None),
    "--seed": (5, EVERYWHERE, lambda _, out: out["results"][0]["seed"] == 5),
    "--out": ("model", EVERYWHERE, lambda _, out: TrainedModel.load(out["model"]).epochs == 1),
    "--results": ("other.jsonl", EVERYWHERE, lambda *_: Path("other.jsonl").exists()),
    "--resume": (None, set(), lambda *_: False),  # there is no run to resume
    "--jobs": (2, EVERYWHERE, lambda spy, _: spy.options["processes"] == 2),
    "--threads": (1, EVERYWHERE, lambda spy, _: spy.threads == 1),
    "--data-root": (
        "data",
        {"data set"},
        lambda spy, _: spy.jobs[0].source.open.args == ("csbm", str(Path("data").absolute())),
    ),
    "--json": (None, EVERYWHERE, lambda _, out: "summary" in out),
    "--edges": ("e.csv", {"tables"}, lambda spy, _: spy.jobs[0].source.kind == "tables"),
    "--features": ("f.csv", {"tables"}, lambda spy, _: spy.jobs[0].source.open().num_features == 6),
    "--labels": ("l.csv", {"tables"}, lambda spy, _: spy.jobs[0].source.open().classes == ("blue", "red")),
    "--id": ("node", {"tables"}, lambda spy, _: "column 'node'" in spy.jobs[0].source.open().notes[1]),
    "--target": ("class", {"tables"}, lambda spy, _: "'class' of" in spy.jobs[0].source.open().notes[-1]),
    "--no-header": (None, {"tables"}, lambda spy, _: spy.jobs[0].source.open().columns[0].name == "column 2"),
    "--merge": ("sum", {"tables"}, lambda spy, _: spy.jobs[0].source.open.keywords["merge"] == "sum"),
    "--drop": ("f3", {"tables"}, lambda spy, _: spy.jobs[0].source.open().num_features == 5),
    "--task": ("multilabel", {"tables"}, lambda spy, _: spy.jobs[0].source.open().target == "multi-label"),
    "--categorical": ("f3", {"tables"}, lambda spy, _: spy.jobs[0].source.open().columns[3].kind == "categorical"),
    "--numeric": ("f3", {"tables"}, lambda spy, _: spy.jobs[0].source.open().columns[3].kind == "numeric"),
}


def test_the_table_of_train_has_every_flag() -> None:
    assert set(TRAIN) == flags_of("train")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("flag", TRAIN)
def test_train_applies_or_refuses_every_flag(
    flag: str, source: str, run: Run, sources: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy()
    monkeypatch.setattr(jobs, "run_jobs", spy)
    value, applies, applied = TRAIN[flag]
    precomputed = source == "store"
    config = Config.of("optbasisgnn", precomputed=precomputed, epochs=1, ema_decay=0.875, K=3)
    Path("config.toml").write_text(config.to_toml())
    given = [flag] if value is None else [flag, value]
    if flag in ("--calibrate", "--threshold"):
        given += ["--out", "model"]
    arguments = [*sources[source], *(["--epochs", 1] if flag != "--epochs" else []), "--json"]
    if source == "tables" and flag in SOURCE_FLAGS:
        given = []  # already part of the source
    if source == "tables" and flag == "--no-header":
        arguments = without_headers(arguments)
    if source == "tables" and flag == "--task":
        arguments[arguments.index("--labels") + 1] = with_truths(arguments[arguments.index("--labels") + 1])
    threads = torch.get_num_threads()
    try:
        outcome = run("train", *arguments, *(given if flag != "--json" else []))
    finally:
        torch.set_num_threads(threads)
    if source in applies:
        assert outcome.status == 0, outcome.stderr
        assert applied(spy, json.loads(outcome.stdout))
    else:
        assert_refused(outcome, flag)
        assert not spy.jobs


# Flags of the commands that use a saved model, and the sources that each flag applies to.
TABLE_FLAGS = {"--id": {"tables"}, "--target": {"tables"}, "--no-header": set(), "--merge": {"tables"}, "--drop": set()}
TABLE_FLAGS |= {"--edges": {"tables"}, "--features": {"tables"}}
TABLE_VALUES = {"--id": "node", "--target": "class", "--merge": "sum", "--drop": "f3"}
SAVED = {
    "predict": {
        **TABLE_FLAGS, "--out": EVERYWHERE, "--data-root": {"data set"},
        "--json": EVERYWHERE, "--spreadsheet-safe": EVERYWHERE, "--model-file": set(),
    },
    "evaluate": {
        **TABLE_FLAGS, "--labels": {"tables"}, "--data-root": {"data set"},
        "--metric": EVERYWHERE,
        "--json": EVERYWHERE, "--model-file": set(),
    },
    "report": {
        **TABLE_FLAGS, "--labels": {"tables"}, "--out": EVERYWHERE,
        "--data-root": {"data set"}, "--model-file": set(),
    },
    "plot": {
        **TABLE_FLAGS, "--out": EVERYWHERE, "--data-root": {"data set"},
        "--json": EVERYWHERE, "--model-file": set(),
    },
}  # fmt: skip
VALUES = TABLE_VALUES | {"--edges": "e.csv", "--features": "f.csv", "--labels": "l.csv"}
VALUES |= {"--out": "out", "--data-root": "data", "--model-file": "m.py", "--metric": "f1"}


@pytest.fixture(scope="session")
def models(sources: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A saved model for each source."""
    folder = tmp_path_factory.mktemp("models")
    found = {}
    for kind, arguments in sources.items():
        source = _source(arguments)
        config = Config.of("optbasisgnn", precomputed=kind == "store", epochs=1, K=3)
        found[kind] = folder / kind.replace(" ", "-")
        jobs.run_job(jobs.Job(config, source, "stratified", 0, 0), out=found[kind])
    return found


def _source(arguments: list[str]) -> Source:
    if arguments == ["csbm"]:
        return Source.named("csbm")
    if len(arguments) == 1:
        return Source.folder(Path(arguments[0]))
    return Source.tables(*(Path(path) for path in arguments[1::2]))


def test_a_model_is_scored_against_labels(run: Run, models: dict[str, Path], sources: dict[str, list[str]]) -> None:
    for command in ("evaluate", "report"):
        assert_refused(run(command, models["tables"], *sources["tables"][:2]), "--labels")
        assert_refused(run(command, models["tables"], *sources["tables"][:4]), "--labels")


@pytest.mark.parametrize("command", SAVED)
def test_the_tables_of_saved_models_have_every_flag(command: str) -> None:
    assert set(SAVED[command]) == flags_of(command)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("command", "flag"), [(command, flag) for command, flags in SAVED.items() for flag in flags])
def test_saved_models_apply_or_refuse_every_flag(
    command: str, flag: str, source: str, run: Run, sources: dict[str, list[str]], models: dict[str, Path]
) -> None:
    data = list(sources[source])
    if source == "tables" and command not in ("evaluate", "report"):
        data = data[: data.index("--labels")]
    given = [flag, VALUES[flag]] if flag in VALUES else [flag]
    if source == "tables" and flag in SOURCE_FLAGS:
        given = []
    if source == "tables" and flag == "--no-header":  # the model was trained with a header
        outcome = run(command, models[source], *without_headers(data), flag)
        assert "lacks columns 'f0', 'f1'" in outcome.stderr
        return
    outcome = run(command, models[source], *data, *given)
    if source not in SAVED[command][flag]:
        assert_refused(outcome, flag)
        return
    assert outcome.status == 0, outcome.stderr
    if flag == "--metric":
        assert "f1" in outcome.stdout
    if flag == "--json":
        assert json.loads(outcome.stdout)
    if flag == "--out":
        assert Path("out").exists()
        assert "out/responses.png" in outcome.stdout if command == "plot" else outcome.stdout == ""


def without_headers(arguments: list[Any]) -> list[Any]:
    """The arguments with copies of the tables that lack their first lines."""
    changed = list(arguments)
    for i, argument in enumerate(arguments):
        if str(argument).endswith(".csv"):
            changed[i] = Path(f"bare-{Path(argument).name}")
            changed[i].write_text(Path(argument).read_text().partition("\n")[2])
    return changed


def with_truths(labels: Any) -> Path:
    """A copy of the table of labels with true and false in place of two classes."""
    text = Path(labels).read_text().replace(",red", ",true").replace(",blue", ",false")
    Path("truths.csv").write_text(text)
    return Path("truths.csv")


def assert_refused(outcome: Any, flag: str) -> None:
    assert outcome.status != 0
    assert outcome.stdout == ""
    (line,) = outcome.stderr.strip().splitlines()
    assert flag in line, line


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["tune", "csbm", "--workers", 2], "--workers"),
        (["tune", "csbm", "--labels", "l.csv"], "--labels"),
        *((["tune", "csbm", flag, value], flag) for flag, value in TABLE_VALUES.items()),
        (["tune", "csbm", "--no-header"], "--no-header"),
        (["tune", "--edges", "e.csv"], "--labels"),
        (["bench", "--roofline", "--quick"], "--quick"),
        (["datasets", "build", "--edges", "e.csv", "--out", "g", "--memory", "1GiB"], "--memory"),
        (["train", "csbm", "--splits", 2, "--out", "m"], "--out"),
        (["train", "csbm", "--splits", 2, "--split", 1], "--split"),
    ],
)
def test_other_flags_that_do_not_apply_are_refused(arguments: list[Any], flag: str, run: Run) -> None:
    assert_refused(run(*arguments), flag)


def test_every_command_that_reports_something_can_do_so_in_json() -> None:
    names = ["demo", "train", "predict", "evaluate", "plot", "tune", "precompute", "bench"]
    names += [f"datasets {name}" for name in ("list", "synth", "build")]
    reproduce = typer.main.get_command(app).commands["reproduce"]  # type: ignore[attr-defined]
    names += [f"reproduce {name}" for name in reproduce.commands]
    assert [name for name in names if "--json" not in flags_of(name)] == []


def test_figures_are_listed_in_json(run: Run) -> None:
    outcome = run("reproduce", "figure", "representation", "--out", "figures", "--json")
    assert json.loads(outcome.stdout) == ["figures/representation.png", "figures/representation.svg"]
