"""Training on several campuses: their union is a batch of graphs, and the page is that of the committed results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import polybasis as pb
from polybasis.experiments import campuses
from polybasis.train.results import summarize

RESULTS = Path(__file__).parents[2] / "results" / "campuses"


def test_twenty_campuses_train_and_eight_others_test() -> None:
    assert len(campuses.TRAINING_CAMPUSES) == 20
    assert len(campuses.TEST_CAMPUSES) == 8
    assert not set(campuses.TRAINING_CAMPUSES) & set(campuses.TEST_CAMPUSES)


@pytest.mark.parametrize("row", campuses.MODELS)
def test_predictions_on_a_union_are_those_on_its_parts(row: str) -> None:
    """Size-invariant filters: a model does not notice that its graphs are in one batch."""
    parts = [pb.data.csbm(nodes=n, features=12, seed=n) for n in (60, 90, 40)]
    union = campuses.disjoint_union("all", parts)
    torch.manual_seed(0)
    model = campuses.config_of(row).make_model(12, 2, 60).eval()
    with torch.no_grad():
        together = model(union.x, union.graph)
        apart = torch.cat([model(part.x, part.graph) for part in parts])
    assert union.graph.num_graphs == 3
    assert torch.equal(union.y, torch.cat([part.y for part in parts]))
    assert torch.allclose(together, apart, atol=1e-5)


def test_parts_of_a_union_have_the_same_features_and_classes() -> None:
    parts = [pb.data.csbm(nodes=50, features=n) for n in (12, 13)]
    with pytest.raises(ValueError, match="differ in their classes or number of features"):
        campuses.disjoint_union("all", parts)


def test_the_difference_has_campuses_as_observations() -> None:
    rng = np.random.default_rng(0)

    def lines(scores: np.ndarray) -> list[dict[str, object]]:
        return [
            {"dataset": name, "protocol": "linkx", "split": i, "test_score": value, "seconds": 1.0}
            for name, own in zip(campuses.TEST_CAMPUSES, scores, strict=True)
            for i, value in enumerate(own)
        ]

    together, alone = rng.uniform(0.5, 0.6, (2, 8, 5))
    page = campuses.readme({"mlp": {"together": lines(together), "alone": lines(alone)}})
    from scipy import stats

    found = stats.ttest_rel(100 * together.mean(1), 100 * alone.mean(1))
    low, high = found.confidence_interval()
    assert f"| {(low + high) / 2:+.2f} ± {(high - low) / 2:.2f} |" in page
    assert f"| {100 * together.mean():.2f} | {100 * alone.mean():.2f} |" in page
    assert f"| usfca72 | {100 * together[0].mean():.1f} | {100 * alone[0].mean():.1f} |" in page


def test_models_that_were_trained_together_are_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = {name: pb.data.csbm(nodes=60, features=12, seed=i) for i, name in enumerate(pb.data.CAMPUSES)}
    monkeypatch.setattr(campuses, "load_campus", lambda name, root: graphs[name])
    monkeypatch.setitem(campuses.SETTINGS, "epochs", 3)
    seen: list[object] = []
    found = campuses.train_together("mlp", tmp_path, on_campus=seen.append)
    assert found == seen
    assert len(summarize(found)) == len(campuses.TEST_CAMPUSES)
    assert {(line["dataset"], line["split"]) for line in found} == {
        (name, i) for name in campuses.TEST_CAMPUSES for i in range(5)
    }
    monkeypatch.setattr(campuses, "fit", None)  # a call would fail
    assert campuses.train_together("mlp", tmp_path) == found
    assert not list(tmp_path.glob(".*"))


def test_the_committed_page_is_that_of_the_committed_results(tmp_path: Path) -> None:
    for file in RESULTS.glob("*.jsonl"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    campuses.write_readme(tmp_path)
    assert (tmp_path / "README.md").read_text() == (RESULTS / "README.md").read_text()
