"""No file of a data set runs code, whatever is in it."""

from __future__ import annotations

import codecs
import contextlib
import os
import pickle
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from faults.judgement import memory_of_process
from PIL import Image

import polybasis as pb
from polybasis.data.catalogue import CATALOGUE, load
from polybasis.data.pickles import load_arrays
from polybasis.data.tables import edge_batches


class Attack:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("part", ["tx", "allx", "ty", "ally", "graph"])
def test_planetoid_pickles_run_no_code(part: str, raw_data: Callable[[str], Path], tmp_path: Path) -> None:
    root, marker = raw_data("cora"), tmp_path / "ran"
    file = root / CATALOGUE["cora"].folder / f"ind.cora.{part}"
    file.write_bytes(pickle.dumps(Attack(marker)))
    with pytest.raises(ValueError, match=rf"ind\.cora\.{part}: the pickle asks for 'posix.mkdir'"):
        load("cora", root)
    assert not marker.exists()


@pytest.mark.parametrize(
    "name", ["cora", "chameleon", "actor", "texas", "tolokers", "reed98", "genius", "dblp", "blogcatalog"]
)
@pytest.mark.parametrize("file", ["pre_transform.pt", "pre_filter.pt", "data.pt"])
def test_processed_files_are_not_loaded(name: str, file: str, raw_data: Callable[[str], Path], tmp_path: Path) -> None:
    root, marker = raw_data(name), tmp_path / "ran"
    honest = load(name, root).y
    processed = (root / CATALOGUE[name].folder).parent / "processed"
    processed.mkdir()
    torch.save(Attack(marker), processed / file)
    assert torch.equal(load(name, root).y, honest)
    assert not marker.exists()


def test_splits_of_penn94_run_no_code(raw_data: Callable[[str], Path], tmp_path: Path) -> None:
    root, marker = raw_data("penn94"), tmp_path / "ran"
    file = root / CATALOGUE["penn94"].folder / "fb100-Penn94-splits.npy"
    np.save(file, np.array([Attack(marker)], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"fb100-Penn94-splits\.npy: the pickle asks for"):
        load("penn94", root)
    assert not marker.exists()


@pytest.mark.parametrize("array", ["adj_data", "attr_indices", "labels"])
def test_archives_of_sparse_matrices_run_no_code(array: str, raw_data: Callable[[str], Path], tmp_path: Path) -> None:
    root, marker = raw_data("dblp"), tmp_path / "ran"
    file = root / CATALOGUE["dblp"].folder / "dblp.npz"
    with np.load(file) as archive:
        arrays = dict(archive)
    np.savez(file, **(arrays | {array: np.array([Attack(marker)], dtype=object)}))
    with pytest.raises(ValueError, match=rf"dblp\.npz: array '{array}': the array holds Python objects"):
        load("dblp", root)
    assert not marker.exists()


def test_tensors_of_wiki_run_no_code(tmp_path: Path) -> None:
    folder, marker = tmp_path / CATALOGUE["wiki"].folder, tmp_path / "ran"
    folder.mkdir(parents=True)
    for part in ("edges", "features", "views"):
        torch.save(Attack(marker), folder / f"wiki_{part}2M.pt")
    with pytest.raises(ValueError, match=r"wiki_edges2M\.pt: not a tensor"):
        load("wiki", tmp_path)
    assert not marker.exists()


def test_arrays_of_objects_run_no_code(tmp_path: Path) -> None:
    marker, file = tmp_path / "ran", tmp_path / "x.npy"
    np.save(file, np.array([[Attack(marker)]], dtype=object), allow_pickle=True)
    (tmp_path / "e.csv").write_text("source,target\n0,1\n")
    with pytest.raises(ValueError, match=r"x\.npy: the array holds Python objects"):
        pb.data.read_tables(tmp_path / "e.csv", file)
    with pytest.raises(ValueError, match=r"x\.npy: the array holds Python objects"):
        list(edge_batches(file, 400))
    assert not marker.exists()


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "builtins.getattr", "numpy.load", "torch.load"])
def test_only_constructors_of_arrays_are_known(name: str, tmp_path: Path) -> None:
    module, function = name.split(".")
    (tmp_path / "p").write_bytes(f"\x80\x02c{module}\n{function}\n.".encode("latin1"))
    with pytest.raises(ValueError, match=f"the pickle asks for '{name}'"):
        load_arrays(tmp_path / "p")


def test_damaged_pickles_end_in_one_error(tmp_path: Path) -> None:
    content = pickle.dumps({i: [i, i + 1] for i in range(40)} | {50: np.arange(9.0)}, protocol=2)
    rng = np.random.default_rng(0)
    for _ in range(500):
        damaged = bytearray(content)
        damaged[rng.integers(len(damaged))] = rng.integers(256)
        (tmp_path / "p").write_bytes(damaged[: rng.integers(1, len(damaged) + 1)])
        with contextlib.suppress(ValueError):  # anything else fails the test
            load_arrays(tmp_path / "p")


# ---- pickles that are small but ask for much memory ----------------------------------------------------------------


def laughs(depth: int, item: object) -> object:
    """A list of lists of lists .., each ten times the same object: small as a pickle, exponential as text or array."""
    for _ in range(depth):
        item = [item] * 10
    return item


