"""Ensembles: models are trained one after another, each as it would be alone, also through interruptions."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest
import torch
from optuna.storages import JournalStorage

import polybasis as pb
from polybasis.features import transform_features
from polybasis.nn.interpret import filters_of
from polybasis.nn.models.ensemble import Ensemble
from polybasis.train import Config, Fit, fit
from polybasis.train.fitting import SEED_STEP, OnEpoch, Progress, _fit_single, remove_checkpoints
from polybasis.train.study_file import study_backend
from polybasis.train.tune import Search, tune

DATA = pb.data.csbm(nodes=150, features=40, seed=2)
SPLIT = DATA.split("per-class", 0)
EPOCHS = 25
SINGLE = Config.of("favardgnn", hidden=8, epochs=EPOCHS, patience=4)
ENSEMBLE = SINGLE.replace(ensemble_size=3)


class KilledError(Exception):
    pass


def kill_at(epoch: int) -> OnEpoch:
    def on_epoch(progress: Progress) -> None:
        if progress.epoch >= epoch:
            raise KilledError

    return on_epoch


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"label_reuse": 0.5},
        {"ema_decay": 0.5},
        {"feature_transform": "binarize"},
        {"precomputed": True, "K": 4},
    ],
    ids=str,
)
def test_models_are_trained_alone_and_their_mean_probability_is_the_prediction(changes: dict[str, object]) -> None:
    single = SINGLE.replace(**changes)
    alone = [fit(single, DATA, SPLIT, 8 + SEED_STEP * i) for i in range(3)]
    fitted = fit(single.replace(ensemble_size=3), DATA, SPLIT, 8)
    assert isinstance(fitted.model, Ensemble)
    assert fitted.epochs == sum(each.epochs for each in alone)
    for number, each in enumerate(alone):
        for name, value in each.model.state_dict().items():
            assert torch.equal(fitted.model.state_dict()[f"models.{number}.{name}"], value), name
    x = transform_features(DATA.x, single.feature_transform)
    with torch.no_grad():
        scores = torch.stack([each.model(x, DATA.graph) for each in alone])
        mean = scores.softmax(dim=2).mean(dim=0)
        torch.testing.assert_close(fitted.model(x, DATA.graph).exp(), mean)
    assert not torch.allclose(scores[0], scores[1])
    correct = mean.argmax(dim=1)[SPLIT.val] == DATA.y[SPLIT.val]
    assert fitted.val_score == pytest.approx(float(correct.float().mean()))


def test_filters_of_an_ensemble_are_refused() -> None:
    model = ENSEMBLE.make_model(40, 2, 150)
    with pytest.raises(ValueError, match="expected a single model"):
        filters_of(model, DATA.x, DATA.graph)


def test_epochs_are_counted_through_all_models() -> None:
    seen: list[Progress] = []
    fit(ENSEMBLE, DATA, SPLIT, 0, on_epoch=seen.append)
    epochs = [progress.epoch for progress in seen]
    assert epochs == sorted(set(epochs))
    assert {epoch // EPOCHS for epoch in epochs} == {0, 1, 2}
    assert len(epochs) < 3 * EPOCHS  # they stop early
    for progress in seen:
        assert progress.epochs == 3 * EPOCHS
        assert progress.epoch - EPOCHS < progress.best_epoch <= progress.epoch
        assert progress.best_epoch // EPOCHS == progress.epoch // EPOCHS


@pytest.mark.parametrize("ema_decay", [None, 0.9])
@pytest.mark.parametrize("seconds", [0.0, 20.0], ids=["every epoch", "finished models only"])
def test_resumed_training_ends_with_the_same_bits(
    seconds: float, ema_decay: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", seconds)
    config = ENSEMBLE.replace(ema_decay=ema_decay)
    place = tmp_path / "state.safetensors"
    for epoch in (3, EPOCHS, 2 * EPOCHS + 2):
        with pytest.raises(KilledError):
            fit(config, DATA, SPLIT, 3, on_epoch=kill_at(epoch), checkpoint=place)
    seen: list[int] = []
    resumed = fit(config, DATA, SPLIT, 3, on_epoch=lambda progress: seen.append(progress.epoch), checkpoint=place)
    assert min(seen) == (2 * EPOCHS if seconds else 2 * EPOCHS + 2)  # finished models and epochs are not repeated
    whole = fit(config, DATA, SPLIT, 3)
    remove_checkpoints(place)
    assert not list(tmp_path.iterdir())
    assert (resumed.epochs, resumed.val_score, resumed.history) == (whole.epochs, whole.val_score, whole.history)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name


def test_each_model_has_a_checkpoint_named_after_the_job(tmp_path: Path) -> None:
    place = tmp_path / "state.safetensors"
    with pytest.raises(KilledError):
        fit(ENSEMBLE, DATA, SPLIT, 0, on_epoch=kill_at(2 * EPOCHS), checkpoint=place)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state-0.safetensors", "state-1.safetensors"]


def test_a_damaged_or_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "state.safetensors"
    with pytest.raises(KilledError):
        fit(ENSEMBLE, DATA, SPLIT, 0, on_epoch=kill_at(2 * EPOCHS), checkpoint=place)
    first, second = tmp_path / "state-0.safetensors", tmp_path / "state-1.safetensors"
    second.unlink()
    first.rename(second)  # another model of the same ensemble
    with pytest.raises(
        ValueError, match=r"state-1.safetensors is not a checkpoint of this job .*belongs to job state-0"
    ):
        fit(ENSEMBLE, DATA, SPLIT, 0, checkpoint=place)
    second.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"state-1.safetensors is not a checkpoint of this job"):
        fit(ENSEMBLE, DATA, SPLIT, 0, checkpoint=place)


def test_checkpoints_that_another_process_removed_are_not_needed(tmp_path: Path) -> None:
    """Two processes may run the same job; the first to finish removes the checkpoints."""
    place = tmp_path / "state.safetensors"

    def clear(progress: Progress) -> None:
        for file in tmp_path.iterdir():
            file.unlink()

    cleared = fit(ENSEMBLE, DATA, SPLIT, 0, on_epoch=clear, checkpoint=place)
    assert cleared.val_score == fit(ENSEMBLE, DATA, SPLIT, 0).val_score


def test_an_ensemble_that_diverges_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverging(config: Config, task: object, seed: int, *given: object, **named: object) -> Fit:
        if seed >= 2 * SEED_STEP:
            assert len(list(tmp_path.iterdir())) == 2
            raise OverflowError
        return _fit_single(config, task, seed, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("polybasis.train.fitting._fit_single", diverging)
    with pytest.raises(OverflowError):
        fit(ENSEMBLE, DATA, SPLIT, 0, checkpoint=tmp_path / "state.safetensors")
    assert not list(tmp_path.iterdir())


def test_tuning_an_ensemble_prunes_on_all_its_epochs(tmp_path: Path) -> None:
    study = tmp_path / "study.log"
    start = ENSEMBLE.replace(epochs=6, patience=6, ensemble_size=2)
    best, _ = tune(DATA, Search(start, "per-class", 1, study, splits=2))
    assert best.ensemble_size == 2
    trial = optuna.load_study(study_name=None, storage=JournalStorage(study_backend(study))).trials[0]
    assert sorted(trial.intermediate_values) == list(range(24))
