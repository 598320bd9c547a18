"""Images as signals on a grid: each pixel is a node, joined to its neighbours and to itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polybasis.graph import Graph

# Y, Cb and Cr from R, G and B, all around zero (ITU-R BT.601, full range, as in JPEG files).
_FROM_RGB = torch.tensor(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], dtype=torch.float64
)


@dataclass(frozen=True)
class ImageSignals:
    """An image on its grid.

    Attributes:
        name: of the image.
        graph: the 4-neighbour grid with self-loops, pixels row by row.
        x: (pixels, 3), float64: Y, Cb and Cr, each around zero.
        shape: rows and columns of pixels.
    """

    name: str
    graph: Graph
    x: Tensor
    shape: tuple[int, int]


def grid_graph(rows: int, columns: int) -> Graph:
    """The 4-neighbour grid with self-loops, nodes row by row."""
    node = torch.arange(rows * columns).view(rows, columns)
    across = torch.stack([node[:, :-1].flatten(), node[:, 1:].flatten()])
    down = torch.stack([node[:-1].flatten(), node[1:].flatten()])
    return Graph.from_edge_index(torch.cat([across, down], dim=1), rows * columns, self_loops="add")


def image_signals(pixels: NDArray[np.uint8], name: str = "image") -> ImageSignals:
    """The signals of an image, (rows, columns) in grey or (rows, columns, 3 or 4) in colour; an alpha is left out."""
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    if pixels.ndim != 3 or pixels.shape[2] not in (3, 4) or pixels.size == 0:
        raise ValueError(f"{name} has shape {pixels.shape}; expected rows x columns, or that with 3 or 4 colours")
    rows, columns = pixels.shape[:2]
    rgb = torch.from_numpy(pixels[..., :3].astype(np.float64)).view(-1, 3) - 128
    return ImageSignals(name, grid_graph(rows, columns), rgb @ _FROM_RGB.T, (rows, columns))


def to_pixels(x: Tensor, shape: tuple[int, int]) -> NDArray[np.uint8]:
    """The picture of Y, Cb and Cr signals, (rows, columns, 3)."""
    rgb = x.double() @ torch.linalg.inv(_FROM_RGB).T + 128
    pixels: NDArray[np.uint8] = rgb.round().clamp(0, 255).to(torch.uint8).view(*shape, 3).numpy()
    return pixels


def read_image(path: Path, side: int | None = None) -> ImageSignals:
    """An image file, resized to ``side`` x ``side`` pixels where that is given."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            picture = image.convert("RGB")
    except UnidentifiedImageError as error:
        raise ValueError(f"{path} is not an image that can be read") from error
    if side is not None and picture.size != (side, side):
        picture = picture.resize((side, side), Image.Resampling.BILINEAR)
    return image_signals(np.asarray(picture), path.stem)


def sample_photograph(side: int = 100) -> ImageSignals:
    """A photograph that comes with Matplotlib: Grace Hopper, by the United States Navy."""
    from matplotlib import get_data_path

    image = read_image(Path(get_data_path()) / "sample_data" / "grace_hopper.jpg", side)
    return replace(image, name="photograph")


def published_images(root: Path) -> list[ImageSignals]:
    """The fifteen 100 x 100 images of BernNet's filter learning (He et al., 2021), from ``images/`` below the root."""
    folder = root / "images"
    paths = sorted(folder.glob("img*.jpg"), key=lambda path: int(path.stem[3:]))
    if len(paths) != 15:
        raise FileNotFoundError(
            f"{folder} has {len(paths)} of the 15 images img1.jpg .. img16.jpg (there is no img4): take them from "
            "LearningFilters/image in github.com/ivam-he/BernNet"
        )
    return [read_image(path, 100) for path in paths]
