"""The report of a model: its curves agree with scikit-learn, and its page has what the target admits."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve

import polybasis as pb
from polybasis.report.model_report import write_report
from polybasis.report.score_figures import Decisions, reliability
from polybasis.train import Job, Source, TrainedModel, run_job


def test_outcomes_of_thresholds_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    positive = rng.random(300) < 0.2
    scores = np.round(rng.random(300) + 0.3 * positive, 2)  # with ties
    found = Decisions(scores, positive)
    rates, recalls, thresholds = roc_curve(positive, scores, drop_intermediate=False)
    np.testing.assert_allclose(found.false_positive_rate, rates[1:])
    np.testing.assert_allclose(found.recall, recalls[1:])
    np.testing.assert_allclose(found.thresholds, thresholds[1:])
    precision, _, _ = precision_recall_curve(positive, scores)
    np.testing.assert_allclose(found.precision[::-1], precision[:-1])
    assert found.flagged[-1] == 1


def test_bins_of_the_calibration_plot_hold_all_nodes() -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.random(1000) ** 2
    predicted, observed = reliability(probabilities, rng.random(1000) < probabilities)
    assert predicted.mean() == pytest.approx(probabilities.mean())  # equal numbers in all bins
    assert abs(predicted - observed).max() < 0.15  # three standard errors of a bin of 100


@pytest.fixture
def tables(tmp_path: Path) -> Source:
    data = pb.data.csbm(nodes=300, features=4, seed=3)
    risk = (data.graph @ data.x)[:, 0]
    low, high = data.graph.edge_index().tolist()
    contents = {
        "edges": ["source,target", *(f"n{a},n{b}" for a, b in zip(low, high, strict=True) if a < b)],
        "features": ["node,a,b,c,d", *(f"n{i}," + ",".join(map(str, row)) for i, row in enumerate(data.x.tolist()))],
        "labels": ["node,class", *(f"n{i},{'z<b>' if r > risk.quantile(0.85) else 'a'}" for i, r in enumerate(risk))],
    }
    for name, lines in contents.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    return Source.tables(*(tmp_path / f"{name}.csv" for name in contents))


def headings(page: str) -> list[str]:
    return re.findall("<h2>(.*?)</h2>", page)


def test_two_classes_of_own_tables(tables: Source, tmp_path: Path) -> None:
    config = pb.train.Config.of("optbasisgnn", K=3, epochs=40)
    run_job(Job(config, tables, "stratified", 0, 0), out=tmp_path / "model")
    trained, data = TrainedModel.load(tmp_path / "model"), tables.open()
    split = data.split("stratified", 0)
    assert [row[0] for row in trained.provenance["history"]] == [*range(40)]
    trained = trained.calibrated(data, split.val, "isotonic").with_threshold(data, split.val, recall=0.8)
    write_report(trained, tables, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    sections = ["What was read", "Model", "Scores", "Ranking and thresholds", "Calibration", "Training"]
    assert headings(page) == sections
    assert page.count("<img ") == 3
    assert "300 of 300 nodes labelled" in page
    outputs = trained.logits(data, split.test)
    auc = roc_auc_score(data.y[split.test], (outputs[:, 0] - outputs[:, 1]).neg())
    assert f"<td>{auc:.4f}</td>" in page
    assert "columns only" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page  # names from the file are escaped


@pytest.mark.parametrize(
    ("y", "sections"),
    [
        (torch.arange(150) % 3, ["Model", "Scores", "Confusion matrix", "Calibration"]),
        ((torch.rand(150, 2, generator=torch.manual_seed(0)) > 0.5).long(), ["Model", "Scores", "Calibration"]),
        (torch.linspace(0, 9, 150), ["Model", "Scores", "Predictions"]),
    ],
)
def test_other_targets(y: torch.Tensor, sections: list[str], tmp_path: Path) -> None:
    base = pb.data.csbm(nodes=150, features=4, seed=2)
    data = pb.data.NodeDataset(name="own", graph=base.graph, x=base.x, y=y)
    config = pb.train.Config.of("optbasisgnn", K=3, epochs=3)
    made = {"data": data.dataset_identity, "protocol": "stratified", "split": 0}
    trained = TrainedModel.of(config, pb.train.fit(config, data, data.split("stratified")), made)
    source = Source("data set", "own", "stratified", data.fingerprint, lambda: data)
    write_report(trained, source, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert headings(page) == sections
    if "Confusion matrix" in sections:
        table = page[page.index("Confusion matrix") :]
        counts = np.array([int(cell) for cell in re.findall(r"<td>(\d+)</td>", table)]).reshape(3, 4)[:, 1:]
        test = data.split("stratified").test
        assert counts.sum() == len(test)
        assert np.trace(counts) == (trained.predict(data)[test.numpy()] == data.y[test].numpy()).sum()
