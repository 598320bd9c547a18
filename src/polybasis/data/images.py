"""Images as signals on a grid: each pixel is a node, connected to its neighbours and itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.foreign_files import MAX_RATIO, errors_naming, regular_file
from polybasis.graph import Graph

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # Pillow runs Ghostscript on others
MIN_PIXELS = 1 << 22  # a blank image may compress better than any other

# Y, Cb and Cr from R, G and B, centred at zero (ITU-R BT.601, full range, as in JPEG files).
_FROM_RGB = torch.tensor(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], dtype=torch.float64
)
# Y, U and V of Guo and Wei's published code (Regression/make_dataset.py), which truncates them to integers.
_YUV_FROM_RGB = torch.tensor([[0.299, 0.587, 0.114], [-0.14713, -0.28886, 0.436], [0.615, -0.51499, -0.10001]])
_YUV_OFFSET = torch.tensor([0.0, 64.0, 64.0])
Colours = Literal["ycbcr", "integer-yuv"]


@dataclass(frozen=True)
class ImageSignals:
    """An image on its grid.

    Attributes:
        name: name of the image.
        graph: the 4-neighbour grid with self-loops, pixels in row order.
        x: (pixels, 3), float64: Y, Cb and Cr, each centred at zero, or the authors' integer Y, U and V.
        shape: number of rows and number of columns.
    """

    name: str
    graph: Graph
    x: Tensor
    shape: tuple[int, int]


def grid_graph(rows: int, columns: int, self_loops: Literal["add", "drop"] = "add") -> Graph:
    """The 4-neighbour grid, by default with self-loops, nodes in row order."""
    node = torch.arange(rows * columns).view(rows, columns)
    across = torch.stack([node[:, :-1].flatten(), node[:, 1:].flatten()])
    down = torch.stack([node[:-1].flatten(), node[1:].flatten()])
    return Graph.from_edge_index(
        torch.cat([across, down], dim=1), rows * columns, self_loops=self_loops, directed=False
    )


def image_signals(pixels: NDArray[np.uint8], name: str = "image", colours: Colours = "ycbcr") -> ImageSignals:
    """Converts an image to signals on a grid.

    Args:
        pixels: (rows, columns) in grey or (rows, columns, 3 or 4) in colour; an alpha channel is ignored.
        name: name of the image.
        colours: ``ycbcr`` for JPEG's colours, ``integer-yuv`` for the signals of Guo and Wei's published code, which
            are truncated to integers.

    Raises:
        ValueError: for any other shape.
    """
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    if pixels.ndim != 3 or pixels.shape[2] not in (3, 4) or pixels.size == 0:
        raise ValueError(f"{name} has shape {pixels.shape}; expected (rows, columns) or (rows, columns, 3 or 4)")
    rows, columns = pixels.shape[:2]
    rgb = torch.from_numpy(pixels[..., :3].astype(np.float64)).view(-1, 3) - 128
    x = rgb @ _FROM_RGB.T if colours == "ycbcr" else _integer_yuv(rgb)
    return ImageSignals(name, grid_graph(rows, columns), x, (rows, columns))


def _integer_yuv(rgb: Tensor) -> Tensor:
    """Y, U and V in float32, clamped and truncated as in the authors' code, then centred at zero."""
    r, g, b = rgb.float().unbind(1)
    channels = []
    for (wr, wg, wb), offset in zip(_YUV_FROM_RGB, _YUV_OFFSET, strict=True):
        value = (wr * r + wg * g + wb * b + offset).clamp(-128, 127)
        channels.append(value.int().double() - offset.double())
    return torch.stack(channels, dim=1)


def to_pixels(x: Tensor, shape: tuple[int, int]) -> NDArray[np.uint8]:
    """The image of Y, Cb and Cr signals, (rows, columns, 3)."""
    rgb = x.double() @ torch.linalg.inv(_FROM_RGB).T + 128
    pixels: NDArray[np.uint8] = rgb.round().clamp(0, 255).to(torch.uint8).view(*shape, 3).numpy()
    return pixels


def read_image(path: Path, side: int | None = None, colours: Colours = "ycbcr") -> ImageSignals:
    """Reads an image file.

    Args:
        path: the file.
        side: resize the image to ``side`` x ``side`` pixels; by default it keeps its size.
        colours: as in :func:`image_signals`.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file is not an image in a common format, or is damaged.
        ImportError: if Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images need Pillow; install it with: pip install 'polybasis[plot]'") from error

    size = regular_file(path)
    with errors_naming(path, "not a readable image"), Image.open(path, formats=FORMATS) as image:
        if image.width * image.height > max(MIN_PIXELS, MAX_RATIO * size):
            raise ValueError(f"{image.width} x {image.height} pixels, more than the file can hold")
        picture = image.convert("RGB")
    if side is not None and picture.size != (side, side):
        picture = picture.resize((side, side), Image.Resampling.BILINEAR)
    return image_signals(np.asarray(picture), path.stem, colours)


def sample_photograph(side: int = 100) -> ImageSignals:
    """Reads the photograph that ships with Matplotlib: Grace Hopper, by the United States Navy.

    Args:
        side: width and height in pixels.
    """
    try:
        from matplotlib import get_data_path
    except ImportError as error:
        raise ImportError("the photograph needs Matplotlib; install it with: pip install 'polybasis[plot]'") from error

    image = read_image(Path(get_data_path()) / "sample_data" / "grace_hopper.jpg", side)
    return replace(image, name="photograph")


def published_images(root: Path, colours: Colours = "ycbcr") -> list[ImageSignals]:
    """The fifteen 100 x 100 images of BernNet's filter learning experiment (He et al., 2021).

    Args:
        root: the folder of all data sets; the images are in ``images/``.
        colours: as in :func:`image_signals`.

    Raises:
        FileNotFoundError: if images are missing; the message gives their source.
    """
    folder = root / "images"
    numbered = [path for path in folder.glob("img*.jpg") if path.stem[3:].isdecimal()]
    paths = sorted(numbered, key=lambda path: int(path.stem[3:]))
    if len(paths) != 15:
        raise FileNotFoundError(
            f"{folder} has {len(paths)} of the 15 images img1.jpg .. img16.jpg (there is no img4); get them from "
            "LearningFilters/image in github.com/ivam-he/BernNet"
        )
    return [read_image(path, 100, colours) for path in paths]
