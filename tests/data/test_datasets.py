"""Data sets: the catalogue, the published file formats on small files made here, and clear errors elsewhere."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
import torch_geometric.datasets
from conftest import RAW, raw_graph

import polybasis as pb
from polybasis.data import published_files
from polybasis.data.catalogue import CATALOGUE, data_root, is_installed, load, missing_files, raw_files
from polybasis.data.entries import CAMPUSES
from polybasis.features import as_dense
from polybasis.files import lock_for

PROMISED = [
    "chameleon",
    "squirrel",
    "actor",
    "cora",
    "citeseer",
    "pubmed",
    "texas",
    "cornell",
    "wisconsin",
    "chameleon-filtered",
    "squirrel-filtered",
    "roman-empire",
    "amazon-ratings",
    "minesweeper",
    "tolokers",
    "questions",
    "amazon-computers",
    "amazon-photo",
    "coauthor-cs",
    "coauthor-physics",
    "dblp",
    "cora-ml",
    "cora-full",
    "citeseer-full",
    "pubmed-full",
    "blogcatalog",
    "penn94",
    "reed98",
    "amherst41",
    "cornell5",
    "johnshopkins55",
    "genius",
    "twitch-gamers",
    "pokec",
    "wiki",
    "arxiv-year",
    "ogbn-arxiv",
    "ogbn-products",
    "ogbn-papers100M",
    "csbm",
    "mine-board",
]


def test_catalogue_has_every_set() -> None:
    assert sorted(CATALOGUE) == sorted((*PROMISED, *CAMPUSES))
    assert len(CAMPUSES) == 28
    assert {"brown11", "usfca72", "uc33"} <= {*CAMPUSES}
    assert not {*CAMPUSES} & {*PROMISED}


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_set_is_described(name: str) -> None:
    about = CATALOGUE[name].description
    assert about.task
    assert "arXiv:" in about.paper
    assert min(about.nodes, about.edges, about.features) > 0
    assert about.classes >= 2
    assert about.homophily is not None or not about.measured


def test_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYBASIS_DATA", str(tmp_path))
    assert data_root() == tmp_path
    assert data_root("elsewhere") == Path("elsewhere")
    monkeypatch.delenv("POLYBASIS_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_root() == tmp_path / "cache" / "polybasis"


@pytest.mark.parametrize("name", ["squirrel-filtered", "brown11", "twitch-gamers", "pokec", "wiki"])
def test_a_missing_set_names_file_folder_and_source(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=rf"{name} is not installed: expected .* in .*; get it from github"
    ) as raised:
        load(name, tmp_path)
    assert str(tmp_path / CATALOGUE[name].folder) in str(raised.value)


def test_a_set_is_read_by_one_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PyG writes processed files beside the raw ones; another process must not see half of them."""
    inside, most = [0], [0]

    def read(root: Path) -> pb.data.NodeDataset:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        (root / "webkb" / "texas" / "processed").mkdir(parents=True, exist_ok=True)
        time.sleep(0.05)
        inside[0] -= 1
        return pb.data.csbm(nodes=20, features=2)

    monkeypatch.setitem(CATALOGUE, "texas", replace(CATALOGUE["texas"], read=read))

    def start(number: int) -> None:
        time.sleep(0.02 * number)
        load("texas", tmp_path / "not there yet")

    with ThreadPoolExecutor(4) as pool:  # each opens the folder for itself, as processes do
        list(pool.map(start, range(4)))
    assert most == [1]


def test_a_lock_leaves_nothing_beside_the_data(tmp_path: Path) -> None:
    """Data may be on a read-only disk: locks are in the system's temporary folder."""
    with lock_for(tmp_path / "data"):
        assert list(tmp_path.iterdir()) == []


