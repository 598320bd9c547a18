"""Hostile files and names end in one line that names the file, without much memory, and cannot control the terminal."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from faults.judgement import memory_of_process

import polybasis as pb
from polybasis.store.graph_writing import write_graph_folder

from .conftest import Run, write_tables

MEMORY = 500 << 20
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
ESCAPE = "\x1b]0;owned\x07\x1b[31m"


def refused(run: Run, *arguments: object, message: str) -> None:
    """The command ends with one line that matches, soon and with little memory."""
    Path("/proc/self/clear_refs").write_text("5")
    before, start = memory_of_process("VmRSS"), time.monotonic()
    outcome = run(*arguments)
    assert outcome.status == 1
    assert outcome.stdout == ""
    (line,) = [line for line in outcome.stderr.splitlines() if line.startswith("polybasis: ")]
    assert outcome.stderr.endswith(f"{line}\n")  # after notes on tables, if any
    assert re.search(message, line), outcome.stderr
    assert memory_of_process("VmHWM") - before < MEMORY
    assert time.monotonic() - start < 10


def npy_header(text: str, values: bytes = b"") -> bytes:
    """A ``.npy`` file with a header of our own."""
    header = text.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + values


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Path]:
    return write_tables(tmp_path)


# ---- arrays --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1500000000,)}"), r"needs 12,000,\d+,\d+ bytes"),
        (npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (10**18, 3)}"), "damaged"),
        (npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 6)}"), "damaged|needs"),
        (npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (True, 6)}"), "damaged|needs"),
        (npy_header("{'descr': '<f8',"), "not a NumPy array, or damaged"),  # tokenize.TokenError
        (npy_header("{" * 60000), "not a NumPy array, or damaged"),  # RecursionError, MemoryError
        (npy_header("(" * 9000 + ")" * 9000), "not a NumPy array, or damaged"),
        (b"", "not a NumPy array, or damaged"),
    ],
)
def test_headers_of_arrays_are_not_trusted(
    content: bytes, message: str, run: Run, tables: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    refused(
        run, "train", "--edges", tables["edges"], "--labels", tables["labels"], "--features", "x.npy",
        message=rf"x\.npy: .*({message})",
    )  # fmt: skip


def test_appended_bytes_are_refused(run: Run, tables: dict[str, Path], tmp_path: Path) -> None:
    np.save("x.npy", np.ones((121, 3), dtype=np.float32))
    with Path("x.npy").open("ab") as file:
        file.write(b"more")
    refused(
        run, "train", "--edges", tables["edges"], "--labels", tables["labels"], "--features", "x.npy",
        message=r"x\.npy: .*bytes appended",
    )  # fmt: skip


@pytest.mark.parametrize("damage", ["not a zip", "bad deflate", "claims 10 GB", "encrypted", "LZMA"])
def test_damaged_archives_are_refused(damage: str, run: Run, tables: dict[str, Path], tmp_path: Path) -> None:
    """BadZipFile, zlib.error, MemoryError, RuntimeError and NotImplementedError inside."""
    sp.save_npz("x.npz", sp.eye_array(121, format="csr"))
    content = bytearray(Path("x.npz").read_bytes())
    if damage == "not a zip":
        content[-22:] = b"\0" * 22
    elif damage == "bad deflate":
        with zipfile.ZipFile("x.npz") as archive:
            start = archive.getinfo("data.npy").header_offset + 60
        content[start : start + 20] = b"\xff" * 20
    else:
        place = content.index(b"PK\x01\x02")
        if damage == "claims 10 GB":
            content[place + 24 : place + 28] = (4_000_000_000).to_bytes(4, "little")
        elif damage == "encrypted":
            content[place + 8] |= 1
        else:
            content[place + 10] = 14
    Path("x.npz").write_bytes(content)
    refused(
        run, "train", "--edges", tables["edges"], "--labels", tables["labels"], "--features", "x.npz",
        message=r"x\.npz: ",
    )  # fmt: skip


def test_complex_features_are_refused(run: Run, tmp_path: Path) -> None:
    Path("e.csv").write_text("source,target\n0,1\n1,2\n")
    np.save("x.npy", np.ones((3, 2), dtype=np.complex64))
    message = r"x\.npy: the array has dtype complex64; expected real numbers"
    refused(run, "datasets", "build", "--edges", "e.csv", "--features", "x.npy", "--out", "g", message=message)
    arguments = ("--edges", "e.csv", "--features", "x.npy", "--nodes", 3, "--out", "g")
    refused(run, "datasets", "build", *arguments, message=message)


def test_two_edges_in_a_square_array_are_refused(run: Run, tmp_path: Path) -> None:
    np.save("e.npy", np.array([[0, 1], [1, 2]]))
    refused(
        run, "datasets", "build", "--edges", "e.npy", "--nodes", 3, "--out", "g",
        message=r"e\.npy: shape \(2, 2\) may be \(2, E\) or \(E, 2\)",
    )  # fmt: skip


@pytest.mark.parametrize("wrong", [2**40, 2**31, -2])
def test_classes_out_of_range_are_refused(wrong: int, run: Run, tmp_path: Path) -> None:
    """2**40 was class 0, because its low 32 bits are zero."""
    Path("e.csv").write_text("source,target\n0,1\n1,2\n")
    np.save("y.npy", np.array([0, wrong, 1]))
    refused(
        run, "datasets", "build", "--edges", "e.csv", "--labels", "y.npy", "--nodes", 3, "--out", "g",
        message=rf"y\.npy: class {wrong}; expected class indices from 0",
    )  # fmt: skip


@pytest.mark.parametrize("memory", ["2GiB", "999999999TiB"])
def test_a_huge_number_of_nodes_is_refused(memory: str, run: Run, tmp_path: Path) -> None:
    Path("e.csv").write_text("source,target\n0,1\n1,2\n")
    arguments = ("--edges", "e.csv", "--nodes", 10**18, "--memory", memory, "--out", "g")
    refused(run, "datasets", "build", *arguments, message="raise the memory limit|not enough memory")


# ---- tables --------------------------------------------------------------------------------------------------------


def write_equal_edges(path: Path, rows: int) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 50]))
    pyarrow.parquet.write_table(pa.table({"source": column, "target": column}), path, compression="zstd")


def test_three_million_equal_edges_take_little_memory_and_time(run: Run, tmp_path: Path) -> None:
    """15 kB of run lengths; it took 1 GB and 30 s."""
    write_equal_edges(Path("e.parquet"), 3_000_000)
    Path("y.csv").write_text(f"node,class\n{'x' * 50},a\n")
    arguments = ("train", "--edges", "e.parquet", "--labels", "y.csv", "--epochs", 1)
    Path("/proc/self/clear_refs").write_text("5")
    before, start = memory_of_process("VmRSS"), time.monotonic()
    outcome = run(*arguments)
    assert "Traceback" not in outcome.stderr
    assert memory_of_process("VmHWM") - before < MEMORY
    assert time.monotonic() - start < 10


def test_run_lengths_cannot_state_any_number_of_rows(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polybasis.data.tables.arrow_tables.MIN_CELLS", 1 << 10)
    monkeypatch.setattr("polybasis.data.tables.arrow_tables.MAX_CELLS_PER_BYTE", 1 << 5)
    write_equal_edges(Path("e.parquet"), 1_000_000)
    message = r"e\.parquet: 1,000,000 rows of 2 columns in .* bytes; are all rows the same\?"
    refused(run, "train", "--edges", "e.parquet", "--labels", "e.parquet", message=message)


# ---- files that are not files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("special", ["fifo", "/dev/zero", "folder"])
def test_only_regular_files_are_read(special: str, run: Run, tables: dict[str, Path], tmp_path: Path) -> None:
    def place(path: Path) -> Path:
        if special == "fifo":
            os.mkfifo(path)
        elif special == "folder":
            path.mkdir()
        else:
            path.symlink_to(special)
        return path

    def tabled(**changes: Path) -> list[object]:
        return [item for name, path in (tables | changes).items() for item in (f"--{name}", path)]

    expected = "is a folder" if special == "folder" else "is a pipe, socket or device"
    for name in ("edges", "features", "labels"):
        for suffix in (".csv", ".parquet", ".npy", ".npz"):
            if name == "features" or suffix in (".csv", ".parquet"):
                path = place(tmp_path / f"special-{name}{suffix}")
                refused(run, "train", *tabled(**{name: path}), message=rf"{path.name} {expected}")
    path = place(tmp_path / "special.npy")
    refused(run, "datasets", "build", "--edges", path, "--nodes", 3, "--out", "g", message=rf"special\.npy {expected}")
    path = place(tmp_path / "special.toml")
    refused(run, "train", *tabled(), "--config", path, message=rf"special\.toml {expected}")
    path = place(tmp_path / "special.log")
    refused(run, "tune", *tabled(), "--study", path, message=rf"special\.log {expected}")
    refused(run, "verify", path, message=rf"special\.log {expected}")
    path = place(tmp_path / "special.jsonl")
    refused(run, "train", *tabled(), "--results", path, message=rf"special\.jsonl {expected}")
    for folder, file in (("model", "model.json"), ("store", "store.json"), ("graph", "graph.json")):
        (tmp_path / folder).mkdir()
        place(tmp_path / folder / file)
    refused(run, "predict", "model", "csbm", message=rf"model\.json {expected}")
    refused(run, "train", "store", message=rf"store\.json {expected}")
    refused(run, "train", "graph", message=rf"graph\.json {expected}")
    with pytest.raises(ValueError, match=expected):
        pb.data.read_image(place(tmp_path / "special.png"))


def test_weights_are_read_from_the_models_folder_only(run: Run, tmp_path: Path) -> None:
    """A saved model of the earlier version, which has no checksum, with a path in the place of a name."""
    assert run("train", "csbm", "--model", "mlp", "--epochs", 1, "--out", "m").status == 0
    document = json.loads(Path("m/model.json").read_text())
    del document["checksum"]
    weights = Path("m", document["weights"])
    weights.rename(tmp_path / weights.name)
    for name in (f"../{weights.name}", str(tmp_path / weights.name), "..", "/dev/zero", 7):
        Path("m/model.json").write_text(json.dumps({**document, "version": 1, "weights": name}))
        outcome = run("predict", "m", "csbm")
        assert outcome.status == 1
        assert "m does not contain a readable model" in outcome.stderr


def test_one_damaged_line_hides_no_other_result(run: Run, tmp_path: Path) -> None:
    command = ("train", "csbm", "--model", "mlp", "--epochs", 1, "--splits", 2, "--json")
    assert run(*command).status == 0
    file = Path("runs/train.jsonl")
    lines = file.read_bytes().splitlines()
    for damaged in (b"\xff\xfe", b"{" * 100_000, b'{"key": [1]}', b"null", lines[0][:50]):
        file.write_bytes(b"\n".join([damaged, *lines]) + b"\n")
        assert len(json.loads(run(*command).stdout)["results"]) == 2
        assert file.read_bytes().splitlines()[1:] == lines  # nothing ran again


# ---- names ---------------------------------------------------------------------------------------------------------


def test_names_cannot_control_the_terminal(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{ESCAPE}[/red]\nx"
    tables = write_tables(tmp_path)
    for path in tables.values():
        path.write_text(path.read_text().replace("n0,", f"{ESCAPE}n0,").replace("red", f"red{ESCAPE}"))
    arguments = [item for key, path in tables.items() for item in (f"--{key}", path)]
    data = pb.data.csbm(nodes=120, features=6, seed=1)
    graph = write_graph_folder(tmp_path / name, pb.data.NodeDataset(name=name, graph=data.graph, x=data.x, y=data.y))
    commands: list[tuple[object, ...]] = [
        ("train", *arguments, "--epochs", 1, "--out", f"m{name}", "--results", f"r{name}.jsonl"),
        ("train", graph.path, "--epochs", 1, "--splits", 2, "--results", f"r{name}.jsonl"),
        ("precompute", graph.path, "--out", f"s{name}", "--K", 2),
        ("verify", graph.path, f"s{name}", f"m{name}"),
        ("datasets", "list", "csbm", "--data-root", name),
        ("datasets", "build", *arguments, "--out", f"g{name}"),
        ("datasets", "build", *arguments, "--out", f"g{name}"),  # refused: it exists
        ("plot", f"m{name}", *arguments[:4], "--out", f"p{name}"),
        ("evaluate", f"m{name}", *arguments),
        ("predict", f"m{name}", *arguments[:4], "--out", f"p{name}.csv"),
        ("predict", f"m{name}", graph.path),
        ("tune", graph.path, "--trials", 1, "--epochs", 1, "--study", f"t{name}.log", "--out", f"t{name}.toml"),
        ("train", f"nowhere{name}"),
        ("verify", f"nowhere{name}"),
    ]
    for command in commands:
        outcome = run(*command)
        raw = command[0] == "predict" and "--out" not in command  # data, which a pipe receives as it is
        printed = ("" if raw else outcome.stdout) + outcome.stderr
        assert "Traceback" not in printed
        assert not CONTROL.search(printed), (command[0], printed)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    printed = run("predict", f"m{name}", *arguments[:4]).stdout
    assert r"\x1b]0;owned" in printed
    assert not CONTROL.search(printed)


def test_bytes_that_are_not_utf8_can_be_in_a_path(run: Run, tmp_path: Path) -> None:
    name = os.fsdecode(b"g\xff")
    data = pb.data.csbm(nodes=120, features=6, seed=1)
    write_graph_folder(tmp_path / "g", data).path.rename(tmp_path / name)
    outcome = run("verify", tmp_path / name)
    assert outcome.status == 0
    assert r"g\udcff: graph folder" in outcome.stdout
    assert r"x\udcff does not exist" in run("verify", os.fsdecode(b"x\xff")).stderr


def in_terminal(*arguments: object) -> str:
    """What a command prints if its output is a terminal."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "polybasis", *map(str, arguments)]
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, close_fds=True)
    os.close(follower)
    printed = b""
    while True:
        ready, _, _ = select.select([leader], [], [], 0.2)
        try:
            printed += os.read(leader, 65536) if ready else b""
        except OSError:
            break
        if not ready and process.poll() is not None:
            break
    os.close(leader)
    assert process.wait() == 0, printed.decode("utf-8", "replace")
    return printed.decode("utf-8", "replace")


