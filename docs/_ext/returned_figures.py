"""Shows the figure that a block of a script returns last: polybasis draws without the global state of pyplot."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

DPI = 100
shown: WeakSet[Figure] = WeakSet()


def scraper(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Saves the figure in two resolutions, and returns the text that shows it."""
    value = block_vars["example_globals"].get("___")
    figure = value.figure if isinstance(value, Axes) else value
    if not isinstance(figure, Figure) or figure in shown:
        return ""
    shown.add(figure)
    path = str(next(block_vars["image_path_iterator"]))
    sharp = path.replace(".png", "_2_00x.png")
    figure.savefig(path, dpi=DPI)
    figure.savefig(sharp, dpi=2 * DPI)
    return figure_rst([path], gallery_conf["src_dir"], srcsetpaths=[{0: path, 2.0: sharp}])
