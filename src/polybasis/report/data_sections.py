"""The part of a report on the data: graph, targets and columns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polybasis.data.dataset import NodeDataset, Split, edge_homophily
from polybasis.data.schema import Merge
from polybasis.report.charts import Chart, Series
from polybasis.report.page import Page
from polybasis.train.source import Data
from polybasis.train.trained_model import TrainedModel

MOST_COLUMNS = 60
MOST_CLASSES = 100
MERGED: dict[Merge, str] = {
    "sum": "the sum of their weights",
    "mean": "the mean of their weights",
    "max": "the largest of their weights",
    "first": "the weight of the first",
}


def add_data(page: Page, trained: TrainedModel, data: Data, split: Split | None) -> None:
    """Adds what was read, the graph, the targets and how columns become features."""
    page.heading("Data")
    if isinstance(data, NodeDataset):
        for note in data.notes:
            page.text(note)
        _add_roles(page, data)
        _add_graph(page, data)
    else:
        page.text(f"A store with a basis of degree {data.K} for {len(data.y):,} rows; the graph is not part of it.")
    if split is not None:
        counts = zip(("training", "validation", "test"), split, strict=True)
        page.text("Labelled nodes: " + ", ".join(f"{len(nodes):,} {name}" for name, nodes in counts) + ".")
    if data.target == "classification":
        _add_classes(page, data)
    if isinstance(data, NodeDataset):
        _add_columns(page, trained, data)


def _add_roles(page: Page, data: NodeDataset) -> None:
    """Which columns of the tables were left out, and how repeated edges were combined."""
    if data.schema is None:
        return
    if data.schema.merge is not None:
        page.text(f"Repeated edges were merged into one with {MERGED[data.schema.merge]}.")
    if data.schema.drop:
        page.text(f"Dropped columns: {', '.join(data.schema.drop)}.")


def _add_graph(page: Page, data: NodeDataset) -> None:
    graph = data.graph
    degrees = np.diff(graph.indptr.numpy())
    homophily = edge_homophily(data)
    tiles = [
        ("Nodes", f"{graph.num_nodes:,}", f"{int((degrees == 0).sum()):,} without edges"),
        ("Edges", f"{graph.num_edges:,}", "directed" if graph.directed else "undirected"),
        ("Degree", f"{np.median(degrees):g}", f"median; mean {degrees.mean():.3g}, largest {degrees.max(initial=0):,}"),
        ("Features", "none" if data.structure_only else f"{data.num_features:,}", "of each node"),
    ]
    if not np.isnan(homophily):
        tiles.append(("Edge homophily", f"{homophily:.3f}", "fraction of edges within a class"))
    page.tiles(tiles)
    if degrees.max(initial=0) > 0:
        page.charts(_degree_chart(degrees[degrees > 0]))


def _degree_chart(degrees: NDArray[np.int64]) -> Chart:
    """A histogram whose bins double in width, the first of which holds degree 1 only."""
    edges = 2.0 ** np.arange(int(np.log2(degrees.max())) + 2)
    counts, _ = np.histogram(degrees, edges)
    ranges = [f"{a:,.0f}" if b == a + 1 else f"{a:,.0f} to {b - 1:,.0f}" for a, b in pairwise(edges.tolist())]
    return Chart(
        title="Degrees", xlabel="degree", ylabel="nodes", xscale="log", y=(0, 1.05 * float(counts.max())),
        x=(1, float(edges[-1])),
        series=[Series(name="nodes", x=edges, y=counts, kind="bars", notes=[f"degrees {text}" for text in ranges])],
    )  # fmt: skip


def _add_classes(page: Page, data: Data) -> None:
    counts = data.y[data.y >= 0].bincount(minlength=data.num_classes).numpy()
    total = max(int(counts.sum()), 1)
    shown = np.sort(np.argsort(-counts, kind="stable")[:MOST_CLASSES])
    rows = [[str(data.classes[i]), f"{counts[i]:,}", f"{counts[i] / total:.1%}"] for i in shown]
    page.table(["class", "nodes", "share"], rows, (counts[shown] / total).tolist())
    if len(shown) < len(counts):
        page.text(f"The {len(shown)} most frequent of {len(counts)} classes.", "note")


def _add_columns(page: Page, trained: TrainedModel, data: NodeDataset) -> None:
    """How the columns of a table become features."""
    if trained.recipe is None or data.columns is None:
        return
    missing = {column.name: float(column.missing.mean()) for column in data.columns}
    page.subheading("Columns")
    rows = []
    for column in trained.recipe.columns[:MOST_COLUMNS]:
        if column.kind == "categorical":
            how = f"{len(column.categories)} categories" + (" and one for the rest" if column.other else "")
        elif column.kind == "boolean":
            how = "0 and 1"
        else:
            how = f"standardised: mean {column.mean:.4g}, scale {column.scale:.4g}"
        gaps = f"{missing.get(column.name, 0):.1%}"
        rows.append([column.name, column.kind, how, gaps, str(column.width)])
    page.table(["column", "kind", "encoding", "missing", "features"], rows, texts=3)
    if len(rows) < len(trained.recipe.columns):
        page.text(f"The first {len(rows)} of {len(trained.recipe.columns)} columns.", "note")
    page.text("The encoding is fitted without validation and test nodes and saved with the model.", "note")
