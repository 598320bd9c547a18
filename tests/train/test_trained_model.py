"""Saved models: round trips, predictions on any source of the same features, clear refusals, crash safety."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis import native
from polybasis.checksums import read_document, write_document
from polybasis.data.dataset import NodeDataset
from polybasis.nn.models.names import MODEL_CLASSES as MODELS
from polybasis.nn.models.names import PRECOMPUTED
from polybasis.store import BasisStore, open_store, write_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train import Config, Job, Source, TrainedModel, fit, run_job
from polybasis.train.job import adapt_config

DATA = pb.data.csbm(nodes=200, features=12, seed=1)
SPLIT = DATA.split()
K = 4
needs_kernels = pytest.mark.skipif(native.kernels() is None, reason="stores need the native kernels")


def quick(model: str = "optbasisgnn", **values: object) -> Config:
    return Config.of(model, **{"hidden": 8, "epochs": 4, **values})  # type: ignore[arg-type]


def trained(config: Config, data: NodeDataset = DATA) -> TrainedModel:
    return TrainedModel.of(config, fit(config, data, SPLIT, 0), {"seed": 0})


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph folder, and stores of its features as they are and row-normalized."""
    place = tmp_path_factory.mktemp("places")
    graph = write_graph_folder(place / "graph", DATA)
    precompute(graph, place / "store", K)
    precompute(graph, place / "normalized", K, feature_transform="row-normalize")
    return place


# ---- round trips ---------------------------------------------------------------------------------------------------

