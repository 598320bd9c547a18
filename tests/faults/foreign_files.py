"""Mutated files of every format that polybasis reads: used, or refused with one line that names the file."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import scipy.io
import scipy.sparse as sp
from conftest import write_papers100m, write_raw
from numpy.typing import NDArray
from PIL import Image

from faults.artefacts import dataset, write_graph, write_model, write_once, write_store
from faults.isolation import SCRATCH, run_isolated
from faults.judgement import judge
from faults.mutations import FOREIGN, mutate
from faults.record import Record
from polybasis.cli.app import main
from polybasis.data.dataset import NodeDataset
from polybasis.data.images import read_image
from polybasis.data.tables import read_tables
from polybasis.store.papers100m import build_papers100m
from polybasis.train import Config, Job, Source, run_job
from polybasis.train.results import read_results

PART = "foreign files"
PUBLISHED = (
    "texas", "actor", "cora", "tolokers", "reed98", "penn94", "genius", "pokec", "twitch-gamers", "wiki", "dblp",
    "blogcatalog",
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """A way to read files.

    Attributes:
        folder: folder of the files in that of the examples.
        pattern: the files to mutate, one at a time.
        read: reads the folder.
    """

    folder: str
    pattern: str
    read: Callable[[Path], object]


class CommandError(ValueError):
    """The one line that a command printed."""


def run_command(*arguments: object) -> None:
    """Runs a command in this process.

    Raises:
        CommandError: if the command refuses its input; the message is what it prints.
    """
    sys.argv = ["polybasis", *map(str, arguments)]
    errors = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            main()
    except SystemExit as ended:
        if ended.code:
            raise CommandError(errors.getvalue()) from None


def _build(folder: Path, suffix: str, features: str) -> None:
    tables = {"edges": f"edges{suffix}", "features": features, "labels": f"labels{suffix}"}
    files = [item for name, file in tables.items() for item in (f"--{name}", folder / file)]
    run_command("datasets", "build", *files, "--out", folder / "out")


def _tables(*files: str, **options: str) -> Callable[[Path], None]:
    """Reads tables and prepares them for training."""

    def read(folder: Path) -> None:
        data = read_tables(*(folder / file for file in files), **options)  # type: ignore[arg-type]
        if (data.y >= 0).any():
            data.prepared(data.split("random"))

    return read


def _build_numbered(folder: Path, edges: str) -> None:
    files = ("--edges", folder / edges, "--features", folder / "x.npy", "--labels", folder / "y.npy")
    run_command("datasets", "build", *files, "--nodes", 120, "--out", folder / "out")


def _predict(folder: Path) -> None:
    run_command("predict", folder / "model", folder / "graph", "--out", folder / "out.csv")


def _predict_on_store(folder: Path) -> None:
    run_command("predict", folder / "model", folder / "store", "--out", folder / "out.csv")


def _build_papers100m(folder: Path) -> None:
    build_papers100m(folder / "papers", folder / "out", 1 << 30)


def _list(folder: Path, name: str) -> None:
    run_command("datasets", "list", name, "--data-root", folder)


READERS = {
    "csv tables": Reader("tables", "*.csv", partial(_build, suffix=".csv", features="features.csv")),
    "parquet tables": Reader("tables", "*.parquet", partial(_build, suffix=".parquet", features="features.parquet")),
    "features .npy": Reader("tables", "dense.npy", partial(_build, suffix="-numbers.csv", features="dense.npy")),
    "features .npz": Reader("tables", "sparse.npz", partial(_build, suffix="-numbers.csv", features="sparse.npz")),
    "compressed tables": Reader("formats", "*.*v.*", _tables("edges.csv.gz", "features.tsv.zst", "labels.csv.bz2")),
    "feather tables": Reader("formats", "*.feather", _tables("edges.feather", "features.feather", "labels.feather")),
    "JSON lines": Reader("formats", "*.jsonl", _tables("edges.jsonl", "features.jsonl", "labels.jsonl")),
    "one table": Reader("formats", "nodes.csv", _tables("edges.jsonl", "nodes.csv", target="class")),
    "word lists": Reader("formats", "words.json", _tables("edges.jsonl", "words.json", "labels.jsonl")),
    "column of lists": Reader("formats", "lists.parquet", _tables("edges.jsonl", "lists.parquet", "labels.jsonl")),
    "MatrixMarket": Reader("formats", "graph.mtx", _tables("graph.mtx")),
    "GraphML": Reader("formats", "graph.graphml", _tables("graph.graphml")),
    "GEXF": Reader("formats", "graph.gexf", _tables("graph.gexf")),
    "numbered .csv": Reader("numbered", "edges.csv", partial(_build_numbered, edges="edges.csv")),
    "numbered .parquet": Reader("numbered", "edges.parquet", partial(_build_numbered, edges="edges.parquet")),
    "numbered .npy": Reader("numbered", "*.npy", partial(_build_numbered, edges="edges.npy")),
    "configuration": Reader("documents", "config.toml", lambda folder: Config.from_toml(folder / "config.toml")),
    "results": Reader("documents", "results.jsonl", lambda folder: read_results(folder / "results.jsonl")),
    "model": Reader("saved", "model/*", _predict),
    "graph folder": Reader("saved", "graph/*", _predict),
    "store": Reader("stored", "store/*", _predict_on_store),
    "image": Reader("images", "*.*", lambda folder: [read_image(path) for path in sorted(folder.iterdir())]),
    "papers100M": Reader("papers100m", "papers/**/*", _build_papers100m),
    **{f"published {name}": Reader(name, "**/raw/*", partial(_list, name=name)) for name in PUBLISHED},
}


def write_examples(folder: Path) -> None:
    data = dataset()
    low, high = data.graph.edge_index().numpy()
    once = low < high
    pairs = np.column_stack([low[once], high[once]])
    x, y = np.asarray(data.x), data.y.numpy()
    for name in ("tables", "formats", "numbered", "documents", "saved", "stored", "images", "papers100m"):
        (folder / name).mkdir(parents=True)
    for prefix, suffix in (("n", ""), ("", "-numbers")):
        names = np.array([f"{prefix}{i}" for i in range(len(y))])
        tables = {
            "edges": {"source": names[pairs[:, 0]], "target": names[pairs[:, 1]]},
            "features": {"node": names, **{f"f{i}": column for i, column in enumerate(x.T)}},
            "labels": {"node": names, "class": np.array(data.classes)[y]},
        }
        for name, columns in tables.items():
            table = pa.table(columns)
            pyarrow.csv.write_csv(table, folder / "tables" / f"{name}{suffix}.csv")
            pyarrow.parquet.write_table(table, folder / "tables" / f"{name}{suffix}.parquet")
    write_formats(folder / "formats", data, pairs)
    np.save(folder / "tables" / "dense.npy", x)
    sp.save_npz(folder / "tables" / "sparse.npz", sp.csr_array(x))
    numbered = pa.table({"source": pairs[:, 0], "target": pairs[:, 1]})
    pyarrow.csv.write_csv(numbered, folder / "numbered" / "edges.csv")
    pyarrow.parquet.write_table(numbered, folder / "numbered" / "edges.parquet")
    for name, array in (("edges", pairs), ("x", x), ("y", y)):
        np.save(folder / "numbered" / f"{name}.npy", array)
    (folder / "documents" / "config.toml").write_text(Config.of("optbasisgnn", K=4).to_toml())
    (folder / "documents" / "results.jsonl").write_text('{"key": "a", "test_score": 0.5, "config": {"K": 3}}\n' * 5)
    for suffix in ("png", "jpg", "gif", "tiff", "webp"):
        pixels = np.random.default_rng(0).integers(0, 255, (16, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"image.{suffix}")
    write_papers100m(folder / "papers100m" / "papers", pairs, len(y))
    write_model(folder / "saved" / "model")
    write_graph(folder / "saved" / "graph")
    write_store(folder / "stored" / "store")
    config = Config.of("optbasisgnn", precomputed=True, hidden=4, K=3, epochs=2)
    source = Source.folder(folder / "stored" / "store")
    run_job(Job(config, source, source.protocol, 0, 0), out=folder / "stored" / "model")
    for name in PUBLISHED:
        write_raw(name, folder / name)


def write_formats(folder: Path, data: NodeDataset, pairs: NDArray[np.int64]) -> None:
    """Writes the tables in formats other than CSV and Parquet, and files of graphs; edges are weighted."""
    rng = np.random.default_rng(0)
    names = np.array([f"n{i}" for i in range(len(data.y))])
    weight = rng.exponential(size=len(pairs)).round(3) + 0.001
    plans = rng.choice(["basic", "pro", "team", ""], len(names))
    classes = np.array(data.classes).astype(str)[data.y.numpy()]
    tables = {
        "edges": pa.table({"source": names[pairs[:, 0]], "target": names[pairs[:, 1]], "weight": weight}),
        "features": pa.table({"node": names, "plan": plans, "age": rng.integers(18, 90, len(names))}),
        "labels": pa.table({"node": names, "class": classes}),
    }
    for name, table in tables.items():
        pyarrow.feather.write_feather(table, folder / f"{name}.feather", compression="zstd")
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    (folder / "edges.csv.gz").write_bytes(gzip.compress(_text(tables["edges"])))
    (folder / "features.tsv.zst").write_bytes(pa.compress(_text(tables["features"], "\t"), codec="zstd", asbytes=True))
    (folder / "labels.csv.bz2").write_bytes(bz2.compress(_text(tables["labels"])))
    flags = np.array(["yes", "no", ""])[rng.integers(0, 3, len(names))]
    joined = tables["features"].append_column("vip", pa.array(flags)).append_column("class", pa.array(classes))
    (folder / "nodes.csv").write_bytes(_text(joined))
    words = {name: rng.integers(0, 50, rng.integers(0, 6)).tolist() for name in names.tolist()}
    (folder / "words.json").write_text(json.dumps(words))
    pyarrow.parquet.write_table(pa.table({"node": names, "x": np.asarray(data.x).tolist()}), folder / "lists.parquet")
    matrix = sp.coo_array((weight, pairs.T), shape=(len(names),) * 2)
    scipy.io.mmwrite(folder / "graph.mtx", matrix)
    graph = nx.from_scipy_sparse_array(matrix + matrix.T)
    nx.write_graphml(graph, folder / "graph.graphml")
    nx.write_gexf(graph, folder / "graph.gexf")


def _text(table: pa.Table, delimiter: str = ",") -> bytes:
    content = io.BytesIO()
    pyarrow.csv.write_csv(table, content, pyarrow.csv.WriteOptions(delimiter=delimiter))
    return content.getvalue()


def run(numbers: range, folder: Path) -> list[Record]:
    """Examines cases in a process of their own.

    Args:
        numbers: the cases.
        folder: folder for valid files of every format, which are written if it does not exist.
    """
    write_once(folder, write_examples)
    return run_isolated(partial(examine, examples=folder), numbers)


def examine(number: int, examples: Path) -> Record:
    """Mutates one file of a copy of the examples and reads it."""
    name = list(READERS)[number % len(READERS)]
    reader = READERS[name]
    honest = examples / reader.folder
    files = sorted(path for path in honest.glob(reader.pattern) if path.is_file() and "-numbers" not in path.name)
    chosen = files[number // len(READERS) % len(files)].relative_to(honest)
    memory = _honest_memory(examples, name)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        copy = Path(shutil.copytree(honest, Path(scratch) / "copy"))
        content, fault = mutate((honest / chosen).read_bytes(), FOREIGN, np.random.default_rng([number, 2]))
        (copy / chosen).write_bytes(content)
        target = re.sub(r"_\d\.npz$", "_*.npz", re.sub("weights-.*", "weights", chosen.name))
        record = Record(PART, f"{name}: {target}", number, fault)
        return _read(record, reader, copy, memory)


@cache
def _honest_memory(examples: Path, name: str) -> int:
    """Growth of the resident memory with the unchanged files, which must be accepted."""
    reader = READERS[name]
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        copy = Path(shutil.copytree(examples / reader.folder, Path(scratch) / "copy"))
        record = _read(Record(PART, name, 0, "none"), reader, copy, 0)
    if record.verdict != "accepted":
        raise RuntimeError(f"{name}: the example is refused ({record.verdict}: {record.message})")
    return record.memory


def _read(record: Record, reader: Reader, folder: Path, honest_memory: int) -> Record:
    def use() -> bool:
        reader.read(folder)
        return True

    judged = judge(record, use, folder=folder, honest_memory=honest_memory)
    several_lines = judged.verdict == "refused" and judged.message.count("polybasis: ") > 1
    return replace(judged, verdict="several lines", failed=True) if several_lines else judged
