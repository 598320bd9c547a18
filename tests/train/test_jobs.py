"""Jobs: one identity, one result schema, checkpoints and results that survive a kill, whatever the data comes from."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from former_versions import to_version_2

import polybasis as pb
from polybasis import native
from polybasis.code_version import code_version
from polybasis.features import as_dense
from polybasis.files import append_line
from polybasis.store import write_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train import Config, Job, Source, TrainedModel, run_job, run_jobs
from polybasis.train.fitting import OnEpoch, Progress
from polybasis.train.job import adapt_config
from polybasis.train.results import read_results, summarize, summary

DATA = pb.data.csbm(nodes=300, features=12, seed=1)
K = 3
KINDS = ["named", "tables", "folder", "store"]


def quick(model: str = "optbasisgnn", epochs: int = 6, **values: object) -> Config:
    return Config.of(model, **{"hidden": 8, "epochs": epochs, "patience": epochs, **values})  # type: ignore[arg-type]


def write_tables(folder: Path, data: pb.data.NodeDataset) -> Source:
    folder.mkdir(parents=True)
    tables = {
        "edges": [["source", "target"], *data.graph.edge_index().T.tolist()],
        "features": [
            ["node", *range(data.num_features)],
            *([i, *row] for i, row in enumerate(as_dense(data.x).tolist())),
        ],
        "labels": [["node", "class"], *([i, "ab"[c]] for i, c in enumerate(data.y.tolist()))],
    }
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    return Source.tables(folder / "edges.csv", folder / "features.csv", folder / "labels.csv")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Source]:
    place = tmp_path_factory.mktemp("sources")
    graph = write_graph_folder(place / "graph", DATA)
    found: dict[str, Source] = {
        "named": Source.named("csbm"),
        "tables": write_tables(place / "tables", DATA),
        "folder": Source.folder(place / "graph"),
    }
    if native.kernels() is not None:
        precompute(graph, place / "store", K)
        found["store"] = Source.folder(place / "store")
    return found


def source_of(kind: str, sources: dict[str, Source]) -> Source:
    if kind not in sources:
        pytest.skip("polybasis was built without its native kernels")
    return sources[kind]


def job_on(kind: str, sources: dict[str, Source], split: int = 0, seed: int = 0, **values: object) -> Job:
    source = source_of(kind, sources)
    config = quick(**{"K": K, "precomputed": kind == "store", **values})  # type: ignore[arg-type]
    return Job(adapt_config(config, source), source, source.protocol, split, seed)


class KilledError(Exception):
    pass


def kill_at(epoch: int) -> OnEpoch:
    def on_epoch(progress: Progress) -> None:
        if progress.epoch == epoch:
            raise KilledError

    return on_epoch


def named_jobs(count: int) -> list[Job]:
    return [Job(quick("mlp", 3), Source.named("csbm"), "per-class", i, i) for i in range(count)]


# ---- identity ------------------------------------------------------------------------------------------------------


def test_equal_jobs_have_equal_keys_and_others_do_not() -> None:
    changes: list[dict[str, object]] = [
        {},
        {"K": 3},
        {"hidden": 9},
        {"lr": 0.5},
        {"weight_decay": {"linear": 5e-4, "coefficients": 1.0}},
        {"epochs": 9},
        {"patience": 2},
        {"early_stopping": "none"},
        {"ema_decay": 0.5},
        {"ensemble_size": 2},
        {"label_reuse": 0.5},
        {"label_reuse": 0.6},
        {"feature_transform": "binarize"},
        {"precomputed": True},
        {"precomputed": True, "batch_size": 7},
    ]

    def keys() -> list[str]:
        return [
            Job(quick(**change), Source.named(name), protocol, split, seed).key  # type: ignore[arg-type]
            for change in changes
            for name in ("csbm", "cora")
            for protocol in ("per-class", "stratified")
            for split in (0, 1)
            for seed in (0, 1)
        ]

    assert keys() == keys()
    assert len(set(keys())) == len(changes) * 16


def test_the_key_of_a_named_data_set_does_not_load_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr("polybasis.train.source.load", refuse)
    job = Job(quick(), Source.named("chameleon", "/nowhere"), Source.named("chameleon").protocol, 0, 0)
    assert len(job.key) == 16
    elsewhere = Job(quick(), Source.named("chameleon", "/elsewhere"), "per-class", 0, 0)
    assert job.key == elsewhere.key  # where the files are does not matter


def test_other_contents_of_a_folder_are_other_data(tmp_path: Path) -> None:
    """The name of a folder and of the data set do not identify the contents: the checksum does."""
    shifted = pb.data.NodeDataset(name="csbm", graph=DATA.graph, x=DATA.x, y=DATA.y.roll(1))
    copy = write_graph_folder(tmp_path / "copy", DATA)
    same, other = write_graph_folder(tmp_path / "same", DATA), write_graph_folder(tmp_path / "other", shifted)
    assert len({copy.identity, same.identity}) == 1 != len({same.identity, other.identity})
    folders = [tmp_path / "copy", tmp_path / "same", tmp_path / "other"]
    if native.kernels() is not None:
        for name, graph in (("a", same), ("b", other)):
            precompute(graph, tmp_path / f"store-{name}", 2)
        precompute(same, tmp_path / "store-half", 2, dtype="float16")
        precompute(same, tmp_path / "store-binarized", 2, feature_transform="binarize")
        precompute(same, tmp_path / "store-3", 3)
        folders += sorted(tmp_path.glob("store-*"))
    sources = [Source.folder(folder) for folder in folders]
    keys = [
        Job(quick(precomputed=True, K=2) if source.kind == "store" else quick(), source, "stratified", 0, 0).key
        for source in sources
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == len(keys) - 1


def test_stores_of_an_older_version_are_told_apart_by_their_graph(tmp_path: Path) -> None:
    """Such a store has no identity in its header, but checksums of the graph it was made of."""
    if native.kernels() is None:
        pytest.skip("polybasis was built without its native kernels")
    shifted = pb.data.NodeDataset(name="csbm", graph=DATA.graph, x=DATA.x, y=DATA.y.roll(1))
    found = []
    for name, data in (("a", DATA), ("b", shifted)):
        precompute(write_graph_folder(tmp_path / f"{name}.graph", data), tmp_path / name, 2)
        to_version_2(tmp_path / f"{name}.graph", tmp_path / name)
        found.append(Source.folder(tmp_path / name).identity)
    assert found[0] != found[1]


def test_sources_know_their_data_before_it_is_opened(sources: dict[str, Source], tmp_path: Path) -> None:
    assert Source.named("chameleon", "root") == Source.named("chameleon", "elsewhere")  # the same contents
    assert sources["folder"].kind == "graph folder"
    for source in sources.values():
        data = source.open()
        assert (data.name, data.protocol, data.fingerprint) == (source.name, source.protocol, source.identity)
        assert source.open() is data
    with pytest.raises(ValueError, match="unknown data set 'nothing'"):
        Source.named("nothing")
    with pytest.raises(FileNotFoundError, match=r"graph\.json does not exist"):
        Source.folder(tmp_path)


# ---- one job on anything -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_results_have_one_schema(kind: str, sources: dict[str, Source], tmp_path: Path) -> None:
    job = job_on(kind, sources)
    (result,) = run_jobs([job], tmp_path / "results.jsonl")
    expected = {"key", "model", "dataset", "preset", "protocol", "split", "seed", "metric", "val_score", "test_score"}
    expected |= {"epochs", "seconds", "threads", "config", "versions", "code"}
    more = {"store": {"data", "waited", "processes"}, "tables": {"data", "tables", "assessment"}, "folder": {"data"}}
    assert result.keys() == expected | more.get(kind, set())
    assert result["key"] == job.key
    assert result["code"] == code_version()
    assert result["dataset"] == job.source.name
    assert Config.from_dict(result["config"]) == job.config
    assert 0 <= result["val_score"] <= 1
    assert 0 <= result["test_score"] <= 1
    assert read_results(tmp_path / "results.jsonl") == [json.loads(json.dumps(result))]
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]


def test_the_same_graph_gives_the_same_result_from_a_folder_and_from_tables(sources: dict[str, Source]) -> None:
    """The split depends on the name of the data set, so the comparison uses one split; without the tables' recipe."""
    folder, tables = sources["folder"].open(), sources["tables"].open()
    assert isinstance(folder, pb.data.NodeDataset)
    assert isinstance(tables, pb.data.NodeDataset)
    assert torch.equal(folder.y, tables.y)
    assert torch.equal(as_dense(folder.x), as_dense(tables.x))
    tables = replace(tables, columns=None)
    split = folder.split()
    one, other = (pb.train.fit(quick(K=K), data, split).model.state_dict() for data in (folder, tables))
    for name, value in one.items():
        assert torch.equal(value, other[name])


