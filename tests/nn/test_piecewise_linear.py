"""The piecewise linear encoding against its formula, and in a network that is trained, saved and loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import random_graph

import polybasis as pb
from polybasis.features import SparseFeatures
from polybasis.nn.models.label_reuse import LabelReuse
from polybasis.nn.models.residual import ResidualFilterNet

GRAPH = random_graph(40, 150)


def skewed(rows: int = 200, columns: int = 3, seed: int = 0) -> torch.Tensor:
    """A column with many zeros, one with two values, and log-normal ones."""
    rng = np.random.default_rng(seed)
    x = rng.lognormal(sigma=3, size=(rows, columns))
    x[: rows // 2, 0] = 0
    x[:, 1] = rng.random(rows) < 0.1
    return torch.from_numpy(x)


def test_the_encoding_is_its_formula() -> None:
    x, encoding = skewed(), pb.nn.PiecewiseLinearEncoding(3, bins=8).double()
    encoding.fit(x)
    encoded = encoding(x).reshape(200, 3, 8)
    for column in range(3):
        b = np.quantile(x[:, column], np.linspace(0, 1, 9))
        for t in range(8):
            inside = (x[:, column] - b[t]) / (b[t + 1] - b[t]) if b[t + 1] > b[t] else torch.zeros(200)
            assert torch.allclose(encoded[:, column, t], inside.clip(0, 1).double(), atol=1e-12)


def test_values_of_training_nodes_are_recovered() -> None:
    """The widths of the bins times the encoding, from the first boundary on, are the value itself."""
    x, encoding = skewed(), pb.nn.PiecewiseLinearEncoding(3, bins=5).double()
    encoding.fit(x)
    widths = encoding.boundaries.diff(dim=1)
    recovered = encoding.boundaries[:, 0] + (encoding(x).reshape(200, 3, 5) * widths).sum(-1)
    assert torch.allclose(recovered, x, rtol=1e-9)


def test_constant_and_unseen_values_stay_between_zero_and_one() -> None:
    encoding = pb.nn.PiecewiseLinearEncoding(2, bins=4)
    encoding.fit(torch.tensor([[7.0, 0.0], [7.0, 1.0]]))
    encoded = encoding(torch.tensor([[7.0, -5.0], [1e30, 1e30], [-1e30, 0.5]]))
    assert torch.isfinite(encoded).all()
    assert encoded.min() == 0
    assert encoded.max() == 1
    assert (encoded[:, :4] == 0).all()  # nothing is known about a constant feature


def test_extreme_values_do_not_overflow() -> None:
    encoding = pb.nn.PiecewiseLinearEncoding(2, bins=1)
    largest = torch.finfo(torch.float32).max
    encoding.fit(torch.tensor([[-largest, 0.0], [largest, 1e-40]]))
    encoded = encoding(torch.tensor([[-largest, 0.0], [0.0, 1.0], [largest, -1.0]]))
    assert torch.isfinite(encoded).all()
    assert encoded[:, 0].tolist() == [0.0, 0.5, 1.0]


def test_integers_are_encoded_as_numbers() -> None:
    encoding = pb.nn.PiecewiseLinearEncoding(1, bins=2)
    encoding.fit(torch.tensor([[0.5], [1.5], [2.5]]))
    assert encoding(torch.tensor([[1]])).tolist() == [[0.5, 0.0]]


@pytest.mark.parametrize("bins", [0, -1, 2.5, True])
def test_wrong_numbers_of_bins_are_refused(bins: object) -> None:
    with pytest.raises(ValueError, match=f"bins is {bins}; expected a positive integer"):
        pb.nn.PiecewiseLinearEncoding(2, bins=bins)  # type: ignore[arg-type]


def test_wrong_features_are_refused() -> None:
    encoding = pb.nn.PiecewiseLinearEncoding(2, bins=3)
    with pytest.raises(ValueError, match="x has no rows"):
        encoding.fit(torch.zeros(0, 2))
    with pytest.raises(ValueError, match="x has values that are not finite"):
        encoding.fit(torch.tensor([[1.0, torch.nan]]))
    for call in (encoding, encoding.fit):
        with pytest.raises(ValueError, match=r"x has shape \(40, 1\); expected \(N, 2\)"):
            call(torch.zeros(40, 1))
    with pytest.raises(ValueError, match="bins is -1"):
        ResidualFilterNet(2, 8, 2, bins=-1)
    sparse = SparseFeatures(sp.eye_array(40, format="csr"))
    with pytest.raises(ValueError, match="x has 40 sparse features; bins encode dense ones: set bins=0"):
        ResidualFilterNet(40, 8, 2, bins=2).fit_features(sparse, torch.arange(40))


def test_sparse_features_at_prediction_give_the_same_scores() -> None:
    """A table with few columns may be stored as sparse features although the one the model was trained on was not."""
    x = skewed(40).float()
    model = ResidualFilterNet(3, 8, 2, bins=4).eval()
    model.fit_features(x, torch.arange(40))
    assert torch.equal(model(SparseFeatures(sp.csr_array(x.numpy())), GRAPH), model(x, GRAPH))


def test_the_network_sees_the_encoding() -> None:
    x = skewed(40).float()
    model, plain = ResidualFilterNet(3, 8, 2, bins=4).eval(), ResidualFilterNet(12, 8, 2).eval()
    model.fit_features(x, torch.arange(20))
    assert model.encoding is not None
    plain.load_state_dict({name: value for name, value in model.state_dict().items() if "encoding" not in name})
    expected = pb.nn.PiecewiseLinearEncoding(3, bins=4)
    expected.fit(x[:20])
    assert torch.equal(model(x, GRAPH), plain(expected(x), GRAPH))


def test_label_reuse_encodes_features_and_classes() -> None:
    x, y = skewed(40).float(), torch.arange(40) % 2
    model = LabelReuse(ResidualFilterNet(5, 8, 2, bins=4), 0.5, num_nodes=40)
    model.set_labels(torch.arange(30), y)
    inputs = model.precompute(x, GRAPH)
    model.fit_features(inputs, torch.arange(30))
    boundaries = model.model.encoding.boundaries  # type: ignore[union-attr]
    assert torch.allclose(boundaries[:3].double(), torch.from_numpy(np.quantile(x[:30], np.linspace(0, 1, 5), 0).T))
    assert boundaries[3:, 0].eq(0).all()
    assert boundaries[3:, -1].eq(1).all()


def test_training_fits_the_bins_to_training_nodes_and_saves_them(tmp_path: Path) -> None:
    x, y = skewed(40).numpy(), np.arange(40) % 2
    train, val = np.arange(40) < 25, np.arange(40) >= 25
    model = pb.NodeClassifier("residual", bins=4, blocks=1, K=2, epochs=3, hidden=8)
    model.fit(GRAPH, x, y, train, val).save(tmp_path / "model")
    loaded = pb.NodeClassifier.load(tmp_path / "model")
    state = {name: value for name, value in loaded.model_.state_dict().items() if name.endswith("boundaries")}
    (boundaries,) = state.values()
    assert torch.allclose(boundaries.double(), torch.from_numpy(np.quantile(x[:25], np.linspace(0, 1, 5), 0).T))
    assert np.array_equal(loaded.predict_proba(GRAPH, x), model.predict_proba(GRAPH, x))
