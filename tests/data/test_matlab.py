"""MATLAB files: the arrays that SciPy reads, and one error for every damaged file."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from polybasis.data.matlab import read_mat

rng = np.random.default_rng(0)
VARIABLES: dict[str, Any] = {
    "A": sp.random(30, 20, 0.2, "csc", rng=rng),
    "empty": sp.csc_matrix((4, 3)),
    "codes": rng.integers(0, 60_000, (7, 3)).astype(np.uint16),
    "x": rng.standard_normal((5, 4)),
    "single": rng.standard_normal((2, 9)).astype(np.float32),
    "negative": np.array([[-1, 2**40]]),
    "true": np.array([[True, False]]),
}


@pytest.mark.parametrize("compressed", [False, True])
def test_variables_are_those_of_scipy(compressed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    scipy.io.savemat(
        path, VARIABLES | {"text": "not numbers", "cell": np.array([[1, "a"]], object)}, do_compression=compressed
    )
    theirs = scipy.io.loadmat(path)
    for name, found in zip(VARIABLES, read_mat(path, *VARIABLES), strict=True):
        expected = theirs[name]
        dense = (part.toarray() if sp.issparse(part) else part for part in (found, expected, VARIABLES[name]))
        ours, scipys, written = dense
        assert sp.issparse(found) == sp.issparse(expected)
        np.testing.assert_array_equal(ours, scipys)
        np.testing.assert_array_equal(ours, written)
    for name in ("text", "cell"):
        with pytest.raises(ValueError, match=rf"a\.mat: {name} holds something other than real numbers"):
            read_mat(path, name)
    with pytest.raises(ValueError, match=r"a\.mat: no variable 'y'"):
        read_mat(path, "y")


def test_indices_out_of_range_are_refused(tmp_path: Path) -> None:
    """SciPy does not check the indices of a sparse matrix, and its conversions then read out of bounds."""
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"A": sp.csc_matrix(np.eye(5))})
    content = path.read_bytes()
    rows = np.arange(5, dtype=np.int32).tobytes()
    path.write_bytes(content.replace(rows, np.array([0, 1, 2, 3, 1 << 20], np.int32).tobytes()))
    with pytest.raises(ValueError, match=r"a\.mat: not a valid sparse matrix"):
        read_mat(path, "A")


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_files_end_in_one_error(compressed: bool, tmp_path: Path) -> None:
    """Any byte may be wrong, in particular types of elements, on which SciPy's reader crashes."""
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, VARIABLES, do_compression=compressed)
    content, draws = path.read_bytes(), np.random.default_rng(1)
    for _ in range(1500):
        damaged = bytearray(content)
        damaged[draws.integers(len(damaged))] = draws.integers(256)
        path.write_bytes(damaged[: draws.integers(1, 2 * len(damaged))])
        with contextlib.suppress(ValueError):  # anything else fails the test
            read_mat(path, *VARIABLES)
        with pytest.raises(ValueError, match=r"a\.mat"):
            read_mat(path, *VARIABLES, "not there")
