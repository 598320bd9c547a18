"""Graphs and signals that the tests draw, and the real data they look for."""

from __future__ import annotations

import gzip
import os
import pickle
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import polybasis as pb
from polybasis.data.catalogue import CATALOGUE
from polybasis.krylov.kernel_choice import kernels_for
from polybasis.krylov.kernels import Kernels

settings.register_profile("polybasis", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
settings.load_profile("polybasis")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def random_graph(nodes: int, edges: int, seed: int = 0) -> pb.Graph:
    """Pairs drawn with skewed degrees."""
    rng = np.random.default_rng(seed)
    weight = np.arange(1, nodes + 1) ** -0.5
    ends = rng.choice(nodes, size=(2, edges), p=weight / weight.sum())
    return pb.Graph.from_edge_index(ends, nodes, directed=False)


def with_copies(graph: pb.Graph, copies: int) -> pb.Graph:
    """Every node several times over, copies having the same neighbours: all copies of the first one's."""
    rows = np.arange(graph.num_nodes).repeat(np.diff(graph.indptr))
    ends = np.stack([rows, graph.indices.numpy()])[:, rows <= graph.indices.numpy()]
    shifts = graph.num_nodes * np.stack(np.meshgrid(np.arange(copies), np.arange(copies))).reshape(2, -1)
    edges = (ends[:, :, None] + shifts[:, None, :]).reshape(2, -1)
    return pb.Graph.from_edge_index(edges, copies * graph.num_nodes, directed=False)


def dense(graph: pb.Graph) -> torch.Tensor:
    """P as a dense matrix, built from its definition and not from the package's own values."""
    adjacency = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    rows = torch.arange(graph.num_nodes).repeat_interleave(torch.diff(graph.indptr.long()))
    weight = torch.ones(len(rows), dtype=torch.float64) if graph.weight is None else graph.weight
    adjacency[rows, graph.indices.long()] = weight
    degree = adjacency.sum(1)
    scale = torch.where(degree > 0, degree.clamp(min=1e-300).rsqrt(), 0)
    return scale[:, None] * adjacency * scale


def kernels_of(graph: pb.Graph, x: torch.Tensor, K: int = 0) -> Kernels:
    """The kernels that filters of degree K on this graph use."""
    return kernels_for(graph.operator(x.dtype, x.device), x, K)


@st.composite
def graphs(draw: st.DrawFn, most_nodes: int = 14) -> pb.Graph:
    """Small graphs, weighted or not, with loops or not, often disconnected or with isolated nodes."""
    nodes = draw(st.integers(1, most_nodes))
    node = st.integers(0, nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=3 * nodes, unique_by=lambda pair: tuple(sorted(pair))))
    edge_index = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    weight = None
    if draw(st.booleans()):
        weight = np.array(draw(st.lists(st.floats(0.1, 10), min_size=len(pairs), max_size=len(pairs))))
    return pb.Graph.from_edge_index(edge_index, nodes, weight, draw(st.sampled_from(["drop", "keep", "add"])))


@st.composite
def signals(draw: st.DrawFn, nodes: int, most_channels: int = 3) -> torch.Tensor:
    """Signals with channels of all kinds: random, of few values, constant, one node, zero."""
    channels = draw(st.integers(1, most_channels))
    seed = draw(st.integers(0, 2**20))
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(nodes, channels, generator=random, dtype=torch.float64)
    for channel in range(channels):
        kind = draw(st.sampled_from(["random", "random", "few values", "constant", "one node", "zero"]))
        if kind == "few values":
            x[:, channel] = torch.randint(-1, 2, (nodes,), generator=random).double()
        elif kind == "constant":
            x[:, channel] = 3.0
        elif kind == "one node":
            x[:, channel] = 0
            x[draw(st.integers(0, nodes - 1)), channel] = 2.0
        elif kind == "zero":
            x[:, channel] = 0
    return x


@st.composite
def graphs_with_signals(draw: st.DrawFn) -> tuple[pb.Graph, torch.Tensor]:
    graph = draw(graphs())
    return graph, draw(signals(graph.num_nodes))


# ---- small graphs in the layouts that PyTorch Geometric reads -------------------------------------------------------

RAW = (
    "chameleon", "actor", "texas", "cora", "citeseer", "tolokers", "penn94", "reed98", "brown11", "genius",
    "amazon-photo", "coauthor-physics", "dblp", "blogcatalog",
)  # fmt: skip
GNN_BENCHMARK = ("amazon-photo", "coauthor-physics", "dblp")
CODED = ("penn94", "reed98", "brown11")
WORDS = 80


