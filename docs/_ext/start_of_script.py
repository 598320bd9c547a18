"""The state in which every script of the tutorials and the gallery starts."""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib as mpl
import torch

from polybasis.report.figures import STYLE

INK = "#76767f"  # legible on white and on black: figures are transparent


def reset(gallery_conf: dict[str, Any], script: str) -> None:
    """Seeds torch, and makes figures suit the light and the dark version of the site."""
    warnings.formatwarning = lambda message, category, *_: f"{category.__name__}: {message}\n"  # without paths
    torch.manual_seed(0)
    torch.set_num_threads(1)
    names = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "axes.titlecolor")
    transparent = {"savefig.transparent": True, "legend.labelcolor": INK, "savefig.dpi": 100}
    mpl.rcParams.update(STYLE | dict.fromkeys(names, INK) | transparent)
