"""Our reader of MATLAB files agrees with SciPy's, and refuses damaged files instead of crashing."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from polybasis.data.matlab import read_matlab

DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_are_those_that_scipy_wrote(dtype: str, compressed: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        f"a{i}": (100 * rng.random(shape)).astype(dtype)
        for i, shape in enumerate([(1, 1), (3, 4), (2, 0), (5, 1), (2, 3, 4)])
    }
    scipy.io.savemat(tmp_path / "f.mat", {"text": "x", "cell": [[1], "y"], **arrays}, do_compression=compressed)
    for expected, found in zip(arrays.values(), read_matlab(tmp_path / "f.mat", *arrays), strict=True):
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("compressed", [False, True])
def test_sparse_matrices_are_those_that_scipy_wrote(compressed: bool, tmp_path: Path) -> None:
    matrix = sp.random_array((30, 20), density=0.1, rng=np.random.default_rng(0))
    scipy.io.savemat(tmp_path / "f.mat", {"A": matrix.tocsc()}, do_compression=compressed)
    (found,) = read_matlab(tmp_path / "f.mat", "A")
    assert abs(found - matrix).nnz == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"b": np.ones(3)}, "no variable 'a'"),
        ({"a": np.ones(3) * 1j}, "complex"),
        ({"a": "text"}, "class 4; expected an array of numbers"),
        ({"a": np.array([[1], [2]], dtype=object)}, "class 1; expected an array of numbers"),
        ({"a": {"b": 1}}, "class 2; expected an array of numbers"),
    ],
)
def test_other_contents_are_refused(content: dict[str, object], message: str, tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "f.mat", content)
    with pytest.raises(ValueError, match=rf"f\.mat: .*{message}"):
        read_matlab(tmp_path / "f.mat", "a")


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_files_end_in_one_error(compressed: bool, tmp_path: Path) -> None:
    matrix = sp.random_array((30, 20), density=0.1, rng=np.random.default_rng(0)).tocsc()
    path = tmp_path / "f.mat"
    scipy.io.savemat(path, {"A": matrix, "x": np.arange(60.0).reshape(6, 10)}, do_compression=compressed)
    content, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(1000):
        damaged = bytearray(content)
        for place in rng.integers(len(damaged), size=rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: len(damaged) if rng.random() < 0.7 else rng.integers(len(damaged))])
        with contextlib.suppress(ValueError):  # anything else fails the test
            found, _ = read_matlab(path, "A", "x")
            found.check_format(full_check=True)


def test_a_small_file_cannot_ask_for_much_memory(tmp_path: Path) -> None:
    path = tmp_path / "f.mat"
    scipy.io.savemat(path, {"a": np.ones((3, 4))})
    content = bytearray(path.read_bytes())
    place = content.index(np.array([3, 4], "<i4").tobytes())
    content[place : place + 8] = np.array([1 << 30, 1 << 30], "<i4").tobytes()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"f\.mat: .*12 numbers for an array of 2 axes"):
        read_matlab(path, "a")