CONFIGS = {
    **{model: quick(model) for model in MODELS},
    **{f"{model} precomputed": quick(model, precomputed=True, K=K) for model in PRECOMPUTED},
    "ensemble": quick(ensemble_size=2),
    "label reuse": quick("favardgnn", label_reuse=0.5),
    "ensemble with label reuse": quick("favardgnn", ensemble_size=2, label_reuse=0.5),
    "ensemble precomputed": quick("favardgnn", precomputed=True, K=K, ensemble_size=2),
    "moving average": quick(ema_decay=0.9),
    "binarize": quick(feature_transform="binarize"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_saved_model_predicts_the_same_bits(name: str, tmp_path: Path) -> None:
    model = trained(CONFIGS[name])
    model.save(tmp_path / "model")
    loaded = TrainedModel.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(DATA), model.predict_proba(DATA))
    np.testing.assert_allclose(loaded.predict_proba(DATA).sum(1), 1, rtol=1e-5)
    for item in ("config", "classes", "num_features", "metric", "val_score", "epochs", "structure_only", "nodes"):
        assert getattr(loaded, item) == getattr(model, item), item
    assert loaded.provenance == model.provenance
    assert loaded.provenance["versions"].keys() == {"polybasis", "torch"}
    assert repr(loaded.model) == repr(model.model)
    loaded.save(tmp_path / "model")
    assert len(list((tmp_path / "model").iterdir())) == 2


def test_class_names_keep_their_type(tmp_path: Path) -> None:
    for classes in (("blue", "red"), (3, 7), (False, True)):
        trained(quick("mlp"), replace(DATA, classes=classes)).save(tmp_path)
        assert TrainedModel.load(tmp_path).classes == classes


# ---- feature transforms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"precomputed": True}, {"ensemble_size": 2}, {"label_reuse": 0.5}], ids=str)
def test_features_are_transformed_exactly_once_in_prediction(changes: dict[str, object], tmp_path: Path) -> None:
    """A model with a transform predicts what the same model without one predicts on features binarized by hand."""
    raw = replace(DATA, x=DATA.x * (DATA.x > 0.1) * 7)
    by_hand = replace(DATA, x=(raw.x != 0).float())
    one = trained(quick(K=K, feature_transform="binarize", **changes), raw)
    other = trained(quick(K=K, **changes), by_hand)
    assert np.array_equal(one.predict_proba(raw), other.predict_proba(by_hand))
    one.save(tmp_path)
    assert np.array_equal(TrainedModel.load(tmp_path).predict_proba(raw), other.predict_proba(by_hand))
    assert not np.allclose(other.predict_proba(raw), other.predict_proba(by_hand), atol=1e-3)


def test_the_score_of_training_is_that_of_the_saved_model(tmp_path: Path) -> None:
    raw = replace(DATA, x=DATA.x * 7)
    for transform in (None, "row-normalize", "binarize"):
        model = trained(quick(feature_transform=transform), raw)
        assert raw.score(model.logits(raw)[SPLIT.val], SPLIT.val) == model.val_score


# ---- a store, a graph folder and a graph in memory -----------------------------------------------------------------


@needs_kernels
@pytest.mark.parametrize("folder", ["store", "normalized"])
@pytest.mark.parametrize("model", PRECOMPUTED)
def test_a_model_trained_on_a_store_predicts_the_same_everywhere(
    model: str, folder: str, places: Path, tmp_path: Path
) -> None:
    source = Source.folder(places / folder)
    values = {"epochs": 60, "early_stopping": "none", "lr": 0.01, "dropout": 0.0, "batch_size": 64}
    config = adapt_config(quick(model, precomputed=True, **values), source)
    run_job(Job(config, source, "stratified", 0, 0), out=tmp_path)
    loaded = TrainedModel.load(tmp_path)
    on_store = loaded.predict_proba(open_store(places / folder))
    on_folder = loaded.predict_proba(Source.folder(places / "graph").open())
    np.testing.assert_allclose(on_folder, on_store, atol=1e-5)
    np.testing.assert_allclose(loaded.predict_proba(DATA), on_store, atol=1e-5)
    assert on_store.std(axis=0).max() > 0.01  # probabilities that differ between nodes


@needs_kernels
def test_a_model_trained_on_a_graph_predicts_the_same_on_a_store(places: Path) -> None:
    model = trained(quick("favardgnn", precomputed=True, K=K, epochs=15, lr=0.01))
    on_store = model.predict_proba(open_store(places / "store"))
    np.testing.assert_allclose(on_store, model.predict_proba(DATA), atol=1e-5)


@needs_kernels
def test_a_store_of_labelled_rows_has_the_predictions_of_these_nodes(tmp_path: Path) -> None:
    y = DATA.y.clone()
    y[::3] = -1
    data = replace(DATA, y=y)
    precompute(write_graph_folder(tmp_path / "graph", data), tmp_path / "store", K)
    store = open_store(tmp_path / "store")
    model = TrainedModel.of(config := quick("sign", precomputed=True, K=K), fit(config, data, data.split(), 0))
    np.testing.assert_allclose(model.predict_proba(store), model.predict_proba(data)[store.rows], atol=1e-5)


@needs_kernels
@pytest.mark.parametrize("model", PRECOMPUTED)
def test_predictions_agree_on_real_data(model: str, tolokers: tuple[NodeDataset, BasisStore], tmp_path: Path) -> None:
    data, store = tolokers
    source = Source.folder(store.path)
    config = adapt_config(quick(model, precomputed=True, hidden=32, lr=0.01), source)
    run_job(Job(config, source, source.protocol, 0, 0), out=tmp_path)
    loaded = TrainedModel.load(tmp_path)
    on_store = loaded.predict_proba(store)
    np.testing.assert_allclose(loaded.predict_proba(data), on_store, atol=1e-5)
    np.testing.assert_allclose(
        loaded.predict_proba(Source.folder(store.path.parent / "graph").open()), on_store, atol=1e-5
    )


@pytest.fixture(scope="module")
def tolokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[NodeDataset, BasisStore]:
    raw: Path = request.getfixturevalue("data_root") / "heterophilous" / "tolokers"
    if not raw.is_dir():
        pytest.skip("heterophilous/tolokers is not in the data folder")
    root = tmp_path_factory.mktemp("tolokers")
    shutil.copytree(raw, root / "heterophilous" / "tolokers")
    data = pb.data.load("tolokers", root)
    precompute(write_graph_folder(root / "graph", data), root / "store", 6)
    return data, open_store(root / "store")


@needs_kernels
@pytest.mark.parametrize("transform", ["row-normalize", "binarize"])
def test_a_transform_in_precompute_is_that_of_the_features(transform: str, tmp_path: Path) -> None:
    """The store of transformed features, whether precompute or the caller transforms them."""
    raw = replace(DATA, x=(DATA.x * (DATA.x > 0)).float() * 5)
    by_hand = raw.x / raw.x.sum(1, keepdim=True).clamp(min=1) if transform == "row-normalize" else (raw.x != 0).float()
    graph = write_graph_folder(tmp_path / "raw", raw)
    one = precompute(graph, tmp_path / "one", K, feature_transform=transform)  # type: ignore[arg-type]
    other = precompute(write_graph_folder(tmp_path / "by-hand", replace(raw, x=by_hand)), tmp_path / "other", K)
    assert one.feature_transform == transform
    np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-6)
    torch.testing.assert_close(one.gamma, other.gamma, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(one.sqrt_beta, other.sqrt_beta, rtol=1e-6, atol=1e-6)
    assert not np.allclose(precompute(graph, tmp_path / "raw-store", K).vectors, one.vectors, atol=1e-3)


# ---- refusals ------------------------------------------------------------------------------------------------------


def refused(model: TrainedModel, data: NodeDataset | BasisStore, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        model.predict_proba(data)
    assert "\n" not in str(raised.value)


def test_other_features_are_refused() -> None:
    narrow = replace(DATA, x=DATA.x[:, :5].contiguous())
    refused(trained(quick()), narrow, "the data has 5 features; the model was trained with 12")


@pytest.mark.parametrize(
    "config", [quick("link"), quick("linkx"), quick(label_reuse=0.5)], ids=["link", "linkx", "reuse"]
)
def test_transductive_models_serve_only_their_own_nodes(config: Config) -> None:
    model = trained(config)
    message = r"it can predict only for the nodes it was trained on, in the same order"
    refused(model, pb.data.csbm(nodes=90, features=12), message)
    names = np.array([str(i) for i in range(200)])
    assert np.array_equal(model.predict_proba(replace(DATA, nodes=names)), model.predict_proba(DATA))
    refused(model, replace(DATA, nodes=names[::-1].copy()), message)


def test_other_models_serve_other_graphs() -> None:
    assert trained(quick()).predict_proba(pb.data.csbm(nodes=90, features=12)).shape == (90, 2)


def test_models_on_structure_only_and_on_features_are_not_mixed_up() -> None:
    structure = replace(DATA, x=torch.eye(200), structure_only=True)
    on_structure, on_features = trained(quick(), structure), trained(quick())
    assert on_structure.predict_proba(structure).shape == (200, 2)
    refused(on_structure, DATA, "the model was trained on structure only: pass no features")
    refused(on_features, structure, "the model was trained with features: pass features")
    shifted = replace(structure, nodes=np.array([str(i + 1) for i in range(200)]))
    refused(on_structure, shifted, "it can predict only for the nodes it was trained on")


@needs_kernels
def test_stores_that_do_not_fit_are_refused(places: Path, tmp_path: Path) -> None:
    store, normalized = open_store(places / "store"), open_store(places / "normalized")
    refused(trained(quick()), store, "optbasisgnn was trained on a graph, not on a precomputed basis; use the graph")
    precomputed = quick(precomputed=True, K=K)
    refused(trained(precomputed), normalized, "trained with feature transform None; the store has row-normalize")
    binarized = trained(precomputed.replace(feature_transform="binarize"))
    refused(binarized, store, "trained with feature transform binarize; the store has None")
    refused(trained(quick(precomputed=True, K=6)), store, "the model has degree 6; the store has 4")
    refused(trained(quick(precomputed=True)), store, "the model has degree 10; the store has 4")  # the default degree
    lower = trained(quick(precomputed=True, K=2))
    np.testing.assert_allclose(lower.predict_proba(store), lower.predict_proba(DATA), atol=1e-5)
    narrow = write_graph_folder(tmp_path / "narrow", replace(DATA, x=DATA.x[:, :5].contiguous()))
    refused(trained(precomputed), precompute(narrow, tmp_path / "store", K), "the data has 5 features")


# ---- files ---------------------------------------------------------------------------------------------------------


def damaged(folder: Path, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        TrainedModel.load(folder)
    assert str(raised.value).startswith(f"{folder} does not contain a readable model: ")
    assert "\n" not in str(raised.value)


def test_damaged_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"model.json does not exist; .* is not a saved model"):
        TrainedModel.load(tmp_path)
    trained(quick("mlp")).save(tmp_path)
    place = tmp_path / "model.json"
    text = place.read_text()
    document = read_document(place)

    def write(**changes: object) -> None:
        write_document(place, document | changes)

    place.write_text(text[: len(text) // 2])
    damaged(tmp_path, "Expecting|Unterminated")
    place.write_text("[1]")
    damaged(tmp_path, "expected a JSON object")
    place.write_text(text.replace('"epochs": 4', '"epochs": 5'))
    damaged(tmp_path, r"model\.json: checksum mismatch")
    write(version=99)
    damaged(tmp_path, r"format 'polybasis model', version 99; expected 'polybasis model', version 2")
    write(format="something else")
    damaged(tmp_path, "format 'something else', version 2; expected 'polybasis model'")
    for key in ("config", "weights", "classes", "nodes"):
        write_document(place, {name: value for name, value in document.items() if name != key})
        damaged(tmp_path, key)
    write(config={"model": {"name": "gat"}})
    damaged(tmp_path, "unknown model 'gat'")
    write(weights="../weights.safetensors")
    damaged(tmp_path, "is not the name of a weights file")
    write(features=5)
    damaged(tmp_path, "size mismatch")
    write()
    TrainedModel.load(tmp_path)


def test_models_of_version_1_are_read_with_a_warning(tmp_path: Path) -> None:
    model = trained(quick("mlp"))
    model.save(tmp_path)
    document = read_document(tmp_path / "model.json")
    (tmp_path / "model.json").write_text(json.dumps(document | {"version": 1}))
    with pytest.warns(UserWarning, match="written by an earlier version, without a checksum"):
        loaded = TrainedModel.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(DATA), model.predict_proba(DATA))


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    """The name of the weights contains their checksum: a single bit is enough."""
    model = trained(quick("mlp"))
    model.save(tmp_path)
    weights = tmp_path / json.loads((tmp_path / "model.json").read_text())["weights"]
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    damaged(tmp_path, f"{weights.name}: checksum mismatch")
    weights.write_bytes(content[:-1])
    damaged(tmp_path, "checksum mismatch")
    weights.unlink()
    damaged(tmp_path, f"{weights.name} does not exist")
    model.save(tmp_path)
    assert np.array_equal(TrainedModel.load(tmp_path).predict_proba(DATA), model.predict_proba(DATA))


def test_a_kill_between_weights_and_document_leaves_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = trained(quick("mlp")), trained(quick("mlp", epochs=9))
    old.save(tmp_path)

    def killed(path: Path, document: dict[str, object]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("polybasis.train.model_folder.write_document", killed)
        with pytest.raises(KeyboardInterrupt):
            new.save(tmp_path)
    assert len(list(tmp_path.glob("weights-*"))) == 2
    assert np.array_equal(TrainedModel.load(tmp_path).predict_proba(DATA), old.predict_proba(DATA))
    new.save(tmp_path)
    assert np.array_equal(TrainedModel.load(tmp_path).predict_proba(DATA), new.predict_proba(DATA))
    assert len(list(tmp_path.iterdir())) == 2


def test_a_metric_by_its_former_name_is_read(tmp_path: Path) -> None:
    trained(quick("mlp"), replace(DATA, metric="roc_auc")).save(tmp_path)
    document = read_document(tmp_path / "model.json", sealed=lambda _: True)
    assert document["metric"] == "roc_auc"
    assert not document.keys() & {"target", "calibration", "threshold"}, "models of classes are written as before"
    document["metric"] = "roc-auc"
    write_document(tmp_path / "model.json", {key: value for key, value in document.items() if key != "checksum"})
    assert TrainedModel.load(tmp_path).metric == "roc_auc"
