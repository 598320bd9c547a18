"""Named data sets, splits, synthetic graphs, and a person's own files."""

from polybasis.data.catalogue import CATALOGUE, data_root, load
from polybasis.data.csbm import csbm
from polybasis.data.dataset import NodeDataset, edge_homophily
from polybasis.data.splits import PROTOCOLS, Split, make_split

__all__ = [
    "CATALOGUE",
    "PROTOCOLS",
    "NodeDataset",
    "Split",
    "csbm",
    "data_root",
    "edge_homophily",
    "load",
    "make_split",
]