def test_users_without_a_name_can_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run as numbers that no user has."""

    def unknown(_: int) -> None:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    with lock_for(tmp_path / "data") as lock:
        assert lock.is_locked


def test_the_catalogue_needs_no_heavy_imports() -> None:
    """Help and completion list data sets; importing torch would take seconds."""
    script = "import sys, polybasis.data.catalogue as c; assert c.CATALOGUE; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "torch_geometric", "matplotlib", "pyarrow", "scipy"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--help"], {}),
        (["--version"], {}),
        (["train", "--help"], {}),
        (["reproduce", "--help"], {}),
        ([], {"_POLYBASIS_COMPLETE": "complete_bash", "COMP_WORDS": "polybasis train cor", "COMP_CWORD": "2"}),
    ],
    ids=["help", "version", "train", "reproduce", "completion"],
)
def test_help_version_and_completion_are_fast(arguments: list[str], environment: dict[str, str]) -> None:
    script = (
        "import sys, atexit; sys.argv[0] = 'polybasis'; from polybasis.cli import main; "
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, env={**os.environ, **environment},
        check=True,
    )  # fmt: skip
    assert not {"torch", "torch_geometric", "matplotlib", "pyarrow"} & set(done.stderr.split())
    expected = "cornell5" if environment else "polybasis"
    assert expected in done.stdout


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="unknown data set 'cameleon'; did you mean 'chameleon'"):
        load("cameleon")
    with pytest.raises(ValueError, match=r"unknown data set 'mine'; expected one of chameleon, .* or a campus such as"):
        load("mine")


def test_a_name_that_looks_like_a_path_is_reported_as_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "g.store").mkdir(parents=True)
    (tmp_path / "edges.csv").touch()
    for name, hint in (
        ("edge.csv", "; did you mean edges.csv?"),
        ("runs/g.stor", f"; did you mean {Path('runs/g.store')}?"),
        ("elsewhere/g.store", ""),
        ("unlike.graph", ""),
    ):
        with pytest.raises(ValueError, match="does not exist") as caught:
            load(name)
        assert str(caught.value) == f"{name} does not exist and is not a data set{hint}"
    with pytest.raises(ValueError, match="unknown data set 'runs/'"):
        load("runs/")


# ---- published formats ---------------------------------------------------------------------------------------------


def test_filtered_wikipedia(tmp_path: Path) -> None:
    masks = np.zeros((10, 6), dtype=bool)
    masks[:, :2] = True
    folder = tmp_path / "heterophilous_filtered"
    folder.mkdir()
    np.savez(
        folder / "squirrel_filtered.npz",
        node_features=np.eye(6, 8, dtype=np.float32) * 2,
        node_labels=np.array([0, 1, 2, 0, 1, 2]),
        edges=np.array([[0, 1], [1, 2], [4, 5]]),
        train_masks=masks,
        val_masks=np.roll(masks, 2, axis=1),
        test_masks=np.roll(masks, 4, axis=1),
    )
    data = load("squirrel-filtered", tmp_path)
    assert data.graph.num_edges == 3
    assert len(data.fixed_splits) == 10
    assert data.fixed_splits[0][1].nonzero()[:, 0].tolist() == [2, 3]
    assert torch.equal(as_dense(data.x), torch.eye(6, 8))  # rows sum to one


def test_twitch_gamers(tmp_path: Path) -> None:
    folder = tmp_path / "linkx/twitch-gamers/raw"
    folder.mkdir(parents=True)
    header = "views,mature,life_time,created_at,updated_at,numeric_id,dead_account,language,affiliate\n"
    rows = ["5,1,100,2016-02-16,2018-10-12,1,0,EN,1", "7,0,300,2017-02-16,2018-10-12,0,0,DE,0",
            "9,1,200,2018-02-16,2018-10-11,2,1,EN,0"]  # fmt: skip
    (folder / "twitch-gamer_feat.csv").write_text(header + "\n".join(rows) + "\n")
    (folder / "twitch-gamer_edges.csv").write_text("numeric_id_1,numeric_id_2\n0,1\n1,2\n2,1\n")
    data = load("twitch-gamers", tmp_path)
    assert data.y.tolist() == [0, 1, 1]  # in the order of the ids
    assert data.graph.num_edges == 2
    x = as_dense(data.x)
    assert x.shape == (3, 7)
    torch.testing.assert_close(x.mean(0), torch.zeros(7), atol=1e-6, rtol=0)
    assert x[0, 1] > x[2, 1] > x[1, 1]  # life_time 300, 200, 100


def test_pokec(tmp_path: Path) -> None:
    folder = tmp_path / "linkx/pokec/raw"
    folder.mkdir(parents=True)
    content = {"edge_index": np.array([[0, 1], [1, 2]]), "node_feat": np.ones((3, 2)), "label": np.array([[0, 1, -1]])}
    scipy.io.savemat(folder / "pokec.mat", content)
    data = load("pokec", tmp_path)
    assert data.y.tolist() == [0, 1, -1]
    assert data.labelled.tolist() == [0, 1]
    assert data.num_classes == 2


def test_wiki(tmp_path: Path) -> None:
    folder = tmp_path / "linkx/wiki/raw"
    folder.mkdir(parents=True)
    torch.save(torch.tensor([[0, 1], [1, 2], [2, 3]]), folder / "wiki_edges2M.pt")
    torch.save(torch.rand(4, 3), folder / "wiki_features2M.pt")
    torch.save(torch.tensor([0, 4, 1, 2]), folder / "wiki_views2M.pt")
    data = load("wiki", tmp_path)
    assert (data.graph.num_nodes, data.graph.num_edges, data.num_classes) == (4, 3, 5)


def test_labels_by_quantiles() -> None:
    years = torch.tensor([2010, 2011, 2011, 2012, 2013, 2014, 2015, 2016, 2017, 2018])
    label = published_files.by_quantiles(years, 5)
    assert label.min() == 0
    assert label.max() == 4
    assert (label.diff() >= 0).all()
    assert label[1] == label[2]


def test_csbm_is_heterophilous_seeded_and_of_the_right_degree() -> None:
    data, again, other = pb.data.csbm(seed=1), pb.data.csbm(seed=1), pb.data.csbm(seed=2)
    assert torch.equal(data.graph.indices, again.graph.indices)
    assert torch.equal(as_dense(data.x), as_dense(again.x))
    assert not torch.equal(data.y, other.y)
    assert pb.data.edge_homophily(data) < 0.3
    assert pb.data.edge_homophily(pb.data.csbm(phi=0.5)) > 0.7
    assert 2 * data.graph.num_edges / data.graph.num_nodes == pytest.approx(5, rel=0.1)
    with pytest.raises(ValueError, match="phi is 2"):
        pb.data.csbm(phi=2)


def test_numbers_on_a_mine_board_count_the_mines_around_a_cell() -> None:
    data = pb.data.mine_board(rows=7, columns=9, hidden=0.4, seed=1)
    mine, shown = data.y.reshape(7, 9), as_dense(data.x).argmax(dim=1).reshape(7, 9)
    for row, column in itertools.product(range(7), range(9)):
        around = mine[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
        assert shown[row, column] in (9, around.sum() - mine[row, column])
    assert 0 < (shown == 9).sum() < 63
    degrees = torch.bincount(data.graph.edge_index()[0]).reshape(7, 9)
    assert (degrees[1:-1, 1:-1] == 8).all()
    assert degrees[0, 0] == 3
    assert torch.equal(data.y, pb.data.mine_board(rows=7, columns=9, hidden=0.4, seed=1).y)
    assert not torch.equal(data.y, pb.data.mine_board(rows=7, columns=9, seed=2).y)
    with pytest.raises(ValueError, match="the board has 1 rows"):
        pb.data.mine_board(rows=1)
    with pytest.raises(ValueError, match="hidden is 1"):
        pb.data.mine_board(hidden=1)


# ---- formats that PyTorch Geometric reads, on small files ------------------------------------------------------------


@pytest.mark.parametrize("name", RAW)
def test_raw_files_of_every_format(name: str, raw_data: Callable[[str], Path]) -> None:
    """A graph written in the published layout is the graph that is loaded, without a network."""
    root = raw_data(name)
    expected, data = raw_graph(name), load(name, root)
    assert is_installed(name, root)
    assert data.name == data.identity == name
    assert data.protocol == CATALOGUE[name].protocol
    edges = {tuple(sorted(pair)) for pair in expected.edges.tolist() if pair[0] != pair[1]}
    assert {tuple(sorted(pair)) for pair in data.graph.edge_index().T.tolist()} == edges
    assert data.graph.num_edges == len(edges)
    assert data.y.tolist() == expected.y.tolist()
    x = torch.from_numpy(expected.x)
    if name in ("chameleon", "actor", "texas"):
        x = x / x.sum(1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(as_dense(data.x), x)
    assert data.metric == ("roc_auc" if name in ("tolokers", "genius") else "accuracy")
    if expected.splits is not None:
        for masks, split in zip(data.fixed_splits, expected.splits, strict=True):
            for part, mask in enumerate(masks, 1):
                assert torch.equal(mask, torch.from_numpy(split == part))
    split = data.split()
    assert all(len(part) > 0 for part in split)
    assert torch.equal(data.split().train, load(name, root).split().train)


@pytest.mark.parametrize("name", RAW)
def test_every_file_of_a_format_is_asked_for(name: str, raw_data: Callable[[str], Path]) -> None:
    """What tells whether a set is installed is what its reader opens."""
    root = raw_data(name)
    for file in CATALOGUE[name].files:
        place = root / CATALOGUE[name].folder / file
        content = place.read_bytes()
        place.unlink()
        assert missing_files(name, root) == [place]
        place.write_bytes(content)
    assert missing_files(name, root) == []


@pytest.mark.parametrize("name", ["chameleon", "actor", "citeseer"])
def test_bases_of_loaded_data_are_orthonormal(name: str, raw_data: Callable[[str], Path]) -> None:
    """The README's promise at K = 20, on generated files; tests/krylov/test_real_data.py has the real ones."""
    data = load(name, raw_data(name))
    for dtype, bound in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        basis = pb.optimal_basis(data.graph, as_dense(data.x).to(dtype), 20)
        products = torch.einsum("jnd,knd->djk", basis.vectors.double(), basis.vectors.double())
        expected = torch.diag_embed((torch.arange(21)[None] < basis.rank[:, None]).double())
        assert float((products - expected).abs().max()) <= bound


