"""Fitting: determinism, early stopping, moving averages, checkpoints, divergence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

import polybasis as pb
from polybasis.data.dataset import NodeDataset
from polybasis.nn.models import Model, OptBasisGNN
from polybasis.train import Config, Fit, fit
from polybasis.train.checkpoint import read_checkpoint, write_checkpoint
from polybasis.train.config_sections import EarlyStopping
from polybasis.train.fitting import Evaluation, FullBatch, OnEpoch, Progress, remove_checkpoints

DATA = pb.data.csbm(nodes=150, features=40, seed=2)
SPLIT = DATA.split("per-class", 0)


def quick(model: str = "optbasisgnn", epochs: int = 25, **values: object) -> Config:
    return Config.of(model, **{"hidden": 8, "epochs": epochs, "patience": epochs, **values})  # type: ignore[arg-type]


def assert_same_weights(one: Fit, other: Fit) -> None:
    assert one.model.state_dict().keys() == other.model.state_dict().keys()
    for name, value in one.model.state_dict().items():
        assert torch.equal(value, other.model.state_dict()[name]), name


class KilledError(Exception):
    pass


def kill_at(epoch: int) -> OnEpoch:
    def on_epoch(progress: Progress) -> None:
        if progress.epoch == epoch:
            raise KilledError

    return on_epoch


# ---- training ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ema_decay", [None, 0.9])
def test_reusing_logits_of_validation_changes_no_bit(ema_decay: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without dropout, the forward pass of validation is that of the next training step."""
    config = quick(K=4, dropout=0.0, dropout2=0.0, ema_decay=ema_decay)
    forward, calls = OptBasisGNN.forward, []
    monkeypatch.setattr(OptBasisGNN, "forward", lambda *given: calls.append(1) or forward(*given))
    shared = fit(config, DATA, SPLIT, seed=3)
    assert len(calls) == (26 if ema_decay is None else 50)  # one at the start, then one for each epoch
    monkeypatch.setattr(OptBasisGNN, "deterministic", False)
    assert_same_weights(shared, fit(config, DATA, SPLIT, seed=3))
    assert len(calls) == (76 if ema_decay is None else 100)


def test_learns_and_is_determined_by_the_seed() -> None:
    first, again, other = (fit(quick(), DATA, SPLIT, seed) for seed in (1, 1, 2))
    assert first.val_score > 0.6
    assert_same_weights(first, again)
    assert any(not torch.equal(v, other.model.state_dict()[k]) for k, v in first.model.state_dict().items())


def test_the_best_epoch_is_restored_and_patience_ends_training() -> None:
    """Ties go to the later epoch."""
    seen: list[Progress] = []
    fitted = fit(quick(epochs=200, patience=10), DATA, SPLIT, 0, on_epoch=seen.append)
    best = max(seen, key=lambda progress: (progress.val_score, progress.epoch))
    assert fitted.val_score == best.val_score == seen[-1].best_score
    assert fitted.epochs == len(seen) == best.epoch + 11
    with torch.no_grad():
        logits = fitted.model(DATA.x, DATA.graph)[SPLIT.val]
    assert DATA.score(logits, SPLIT.val) == fitted.val_score == fitted.score(SPLIT.val)
    assert not fitted.model.training


def test_early_stopping_on_the_loss_keeps_the_epoch_of_the_lowest_loss() -> None:
    config = quick(epochs=80, patience=80, early_stopping="loss", dropout=0.0, dropout2=0.0)
    losses: list[float] = []
    evaluate = FullBatch.evaluate

    def recorded(task: FullBatch, model: Model, nodes: torch.Tensor) -> Evaluation:
        evaluation = evaluate(task, model, nodes)
        losses.append(float(torch.nn.functional.cross_entropy(evaluation.logits, DATA.y[nodes])))
        return evaluation

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FullBatch, "evaluate", recorded)
        fitted = fit(config, DATA, SPLIT, 0)
    with torch.no_grad():
        logits = fitted.model(DATA.x, DATA.graph)[SPLIT.val]
    assert float(torch.nn.functional.cross_entropy(logits, DATA.y[SPLIT.val])) == min(losses)
    assert min(losses) < losses[-1]  # the last epoch was not the best one


def test_without_early_stopping_the_last_epoch_is_kept() -> None:
    seen: list[Progress] = []
    fitted = fit(quick(epochs=40, patience=2, early_stopping="none"), DATA, SPLIT, 0, on_epoch=seen.append)
    assert fitted.epochs == len(seen) == 40
    assert fitted.val_score == seen[-1].val_score < max(progress.val_score for progress in seen)
    with torch.no_grad():
        logits = fitted.model(DATA.x, DATA.graph)[SPLIT.val]
    assert DATA.score(logits, SPLIT.val) == fitted.val_score


@pytest.mark.parametrize(
    ("config", "parts"),
    [(quick(), ["test"]), (quick(early_stopping="none", patience=3), ["val", "test"])],
    ids=["early stopping", "no early stopping"],
)
def test_training_does_not_depend_on_classes_it_must_not_use(config: Config, parts: list[str]) -> None:
    y = DATA.y.clone()
    for part in parts:
        y[getattr(SPLIT, part)] = 1 - y[getattr(SPLIT, part)]
    assert_same_weights(fit(config, DATA, SPLIT, 0), fit(config, replace(DATA, y=y), SPLIT, 0))


