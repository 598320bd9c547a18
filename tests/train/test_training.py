"""Configurations, the fit loop, checkpoints, results that survive a kill, tuning."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest
import torch
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from polybasis.data.splits import make_split
from polybasis.train.graph_training import GraphTask, fit
from polybasis.train.metrics import score
from polybasis.train.runs import Run, read_results, run_splits, summary

import polybasis as pb
from polybasis.files import append_line
from polybasis.nn.models import Model, OptBasisGNN
from polybasis.train.checkpoint import read_checkpoint, write_checkpoint
from polybasis.train.config import Config, StopOn, default_config, stored_config
from polybasis.train.fitting import Progress
from polybasis.train.tune import Search, tune

DATA = pb.data.csbm(nodes=150, features=40, seed=2)
SPLIT = make_split(DATA, "per-class", 0)


def quick(model: str = "optbasisgnn", epochs: int = 25, **arguments: object) -> Config:
    return Config(model, hidden=8, epochs=epochs, patience=epochs, arguments=arguments)


# ---- configurations ------------------------------------------------------------------------------------------------


def test_toml_round_trip(tmp_path: Path) -> None:
    config = stored_config("favardgnn", "chameleon")
    assert config is not None
    assert config.arguments["K"] == 20
    assert config.lr["recurrence"] == 0.02
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml())
    assert Config.from_toml(path) == config


def test_published_settings_are_all_valid_and_rare_ones_absent() -> None:
    for model in ("favardgnn", "optbasisgnn", "gpr-gnn", "bernnet", "chebnetii", "jacobiconv"):
        for dataset in ("chameleon", "squirrel", "actor"):
            config = stored_config(model, dataset)
            assert config is not None
            config.make_model(5, 3, 7)
    assert stored_config("mlp", "chameleon") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('model = "optbasisgnn"\nlearning_rate = 1', "there is no setting 'learning_rate'"),
        ("hidden = 3", "there is no model"),
        ('model = "optbasis"', "there is no model 'optbasis'"),
        ('model = "mlp"\narguments = { K = 3 }', "mlp has no argument 'K'"),
        ('model = "mlp"\nlr = { linear = -1 }', "lr.linear is -1"),
        ('model = "mlp"\nlr = { all = 1 }', "lr has the role 'all'"),
        ('model = "mlp"\nstop_on = "auc"', "stop_on is 'auc'"),
        ('model = "mlp"\nepochs = 0', "epochs is 0"),
        ('model = "mlp"\nnormalise = "columns"', "normalise is 'columns'"),
        ('model = "optbasisgnn"\nbatch = 10\nnormalise = "rows"', "normalise is for training on a graph"),
        ('model = "optbasisgnn"\nbatch = 10\nmembers = 3', "members is for training on a graph"),
        ('model = "mlp"\nmembers = 1', "members is 1; expected a whole number, 2 or more"),
        ('model = "optbasisgnn"\nbatch = 10\nlabels = 0.5', "labels is for training on a graph"),
        ('model = "mlp"\nlabels = 1', "labels is 1; expected a number between 0 and 1"),
        ('model = "link"\nlabels = 0.5', "labels are features, and link looks at none"),
        ("model = ", "Invalid value"),
    ],
)
def test_wrong_configurations(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        Config.from_toml(path)
    assert str(path) in str(raised.value)


def test_roles_have_their_own_rates() -> None:
    config = Config("favardgnn", lr={"linear": 0.1, "recurrence": 0.3}, weight_decay={"linear": 0.0})
    optimizer = config.make_optimizer(config.make_model(4, 2, 5))
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.1, 0.3]


# ---- the fit loop --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", [None, 0.9])
def test_scores_shared_by_validation_and_the_next_step_change_nothing(
    average: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(quick(K=4, dropout=0.0, dropout2=0.0), average=average)
    forward, calls = OptBasisGNN.forward, []
    monkeypatch.setattr(OptBasisGNN, "forward", lambda *given: calls.append(1) or forward(*given))
    shared = fit(config, DATA, SPLIT, seed=3)
    assert len(calls) == (26 if average is None else 50)  # one at the start, then one for each epoch
    monkeypatch.setattr(OptBasisGNN, "deterministic", False)
    apart = fit(config, DATA, SPLIT, seed=3)
    for name, value in shared.model.state_dict().items():
        assert torch.equal(value, apart.model.state_dict()[name]), name


def test_learns_and_is_the_same_for_the_same_seed() -> None:
    first, again, other = (fit(quick(), DATA, SPLIT, seed) for seed in (1, 1, 2))
    assert first.val_score > 0.6
    for name, value in first.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name])
    assert any(not torch.equal(v, other.model.state_dict()[k]) for k, v in first.model.state_dict().items())


def test_best_epoch_is_restored_and_patience_ends_training() -> None:
    seen: list[Progress] = []
    config = Config("optbasisgnn", hidden=8, epochs=200, patience=10)
    trained = fit(config, DATA, SPLIT, 0, report=seen.append)
    best = max(seen, key=lambda progress: (progress.val_score, progress.epoch))
    assert trained.val_score == best.val_score
    assert trained.epochs == len(seen) == best.epoch + 11
    with torch.no_grad():
        logits = trained.model(DATA.x, DATA.graph)[SPLIT.val]
    assert score("accuracy", logits, DATA.y[SPLIT.val]) == trained.val_score


@pytest.mark.parametrize(
    ("config", "nodes"),
    [(quick(), ["test"]), (replace(quick(), stop_on="epochs", patience=3), ["val", "test"])],
)
def test_these_classes_do_not_matter_to_training(config: Config, nodes: list[str]) -> None:
    y = DATA.y.clone()
    for part in nodes:
        y[getattr(SPLIT, part)] = 1 - y[getattr(SPLIT, part)]
    lied = pb.data.NodeDataset("csbm", DATA.graph, DATA.x, y)
    honest, other = fit(config, DATA, SPLIT, 0), fit(config, lied, SPLIT, 0)
    for name, value in honest.model.state_dict().items():
        assert torch.equal(value, other.model.state_dict()[name])


@pytest.mark.parametrize(
    "config",
    [
        quick("optbasisgnn"),
        quick("favardgnn"),
        quick("gpr-gnn"),
        replace(quick("optbasisgnn"), average=0.9),
        replace(quick("favardgnn"), labels=0.5, average=0.9),
        replace(quick("favardgnn"), average=0.9, stop_on="epochs", patience=2),
    ],
)
def test_an_interrupted_training_ends_at_the_same_weights(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)
    place = tmp_path / "state.safetensors"

    class KilledError(Exception):
        pass

    def kill(progress: Progress) -> None:
        if progress.epoch == 12:
            raise KilledError

    with pytest.raises(KilledError):
        fit(config, DATA, SPLIT, 3, report=kill, checkpoint=place)
    assert place.exists()
    seen: list[int] = []
    resumed = fit(config, DATA, SPLIT, 3, report=lambda progress: seen.append(progress.epoch), checkpoint=place)
    whole = fit(config, DATA, SPLIT, 3)
    assert not list(tmp_path.iterdir())
    assert min(seen) == 12  # what was done before is not done again
    assert resumed.epochs == whole.epochs
    assert resumed.val_score == whole.val_score
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name])


def test_the_mean_of_the_weights_is_what_is_kept() -> None:
    """After two epochs, of which the second is better, the mean is a w_1 + (1 - a) w_2."""
    config = replace(quick(epochs=1, dropout=0.0, dropout2=0.0), stop_on="loss")
    first = fit(config, DATA, SPLIT, 5).model.state_dict()
    second = fit(replace(config, epochs=2), DATA, SPLIT, 5).model.state_dict()
    mean = fit(replace(config, epochs=2, average=0.75), DATA, SPLIT, 5).model.state_dict()
    assert any(not torch.equal(value, second[name]) for name, value in first.items())
    for name, value in mean.items():
        torch.testing.assert_close(value, 0.75 * first[name] + 0.25 * second[name])
    with pytest.raises(ValueError, match="average"):
        replace(config, average=1.5)
    assert "average" not in config.to_dict()


def test_every_setting_tells_runs_apart() -> None:
    others = [{"labels": 0.5}, {"labels": 0.6}, {"members": 2}, {"normalise": "binary"}, {"stop_on": "epochs"}, {}]
    keys = {Run(replace(quick(), **other), "csbm", "per-class", 0, 0).key() for other in others}
    assert len(keys) == len(others)


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)
    place = tmp_path / "state.safetensors"

    def stop(progress: Progress) -> None:
        if progress.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(quick("mlp"), DATA, SPLIT, 0, report=stop, checkpoint=place)
    other = make_split(DATA, "per-class", 1)
    for config, split, seed in (
        (quick("mlp"), SPLIT, 1),
        (replace(quick("mlp"), lr={"linear": 0.5}), SPLIT, 0),
        (quick("gcn"), SPLIT, 0),
        (quick("mlp"), other, 0),
    ):
        with pytest.raises(ValueError, match="another training"):
            fit(config, DATA, split, seed, checkpoint=place)
    fit(quick("mlp"), DATA, SPLIT, 0, checkpoint=place)


def test_a_given_number_of_epochs_ends_with_the_last() -> None:
    seen: list[Progress] = []
    config = Config("optbasisgnn", hidden=8, epochs=40, patience=2, stop_on="epochs")
    trained = fit(config, DATA, SPLIT, 0, report=seen.append)
    assert trained.epochs == len(seen) == 40
    assert trained.val_score == seen[-1].val_score < max(progress.val_score for progress in seen)
    with torch.no_grad():
        logits = trained.model(DATA.x, DATA.graph)[SPLIT.val]
    assert score("accuracy", logits, DATA.y[SPLIT.val]) == trained.val_score


@pytest.mark.parametrize("stop_on", ["loss", "epochs"])
def test_a_training_that_diverges_at_once_has_no_result(stop_on: StopOn) -> None:
    with pytest.raises(OverflowError, match="diverged in epoch 1: lower the learning rate"):
        fit(Config("mlp", epochs=4, lr={"linear": 1e38}, stop_on=stop_on), DATA, SPLIT, 0)


def test_one_that_diverges_later_has_a_result_where_an_earlier_epoch_may_count(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs, epoch = [], GraphTask.epoch

    def spoilt(task: GraphTask, model: Model, optimizer: torch.optim.Optimizer) -> float:
        loss = epoch(task, model, optimizer)
        epochs.append(loss)
        if len(epochs) == 6:
            with torch.no_grad():
                next(model.parameters()).fill_(float("nan"))
        return loss

    monkeypatch.setattr(GraphTask, "epoch", spoilt)
    assert fit(replace(quick("mlp"), stop_on="loss"), DATA, SPLIT, 0).model.state_dict()
    epochs.clear()
    with pytest.raises(OverflowError, match="mlp on csbm diverged in epoch 6: lower the learning rate"):
        fit(replace(quick("mlp"), stop_on="epochs"), DATA, SPLIT, 0)


def test_a_search_stops_early(tmp_path: Path) -> None:
    start = replace(quick("mlp"), stop_on="epochs")
    with pytest.raises(ValueError, match="a search stops trials early"):
        tune("mlp", DATA, Search("per-class", 1, tmp_path / "study.log", start=start))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_diverges_does_not_hold_up_the_others(tmp_path: Path, jobs: int) -> None:
    wild = Config("mlp", epochs=4, lr={"linear": 1e38}, stop_on="loss")
    runs = [Run(config, "csbm", "per-class", i, i) for i, config in enumerate((wild, quick("mlp", 3), quick("mlp", 4)))]
    with pytest.raises(OverflowError, match=r"1 of 3 runs diverged .* mlp on csbm, split 0: .*lower the learning rate"):
        run_splits(runs, tmp_path / "results.jsonl", jobs=jobs)
    assert len(read_results(tmp_path / "results.jsonl")) == 2


def test_a_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "state.safetensors"
    place.write_bytes(b"something else")
    with pytest.raises(ValueError, match="not a checkpoint of polybasis"):
        fit(quick(), DATA, SPLIT, 0, checkpoint=place)


def test_a_checkpoint_of_other_weights_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "state.safetensors"
    models: dict[str, torch.nn.Module] = {"model": torch.nn.Linear(2, 3)}
    write_checkpoint(place, models, torch.optim.Adam(models["model"].parameters()), {}, {}, "a training")
    models["model"] = torch.nn.Linear(3, 3)
    with pytest.raises(ValueError, match="other weights"):
        read_checkpoint(place, models, torch.optim.Adam(models["model"].parameters()), "a training")


def test_no_training_nodes() -> None:
    empty = SPLIT._replace(train=SPLIT.train[:0])
    with pytest.raises(ValueError, match="has no training nodes"):
        fit(quick(), DATA, empty, 0)


def test_scores_are_sklearns() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the oracle of this test")
    logits, y = torch.randn(60, 2), torch.randint(0, 2, (60,))
    assert score("accuracy", logits, y) == pytest.approx(metrics.accuracy_score(y, logits.argmax(1)))
    assert score("roc-auc", logits, y) == pytest.approx(metrics.roc_auc_score(y, logits.softmax(1)[:, 1]))


# ---- runs and results ----------------------------------------------------------------------------------------------


def made_up_runs(count: int) -> list[Run]:
    return [Run(quick(epochs=3), "csbm", "per-class", i, i) for i in range(count)]


def test_results_are_appended_and_not_run_again(tmp_path: Path) -> None:
    place = tmp_path / "results.jsonl"
    first = run_splits(made_up_runs(2), place)
    assert len(read_results(place)) == 2
    said = []
    second = run_splits(made_up_runs(3), place, finished=said.append)
    assert second[:2] == first
    assert [result["split_seed"] for result in said] == [2]
    for field in ("model", "dataset", "settings", "split_seed", "model_seed", "config", "val_accuracy", "versions"):
        assert field in second[0]
    assert 0 <= second[0]["test_accuracy"] <= 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.jsonl"]


def test_two_processes_give_the_results_of_one(tmp_path: Path) -> None:
    one = run_splits(made_up_runs(2), tmp_path / "one.jsonl")
    two = run_splits(made_up_runs(2), tmp_path / "two.jsonl", jobs=2)
    for a, b in zip(one, two, strict=True):
        assert a["val_accuracy"] == pytest.approx(b["val_accuracy"], abs=0.02)
        assert b["threads"] == max(1, torch.get_num_threads() // 2)


def test_a_torn_line_is_skipped_and_closed(tmp_path: Path) -> None:
    place = tmp_path / "results.jsonl"
    append_line(place, json.dumps({"key": "a"}))
    with place.open("a") as file:
        file.write('{"key": "b", "val')
    assert [result["key"] for result in read_results(place)] == ["a"]
    append_line(place, json.dumps({"key": "c"}))
    assert [result["key"] for result in read_results(place)] == ["a", "c"]
    assert json.loads(place.read_text().splitlines()[-1]) == {"key": "c"}


def test_keys_tell_runs_apart() -> None:
    keys = {
        Run(config, dataset, "per-class", split, seed).key()
        for config in (quick(), quick(epochs=9), quick(K=3))
        for dataset in ("csbm", "cora")
        for split in (0, 1)
        for seed in (0, 1)
    }
    assert len(keys) == 24
    assert made_up_runs(1)[0].key() == made_up_runs(1)[0].key()


def test_summary_is_students() -> None:
    values = [1.0, 2.0, 4.0, 5.0]
    numbers = summary(values)
    assert numbers["mean"] == 3
    assert numbers["std"] == pytest.approx(np.std(values, ddof=1))
    assert numbers["ci95"] == pytest.approx(3.182446 * numbers["std"] / 2)
    assert summary([1.0])["ci95"] == 0
    assert read_results(Path("nowhere")) == []


# ---- tuning --------------------------------------------------------------------------------------------------------


def test_tuning_goes_on_from_its_study(tmp_path: Path) -> None:
    study = tmp_path / "study.log"
    start = Config("favardgnn", epochs=4, patience=4, average=0.5, arguments={"recurrence": "bounded"})
    known = stored_config("favardgnn", "chameleon")
    counts: list[int] = []

    def search(trials: int) -> tuple[Config, float]:
        what = Search("per-class", trials, study, splits=1, start=start, known=known)
        return tune("favardgnn", DATA, what, finished=lambda count, _: counts.append(count))

    search(2)
    best, value = search(3)
    assert counts == [1, 2, 3]
    assert best.settings == "tuned"
    assert set(best.lr) == {"linear", "coefficients", "recurrence"}
    assert 0.3 < value <= 1
    assert best.average == 0.5
    assert best.arguments["recurrence"] == "bounded"
    first = optuna.load_study(study_name=None, storage=JournalStorage(JournalFileBackend(str(study)))).trials[0]
    assert first.params["K"] == 20
    assert first.params["lr.recurrence"] == 0.02
    assert default_config("favardgnn").arguments == {}
