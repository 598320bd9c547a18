"""The report of a model: it shows the numbers of the assessment, and what the target admits."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from html_pages import charts_of, decisions_of, problems_of, text_of
from sklearn.metrics import precision_score, recall_score, roc_auc_score

import polybasis as pb
from polybasis.data.dataset import NodeDataset
from polybasis.report.model_report import write_report
from polybasis.store import write_graph_folder
from polybasis.store.precomputation import precompute
from polybasis.train import Config, Job, Source, TrainedModel, run_job
from polybasis.train.assessment import Assessment

HOSTILE = "z<script>alert(1)</script>&\"'"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """Tables of 300 nodes, of which the riskiest seventh has a class whose name is a script."""
    folder = tmp_path_factory.mktemp("tables")
    data = pb.data.csbm(nodes=300, features=4, seed=3)
    risk = (data.graph @ data.x)[:, 0]
    low, high = data.graph.edge_index().tolist()
    name = '"' + HOSTILE.replace('"', '""') + '"'
    contents = {
        "edges": ["source,target", *(f"n{a},n{b}" for a, b in zip(low, high, strict=True) if a < b)],
        "features": ["node,<i>,b,c,d", *(f"n{i}," + ",".join(map(str, row)) for i, row in enumerate(data.x.tolist()))],
        "labels": ["node,class", *(f"n{i},{name if r > risk.quantile(0.85) else 'a'}" for i, r in enumerate(risk))],
    }
    for file, lines in contents.items():
        (folder / f"{file}.csv").write_text("\n".join(lines))
    return Source.tables(*(folder / f"{file}.csv" for file in contents))


@pytest.fixture(scope="module")
def own_model(tables: Source, tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    """A calibrated model of the tables, with a threshold."""
    folder = tmp_path_factory.mktemp("model")
    run_job(Job(Config.of("optbasisgnn", K=3, epochs=40), tables, "stratified", 0, 0), out=folder)
    trained, data = TrainedModel.load(folder), tables.open()
    split = data.split("stratified", 0)
    return trained.calibrated(data, split.val, "isotonic").with_threshold(data, split.val, recall=0.8)


@pytest.fixture(scope="module")
def page(tables: Source, own_model: TrainedModel, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("page") / "report.html"
    write_report(own_model, tables.open(), out, "polybasis predict 'my model' --edges e.csv")
    return out.read_text()


def headings(page: str) -> list[str]:
    return re.findall("<h2[^>]*>(.*?)</h2>", page)


def cells(page: str, section: str) -> list[list[str]]:
    """The rows of the first table after a heading."""
    after = page[page.index(f">{section}</h") :]
    table = after[: after.index("</table>")]
    rows = re.findall("<tr>(.*?)</tr>", table)
    return [[re.sub("<[^>]*>", "", cell) for cell in re.findall("<t[dh][^>]*>(.*?)</t[dh]>", row)] for row in rows]


def test_the_page_is_valid_self_contained_and_light(page: str) -> None:
    assert problems_of(page) == []
    assert len(page.encode()) < 500_000
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    assert headings(page) == [
        *("Scores", "Classes", "Ranking", "Thresholds", "Calibration", "Filters", "Training", "Data"),
        *("Configuration", "Predict"),
    ]  # fmt: skip
    assert "polybasis predict 'my model' --edges e.csv" in text_of(page)


def test_names_from_files_are_escaped(page: str) -> None:
    assert page.count("<script") == 1  # the page's own
    assert "<i>" not in page.replace('"><i></i>', "")  # a column; legends have empty ones
    assert HOSTILE in text_of(page)
    assert "<i>" in text_of(page)


def test_scores_are_those_of_the_assessment(page: str, own_model: TrainedModel) -> None:
    found = Assessment.from_dict(own_model.provenance["assessment"])
    text = text_of(page)
    interval = f"{found.score.low:.4f} to {found.score.high:.4f}"
    assert f"its ROC AUC is {found.score.value:.4f} (95% interval {interval})" in text
    rows = cells(page, "Comparison with models that ignore the graph")
    assert rows[1] == ["this model", f"{found.score.value:.4f} {interval}", ""]
    for row, item in zip(rows[2:], found.baselines, strict=True):
        gain = item.advantage
        assert row[1].startswith(f"{item.score.value:.4f}")
        assert row[2] == f"{gain.value:+.4f} {gain.low:+.4f} to {gain.high:+.4f}"
    for warning in found.warnings:
        assert warning in text
    scores = {row[0]: row[1:] for row in cells(page, "Scores")}
    assert scores["ROC AUC"][2] == f"{found.score.value:.4f} {interval}"


def test_scores_of_all_sets_are_those_of_scikit_learn(page: str, own_model: TrainedModel, tables: Source) -> None:
    data = tables.open()
    probability = own_model.predict_proba(data, calibrated=False)[:, 1]
    row = next(row for row in cells(page, "Scores") if row[0] == "ROC AUC")
    for cell, nodes in zip(row[1:], data.split("stratified", 0), strict=True):
        assert cell.startswith(f"{roc_auc_score(data.y[nodes], probability[nodes]):.4f}")


def test_classes_and_thresholds_follow_the_threshold_of_the_model(
    page: str, own_model: TrainedModel, tables: Source
) -> None:
    data = tables.open()
    test = data.split("stratified", 0).test.numpy()
    y, predicted = data.y.numpy()[test], own_model.predict(data)[test] == HOSTILE
    assert "These scores do not use the calibration and the threshold" in text_of(page)
    row = cells(page, "Classes")[2]
    scores = (precision_score(y, predicted), recall_score(y, predicted))
    assert row[1:3] == [f"{score:.3f}" for score in scores]
    assert int(row[4]) == y.sum()
    matrix = [int(n) for n in re.findall(r'data-n="(\d+)"', page)]
    assert matrix == [int(((y == a) & (predicted == p)).sum()) for a in (0, 1) for p in (0, 1)]

    decisions = decisions_of(page)
    start = int(re.search(r'type="range"[^>]*value="(\d+)"', page)[1])  # type: ignore[index]
    assert own_model.threshold is not None
    assert decisions["flagged"][start] == predicted.sum()
    assert decisions["hits"][start] == (predicted & (y == 1)).sum()
    assert decisions["threshold"][start] == pytest.approx(own_model.threshold.value, rel=1e-4)
    assert (decisions["nodes"], decisions["positives"]) == (len(y), y.sum())
    assert decisions["flagged"] == sorted(set(decisions["flagged"]))
    assert decisions["flagged"][-1] == len(y)


def test_curves_of_filters_and_training_are_those_of_the_model(
    page: str, own_model: TrainedModel, tables: Source
) -> None:
    charts, data = charts_of(page), own_model.prepared(tables.open())
    assert isinstance(data, NodeDataset)
    from polybasis.nn.interpret import filters_of

    filters = filters_of(own_model.model, data.x, data.graph)
    lines = charts["Responses by channel"]["series"][1:]
    assert [line["name"] for line in lines][-1] == "channel 64"
    np.testing.assert_allclose(lines[-1]["y"], filters.responses[::2, 63], rtol=1e-4, atol=1e-6)
    median = charts["Responses"]["series"][-1]
    np.testing.assert_allclose(median["y"], np.median(filters.responses, axis=1), rtol=1e-4, atol=1e-6)

    history, (kept,) = own_model.provenance["history"], own_model.provenance["kept_epochs"]
    assert [row[0] for row in history] == [*range(40)]
    scores = np.array([row[2] for row in history])
    score, rule = charts["Validation score"]["series"]
    np.testing.assert_allclose(score["y"], scores, rtol=1e-4)
    assert rule["name"] == f"kept epoch {kept + 1}"
    assert rule["kind"] == "rule"
    assert '<th class="text">encoding</th><th>missing</th>' in page


def test_bands_of_percentiles_differ(page: str) -> None:
    swatches = re.findall(r'class="(band[^"]*)"><i></i>(\d+th to \d+th percentile)', page)
    assert swatches == [("band s0 faint", "5th to 95th percentile"), ("band s0", "25th to 75th percentile")]


def test_decisions_are_described_in_words(page: str, own_model: TrainedModel, tables: Source, tmp_path: Path) -> None:
    text = text_of(page)
    assert "It was trained on 180 nodes. The epoch with the best score on 60 validation nodes was kept." in text
    assert "Calibrated with isotonic regression on the validation nodes." in text
    assert "chosen on the validation nodes for a recall of at least 0.8. Move" in text
    assert "recall\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}0.25" in page
    assert "cases" not in page
    data = tables.open()
    costly = own_model.with_threshold(data, data.split("stratified", 0).val, cost=(2, 20))
    write_report(costly, data, tmp_path / "report.html")
    text = text_of((tmp_path / "report.html").read_text())
    assert text.count("chosen on the validation nodes to minimise cost (false alarm 1, miss 10)") == 2


def test_a_page_shows_what_became_of_the_tables(own_model: TrainedModel, tables: Source, tmp_path: Path) -> None:
    data = tables.open()
    assert isinstance(data, NodeDataset)
    assert data.schema is not None
    merged = replace(data, schema=replace(data.schema, merge="max", drop=("date", "<phone>")))
    write_report(own_model, merged, tmp_path / "report.html")
    text = text_of((tmp_path / "report.html").read_text())
    assert "Repeated edges were merged into one with the largest of their weights." in text
    assert "Dropped columns: date, <phone>." in text


def test_an_epoch_before_the_record_has_no_line(own_model: TrainedModel, tables: Source, tmp_path: Path) -> None:
    history = [row for row in own_model.provenance["history"] if row[0] >= 20]
    resumed = replace(own_model, provenance=own_model.provenance | {"history": history, "kept_epochs": [10]})
    write_report(resumed, tables.open(), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "kept epoch" not in page
    assert "The record starts at epoch 21" in text_of(page)


@pytest.mark.parametrize(
    ("y", "sections"),
    [
        (torch.arange(150) % 3, ["Scores", "Classes", "Ranking", "Calibration"]),
        (torch.arange(150) % 50, ["Scores", "Classes", "Calibration"]),
        (torch.arange(150) % 5 // 4, ["Scores", "Classes", "Ranking", "Thresholds", "Calibration"]),
        (
            (torch.rand(150, 2, generator=torch.manual_seed(0)) > 0.5).long(),
            ["Scores", "Labels", "Ranking", "Calibration"],
        ),
        (torch.linspace(0, 9, 150), ["Scores", "Predictions"]),
        (torch.zeros(150, dtype=torch.float64), ["Scores", "Predictions"]),
    ],
    ids=["three classes", "fifty classes", "two classes", "labels", "numbers", "equal numbers"],
)
def test_other_targets_have_the_sections_that_apply(y: torch.Tensor, sections: list[str], tmp_path: Path) -> None:
    base = pb.data.csbm(nodes=150, features=4, seed=2)
    data = NodeDataset(name="own", graph=base.graph, x=base.x, y=y, protocol="random")
    config = Config.of("optbasisgnn", K=3, epochs=3)
    made = {"data": data.dataset_identity, "protocol": "random", "split": 0}
    trained = TrainedModel.of(config, pb.train.fit(config, data, data.split("random")), made)
    write_report(trained, data, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert problems_of(page) == []
    assert headings(page) == [*sections, "Filters", "Training", "Data", "Configuration"]
    assert "NaN" not in page
    assert "saved without a training history" in text_of(page)
    if trained.target == "classification" and len(trained.classes) <= 40:
        counts = np.array([int(n) for n in re.findall(r'data-n="(\d+)"', page)]).reshape([len(trained.classes)] * 2)
        test = data.split("random").test
        assert counts.sum() == len(test)
        assert np.trace(counts) == (trained.predict(data)[test.numpy()] == data.y[test].numpy()).sum()
    if len(trained.classes) == 50:
        assert len(re.findall(r"data-n=", page)) == 41**2
        assert "10 other classes" in text_of(page)


@pytest.mark.parametrize(("model", "found"), [("mlp", "no polynomial filter"), ("residual", "layer 2 of 2")])
def test_models_with_other_numbers_of_filters(model: str, found: str, tmp_path: Path) -> None:
    options = {"blocks": 2, "K": 2} if model == "residual" else {}
    data = pb.data.csbm(nodes=100, features=8, seed=1)
    classifier = pb.NodeClassifier(model, epochs=3, hidden=8, **options).fit(data.graph, data.x, data.y)
    classifier.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert problems_of(page) == []
    assert found in text_of(page)
    assert "Warning: there are no test nodes" in text_of(page)


def test_an_estimator_is_tested_on_nodes_outside_its_masks(tmp_path: Path) -> None:
    data = pb.data.csbm(nodes=200, features=8, seed=1)
    train, val = torch.arange(100), torch.arange(100, 150)
    classifier = pb.NodeClassifier(epochs=5, ensemble_size=2, K=2).fit(data.graph, data.x, data.y, train, val)
    classifier.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    rest = np.arange(150, 200)
    accuracy = (classifier.predict()[rest] == data.y.numpy()[rest]).mean()
    assert f"On 50 test nodes, which were not used in training, its accuracy is {accuracy:.4f}" in text_of(page)
    assert [series["name"] for series in charts_of(page)["Training loss"]["series"]][:2] == ["model 1", "model 2"]
    classifier.save(tmp_path / "model")
    with pytest.raises(ValueError, match="loaded from a file; write its report with polybasis report"):
        pb.NodeClassifier.load(tmp_path / "model").report(tmp_path / "other.html")


def test_every_model_of_an_ensemble_has_epochs_of_its_own(tmp_path: Path) -> None:
    """Model 1 has no record: an earlier version trained it before an interruption."""
    data = pb.data.csbm(nodes=100, features=8, seed=1)
    config = Config.of("mlp", epochs=5, ensemble_size=3)
    made = {"history": [[e, 1 / (e + 1), 0.01 * e] for e in range(7, 15)], "kept_epochs": [9, 12]}
    trained = TrainedModel.of(config, pb.train.fit(config, data, data.split("random")), made)
    write_report(trained, data, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "record starts at epoch 3 of model 2; earlier epochs are not recorded" in text_of(page)
    assert "by 3 models" in text_of(page)
    chart = charts_of(page)["Validation score"]
    second, third, *rules = chart["series"]
    assert [(each["name"], chart["positions"][each["x"]], each["y"]) for each in (second, third)] == [
        ("model 2", [3, 4, 5], [0.07, 0.08, 0.09]),
        ("model 3", [1, 2, 3, 4, 5], [0.1, 0.11, 0.12, 0.13, 0.14]),
    ]
    assert [rule["name"] for rule in rules] == ["kept epoch 5 of model 2", "kept epoch 3 of model 3"]


def test_other_data_is_scored_on_all_its_nodes(own_model: TrainedModel, tables: Source, tmp_path: Path) -> None:
    data = tables.open()
    assert isinstance(data, NodeDataset)
    other = replace(data, y=data.y.clone().index_fill_(0, torch.arange(20), -1))
    write_report(own_model, other, tmp_path / "report.html")
    text = text_of((tmp_path / "report.html").read_text())
    assert "On 280 labelled nodes, its" in text
    assert "not the data that the model was trained on" in text
    assert "Comparison with models" not in text


def test_a_model_of_a_store(tmp_path: Path) -> None:
    data = pb.data.csbm(nodes=200, features=8, seed=2)
    store = Source.folder(precompute(write_graph_folder(tmp_path / "graph", data), tmp_path / "store", 4).path)
    config = Config.of("optbasisgnn", precomputed=True, hidden=16, epochs=3, batch_size=64)
    run_job(Job(config, store, "stratified", 0, 0), out=tmp_path / "model")
    write_report(TrainedModel.load(tmp_path / "model"), store.open(), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert problems_of(page) == []
    assert "Responses" in charts_of(page)
    assert "the graph is not part of it" in text_of(page)


def test_data_without_known_targets_is_refused(own_model: TrainedModel, tables: Source, tmp_path: Path) -> None:
    data = tables.open()
    assert isinstance(data, NodeDataset)
    with pytest.raises(ValueError, match="no labelled nodes"):
        write_report(own_model, replace(data, y=torch.full_like(data.y, -1)), tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
