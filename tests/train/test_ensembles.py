"""Members of an ensemble: trained alone, one after another, through kills."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import optuna
import pytest
import torch
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

import polybasis as pb
from polybasis.data.splits import make_split
from polybasis.nn.interpret import filters_of
from polybasis.nn.models.ensemble import Ensemble
from polybasis.train.config import Config
from polybasis.train.fitting import Progress, Report, fit_task
from polybasis.train.graph_training import SEED_STEP, GraphTask, fit
from polybasis.train.tune import Search, tune

DATA = pb.data.csbm(nodes=150, features=40, seed=2)
SPLIT = make_split(DATA, "per-class", 0)
EPOCHS = 25
ALONE = Config("favardgnn", hidden=8, epochs=EPOCHS, patience=4)
TOGETHER = replace(ALONE, members=3)


class KilledError(Exception):
    pass


def kill_at(epoch: int) -> Report:
    def report(progress: Progress) -> None:
        if progress.epoch >= epoch:
            raise KilledError

    return report


@pytest.mark.parametrize("changes", [{}, {"labels": 0.5}, {"average": 0.5}])
def test_members_learn_alone_and_classify_together(changes: dict[str, float]) -> None:
    alone = [fit(replace(ALONE, **changes), DATA, SPLIT, 8 + SEED_STEP * i) for i in range(3)]  # type: ignore[arg-type]
    fitted = fit(replace(TOGETHER, **changes), DATA, SPLIT, 8)  # type: ignore[arg-type]
    assert isinstance(fitted.model, Ensemble)
    assert fitted.epochs == sum(each.epochs for each in alone)
    for number, each in enumerate(alone):
        for name, value in each.model.state_dict().items():
            assert torch.equal(fitted.model.state_dict()[f"members.{number}.{name}"], value)
    with torch.no_grad():
        scores = torch.stack([each.model(DATA.x, DATA.graph) for each in alone])
        mean = scores.softmax(dim=2).mean(dim=0)
        torch.testing.assert_close(fitted.model(DATA.x, DATA.graph).exp(), mean)
    assert not torch.allclose(scores[0], scores[1])
    right = mean.argmax(dim=1)[SPLIT.val] == DATA.y[SPLIT.val]
    assert fitted.val_score == pytest.approx(float(right.float().mean()))
    with pytest.raises(ValueError, match="3 members"):
        filters_of(fitted.model, DATA.x, DATA.graph)


def test_progress_goes_on_from_member_to_member() -> None:
    seen: list[Progress] = []
    fit(TOGETHER, DATA, SPLIT, 0, report=seen.append)
    epochs = [progress.epoch for progress in seen]
    assert epochs == sorted(set(epochs))
    assert {epoch // EPOCHS for epoch in epochs} == {0, 1, 2}
    assert len(epochs) < 3 * EPOCHS  # they stop early
    for progress in seen:
        assert progress.epochs == 3 * EPOCHS
        assert progress.epoch - EPOCHS < progress.best_epoch <= progress.epoch
        assert progress.best_epoch // EPOCHS == progress.epoch // EPOCHS


@pytest.mark.parametrize("seconds", [0.0, 20.0])  # after every epoch, or at a member's end only
def test_an_interrupted_training_ends_at_the_same_weights(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", seconds)
    place = tmp_path / "state.safetensors"
    for epoch in (3, EPOCHS, 2 * EPOCHS + 2):
        with pytest.raises(KilledError):
            fit(TOGETHER, DATA, SPLIT, 3, report=kill_at(epoch), checkpoint=place)
    seen: list[int] = []
    resumed = fit(TOGETHER, DATA, SPLIT, 3, report=lambda progress: seen.append(progress.epoch), checkpoint=place)
    assert min(seen) == (2 * EPOCHS if seconds else 2 * EPOCHS + 2)  # what was kept is not done again
    whole = fit(TOGETHER, DATA, SPLIT, 3)
    assert not list(tmp_path.iterdir())
    assert (resumed.epochs, resumed.val_score) == (whole.epochs, whole.val_score)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name])


def test_checkpoints_of_other_trainings_are_refused_at_once(tmp_path: Path) -> None:
    place = tmp_path / "state.safetensors"
    with pytest.raises(KilledError):
        fit(TOGETHER, DATA, SPLIT, 0, report=kill_at(2 * EPOCHS), checkpoint=place)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    for config in (ALONE, replace(TOGETHER, lr={"linear": 0.5}), replace(ALONE, labels=0.5)):
        with pytest.raises(ValueError, match="another training") as error:
            fit(config, DATA, SPLIT, 0, report=kill_at(0), checkpoint=place)
        assert all(str(file) in str(error.value) for file in files)
    with pytest.raises(KilledError):  # one member more or less: the same models so far
        fit(replace(TOGETHER, members=4), DATA, SPLIT, 0, report=kill_at(2 * EPOCHS), checkpoint=place)
    (tmp_path / "state.safetensors.7").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"state.safetensors.7 is not a checkpoint of polybasis"):
        fit(TOGETHER, DATA, SPLIT, 0, checkpoint=place)


def test_another_process_may_have_ended_first(tmp_path: Path) -> None:
    place = tmp_path / "state.safetensors"

    def clear(progress: Progress) -> None:
        for file in tmp_path.iterdir():
            file.unlink()

    fit(TOGETHER, DATA, SPLIT, 0, report=clear, checkpoint=place)
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_of_a_training_that_diverges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverging(config: Config, task: GraphTask, seed: int, **given: object) -> object:
        if seed >= 2 * SEED_STEP:
            raise OverflowError
        return fit_task(config, task, seed, **given)  # type: ignore[arg-type]

    monkeypatch.setattr("polybasis.train.graph_training.fit_task", diverging)
    with pytest.raises(OverflowError):
        fit(TOGETHER, DATA, SPLIT, 0, checkpoint=tmp_path / "state.safetensors")
    assert not list(tmp_path.iterdir())


def test_the_fit_loop_trains_one_model() -> None:
    with pytest.raises(ValueError, match="one by one"):
        fit_task(TOGETHER, GraphTask(DATA, SPLIT), 0)


def test_tuning_with_members(tmp_path: Path) -> None:
    study = tmp_path / "study.log"
    start = replace(TOGETHER, epochs=6, patience=6, members=2)
    best, _ = tune("favardgnn", DATA, Search("per-class", 1, study, splits=2, start=start))
    assert best.members == 2
    trial = optuna.load_study(study_name=None, storage=JournalStorage(JournalFileBackend(str(study)))).trials[0]
    assert sorted(trial.intermediate_values) == list(range(24))