@pytest.fixture
def limited_memory() -> Iterator[None]:
    """Fails fast, instead of filling the machine, if a reader asks for too much."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = memory_of_process("VmSize") + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("limited_memory")
def test_shared_lists_of_neighbours_are_refused(raw_data: Callable[[str], Path]) -> None:
    root = raw_data("cora")
    file = root / CATALOGUE["cora"].folder / "ind.cora.graph"
    neighbours = list(range(3000))
    file.write_bytes(pickle.dumps(dict.fromkeys(range(30000), neighbours)))
    with pytest.raises(ValueError, match=r"ind\.cora\.graph: 90,000,000 neighbours, more than the file can hold"):
        load("cora", root)
    file.write_bytes(pickle.dumps({0: [laughs(9, 1)]}))
    with pytest.raises(ValueError, match=r"ind\.cora\.graph: expected numbers of nodes"):
        load("cora", root)


@pytest.mark.usefixtures("limited_memory")
def test_shared_and_nested_splits_are_refused(raw_data: Callable[[str], Path]) -> None:
    root = raw_data("penn94")
    file = root / CATALOGUE["penn94"].folder / "fb100-Penn94-splits.npy"
    parts = {part: np.arange(5) for part in ("train", "valid", "test")}
    for splits in ([parts] * 100_000, [{**parts, "test": laughs(9, 1)}], [{**parts, "test": np.array([90])}]):
        array = np.empty(len(splits), dtype=object)
        array[:] = splits
        np.save(file, array, allow_pickle=True)
        with pytest.raises(ValueError, match=r"fb100-Penn94-splits\.npy: "):
            load("penn94", root)


@pytest.mark.usefixtures("limited_memory")
def test_a_pickle_can_refer_to_its_bytes_many_times(tmp_path: Path) -> None:
    """A thousand arrays of the same megabyte are a gigabyte, if each is copied."""
    text = "x" * (1 << 20)

    class Bytes:
        def __reduce__(self) -> tuple[object, tuple[str, str]]:
            return codecs.encode, (text, "latin1")

    (tmp_path / "p").write_bytes(pickle.dumps([Bytes() for _ in range(3000)], protocol=2))
    assert (tmp_path / "p").stat().st_size < 2 << 20
    assert len(load_arrays(tmp_path / "p")) == 3000
    array = np.frombuffer(text.encode(), np.uint8)
    (tmp_path / "p").write_bytes(pickle.dumps([array.reshape(1 << i, -1) for i in range(20)], protocol=2))
    assert len(load_arrays(tmp_path / "p")) == 20


@pytest.mark.usefixtures("limited_memory")
def test_error_messages_do_not_show_nested_objects(tmp_path: Path) -> None:
    """The text of a nested list is exponentially long."""

    class State:
        def __reduce__(self) -> tuple[object, ...]:
            return np.dtype, ("f8",), (3, laughs(12, 1), None, None, None, -1, -1, 0)

    class Bytes:
        def __reduce__(self) -> tuple[object, ...]:
            return codecs.encode, ("x", laughs(12, 1))

    for attack in (State(), Bytes()):
        (tmp_path / "p").write_bytes(pickle.dumps(attack))
        with pytest.raises(ValueError, match="damaged pickle") as caught:
            load_arrays(tmp_path / "p")
        assert len(str(caught.value)) < 500


# ---- other formats -------------------------------------------------------------------------------------------------


def test_processed_files_of_ogb_run_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if OGB asked torch to unpickle: its cache is loaded as weights only."""
    pytest.importorskip("ogb")
    from ogb.nodeproppred import NodePropPredDataset

    marker, cache = tmp_path / "ran", tmp_path / "cache"
    torch.save(Attack(marker), cache)
    monkeypatch.setattr(NodePropPredDataset, "__init__", lambda *_, **__: torch.load(cache, weights_only=False))
    folder = tmp_path / CATALOGUE["ogbn-arxiv"].folder
    folder.mkdir(parents=True)
    for file in CATALOGUE["ogbn-arxiv"].files:
        (folder / file).touch()
    with pytest.raises(ValueError, match=r"cannot read ogbn-arxiv \(.*[Ww]eights"):
        load("ogbn-arxiv", tmp_path)
    assert not marker.exists()


@pytest.mark.usefixtures("limited_memory")
def test_tensors_larger_than_their_file_are_refused(raw_data: Callable[[str], Path]) -> None:
    root = raw_data("wiki")
    file = root / CATALOGUE["wiki"].folder / "wiki_features2M.pt"
    for tensor in (torch.ones(1).expand(90, 1 << 30), torch.ones(90, 2) * 1j, torch.ones(90, 2).to_sparse()):
        torch.save(tensor, file)
        with pytest.raises(ValueError, match=r"wiki_features2M\.pt: not a tensor, or damaged"):
            load("wiki", root)


def test_images_do_not_start_other_programs(tmp_path: Path) -> None:
    """Pillow runs Ghostscript on PostScript files."""
    (tmp_path / "x.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n")
    with pytest.raises(ValueError, match=r"x\.png: not a readable image"):
        pb.data.read_image(tmp_path / "x.png")


def test_images_larger_than_their_file_are_refused(tmp_path: Path) -> None:
    Image.new("1", (30_000, 30_000)).save(tmp_path / "x.png")
    with pytest.raises(ValueError, match=r"x\.png: .*30000 x 30000 pixels|x\.png: .*decompression bomb"):
        pb.data.read_image(tmp_path / "x.png")
