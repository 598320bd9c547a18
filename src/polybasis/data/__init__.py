"""Named data sets, splits, synthetic graphs, images, and the user's own files."""

from typing import TYPE_CHECKING

from polybasis.lazy import lazy_exports

if TYPE_CHECKING:
    from polybasis.data.block_model import csbm as csbm
    from polybasis.data.catalogue import CATALOGUE as CATALOGUE
    from polybasis.data.catalogue import data_root as data_root
    from polybasis.data.catalogue import load as load
    from polybasis.data.catalogue import load_campus as load_campus
    from polybasis.data.dataset import PROTOCOLS as PROTOCOLS
    from polybasis.data.dataset import NodeDataset as NodeDataset
    from polybasis.data.dataset import Split as Split
    from polybasis.data.dataset import edge_homophily as edge_homophily
    from polybasis.data.entries import CAMPUSES as CAMPUSES
    from polybasis.data.images import ImageSignals as ImageSignals
    from polybasis.data.images import image_signals as image_signals
    from polybasis.data.images import read_image as read_image
    from polybasis.data.minesweeper import mine_board as mine_board
    from polybasis.data.recipe import Recipe as Recipe
    from polybasis.data.schema import TableSchema as TableSchema
    from polybasis.data.tables import TableError as TableError
    from polybasis.data.tables import read_tables as read_tables

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "catalogue": ["CATALOGUE", "data_root", "load", "load_campus"],
        "block_model": ["csbm"],
        "dataset": ["PROTOCOLS", "NodeDataset", "Split", "edge_homophily"],
        "entries": ["CAMPUSES"],
        "minesweeper": ["mine_board"],
        "images": ["ImageSignals", "image_signals", "read_image"],
        "recipe": ["Recipe"],
        "schema": ["TableSchema"],
        "tables": ["TableError", "read_tables"],
    },
)
