"""Graph folders of named data sets."""

from __future__ import annotations

from pathlib import Path

from polybasis.data.catalogue import CATALOGUE, data_root, load
from polybasis.store.graph_folder import GraphFolder
from polybasis.store.graph_writing import write_graph_folder
from polybasis.store.papers100m import build_papers100m


def graph_folder_of(source: str, parent: Path, root: str | Path | None = None, memory: int = 1 << 30) -> GraphFolder:
    """Opens and verifies the graph folder of a source, writing it first if it does not exist.

    Args:
        source: a graph folder, or the name of a data set.
        parent: where to write the folder of a named data set, called ``<name>.graph``.
        root: the folder of all data sets.
        memory: memory limit in bytes for data sets that are read as a stream.

    Raises:
        ValueError: if the source is neither a graph folder nor a data set, or the folder is damaged.
    """
    graph = _graph_folder_of(source, parent, root, memory)
    graph.verify_files()
    return graph


def _graph_folder_of(source: str, parent: Path, root: str | Path | None, memory: int) -> GraphFolder:
    if (Path(source) / "graph.json").exists():
        return GraphFolder.open(source)
    if source not in CATALOGUE:
        raise ValueError(f"{source!r} is neither a graph folder nor a data set; `polybasis datasets` lists data sets")
    folder = parent / f"{source}.graph"
    if folder.exists():
        return GraphFolder.open(folder)
    try:
        if source == "ogbn-papers100M":
            return build_papers100m(data_root(root) / "ogb" / "ogbn_papers100M", folder, memory)
        return write_graph_folder(folder, load(source, root))
    except FileExistsError:  # another process has built it in the meantime
        return GraphFolder.open(folder)