@pytest.mark.parametrize("changes", [{}, {"ensemble_size": 2, "ema_decay": 0.9}], ids=["single", "ensemble"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_job_resumes_to_the_same_bits(
    kind: str, changes: dict[str, object], sources: dict[str, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)
    job = job_on(kind, sources, seed=5, **changes)
    if kind == "store":
        job = Job(job.config.replace(batch_size=50), job.source, job.protocol, 0, 5)
    place = tmp_path / "results.jsonl"
    with pytest.raises(KilledError):
        run_jobs([job], place, on_epoch=kill_at(4))
    files = [path.name for path in (tmp_path / ".results.checkpoints").iterdir()]
    assert files == [f"{job.key}-0.safetensors" if changes else f"{job.key}.safetensors"]
    assert not place.exists()
    seen: list[int] = []
    (resumed,) = run_jobs([job], place, out=tmp_path / "resumed", on_epoch=lambda p: seen.append(p.epoch))
    assert min(seen) == 4
    (whole,) = run_jobs([job], tmp_path / "whole.jsonl", out=tmp_path / "whole")
    assert not list(tmp_path.glob(".*"))  # no checkpoints are left
    for name in ("key", "val_score", "test_score", "epochs"):
        assert resumed[name] == whole[name]
    one, other = (TrainedModel.load(tmp_path / name).model.state_dict() for name in ("resumed", "whole"))
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_finished_jobs_are_not_repeated_unless_their_model_is_missing(
    kind: str, sources: dict[str, Source], tmp_path: Path
) -> None:
    job, place, out = job_on(kind, sources), tmp_path / "results.jsonl", tmp_path / "model"
    new: list[dict[str, object]] = []
    first = run_jobs([job], place, on_result=new.append)
    again = run_jobs([job], place, on_result=new.append)
    assert again == json.loads(json.dumps(first))
    assert len(new) == 1
    run_jobs([job], place, out=out, on_result=new.append)  # has a result, but no model
    assert len(new) == 2
    saved = TrainedModel.load(out)
    assert saved.provenance["key"] == job.key
    assert saved.provenance["data"] == job.source.open().dataset_identity
    assert saved.val_score == first[0]["val_score"]
    run_jobs([job], place, out=out, on_result=new.append)
    assert len(new) == 2
    other = job_on(kind, sources, seed=1)
    run_jobs([other], place, out=out, on_result=new.append)  # the model there is another job's
    assert TrainedModel.load(out).provenance["key"] == other.key
    (out / "model.json").write_text("{")
    run_jobs([other], place, out=out, on_result=new.append)
    assert TrainedModel.load(out).provenance["key"] == other.key
    assert [result["key"] for result in read_results(place)] == [job.key, other.key]  # one line for each job


def test_one_folder_holds_one_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="out can hold only one model; pass a single job"):
        run_jobs(named_jobs(2), tmp_path / "results.jsonl", out=tmp_path / "model")


# ---- adapting a configuration to a store ---------------------------------------------------------------------------


def test_a_store_determines_degree_and_feature_transform(tmp_path: Path) -> None:
    if native.kernels() is None:
        pytest.skip("polybasis was built without its native kernels")
    graph = write_graph_folder(tmp_path / "graph", DATA)
    precompute(graph, tmp_path / "store", K, feature_transform="row-normalize")
    source = Source.folder(tmp_path / "store")
    adapted = adapt_config(Config.of("sign", precomputed=True), source)
    assert adapted.model.arguments["K"] == K
    assert adapted.feature_transform == "row-normalize"
    assert adapt_config(Config.of("sign", precomputed=True, K=2), source).model.arguments["K"] == 2
    with pytest.raises(ValueError, match=r"K is 4; the basis in .* has degree 3"):
        adapt_config(Config.of("sign", precomputed=True, K=4), source)
    with pytest.raises(ValueError, match=r"feature_transform is 'binarize'; .* was built with 'row-normalize'"):
        adapt_config(Config.of("sign", precomputed=True, feature_transform="binarize"), source)
    with pytest.raises(ValueError, match=r"is a store; to train on it, set precomputed = true in \[model\]"):
        adapt_config(Config.of("sign"), source)
    unchanged = Config.of("sign", K=9)
    assert adapt_config(unchanged, Source.folder(tmp_path / "graph")) == unchanged


# ---- several jobs --------------------------------------------------------------------------------------------------


def test_results_are_appended_and_not_run_again(tmp_path: Path) -> None:
    place = tmp_path / "results.jsonl"
    first = run_jobs(named_jobs(2), place)
    assert len(read_results(place)) == 2
    new: list[dict[str, object]] = []
    second = run_jobs(named_jobs(3), place, on_result=new.append)
    assert second[:2] == json.loads(json.dumps(first))
    assert [result["split"] for result in new] == [2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["named", "tables", "store"])
def test_two_processes_give_the_results_of_one(kind: str, sources: dict[str, Source], tmp_path: Path) -> None:
    jobs = [job_on(kind, sources, split=i, seed=i) for i in range(2)]
    one = run_jobs(jobs, tmp_path / "one.jsonl")
    two = run_jobs(jobs, tmp_path / "two.jsonl", processes=2)
    for a, b in zip(one, two, strict=True):
        assert a["key"] == b["key"]
        assert a["val_score"] == pytest.approx(b["val_score"], abs=0.02)
        assert b["threads"] == max(1, torch.get_num_threads() // 2)


@pytest.mark.parametrize("processes", [1, 2])
def test_divergence_is_reported_after_all_other_jobs_have_finished(tmp_path: Path, processes: int) -> None:
    wild = quick("mlp", 4, lr=1e38, early_stopping="loss")
    configs = (wild, quick("mlp", 3), quick("mlp", 4))
    jobs = [Job(config, Source.named("csbm"), "per-class", i, i) for i, config in enumerate(configs)]
    message = r"1 of 3 jobs diverged; the first is mlp on csbm, split 0: .*lower the learning rate"
    with pytest.raises(OverflowError, match=message):
        run_jobs(jobs, tmp_path / "results.jsonl", processes=processes)
    assert {result["key"] for result in read_results(tmp_path / "results.jsonl")} == {job.key for job in jobs[1:]}
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]


def test_a_cluster_gives_the_results_of_one_process_and_saves_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs are sent with absolute paths; here they run in this process, in the reverse order."""

    def in_reverse(
        function: Callable[..., object], jobs: list[tuple[object, ...]], *, address: str
    ) -> Iterator[tuple[int, Callable[[], object]]]:
        assert address == "auto"
        for number, arguments in reversed(list(enumerate(jobs))):
            assert all(part.is_absolute() for part in arguments if isinstance(part, Path))
            yield number, partial(function, *arguments)

    monkeypatch.setattr("polybasis.train.parallel.map_on_ray", in_reverse)
    monkeypatch.chdir(tmp_path)
    expected = run_jobs(named_jobs(3), Path("one.jsonl"))
    found = run_jobs(named_jobs(3), Path("cluster.jsonl"), cluster="auto")
    assert [result["test_score"] for result in found] == [result["test_score"] for result in expected]
    assert [result["split"] for result in read_results(Path("cluster.jsonl"))] == [2, 1, 0]
    job = named_jobs(1)[0]
    run_jobs([job], Path("cluster.jsonl"), out=Path("model"), cluster="auto")
    assert TrainedModel.load("model").provenance["key"] == job.key


def test_a_job_can_run_on_its_own(tmp_path: Path) -> None:
    job = named_jobs(1)[0]
    result = run_job(job, out=tmp_path / "model")
    assert result["key"] == job.key
    assert TrainedModel.load(tmp_path / "model").provenance["test_score"] == result["test_score"]


# ---- the file of results -------------------------------------------------------------------------------------------


def test_a_line_that_a_kill_cut_off_is_skipped_and_completed(tmp_path: Path) -> None:
    place = tmp_path / "results.jsonl"
    append_line(place, json.dumps({"key": "a"}))
    with place.open("a") as file:
        file.write('{"key": "b", "val')
    assert [result["key"] for result in read_results(place)] == ["a"]
    append_line(place, json.dumps({"key": "c"}))
    assert [result["key"] for result in read_results(place)] == ["a", "c"]
    assert json.loads(place.read_text().splitlines()[-1]) == {"key": "c"}
    assert read_results(tmp_path / "nowhere.jsonl") == []


def test_the_confidence_interval_is_students() -> None:
    values = [1.0, 2.0, 4.0, 5.0]
    numbers = summary(values)
    assert numbers["mean"] == 3
    assert numbers["std"] == pytest.approx(np.std(values, ddof=1))
    assert numbers["ci95"] == pytest.approx(3.182446 * numbers["std"] / 2)
    assert summary([1.0]) == {"mean": 1.0, "std": 0.0, "ci95": 0.0}


def test_a_summary_has_a_row_for_each_configuration() -> None:
    common = {"model": "mlp", "dataset": "csbm", "preset": "default", "protocol": "per-class", "metric": "accuracy"}
    common |= {"epochs": 4, "seconds": 2.0, "val_score": 0.5}
    results = [
        {**common, "config": {"K": 1}, "test_score": 0.2},
        {**common, "config": {"K": 1}, "test_score": 0.4},
        {**common, "config": {"K": 2}, "test_score": None},
    ]
    first, second = summarize(results)
    assert (first["splits"], first["mean"], first["val"]) == (2, pytest.approx(30), 50)
    assert (second["splits"], second["mean"], second["val"]) == (1, None, 50)  # no test nodes


@pytest.mark.parametrize(("seconds", "epoch"), [(0.0, 3), (0.0, 0), (60.0, 3)])
def test_an_interruption_says_how_to_go_on(
    seconds: float, epoch: int, sources: dict[str, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", seconds)

    def interrupt(progress: Progress) -> None:
        if progress.epoch == epoch:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run_jobs([job_on("named", sources)], tmp_path / "r.jsonl", on_epoch=interrupt)
    kept = f"0 of 1 runs are finished and saved in {tmp_path / 'r.jsonl'}"
    if seconds or not epoch:
        assert caught.value.__notes__ == [
            f"{kept}; there is no checkpoint yet, so the same command starts the run over"
        ]
    else:
        more = f"1 unfinished with a checkpoint in {tmp_path / '.r.checkpoints'}"
        assert caught.value.__notes__ == [f"{kept}, {more}; run the same command again to resume"]