@pytest.mark.parametrize("first", [0, 1])
def test_classes_of_blogcatalog_count_from_0_or_1(first: int, raw_data: Callable[[str], Path]) -> None:
    root = raw_data("blogcatalog")
    expected = raw_graph("blogcatalog").y
    lines = "".join(f"{node}\t{label + first}\n" for node, label in enumerate(expected))
    (root / CATALOGUE["blogcatalog"].folder / "labels.txt").write_text(lines)
    assert load("blogcatalog", root).y.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("edgelist.txt", "0 1\n2 90\n", r"edgelist\.txt: expected nodes from 0 to 89"),
        ("edgelist.txt", "0 1\n2\n", r"edgelist\.txt: expected two nodes in each line"),
        ("edgelist.txt", "0 1\n2 x\n", r"edgelist\.txt: expected two nodes in each line"),
        ("labels.txt", "0\t1\n2\t1\n", r"labels\.txt: expected the nodes 0 to 89 in order"),
        ("labels.txt", "".join(f"{i}\t3\n" for i in range(90)), r"labels\.txt: the first class is 3"),
        ("attrs.npz", "nothing", r"attrs\.npz: not an archive of arrays"),
    ],
)
def test_a_damaged_file_of_blogcatalog_is_named(
    file: str, content: str, message: str, raw_data: Callable[[str], Path]
) -> None:
    root = raw_data("blogcatalog")
    (root / CATALOGUE["blogcatalog"].folder / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        load("blogcatalog", root)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"labels": np.zeros(7, int)}, "the shapes of the arrays do not match"),
        ({"labels": np.full(90, -5)}, "class -5; expected class indices"),
        ({"adj_shape": np.array([90, 40])}, "not a valid sparse matrix"),
        ({"attr_indptr": np.zeros(3, int)}, "not a valid sparse matrix"),
    ],
    ids=["length", "class", "columns", "offsets"],
)
def test_a_damaged_archive_of_sparse_matrices_is_named(
    changed: dict[str, np.ndarray], message: str, raw_data: Callable[[str], Path]
) -> None:
    root = raw_data("amazon-photo")
    (file,) = raw_files("amazon-photo", root)
    with np.load(file) as archive:
        arrays = dict(archive)
    np.savez(file, **(arrays | changed))
    with pytest.raises(ValueError, match=rf"amazon_electronics_photo\.npz: .*{message}"):
        load("amazon-photo", root)


PYG = {
    "amazon-photo": ("Amazon", "Photo"),
    "coauthor-physics": ("Coauthor", "Physics"),
    "dblp": ("CitationFull", "DBLP"),
    "blogcatalog": ("AttributedGraphDataset", "BlogCatalog"),
}


@pytest.mark.parametrize("name", PYG)
def test_small_files_are_read_as_by_pyg(name: str, raw_data: Callable[[str], Path]) -> None:
    kind, spelled = PYG[name]
    root = raw_data(name)
    ours = load(name, root)
    theirs = getattr(torch_geometric.datasets, kind)(str(root / Path(CATALOGUE[name].folder).parts[0]), spelled)[0]
    assert torch.equal(as_dense(ours.x), theirs.x)
    assert torch.equal(ours.y, theirs.y)
    expected = pb.Graph.from_edge_index(theirs.edge_index, len(theirs.y), directed=False)
    assert torch.equal(ours.graph.indices, expected.indices)
