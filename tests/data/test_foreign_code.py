"""No file of a data set runs code, whatever is in it."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

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