def test_the_moving_average_of_the_weights_is_kept() -> None:
    """After two epochs, of which the second is better, the average with decay a is a w_1 + (1 - a) w_2."""
    config = quick(epochs=1, dropout=0.0, dropout2=0.0, early_stopping="loss")
    first = fit(config, DATA, SPLIT, 5).model.state_dict()
    second = fit(config.replace(epochs=2), DATA, SPLIT, 5).model.state_dict()
    average = fit(config.replace(epochs=2, ema_decay=0.75), DATA, SPLIT, 5).model.state_dict()
    assert any(not torch.equal(value, second[name]) for name, value in first.items())
    for name, value in average.items():
        torch.testing.assert_close(value, 0.75 * first[name] + 0.25 * second[name])


@pytest.mark.parametrize("transform", ["row-normalize", "binarize"])
def test_features_are_transformed_once(transform: str) -> None:
    """Training with a transform equals training on features that were transformed by hand."""
    x = (DATA.x * (DATA.x > 0)).float() * 10
    by_hand = x / x.sum(1, keepdim=True).clamp(min=1) if transform == "row-normalize" else (x != 0).float()
    one = fit(quick(feature_transform=transform), replace(DATA, x=x), SPLIT, 0)
    assert_same_weights(one, fit(quick(), replace(DATA, x=by_hand), SPLIT, 0))
    untransformed = fit(quick(), replace(DATA, x=x), SPLIT, 0)
    assert not torch.equal(one.model.state_dict()["first.weight"], untransformed.model.state_dict()["first.weight"])


def test_a_graph_is_not_trained_on_in_batches() -> None:
    config = Config.of("optbasisgnn", precomputed=True, batch_size=10, K=2, hidden=4)
    with pytest.raises(
        ValueError, match="batch_size applies to stores; training on a graph in memory uses full batches"
    ):
        fit(config, DATA, SPLIT)


@pytest.mark.parametrize("part", ["train", "val"])
def test_a_split_without_training_or_validation_nodes_is_refused(part: str) -> None:
    name = {"train": "training", "val": "validation"}[part]
    with pytest.raises(ValueError, match=f"csbm has no {name} nodes in this split"):
        fit(quick(), DATA, SPLIT._replace(**{part: SPLIT.train[:0]}), 0)


def test_no_score_without_nodes() -> None:
    fitted = fit(quick(epochs=2), DATA, SPLIT, 0)
    assert fitted.score(SPLIT.test[:0]) is None
    assert 0 <= fitted.score(SPLIT.test) <= 1  # type: ignore[operator]


def test_scores_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the oracle of this test")
    logits, y = torch.randn(60, 2), torch.randint(0, 2, (60,))
    graph = pb.Graph.from_edge_index(torch.tensor([[0], [1]]), 60)
    nodes = torch.arange(60)
    accuracy, auc = (
        NodeDataset(name="random", graph=graph, x=logits, y=y, metric=metric).score(logits, nodes)
        for metric in ("accuracy", "roc_auc")
    )
    assert accuracy == pytest.approx(metrics.accuracy_score(y, logits.argmax(1)))
    assert auc == pytest.approx(metrics.roc_auc_score(y, logits.softmax(1)[:, 1]))


# ---- divergence ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("early_stopping", ["score", "loss", "none"])
def test_training_that_diverges_at_once_raises(early_stopping: EarlyStopping, tmp_path: Path) -> None:
    config = quick("mlp", 4, lr=1e38, early_stopping=early_stopping)
    with pytest.raises(OverflowError, match="mlp on csbm diverged in epoch 1; lower the learning rate"):
        fit(config, DATA, SPLIT, 0, checkpoint=tmp_path / "state.safetensors")
    assert not list(tmp_path.iterdir())


def test_training_that_diverges_later_raises_only_if_the_last_epoch_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs: list[float] = []
    epoch = FullBatch.epoch

    def spoiled(task: FullBatch, model: Model, optimizer: torch.optim.Optimizer) -> float:
        loss = epoch(task, model, optimizer)
        epochs.append(loss)
        if len(epochs) == 6:
            with torch.no_grad():
                next(model.parameters()).fill_(float("nan"))
        return loss

    monkeypatch.setattr(FullBatch, "epoch", spoiled)
    fitted = fit(quick("mlp", early_stopping="loss"), DATA, SPLIT, 0)
    assert all(torch.isfinite(value).all() for value in fitted.model.state_dict().values())
    epochs.clear()
    with pytest.raises(OverflowError, match="mlp on csbm diverged in epoch 6; lower the learning rate"):
        fit(quick("mlp", early_stopping="none"), DATA, SPLIT, 0)