@dataclass(frozen=True)
class RawGraph:
    """What the raw files of a generated data set hold.

    Attributes:
        edges: (E, 2).
        x, y: features and classes; -1 where the class is unknown.
        splits: (splits, nodes), 1 training, 2 validation, 3 test; None where the format has none.
    """

    edges: np.ndarray
    x: np.ndarray
    y: np.ndarray
    splits: np.ndarray | None


def raw_graph(name: str) -> RawGraph:
    """A graph of three classes (two for genders and scores), whose words say something about them."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    nodes = 600 if name in ("cora", "citeseer") else 90  # their public splits have 500 validation nodes
    classes = 2 if name in ("tolokers", "genius", "pokec", "twitch-gamers", *CODED) else 3
    y = rng.permutation(np.arange(nodes) % classes)
    chance = 0.05 + 0.3 * (np.arange(WORDS)[None, :] % classes == y[:, None])
    x = (rng.random((nodes, WORDS)) < chance).astype(np.float32)
    x[:, 0] = 1  # nobody is without words, and the last word occurs
    x[0, -1] = 1
    edges = np.concatenate([rng.integers(0, nodes, (4 * nodes, 2)), [[0, 0], [1, 2], [2, 1]]])
    no_splits = ("genius", "pokec", "twitch-gamers", "wiki", "blogcatalog", *CODED, *GNN_BENCHMARK)
    count = 5 if name == "penn94" else 0 if name in no_splits else 10
    splits = np.stack([rng.permutation(np.arange(nodes) % 3 + 1) for _ in range(count)]) if count else None
    if name in CODED:  # one-hot codes of seven columns; the class is the second of them, 0 if unknown
        codes = rng.integers(0, 4, (nodes, 6))
        x = np.concatenate([np.eye(4, dtype=np.float32)[column] for column in codes.T], axis=1)
        y[::9] = -1
    if name == "citeseer":  # test nodes that its files leave out: no words, first class
        x[-3], y[-3] = 0, 0
    return RawGraph(edges, x, y, splits)


def write_raw(name: str, root: Path) -> None:
    """Writes the raw files of a data set, as its authors published them."""
    graph = raw_graph(name)
    nodes = len(graph.y)
    folder = root / CATALOGUE[name].folder
    folder.mkdir(parents=True)
    parts = ("train", "val", "test")
    if name in ("chameleon", "actor", "texas", "cora", "citeseer"):
        assert graph.splits is not None
        stem = "film" if name == "actor" else name
        for i, split in enumerate(graph.splits):
            masks = {f"{part}_mask": (split == number).astype(np.uint8) for number, part in enumerate(parts, 1)}
            np.savez(folder / f"{stem}_split_0.6_0.2_{i}.npz", **masks)
    if name in ("chameleon", "actor", "texas"):
        rows = ["node_id\tfeature\tlabel"]
        for node, (words, label) in enumerate(zip(graph.x, graph.y, strict=True)):
            shown = np.flatnonzero(words) if name == "actor" else words.astype(int)
            rows.append(f"{node}\t{','.join(map(str, shown))}\t{label}")
        (folder / "out1_node_feature_label.txt").write_text("\n".join(rows) + "\n")
        pairs = "".join(f"{a}\t{b}\n" for a, b in graph.edges)
        (folder / "out1_graph_edges.txt").write_text("node_id\tnode_id\n" + pairs)
    elif name in ("cora", "citeseer"):
        known = nodes - 20
        one_hot = np.eye(int(graph.y.max()) + 1, dtype=np.int32)[graph.y]
        test = [i for i in range(known, nodes) if name == "cora" or i != nodes - 3]
        order = np.random.default_rng(0).permutation(test)  # row i of tx is the node in line i of test.index
        contents = {
            "x": sp.csr_matrix(graph.x[:30]),
            "tx": sp.csr_matrix(graph.x[order]),
            "allx": sp.csr_matrix(graph.x[:known]),
            "y": one_hot[:30],
            "ty": one_hot[order],
            "ally": one_hot[:known],
            "graph": {i: graph.edges[graph.edges[:, 0] == i, 1].tolist() for i in range(nodes)},
        }
        for part, content in contents.items():
            (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(content))
        (folder / f"ind.{name}.test.index").write_text("".join(f"{i}\n" for i in order))
    elif name == "tolokers":
        assert graph.splits is not None
        masks = {f"{part}_masks": graph.splits == number for number, part in enumerate(parts, 1)}
        np.savez(folder / "tolokers.npz", node_features=graph.x, node_labels=graph.y, edges=graph.edges, **masks)
    elif name in CODED:
        codes = graph.x.reshape(nodes, 6, 4).argmax(2)
        info = np.concatenate([codes[:, :1], graph.y[:, None] + 1, codes[:, 1:]], axis=1)
        ones = np.ones(len(graph.edges))
        adjacency = sp.csc_matrix((ones, (graph.edges[:, 0], graph.edges[:, 1])), shape=(nodes, nodes))
        scipy.io.savemat(folder / CATALOGUE[name].files[0], {"A": adjacency, "local_info": info})
        if graph.splits is not None:
            names = {1: "train", 2: "valid", 3: "test"}
            splits = [{names[i]: np.flatnonzero(split == i) for i in names} for split in graph.splits]
            np.save(folder / "fb100-Penn94-splits.npy", np.array(splits, dtype=object), allow_pickle=True)
    elif name in GNN_BENCHMARK:
        ones = np.ones(len(graph.edges), dtype=np.float32)
        adjacency = sp.csr_matrix((ones, (graph.edges[:, 0], graph.edges[:, 1])), shape=(nodes, nodes))
        words = sp.csr_matrix(0.3 * graph.x)  # weights of words, which count as 1
        parts = {
            f"{stem}_{part}": getattr(matrix, part)
            for stem, matrix in (("adj", adjacency), ("attr", words))
            for part in ("data", "indices", "indptr", "shape")
        }
        np.savez_compressed(folder / CATALOGUE[name].files[0], labels=graph.y, **parts)
    elif name == "blogcatalog":
        sp.save_npz(folder / "attrs.npz", sp.csr_matrix(graph.x))
        (folder / "edgelist.txt").write_text("".join(f"{a} {b}\n" for a, b in graph.edges))
        (folder / "labels.txt").write_text("".join(f"{node}\t{label + 1}\n" for node, label in enumerate(graph.y)))
    elif name == "twitch-gamers":
        columns = "views,mature,life_time,created_at,updated_at,numeric_id,dead_account,language,affiliate"
        rows = [
            f"{7 * i},{c},{i + 1},2017-02-17,2018-10-12,{i},0,{'EN' if i % 3 else 'DE'},1"
            for i, c in enumerate(graph.y)
        ]
        (folder / "twitch-gamer_feat.csv").write_text("\n".join([columns, *rows]) + "\n")
        pairs = "".join(f"{a},{b}\n" for a, b in graph.edges)
        (folder / "twitch-gamer_edges.csv").write_text("numeric_id_1,numeric_id_2\n" + pairs)
    elif name == "wiki":
        for part, values in (("edges", graph.edges), ("features", graph.x), ("views", graph.y)):
            torch.save(torch.from_numpy(values), folder / f"wiki_{part}2M.pt")
    else:
        content = {"edge_index": graph.edges.T, "node_feat": graph.x, "label": graph.y[None]}
        scipy.io.savemat(folder / ("pokec.mat" if name == "pokec" else "data.mat"), content)


@pytest.fixture
def raw_data(tmp_path: Path) -> Callable[[str], Path]:
    """Writes the raw files of a small data set of this name; returns the folder of all data sets."""

    def write(name: str) -> Path:
        write_raw(name, tmp_path / "data")
        return tmp_path / "data"

    return write


def write_papers100m(root: Path, edges: np.ndarray, nodes: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """A small graph in the files of OGB's binary format; returns features, and classes with NaN where unknown."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((nodes, 5)).astype(np.float32)
    y = np.where(rng.random(nodes) < 0.3, rng.integers(0, 4, nodes), np.nan)
    (root / "raw").mkdir(parents=True)
    (root / "split" / "time").mkdir(parents=True)
    np.savez(root / "raw" / "data.npz", edge_index=edges.T.copy(), node_feat=x, num_nodes_list=[nodes])
    np.savez(root / "raw" / "node-label.npz", node_label=y[:, None])
    known = np.flatnonzero(~np.isnan(y))
    for part, here in zip(("train", "valid", "test"), np.array_split(known, 3), strict=True):
        with gzip.open(root / "split" / "time" / f"{part}.csv.gz", "wt") as file:
            file.write("".join(f"{node}\n" for node in here))
    return x, y


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Where the real data sets are: POLYBASIS_TEST_DATA, or a folder `shared/data` beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    root = Path(os.environ.get("POLYBASIS_TEST_DATA", beside))
    if not root.is_dir():
        pytest.skip("no real data: set POLYBASIS_TEST_DATA to a folder with wikipedia/, actor/, planetoid/, ..")
    return root
