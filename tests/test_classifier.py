"""NodeClassifier in scikit-learn's manner."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis.train.config import Config, Normalisation

DATA = pb.data.csbm(nodes=150, features=40, seed=2)
NAMES = np.array(["blue", "red"])[DATA.y.numpy()]


def fitted(**arguments: object) -> pb.NodeClassifier:
    return pb.NodeClassifier(hidden=8, epochs=20, **arguments).fit(DATA.graph, DATA.x, NAMES)  # type: ignore[arg-type]


def test_fit_predict_score() -> None:
    classifier = fitted(model="optbasis", K=4)
    assert classifier.classes_.tolist() == ["blue", "red"]
    assert classifier.predict_proba().shape == (150, 2)
    np.testing.assert_allclose(classifier.predict_proba().sum(1), 1, rtol=1e-5)
    assert classifier.score(NAMES) == (classifier.predict() == NAMES).mean()
    assert classifier.score(NAMES) > 0.7
    assert repr(classifier) == "NodeClassifier('optbasisgnn', hidden=8, K=4)"


@pytest.mark.parametrize(
    "config",
    [
        *(Config(model, hidden=8, epochs=3) for model in pb.nn.MODELS),
        Config("favardgnn", hidden=8, epochs=3, members=2, labels=0.5),
    ],
    ids=lambda config: config.model,
)
def test_a_saved_model_predicts_the_same_bits(config: Config, tmp_path: Path) -> None:
    classifier = pb.NodeClassifier(config=config).fit(DATA.graph, DATA.x, NAMES)
    classifier.save(tmp_path / "model", notes={"of": "a test"})
    loaded = pb.NodeClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(DATA.graph, DATA.x), classifier.predict_proba())
    assert loaded.notes_ == {"of": "a test"}
    classifier.save(tmp_path / "model")
    assert len(list((tmp_path / "model").iterdir())) == 2


@pytest.mark.parametrize("normalise", ["rows", "binary"])
def test_features_are_normalised_in_training_and_prediction(normalise: Normalisation, tmp_path: Path) -> None:
    x = DATA.x.abs() * 10
    x[:, ::2] = 0
    normalised = x / x.sum(1, keepdim=True) if normalise == "rows" else (x > 0).float()
    config = Config("optbasisgnn", hidden=8, epochs=10, arguments={"K": 3})
    by_config = pb.NodeClassifier(config=replace(config, normalise=normalise)).fit(DATA.graph, x, NAMES)
    by_hand = pb.NodeClassifier(config=config).fit(DATA.graph, normalised, NAMES)
    assert np.array_equal(by_config.predict_proba(), by_hand.predict_proba())
    by_config.save(tmp_path)
    loaded = pb.NodeClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(DATA.graph, x), by_config.predict_proba())


def test_masks_and_unknown_classes() -> None:
    y = [None if i % 5 == 0 else name for i, name in enumerate(NAMES)]
    train = np.arange(150) < 90
    classifier = pb.NodeClassifier(epochs=5, hidden=8).fit(DATA.graph, DATA.x, y, train, ~train)
    assert set(classifier.predict()) <= {"blue", "red"}
    numbers = DATA.y.clone()
    numbers[:20] = -1
    assert pb.NodeClassifier(epochs=2).fit(DATA.graph, DATA.x, numbers).classes_.tolist() == [0, 1]


def test_refused(tmp_path: Path) -> None:
    classifier = pb.NodeClassifier(epochs=2)
    with pytest.raises(ValueError, match="has not been fitted"):
        classifier.predict()
    with pytest.raises(ValueError, match=r"X has shape \(3, 2\)"):
        classifier.fit(DATA.graph, np.ones((3, 2)), NAMES)
    with pytest.raises(ValueError, match="y has 2 entries"):
        classifier.fit(DATA.graph, DATA.x, ["a", "b"])
    with pytest.raises(ValueError, match="y has 1 class"):
        classifier.fit(DATA.graph, DATA.x, ["a"] * 150)
    with pytest.raises(ValueError, match="pass both train_mask and val_mask"):
        classifier.fit(DATA.graph, DATA.x, NAMES, train_mask=np.ones(150, bool))
    with pytest.raises(ValueError, match="train_mask and val_mask have nodes in common"):
        classifier.fit(DATA.graph, DATA.x, NAMES, np.ones(150, bool), np.ones(150, bool))
    x = torch.ones(150, 4)
    x[3, 1] = torch.nan
    with pytest.raises(ValueError, match=r"X\[3, 1\] is nan"):
        classifier.fit(DATA.graph, x, NAMES)
    with pytest.raises(ValueError, match="there is no model 'gat'"):
        pb.NodeClassifier("gat")
    with pytest.raises(ValueError, match="has no argument 'depth'"):
        pb.NodeClassifier(depth=3)
    with pytest.raises(FileNotFoundError, match="is not the folder of a model"):
        pb.NodeClassifier.load(tmp_path)
    classifier.fit(DATA.graph, DATA.x, NAMES).save(tmp_path)
    with pytest.raises(ValueError, match="X has 3 features; the model was trained with 40"):
        classifier.predict(DATA.graph, np.ones((150, 3)))
    document = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / document["weights"]).write_bytes(b"broken")
    with pytest.raises(ValueError, match="does not hold a model that can be read"):
        pb.NodeClassifier.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(document | {"format": 99}))
    with pytest.raises(ValueError, match="its format is 99"):
        pb.NodeClassifier.load(tmp_path)
