"""Named data sets, splits, synthetic graphs, and a person's own files."""

from polybasis.data.catalogue import CATALOGUE, data_root, load
from polybasis.data.csbm import csbm
from polybasis.data.dataset import NodeDataset, edge_homophily
from polybasis.data.images import ImageSignals, image_signals, read_image
from polybasis.data.splits import PROTOCOLS, Split, make_split

__all__ = [
    "CATALOGUE",
    "PROTOCOLS",
    "ImageSignals",
    "NodeDataset",
    "Split",
    "csbm",
    "data_root",
    "edge_homophily",
    "image_signals",
    "load",
    "make_split",
    "read_image",
]
