"""Campuses of facebook100: either layout of the files, and features that all campuses share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from polybasis.data.catalogue import CATALOGUE, is_installed, load, load_campus, raw_files
from polybasis.data.facebook100 import SHARED_FEATURES, shared_features


@pytest.mark.parametrize(("name", "stem"), [("reed98", "Reed98"), ("penn94", "Penn94")])
def test_a_campus_of_linkx_is_found_in_facebook100(name: str, stem: str, raw_data: Callable[[str], Path]) -> None:
    root = raw_data(name)
    expected = load(name, root)
    (root / "facebook100").mkdir()
    folder = root / CATALOGUE[name].folder
    (folder / "data.mat").rename(root / "facebook100" / f"{stem}.mat")
    if name == "penn94":  # its splits may be in either folder
        assert torch.equal(load(name, root).split(seed=1).train, expected.split(seed=1).train)
        (folder / "fb100-Penn94-splits.npy").rename(root / "facebook100" / "fb100-Penn94-splits.npy")
    assert is_installed(name, root)
    assert raw_files(name, root)[0] == root / "facebook100" / f"{stem}.mat"
    found = load(name, root)
    assert torch.equal(found.y, expected.y)
    assert torch.equal(found.split(seed=1).train, expected.split(seed=1).train)
    assert found.fingerprint == expected.fingerprint


def test_file_names_of_facebook100() -> None:
    """Names are file names in lower case, without spaces."""
    assert CATALOGUE["johnshopkins55"].other_files == ("facebook100/Johns Hopkins55.mat",)
    assert CATALOGUE["usfca72"].files == ("USFCA72.mat",)


def test_shared_features_have_the_same_columns_for_all_codes() -> None:
    codes = np.array([[1, 2, 302, 0, 128, 2007, 50009], [10, 0, 0, 7, 0, 1950, 0], [0, 1, 0, 0, 0, 0, 0]])
    names = [{SHARED_FEATURES[i] for i in np.flatnonzero(row)} for row in shared_features(codes)]
    assert names[0] == {"status 1", "year 2007", "major known", "dorm known", "high school known"}
    assert names[1] == {"status other or unknown", "year other", "minor known"}
    assert names[2] == {"status other or unknown", "year unknown"}
    assert shared_features(codes).shape == (3, len(SHARED_FEATURES))


def test_a_campus_with_shared_features(raw_data: Callable[[str], Path]) -> None:
    """Same graph, classes and splits; another fingerprint, since the features differ."""
    root = raw_data("brown11")
    shared, own = load_campus("brown11", root), load("brown11", root)
    assert shared.num_features == len(SHARED_FEATURES) != own.num_features
    assert torch.equal(shared.y, own.y)
    assert torch.equal(shared.graph.indices, own.graph.indices)
    assert torch.equal(shared.split().train, own.split().train)
    assert shared.fingerprint != own.fingerprint
    with pytest.raises(ValueError, match="'cora' is not a campus; expected one of berkeley13"):
        load_campus("cora", root)
    with pytest.raises(FileNotFoundError, match=r"uc33 is not installed: expected UC33\.mat in .*facebook100"):
        load_campus("uc33", root)