# ---- checkpoints ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        quick("optbasisgnn"),
        quick("optbasisgnn", dropout=0.0, dropout2=0.0),
        quick("favardgnn"),
        quick("gpr-gnn"),
        quick("optbasisgnn", ema_decay=0.9),
        quick("favardgnn", label_reuse=0.5, ema_decay=0.9),
        quick("favardgnn", ema_decay=0.9, early_stopping="none", patience=2),
        quick("favardgnn", precomputed=True, K=4, ema_decay=0.9),
        quick("optbasisgnn", feature_transform="binarize"),
    ],
)
def test_resumed_training_ends_with_the_same_bits(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)
    place = tmp_path / "state.safetensors"
    with pytest.raises(KilledError):
        fit(config, DATA, SPLIT, 3, on_epoch=kill_at(12), checkpoint=place)
    assert place.exists()
    seen: list[int] = []
    torch.manual_seed(99)  # the random state comes from the checkpoint
    resumed = fit(config, DATA, SPLIT, 3, on_epoch=lambda progress: seen.append(progress.epoch), checkpoint=place)
    whole = fit(config, DATA, SPLIT, 3)
    remove_checkpoints(place)
    assert not list(tmp_path.iterdir())
    assert min(seen) == 12  # earlier epochs are not repeated
    assert (resumed.epochs, resumed.val_score) == (whole.epochs, whole.val_score)
    assert resumed.history == whole.history
    assert [row[0] for row in whole.history.rows] == [*range(whole.epochs)]
    assert_same_weights(resumed, whole)


def test_a_checkpoint_of_an_earlier_version_has_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history of the resumed run begins after it."""

    def as_before(path: Path, models: Any, optimizer: Any, best: Any, progress: dict[str, Any]) -> None:
        without = {name: value for name, value in progress.items() if name != "history"}
        write_checkpoint(path, models, optimizer, best, without)

    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)
    place = tmp_path / "state.safetensors"
    monkeypatch.setattr("polybasis.train.fitting.write_checkpoint", as_before)
    with pytest.raises(KilledError):
        fit(quick("mlp"), DATA, SPLIT, 3, on_epoch=kill_at(12), checkpoint=place)
    resumed, whole = (fit(quick("mlp"), DATA, SPLIT, 3, checkpoint=file) for file in (place, None))
    assert resumed.history.rows == whole.history.rows[12:]
    assert resumed.history.kept_epochs == whole.history.kept_epochs


def test_a_checkpoint_written_at_the_last_epoch_is_not_trained_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill after the last epoch, before the result is written."""
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)
    place = tmp_path / "state.safetensors"
    whole = fit(quick(), DATA, SPLIT, 3, checkpoint=place)
    seen: list[Progress] = []
    resumed = fit(quick(), DATA, SPLIT, 3, on_epoch=seen.append, checkpoint=place)
    assert not seen
    assert resumed.epochs == whole.epochs
    assert_same_weights(resumed, whole)


def test_a_checkpoint_holds_no_pickled_objects_and_names_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)
    place = tmp_path / "0123456789abcdef.safetensors"
    with pytest.raises(KilledError):
        fit(quick("mlp"), DATA, SPLIT, 0, on_epoch=kill_at(3), checkpoint=place)
    with safe_open(place, framework="pt") as file:
        assert file.metadata()["job"] == "0123456789abcdef"
        progress = json.loads(file.metadata()["progress"])
        assert progress["epoch"] == 2
        assert {"model", "best", "optimizer", "random"} == {name.split(".")[0] for name in file.keys()}  # noqa: SIM118


def test_a_checkpoint_of_another_job_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint carries the name of its job: renaming the file does not make it another job's."""
    monkeypatch.setattr("polybasis.train.fitting.CHECKPOINT_SECONDS", 0.0)
    place, other = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    with pytest.raises(KilledError):
        fit(quick("mlp"), DATA, SPLIT, 0, on_epoch=kill_at(3), checkpoint=place)
    content = place.read_bytes()
    place.rename(other)
    with pytest.raises(ValueError, match=r"two.safetensors is not a checkpoint of this job \(it belongs to job one\)"):
        fit(quick("mlp"), DATA, SPLIT, 0, checkpoint=other)
    assert other.read_bytes() == content  # what cannot be used is left alone
    other.rename(place)
    fit(quick("mlp"), DATA, SPLIT, 0, checkpoint=place)


@pytest.mark.parametrize("content", [b"something else", b"", b"\x10\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_file_that_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    place = tmp_path / "state.safetensors"
    place.write_bytes(content)
    with pytest.raises(ValueError, match=r"state.safetensors is not a checkpoint of this job .*; remove it to start"):
        fit(quick(), DATA, SPLIT, 0, checkpoint=place)


def test_a_checkpoint_of_other_weights_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "state.safetensors"
    models: dict[str, torch.nn.Module] = {"model": torch.nn.Linear(2, 3)}
    write_checkpoint(place, models, torch.optim.Adam(models["model"].parameters()), {}, {})
    models["model"] = torch.nn.Linear(3, 3)
    with pytest.raises(
        ValueError, match=r"state.safetensors is not a checkpoint of this job \(.*size mismatch"
    ) as raised:
        read_checkpoint(place, models, torch.optim.Adam(models["model"].parameters()))
    assert "\n" not in str(raised.value)