@pytest.mark.slow
def test_progress_bars_show_names_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich parses [/foo] as the end of a style and raised MarkupError."""
    monkeypatch.chdir(tmp_path)
    data = pb.data.csbm(nodes=120, features=6, seed=1)
    name = "g[/foo]\x1b]0;owned\x07"
    graph = write_graph_folder(tmp_path / name, pb.data.NodeDataset(name=name, graph=data.graph, x=data.x, y=data.y))
    printed = in_terminal("train", graph.path, "--epochs", 5)
    assert "[/foo]" in printed
    assert "\x1b]0;" not in printed
    printed = in_terminal("verify", graph.path)
    assert "verifying" in printed
    assert "no damage found" in printed
    assert "\x1b]0;" not in printed


@pytest.mark.parametrize("safe", [False, True])
def test_predictions_can_be_made_safe_for_spreadsheets(safe: bool, run: Run, tmp_path: Path) -> None:
    formula = '=HYPERLINK("http://x";"y")'
    tables = write_tables(tmp_path)
    for path in tables.values():
        text = path.read_text().replace("red", "@SUM(1)").replace("n0,", '"=HYPERLINK(""http://x"";""y"")",')
        path.write_text(text.replace("n1,", "+1,").replace("n2,", "a;=1,"))
    arguments = [item for key, path in tables.items() for item in (f"--{key}", path)]
    assert run("train", *arguments, "--epochs", 1, "--out", "m").status == 0
    outcome = run("predict", "m", *arguments[:4], *(["--spreadsheet-safe"] if safe else []))
    rows = list(csv.reader(io.StringIO(outcome.stdout)))
    cells = [cell for row in rows for cell in row]
    starts = {cell[:1] for cell in cells}
    assert starts & set("=+-@\t\r") == (set() if safe else {"=", "+", "@"})
    assert ("'" + formula if safe else formula) in cells
    assert rows[0][-2:] == ["probability @SUM(1)", "probability blue"]  # text, because of its first word
    assert {row[2].lstrip("'") for row in rows[1:]} <= {"@SUM(1)", "blue"}
    if safe:
        assert '"a;=1"' in outcome.stdout  # a semicolon separates cells in some languages
