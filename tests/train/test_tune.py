"""Tuning: a study that is resumed, a search space that contains published values, validation data only."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage

import polybasis as pb
from polybasis.features import Features, transform_features
from polybasis.nn.models.names import MODEL_CLASSES as MODELS
from polybasis.nn.models.names import PRECOMPUTED
from polybasis.train import Config, load_preset
from polybasis.train.study_file import study_backend
from polybasis.train.tune import ARGUMENTS, DROPOUTS, LEARNING_RATES, Search, suggest, tune

DATA = pb.data.csbm(nodes=150, features=40, seed=2)


def quick(model: str = "mlp", **values: object) -> Config:
    return Config.of(model, **{"hidden": 8, "epochs": 4, "patience": 4, **values})  # type: ignore[arg-type]


def trials_of(study: Path) -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(study_name=None, storage=JournalStorage(study_backend(study))).trials


def test_a_search_resumes_from_its_study(tmp_path: Path) -> None:
    """The known configuration is tried first; values that are not searched are kept."""
    study = tmp_path / "folder" / "study.log"
    start = quick("favardgnn", ema_decay=0.5, recurrence="bounded")
    known = load_preset("favardgnn", "chameleon")
    counts: list[int] = []

    def search(trials: int) -> tuple[Config, float]:
        what = Search(start, "per-class", trials, study, splits=1, known=known)
        return tune(DATA, what, on_trial=lambda count, _: counts.append(count))

    search(2)
    best, value = search(3)
    assert counts == [1, 2, 3]
    assert best.preset == "tuned"
    assert set(best.optimizer.lr) == {"linear", "coefficients", "recurrence"}
    assert 0.3 < value <= 1
    assert best.optimizer.ema_decay == 0.5
    assert best.model.arguments["recurrence"] == "bounded"
    assert (best.model.hidden, best.stopping.epochs) == (8, 4)
    trials = trials_of(study)
    assert trials[0].params["K"] == 20
    assert trials[0].params["lr.recurrence"] == 0.02
    assert trials[1].params != trials[2].params  # the resumed sampler does not repeat itself
    assert Config.of("favardgnn").model.arguments == {}


def test_an_interrupted_search_ends_as_without_the_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupted trial is repeated, the known configuration included."""
    known = load_preset("favardgnn", "chameleon")

    def search(study: str) -> tuple[Config, float]:
        return tune(DATA, Search(quick("favardgnn"), "per-class", 4, tmp_path / study, splits=1, known=known))

    expected, original, calls = search("whole"), pb.train.fitting.fit, 0

    def interrupted(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls in (1, 4):
            raise KeyboardInterrupt
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("polybasis.train.tune.fit", interrupted)
    for finished in (0, 2):
        with pytest.raises(KeyboardInterrupt) as caught:
            search("interrupted")
        line = (
            f"{finished} of 4 trials are finished and saved in {tmp_path / 'interrupted'}; run the same command again"
        )
        assert caught.value.__notes__ == [f"{line} to resume"]
    assert search("interrupted") == expected
    ended = [
        [trial.params for trial in trials_of(tmp_path / study) if trial.state.is_finished()]
        for study in ("whole", "interrupted")
    ]
    assert ended[0] == ended[1]


def test_the_best_trial_is_returned_and_can_be_reproduced(tmp_path: Path) -> None:
    """Its score is the mean validation score over the splits, with the split's number as seed."""
    best, value = tune(DATA, Search(quick(), "per-class", 3, tmp_path / "study.log", splits=2))
    scores = [pb.train.fit(best, DATA, DATA.split("per-class", i), i).val_score for i in range(2)]
    assert value == pytest.approx(sum(scores) / 2)
    assert value == max(trial.value for trial in trials_of(tmp_path / "study.log") if trial.value is not None)


def test_test_nodes_are_not_used(tmp_path: Path) -> None:
    altered = DATA.y.clone()
    test = DATA.split("per-class", 0).test
    altered[test] = 1 - altered[test]
    split = DATA.split("per-class", 0)

    class Fixed(pb.data.NodeDataset):
        def split(self, protocol: str | None = None, seed: int = 0) -> pb.data.dataset.Split:
            return split

    found = []
    for name, y in (("one", DATA.y), ("two", altered)):
        data = Fixed(name="csbm", graph=DATA.graph, x=DATA.x, y=y)
        found.append(tune(data, Search(quick(), "per-class", 2, tmp_path / name, splits=1)))
    assert found[0] == found[1]


def test_the_feature_transform_is_applied_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str | None] = []

    def recorded(x: Features, transform: str | None) -> Features:
        calls.append(transform)
        return transform_features(x, transform)  # type: ignore[arg-type]

    monkeypatch.setattr("polybasis.train.fitting.transform_features", recorded)
    raw = replace(DATA, x=DATA.x * (DATA.x > 0) * 7)
    by_hand = replace(DATA, x=(raw.x != 0).float())
    with_transform = Search(quick(feature_transform="binarize"), "per-class", 2, tmp_path / "a", splits=1)
    best, value = tune(raw, with_transform)
    assert calls == ["binarize"] * 2
    assert best.feature_transform == "binarize"
    expected, same = tune(by_hand, Search(quick(), "per-class", 2, tmp_path / "b", splits=1))
    assert (best.replace(feature_transform=None), value) == (expected, same)


def test_searches_that_differ_do_not_share_trials(tmp_path: Path) -> None:
    """One file may hold several studies: one for each model, data set, protocol and fixed part."""
    study = tmp_path / "study.log"
    counts: list[int] = []
    for start in (quick(), quick(feature_transform="binarize"), quick(label_reuse=0.5), quick(epochs=5), quick("gcn")):
        tune(DATA, Search(start, "per-class", 1, study, splits=1), on_trial=lambda count, _: counts.append(count))
    assert counts == [1] * 5


def test_tuning_needs_early_stopping(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r'tuning needs early stopping; use early_stopping = "score" or "loss"'):
        tune(DATA, Search(quick(early_stopping="none"), "per-class", 1, tmp_path / "study.log"))


def test_a_search_in_which_every_trial_diverges_has_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polybasis.train.tune.LEARNING_RATES", [1e38])
    with pytest.raises(ValueError, match="none of 2 trials finished; allow more trials"):
        tune(DATA, Search(quick(early_stopping="loss"), "per-class", 2, tmp_path / "study.log", splits=1))


def test_without_optuna_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # import raises ImportError
    with pytest.raises(ImportError, match=r"tuning needs Optuna; install it with: pip install 'polybasis\[tune\]'"):
        tune(DATA, Search(quick(), "per-class", 1, tmp_path / "study.log"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "start",
    [*map(Config.of, MODELS), *(Config.of(model, precomputed=True) for model in PRECOMPUTED)],
    ids=lambda start: start.model.name,
)
def test_every_model_has_a_search_space_of_valid_configurations(start: Config) -> None:
    """Every argument of the space belongs to the model, and a rate is searched for each role."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(3):
        trial = study.ask()
        config = suggest(trial, start.replace(hidden=4))
        network = config.make_model(5, 3, 7)
        assert set(config.optimizer.lr) == set(config.optimizer.weight_decay) == set(network.parameter_groups())
        assert config.preset == "tuned"
        assert config.model.precomputed == start.model.precomputed
        for name, value in config.model.arguments.items():
            assert value in (DROPOUTS if "dropout" in name else ARGUMENTS[name])
        assert set(config.optimizer.lr.values()) <= set(LEARNING_RATES)
