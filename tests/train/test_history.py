"""The course of a training run, as it is saved with a model."""

from __future__ import annotations

import polybasis as pb
from polybasis.train import Config
from polybasis.train.fitting import fit
from polybasis.train.history import ROWS, History


def test_a_long_history_is_thinned_but_keeps_the_kept_and_the_last_epoch() -> None:
    saved = History([(epoch, 1 / (epoch + 1), 0.5) for epoch in range(1234)], [777]).to_dict()
    epochs = [row[0] for row in saved["history"]]
    assert len(epochs) <= ROWS + 2
    assert {0, 777, 1233} <= set(epochs)
    assert epochs == sorted(set(epochs))
    assert saved["history"][epochs.index(777)] == (777, 1 / 778, 0.5)
    assert saved["kept_epochs"] == [777]


def test_a_history_without_epochs_is_empty() -> None:
    assert History().to_dict() == {"history": [], "kept_epochs": []}


def test_every_model_of_an_ensemble_has_its_kept_epoch() -> None:
    """The validation score of a kept epoch is the best of its model; ties go to the later epoch."""
    data = pb.data.csbm(nodes=150, features=10, seed=1)
    config = Config.of("optbasisgnn", K=2, epochs=15, ensemble_size=3)
    history = fit(config, data, data.split("stratified")).history
    scores = {epoch: score for epoch, _, score in history.rows}
    for number, kept in enumerate(history.to_dict()["kept_epochs"]):
        own = range(15 * number, 15 * (number + 1))
        assert kept == max(own, key=lambda epoch: (scores[epoch], epoch))
